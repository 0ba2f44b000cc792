"""Amazon Bedrock's Converse: how a request is translated and signed, and what its answers mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from codelab.llm.client.bedrock import BothApis, converse_url, region_in
from codelab.llm.client.converse_api import ConverseApi
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Call
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import ContentFilter, ContextOverflow, InvalidRequest, ModelError, TransportError, Truncated
from codelab.llm.failures import FailureKind
from codelab.llm.outcome import Usage
from codelab.llm.profiles import profile_of

from tests.cases import cases
from tests.fakes.http import Exchange, response
from tests.fakes.model.converse import SpokenConverse, event, exception, message
from tests.fakes.model.wire import ScriptedServer, argument, delta, failing
from tests.llm.answer import answer_of
from tests.llm.schemas import STRING, array, closed, obj
from tests.sampling import some_and_all

READ = closed(obj(_tool={"const": "read"}, path=STRING))
ANSWER = obj(message=STRING, calls=array({"anyOf": [READ]}))
SAID = '{"message": "Hello", "calls": []}'
ASK = [{"role": "user", "content": "What now?"}]
QUICK = RetryPolicy(base_s=0.01)
CLAUDE = "us.anthropic.claude-sonnet-4-6-v1:0"
NOVA = "amazon.nova-2-lite-v1:0"
POINT = {"cachePoint": {"type": "default"}}
PIXEL = "iVBORw0KGgo="
END = event("messageStop", stopReason="end_turn")

Json = dict[str, Any]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(spoken=SpokenConverse()) as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[DirectTransport]:
    made = DirectTransport(base_url=server.url, api_key="key", api=ConverseApi())
    yield made
    made.close()


def request(context: Any = ASK, unsupported: UnsupportedFeatures | None = None, **config: Any) -> Request:
    settings = RequestConfig(**{"model": CLAUDE, "provider": "bedrock", **config})
    return Request(settings, ANSWER, context, unsupported=unsupported or UnsupportedFeatures(), retry=QUICK)


def sent(server: ScriptedServer) -> Json:
    """The newest request, as it was sent."""
    body: Json = json.loads(server.received[-1].content)
    return body


def encoded(**body: Any) -> Json:
    made: Json = json.loads(ConverseApi().encode({"model": CLAUDE, "messages": ASK, **body}))
    return made


def chunks_of(*data: bytes) -> list[Json]:
    return [chunk for batch in ConverseApi().chunks(iter(data), streams=True) for chunk in batch]


def finish_reasons(chunks: list[Json]) -> set[Any]:
    return {choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]} - {None}


def test_a_step_is_asked_as_the_documents_say(server: ScriptedServer, transport: DirectTransport) -> None:
    server.says(SAID)
    context = [{"role": "system", "content": "Be brief."}, *ASK]
    answer = answer_of(request(context, temperature=0.5, seed=7, max_output_tokens=500), transport)
    assert (answer.text, answer.result.strategy) == ("Hello", "tool")
    body = sent(server)
    [tool] = body["toolConfig"].pop("tools")
    assert tool["toolSpec"]["name"] == "generate_response"
    assert tool["toolSpec"]["inputSchema"]["json"]["type"] == "object"
    prompt, mark = body.pop("system")
    assert prompt["text"].startswith("Be brief.")
    assert mark == POINT
    assert body == {
        "messages": [{"role": "user", "content": [{"text": "What now?"}]}],
        "inferenceConfig": {"maxTokens": 500, "temperature": 0.5},
        "toolConfig": {"toolChoice": {"tool": {"name": "generate_response"}}},
    }
    assert server.received[0].path == "/v1/model/us.anthropic.claude-sonnet-4-6-v1%3A0/converse-stream"
    assert server.received[0].headers["accept"] == "application/vnd.amazon.eventstream"


def test_messages_take_turns_and_results_follow_their_calls() -> None:
    def call(id_: str, name: str, arguments: str) -> Json:
        return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}

    body = encoded(
        model="meta.llama4-scout-17b-instruct-v1:0",
        messages=[
            {"role": "assistant", "content": None, "tool_calls": [call("c" * 70, "read", '{"path": "a"}'),
                                                                 call("c2", "list", "")]},
            {"role": "tool", "tool_call_id": "c" * 70, "content": "text"},
            {"role": "tool", "tool_call_id": "c2", "content": ""},
            {"role": "user", "content": " "},
            {"role": "user", "content": "And?"},
        ],
    )  # fmt: skip
    assert body["messages"] == [
        {"role": "user", "content": [{"text": "Begin."}]},
        {"role": "assistant", "content": [
            {"toolUse": {"toolUseId": "c" * 64, "name": "read", "input": {"path": "a"}}},
            {"toolUse": {"toolUseId": "c2", "name": "list", "input": {}}}]},
        {"role": "user", "content": [
            {"toolResult": {"toolUseId": "c" * 64, "content": [{"text": "text"}]}},
            {"toolResult": {"toolUseId": "c2", "content": [{"text": "(nothing)"}]}},
            {"text": "And?"}]},
    ]  # fmt: skip
    names = [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]]
    assert names == ["read", "list"], "past calls need their tools"


def test_images_are_sent_as_data() -> None:
    def part(url: str) -> Json:
        return {"type": "image_url", "image_url": {"url": url}}

    [turn] = encoded(messages=[{"role": "user", "content": [part(f"data:image/jpg;base64,{PIXEL}")]}])["messages"]
    assert turn["content"] == [{"image": {"format": "jpeg", "source": {"bytes": PIXEL}}}]
    for url, words in (("https://example.com/a.png", "fetches no images"), ("data:image/tiff;base64,AA==", "tiff")):
        with pytest.raises(InvalidRequest, match=words):
            encoded(messages=[{"role": "user", "content": [part(url)]}])


@cases(
    ("model", "asked", "made"),
    [
        (CLAUDE, {}, {}),
        (CLAUDE, {"reasoning_effort": "low"},
         {"additionalModelRequestFields": {"thinking": {"type": "adaptive", "display": "summarized"}},
          "outputConfig": {"effort": "low"}}),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", {"reasoning_effort": "medium", "max_tokens": 100},
         {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 8192}},
          "inferenceConfig": {"maxTokens": 8292}}),
        (NOVA, {"reasoning_effort": "none"},
         {"additionalModelRequestFields": {"reasoningConfig": {"type": "disabled"}}}),
        (NOVA, {"reasoning_effort": "high", "temperature": 0.2, "max_tokens": 100},
         {"additionalModelRequestFields": {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}}),
        ("openai.gpt-oss-120b-1:0", {"reasoning_effort": "high"},
         {"additionalModelRequestFields": {"reasoning_effort": "high"}}),
        (CLAUDE, {"top_k": 5, "serviceTier": {"type": "flex"}, "inferenceConfig": {"stopSequences": ["x"]}},
         {"additionalModelRequestFields": {"top_k": 5}, "serviceTier": {"type": "flex"},
          "inferenceConfig": {"stopSequences": ["x"]}}),
    ],
)  # fmt: skip
def test_settings_go_where_the_model_takes_them(model: str, asked: Json, made: Json) -> None:
    body = encoded(model=model, **asked)
    del body["messages"]
    assert body == made


@pytest.mark.parametrize(
    ("choice", "made"),
    [("auto", None), ("required", {"any": {}}), ({"function": {"name": "read"}}, {"tool": {"name": "read"}})],
)
def test_the_choice_of_tools_is_translated(choice: Any, made: Json | None) -> None:
    body = encoded(tools=[{"type": "function", "function": {"name": "read", "strict": True}}], tool_choice=choice)
    assert body["toolConfig"].get("toolChoice") == made
    spec = {"name": "read", "inputSchema": {"json": {"type": "object"}}, "strict": True}
    assert body["toolConfig"]["tools"] == [{"toolSpec": spec}]


def test_a_schema_is_enforced_with_native(server: ScriptedServer, transport: DirectTransport) -> None:
    server.says(SAID)
    assert answer_of(request(strategy="native"), transport).text == "Hello"
    text_format = sent(server)["outputConfig"]["textFormat"]
    assert json.loads(text_format["structure"]["jsonSchema"]["schema"])["type"] == "object"


def test_a_model_that_cannot_be_forced_is_asked_again_and_remembered(
    server: ScriptedServer, transport: DirectTransport
) -> None:
    server.says(SAID)
    unsupported = UnsupportedFeatures()
    model = "meta.llama4-scout-17b-instruct-v1:0"
    for attempts in (2, 1):
        result = request(unsupported=unsupported, model=model).run(transport)
        assert (result.attempts, result.strategy) == (attempts, "tool")
    assert unsupported.of(transport.base_url, model) == {"tool_choice"}


def test_a_model_without_tools_in_streams_is_told_the_schema(
    server: ScriptedServer, transport: DirectTransport
) -> None:
    def refuse(exchange: Exchange) -> None:
        if "tools" in exchange.body:
            exchange.json({"message": "This model doesn't support tool use in streaming mode."}, 400)
        else:
            exchange.events([delta(SAID), delta(finish="stop")])

    server.answer(refuse)
    result = request(model="meta.llama4-scout-17b-instruct-v1:0").run(transport)
    assert (result.strategy, result.solution["message"]) == ("json", "Hello")


def test_each_call_marks_what_the_next_one_begins_with(server: ScriptedServer, transport: DirectTransport) -> None:
    server.says(SAID)
    context: list[Json] = [{"role": "system", "content": "Be brief."}]
    for number in range(3):
        context += [{"role": "user", "content": f"Question {number}"}]
        answer_of(request(context), transport)
        context += [{"role": "assistant", "content": SAID}]
    bodies = [json.loads(exchange.content) for exchange in server.received]
    for earlier, later in pairwise(bodies):
        assert (later["toolConfig"], later["system"]) == (earlier["toolConfig"], earlier["system"])
        marked = [turn for turn in later["messages"] if turn["content"][-1] == POINT]
        assert marked == [turn for turn in later["messages"] if turn["role"] == "user"][-4:-1]
        plain = [[block for block in turn["content"] if block != POINT] for turn in later["messages"]]
        assert plain[: len(earlier["messages"])] == [
            [block for block in turn["content"] if block != POINT] for turn in earlier["messages"]
        ]


@pytest.mark.parametrize(
    ("model", "marks"),
    [(CLAUDE, True), ("us.amazon.nova-pro-v1:0", True), ("anthropic.claude-3-haiku-20240307-v1:0", False),
     ("anthropic.claude-3-5-haiku-20241022-v1:0", True), ("anthropic.claude-3-5-sonnet-20240620-v1:0", False),
     ("anthropic.claude-3-7-sonnet-20250219-v1:0", True), ("meta.llama3-3-70b-instruct-v1:0", False)],
)  # fmt: skip
def test_only_models_that_cache_get_marks(
    server: ScriptedServer, transport: DirectTransport, model: str, marks: bool
) -> None:
    server.says(SAID)
    request([{"role": "system", "content": "Be brief."}, *ASK], model=model).run(transport)
    assert (POINT in sent(server)["system"]) == marks


def test_what_is_read_from_the_cache_and_written_to_it_counts_as_prompt(
    server: ScriptedServer, transport: DirectTransport
) -> None:
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    server.says(SAID, usage={"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": details})
    for streamed in (True, False):
        usage = answer_of(request(), transport, streamed=streamed).result.usage
        assert (usage.prompt, usage.completion, usage.cached, usage.cache_writes) == (100, 5, 60, 30)


def test_thoughts_are_shown_and_kept_if_they_are_signed_or_encrypted() -> None:
    def deltas(*reasoning: Json) -> list[Json]:
        stream = [event("contentBlockDelta", contentBlockIndex=0, delta={"reasoningContent": it}) for it in reasoning]
        chunks = chunks_of(*stream, event("contentBlockStop", contentBlockIndex=0), END)
        return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]

    shown = [{"reasoning_content": "H"}, {"reasoning_content": "m."}]
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    pieces = ({"text": "H"}, {"text": "m."})
    assert deltas(*pieces, {"signature": "c2ln"}) == [*shown, {"thinking_blocks": [signed]}, {}]
    assert deltas(*pieces) == [*shown, {}], "Nova's thoughts have no signature"
    hidden = {"type": "redacted_thinking", "data": "eA=="}
    assert deltas({"redactedContent": "eA=="}) == [{"thinking_blocks": [hidden]}, {}]
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    answer = {"role": "assistant", "content": None, "thinking_blocks": [signed, hidden], "tool_calls": [call]}
    messages = [*ASK, answer, {"role": "tool", "tool_call_id": "c1", "content": "x"}]
    asked = {"messages": messages, "tools": [{"type": "function", "function": {"name": "read"}}]}
    told = encoded(**asked, reasoning_effort="low")["messages"][1]["content"]
    assert told[:2] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "eA=="}},
    ]
    for other in ({"reasoning_effort": "none"}, {"model": NOVA}):
        assert "reasoningContent" not in json.dumps(encoded(**asked, **other)), "who does not think refuses them"


def test_the_health_check_asks_nothing_and_takes_no_foreign_server_for_bedrock() -> None:
    with ScriptedServer() as server:
        transport = DirectTransport(base_url=server.url, api_key="key", api=ConverseApi())
        for status, is_available in ((400, True), (403, False), (404, False), (500, False)):
            server.answer(failing(status))
            assert transport.is_available(5, CLAUDE) is is_available, status
        transport.close()
        path = f"/v1/model/{quote(CLAUDE, safe='')}/converse-stream"
        assert {(exchange.path, exchange.content) for exchange in server.received} == {(path, b"{}")}


@cases(
    ("url", "region"),
    [
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/openai/v1", "us-gov-west-1"),
        ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://vpce-0a1-b2.bedrock-runtime.ap-south-1.vpce.amazonaws.com", "ap-south-1"),
        ("https://bedrock-runtime.example", None),
        ("https://bedrock-runtimes.eu-west-1.amazonaws.com", None),
        ("http://127.0.0.1:9000", None),
        ("", None),
    ],
)
def test_the_region_to_sign_for_is_that_of_the_address(url: str, region: str | None) -> None:
    assert region_in(url) == region


def test_a_call_without_arguments_has_empty_ones() -> None:
    start = {"toolUse": {"toolUseId": "t1", "name": "list"}}
    chunks = chunks_of(
        event("messageStart", role="assistant"),
        event("contentBlockDelta", contentBlockIndex=0, delta={"text": "So:"}),
        event("contentBlockStart", contentBlockIndex=1, start=start),
        event("contentBlockStop", contentBlockIndex=1),
        event("somethingNew"),
        event("messageStop", stopReason="tool_use"),
        event("metadata", usage={"inputTokens": 3, "outputTokens": 9, "totalTokens": 12}, metrics={"latencyMs": 1}),
    )
    assert Usage.parse(chunks[-1]["usage"]) == Usage(3, 9)
    assert [choice["delta"] for chunk in chunks for choice in chunk["choices"]] == [
        {"content": "So:"},
        {"tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": {"name": "list", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {},
    ]


@pytest.mark.parametrize(
    ("reason", "error"),
    [("end_turn", None), ("stop_sequence", None), ("max_tokens", "length"),
     ("guardrail_intervened", "content_filter"), ("content_filtered", "content_filter"),
     ("model_context_window_exceeded", "context_overflow"), ("malformed_tool_use", "transport"),
     ("malformed_model_output", "transport")],
)  # fmt: skip
def test_every_reason_to_stop_has_its_error(
    server: ScriptedServer, transport: DirectTransport, reason: str, error: str | None
) -> None:
    server.says(SAID if error is None else '{"message": "Hel', finish=reason)
    if error is None:
        assert answer_of(request(), transport).text == "Hello"
        return
    with pytest.raises(ModelError) as caught:
        answer_of(request(), transport)
    assert caught.value.code == error


class Cut:
    """A transport that receives the beginning of an answer, and then the end of the connection, in order."""

    base_url = "cut"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[Json]]:
        return ConverseApi().chunks(iter([self._data]), streams=True)


@pytest.mark.parametrize(
    ("strategy", "name", "arguments"),
    [("calls", "read", '{"path": "lib/main.dart"}'),
     ("tool", "generate_response", '{"message": "I read.", "calls": [{"_tool": "read", "path": "a"}]}')],
)  # fmt: skip
@some_and_all
def test_a_stream_that_is_cut_at_any_byte_executes_nothing(strategy: Any, name: str, arguments: str, step: int) -> None:
    """Native calls wait for `messageStop`. An answer that is one call shows its end itself."""
    answer = SpokenConverse().answering()
    pieces = [answer.chunk(argument(arguments[at : at + 20], name=name)) for at in range(0, len(arguments), 20)]
    answer.chunk(delta(finish="tool_calls"))
    begun = answer.begin() + b"".join(pieces)
    data = begun + answer.end()
    last = event("metadata", usage={}, metrics={"latencyMs": 100})
    complete_at = len(begun) if strategy == "tool" else len(data) - len(last)
    config = RequestConfig(CLAUDE, provider="bedrock", strategy=strategy)
    asked = Request(config, ANSWER, ASK, unsupported=UnsupportedFeatures(), retry=RetryPolicy(attempts=1))
    for end in sorted({*range(0, len(data), step), complete_at - 1, complete_at, len(data)}):
        if end >= complete_at:
            assert answer_of(asked, Cut(data[:end])).result.solution["calls"][0]["_tool"] == "read"
        else:
            with pytest.raises((Truncated, TransportError)):
                answer_of(asked, Cut(data[:end]))


@cases(
    ("type_", "text", "kind", "retryable"),
    [
        ("throttlingException", "Too many tokens, please wait", FailureKind.RATE, True),
        ("serviceUnavailableException", "no", FailureKind.BUSY, True),
        ("internalServerException", "no", FailureKind.OTHER, True),
        ("modelStreamErrorException", "no", FailureKind.BUSY, True),
        ("validationException", "The model returned the following errors: x", FailureKind.OTHER, False),
    ],
)
def test_errors_within_the_stream_are_read_by_their_kind(
    type_: str, text: str, kind: FailureKind, retryable: bool
) -> None:
    begun = event("contentBlockDelta", contentBlockIndex=0, delta={"text": "Hel"})
    with pytest.raises(TransportError, match=text) as caught:
        chunks_of(begun, exception(type_, text), END)
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)


def test_an_error_without_a_model_is_named() -> None:
    headers = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "It broke."}
    with pytest.raises(TransportError, match="It broke"):
        chunks_of(message(headers, b""))


@pytest.mark.parametrize(
    ("status", "type_", "text", "kind", "retryable"),
    [
        (400, "ValidationException", "The model returned the following errors: x", FailureKind.OTHER, False),
        (400, "ValidationException", "The provided model identifier is invalid.", FailureKind.MODEL, False),
        (400, "ValidationException", "Invocation of model ID x with on-demand throughput isn’t supported.",
         FailureKind.MODEL, False),
        (400, "ValidationException", "Input is too long for requested model.", FailureKind.WINDOW, False),
        (403, "AccessDeniedException", "You don't have access to the model", FailureKind.ACCESS, False),
        (403, "UnrecognizedClientException", "The security token included in the request is invalid.",
         FailureKind.KEY, False),
        (404, "ResourceNotFoundException", "Model use case details have not been submitted", FailureKind.MODEL, False),
        (408, "ModelTimeoutException", "no", FailureKind.BUSY, True),
        (424, "ModelErrorException", "no", FailureKind.BUSY, True),
        (429, "ThrottlingException", "Too many requests", FailureKind.RATE, True),
        (429, "ModelNotReadyException", "no", FailureKind.BUSY, True),
        (400, "ServiceQuotaExceededException", "no", FailureKind.QUOTA, False),
        (500, "InternalServerException", "no", FailureKind.OTHER, True),
        (503, "ServiceUnavailableException", "no", FailureKind.BUSY, True),
    ],
)  # fmt: skip
def test_errors_are_read_by_their_kind(
    server: ScriptedServer, transport: DirectTransport, status: int, type_: str, text: str,
    kind: FailureKind, retryable: bool,
) -> None:  # fmt: skip
    headers = {"x-amzn-ErrorType": f"{type_}:http://internal.amazon.com/coral/"}
    server.answer(lambda exchange: exchange.send(response(status, {"message": text}, headers)))
    with pytest.raises(TransportError) as caught:
        list(transport.send({"model": CLAUDE, "messages": ASK}, Call()))
    error = caught.value
    assert (error.status, error.kind, error.retryable) == (status, kind, retryable)
    assert text in error.message
    assert kind not in (FailureKind.ACCESS, FailureKind.MODEL) or "LLM_MODEL" in error.public_message


def test_a_context_that_is_too_long_and_a_filter_have_their_own_errors(
    server: ScriptedServer, transport: DirectTransport
) -> None:
    for text, kind in (("Input is too long for requested model.", ContextOverflow),
                       ("blocked by a content filter", ContentFilter)):  # fmt: skip
        server.answer(failing(400, text))
        with pytest.raises(kind):
            request().run(transport)


def test_a_changed_byte_is_an_error_that_may_pass() -> None:
    data = bytearray(event("contentBlockDelta", contentBlockIndex=0, delta={"text": "Hel"}) + END)
    data[-6] ^= 1
    with pytest.raises(TransportError, match="checksum") as caught:
        chunks_of(bytes(data))
    assert caught.value.retryable


@pytest.mark.parametrize("data", [b'{"message": "no"}', b"<html>", b" [1]"])
def test_an_answer_of_another_server_is_named(data: bytes) -> None:
    with pytest.raises(TransportError, match="Converse") as caught:
        chunks_of(data)
    assert caught.value.kind is FailureKind.PROTOCOL


@cases(
    ("model", "profile"),
    [
        ("openai.gpt-oss-120b-1:0", "bedrock"),
        ("global.openai.gpt-6-luna", "bedrock"),
        ("qwen.qwen3-coder-next", "bedrock"),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.openai.gpt-6-sol", "bedrock"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "bedrock-converse"),
        (CLAUDE, "bedrock-converse"),
        ("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock-converse"),
        ("eu.amazon.nova-pro-v1:0", "bedrock-converse"),
        ("meta.llama3-3-70b-instruct-v1:0", "bedrock-converse"),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0", "bedrock-converse"),
        ("arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/anthropic.claude-x", "bedrock-converse"),
        ("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2", "bedrock-converse"),
        ("arn:aws:bedrock:us-east-1:123456789012:provisioned-model/a1b2", "bedrock-converse"),
    ],
)
def test_the_models_name_decides_which_api_of_bedrock_it_is_asked_through(model: str, profile: str) -> None:
    assert profile_of("bedrock", model).name == profile
    assert profile_of("bedrock-converse", model).name == "bedrock-converse"
    assert profile_of("openai", model).name == "openai"


def test_a_stack_with_models_of_both_apis_asks_each_through_its_own(server: ScriptedServer) -> None:
    class Noted:
        def __init__(self, name: str) -> None:
            self.base_url, self.asked = name, list[str]()

        def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[Json]]:
            self.asked.append(body["model"])
            yield []

    both: Any = {name: Noted(name) for name in ("bedrock", "bedrock-converse")}
    transport = BothApis(both, CLAUDE)
    for model in ("openai.gpt-oss-120b-1:0", CLAUDE):
        list(transport.send({"model": model}, Call()))
    assert transport.base_url == "bedrock-converse"
    assert [both[name].asked for name in both] == [["openai.gpt-oss-120b-1:0"], [CLAUDE]]


@pytest.mark.parametrize(
    ("region", "fips", "url"),
    [
        ("eu-west-1", "", "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ("us-gov-west-1", "true", "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ("eusc-de-east-1", "", "https://bedrock-runtime.eusc-de-east-1.amazonaws.eu"),
    ],
)
def test_the_address_follows_the_region(monkeypatch: pytest.MonkeyPatch, region: str, fips: str, url: str) -> None:
    monkeypatch.setenv("AWS_REGION", region)
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", fips)
    assert converse_url() == url
    assert converse_url("https://vpce-1.example.com/openai/v1/") == "https://vpce-1.example.com"


@pytest.mark.parametrize("region", ["us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1"])
def test_where_no_address_is_public_it_is_refused_with_a_word(monkeypatch: pytest.MonkeyPatch, region: str) -> None:
    monkeypatch.setenv("AWS_REGION", region)
    with pytest.raises(InvalidRequest, match="LlmBaseUrl"):
        converse_url()
