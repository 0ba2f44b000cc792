"""Answers of providers and models that are broken or mean harm: each ends in a valid solution or in a typed error."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from codelab.http.event_stream import messages
from codelab.llm.client.answers import MISSHAPEN, checked_object, misshapen, refusal_of
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Call
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidAnswer, Length, ModelError, TransportError, Truncated
from codelab.llm.history import past_arguments
from codelab.llm.native_calls import CallAssembler
from codelab.llm.past_reasoning import ReasoningCollector
from codelab.llm.scanner import Mender, Scanner
from codelab.llm.schema.validation import compile_validator

from tests.cases import cases
from tests.fakes.http import Exchange, Script, event
from tests.fakes.model import converse
from tests.fakes.model.apis import SPOKEN, client, spoken
from tests.fakes.model.wire import ScriptedServer, argument, delta
from tests.llm.answer import Answer, answer_of
from tests.llm.schemas import STRING, array, closed, obj, optional
from tests.sampling import some_and_all

Json = dict[str, Any]

READ = closed(optional(_tool={"const": "read"}, path=STRING, limit={"type": "number"})) | {
    "required": ["_tool", "path"]
}
ANY = optional(_tool={"const": "any"}, value={}) | {"required": ["_tool"]}
TURN = closed(obj(message=STRING, calls=array({"anyOf": [READ, ANY]})))
ASK = [{"role": "user", "content": "What now?"}]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CONVERSE = "bedrock-converse"
APIS = ("openai", *SPOKEN)
#: What may be missing of a stream of text.
DONE = b"\n\ndata: [DONE]\n\n"


class Replayed:
    """A transport whose provider sends these bytes, in the form of its API."""

    base_url = "http://model.invalid"

    def __init__(self, provider: str, *pieces: bytes) -> None:
        self._api, self.pieces = client(spoken(provider)), pieces
        self.requests: list[bytes] = []

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[Json]]:
        self.requests.append(self._api.encode(body))
        try:
            yield from self._api.chunks(iter(self.pieces), streams=bool(body.get("stream")))
        except MISSHAPEN as error:
            raise misshapen(error) from None


def request(provider: str = "openai", context: Any = ASK, **config: Any) -> Request:
    settings = RequestConfig(**{"model": "m", "provider": provider, "strategy": "calls", "max_repairs": 0, **config})
    return Request(settings, TURN, context, unsupported=UnsupportedFeatures(), retry=RetryPolicy(1))


def stream_of(provider: str, *chunks: Json) -> bytes:
    """What the provider's server sends for these chunks."""
    api = spoken(provider)
    if api is None:
        return b"".join(map(event, chunks)) + b"data: [DONE]\n\n"
    answering = api.answering()
    return answering.begin() + b"".join(map(answering.chunk, chunks)) + answering.end()


def replayed(provider: str, data: bytes, **config: Any) -> Answer:
    return answer_of(request(provider, **config), Replayed(provider, data))


READS = argument('{"path": "a", "limit": 1}', name="read")
CALLING = [
    delta(reasoning_content="Hm."),
    delta("I read."),
    READS,
    argument('{"path": "b"}', name="read", index=1),
    delta(finish="tool_calls"),
]


# Streams in every state of decay.


#: At each of the last bytes a stream is cut in every run: there it says that it has ended.
_LAST = 100


@some_and_all
@cases("provider", APIS)
def test_a_stream_cut_at_any_byte_executes_nothing(provider: str, step: int) -> None:
    whole = stream_of(provider, *CALLING)
    assert len(replayed(provider, whole).result.solution["calls"]) == 2
    complete_at = []
    for end in [*range(0, len(whole) - _LAST, step), *range(len(whole) - _LAST, len(whole))]:
        try:
            answer = replayed(provider, whole[:end])
        except ModelError:
            continue
        complete_at.append(end)
        assert len(answer.result.solution["calls"]) == 2, "a part of the calls"
    behind = converse.event("metadata", usage={}, metrics={"latencyMs": 100}) if provider == CONVERSE else DONE
    assert all(end >= len(whole) - len(behind) for end in complete_at), "before the end was said"


_VALUES: list[Any] = [None, True, -1, 10**400, 1.5, "", "x", "\ud83d", [], {}, [None], {"a": []}, [[[]]], "\0"]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in a JSON value, with each of its keys."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(child, dict | list):
            yield from _places(child)


def _events_of(provider: str) -> list[bytes]:
    """The events of a stream, each a line that ends with its JSON."""
    data = stream_of(provider, *CALLING)
    if provider != CONVERSE:
        return [line for line in data.split(b"\n") if b"{" in line]
    return [one.headers[":event-type"].encode() + one.payload for batch in messages([data], len(data)) for one in batch]


def _stream(provider: str, lines: list[bytes]) -> bytes:
    if provider != CONVERSE:
        return b"\n\n".join([*lines, b""])
    parts = [line.partition(b"{") for line in lines]
    return b"".join(
        converse.message({":message-type": "event", ":event-type": kind.decode()}, start + text)
        for kind, start, text in parts
    )


def _damaged(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Some events lost, doubled, in another order, or with another value somewhere."""
    lines = list(lines)
    for _ in range(chance.randint(1, 3)):
        number = chance.randrange(len(lines))
        prefix, start, text = lines[number].partition(b"{")
        match chance.randrange(5):
            case 0 if len(lines) > 1:
                del lines[number]
            case 1:
                lines.insert(chance.randrange(len(lines)), lines[number])
            case _ if start:
                value = json.loads(start + text)
                container, key = chance.choice([*_places(value), ([0], 0)])
                if chance.random() < 0.3:
                    del container[key]
                else:
                    container[key] = chance.choice(_VALUES)
                lines[number] = prefix + json.dumps(value).encode()
    return lines


@cases("provider", APIS)
def test_a_damaged_stream_ends_in_a_valid_answer_or_a_typed_error(provider: str) -> None:
    chance, validator = random.Random(7), compile_validator(TURN)
    lines = _events_of(provider)
    for _ in range(400):
        data = _stream(provider, _damaged(lines, chance))
        answer = Answer()
        reason = ""
        try:
            answer.read(request(provider), Replayed(provider, data))
        except ModelError as error:
            reason = error.public_message
        assert len(reason.encode()) < 300
        assert answer.text.encode() is not None
        if reason:
            continue
        assert validator.is_valid(answer.result.solution)
        json.dumps(answer.result.solution, ensure_ascii=False, allow_nan=False).encode()
        assert answer.result.solution["message"] == answer.text, "what was shown is the answer"


def raw(data: bytes) -> Script:
    def script(exchange: Exchange) -> None:
        exchange.send(HEAD + data)

    return script


#: Events, by the profile that is asked.
MISSHAPEN_EVENTS: list[tuple[str, Json]] = [
    ("anthropic-messages", {"type": "content_block_delta"}),
    ("anthropic-messages", {"type": "message_start", "message": None}),
    ("anthropic-messages", {"type": "content_block_start", "index": [], "content_block": {"type": "tool_use"}}),
    ("anthropic-messages", {"type": "message", "content": "a text"}),
    ("openai-responses", {"type": "response.output_text.delta"}),
    ("openai-responses", {"type": "response.function_call_arguments.delta", "output_index": 7, "delta": "x"}),
    ("openai-responses", {"type": "response.completed", "response": 5}),
    ("ollama-chat", {"message": {"tool_calls": [{}]}}),
    ("ollama-chat", {"message": {"tool_calls": 5}}),
    ("openai", {"choices": [{"index": -5, "delta": {"content": "x"}, "finish_reason": "stop"}]}),
    ("openai", {"choices": [{"index": -1, "delta": {"content": "x"}, "finish_reason": "stop"}]}),
    ("openai", {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "stop"}]}),
]


@pytest.mark.parametrize(("provider", "value"), MISSHAPEN_EVENTS, ids=str)
def test_an_event_of_another_form_is_a_typed_error(server: ScriptedServer, provider: str, value: Json) -> None:
    server.answer(raw(event(value) if provider != "ollama-chat" else json.dumps(value).encode() + b"\n"))
    transport = DirectTransport(base_url=server.url, api_key="k", api=client(spoken(provider)))
    with pytest.raises(TransportError, match="another form") as caught:
        list(request(provider).stream(transport))
    assert caught.value.retryable
    transport.close()


def test_calls_at_one_index_of_a_stream_are_several() -> None:
    start = {"type": "content_block_start", "index": 0}
    blocks = [{**start, "content_block": {"type": "tool_use", "id": "same", "name": "read", "input": {"path": path}}}
              for path in "abc"]  # fmt: skip
    end = [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
    answer = replayed("anthropic-messages", b"".join(map(event, [*blocks, *end])))
    assert [call["path"] for call in answer.result.solution["calls"]] == ["a", "b", "c"]


# Conversations of any form, and repairs of wrong calls, in the form that each API takes.


def _conversation(chance: random.Random) -> list[Json]:
    """Messages in any order, with calls of any form, some without a result or with an id that another one has."""
    one = chance.choice
    pixel = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages: list[Json] = [{"role": "user", "content": "Look"}]
    for _ in range(chance.randint(1, 6)):
        kind = one(["system", "developer", "user", "assistant", "image", "calls", "calls"])
        if kind == "image":
            messages.append({"role": "user", "content": [{"type": "text", "text": one(["Q", " "])}, pixel]})
        elif kind == "calls":
            functions = [
                {
                    "name": one(["read", "any", "gone.tool"]),
                    "arguments": one(['{"path": "a"}', '{"a": NaN}', "", "[1]"]),
                }
                for _ in range(chance.randint(1, 3))
            ]
            calls = [{"id": one(["c.1", "c_1", "é"]) + str(number), "type": "function", "function": function}
                     for number, function in enumerate(functions)]  # fmt: skip
            results = [{"role": "tool", "tool_call_id": call["id"], "content": one(["r", "", " "])} for call in calls]
            messages.append({"role": "assistant", "content": one(["A", None, ""]), "tool_calls": calls})
            messages += chance.sample(results, chance.randint(0, len(results)))
        else:
            messages.append({"role": kind, "content": one(["Text", "", " \n"])})
    return messages


class Checked(Replayed):
    """A provider that refuses a request against its documents."""

    paths: ClassVar = {"anthropic-messages": "/v1/messages", "openai-responses": "/v1/responses",
                       "ollama-chat": "/v1/chat",
                       CONVERSE: "/v1/model/claude-sonnet-4-5/converse-stream"}  # fmt: skip

    def __init__(self, provider: str, *answers: bytes) -> None:
        super().__init__(provider)
        self._spoken, self._path, self._answers = SPOKEN[provider](), self.paths[provider], list(answers)

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[Json]]:
        content = self._api.encode(body)
        headers = {"x-api-key": "k", "authorization": "k", "anthropic-version": "2023-06-01"}
        asked = SimpleNamespace(path=self._path, headers=headers, content=content, body=json.loads(content))
        self._spoken.asked(asked)  # type: ignore[arg-type]
        self.pieces = (self._answers.pop(0),)
        yield from super().send(body, call)


@cases("provider", SPOKEN)
def test_no_conversation_breaks_the_rules_of_an_api(provider: str) -> None:
    for seed in range(120):
        chance = random.Random(seed)
        names = [chance.choice(["read", "nope"]) for _ in range(chance.randint(1, 3))]
        wrong = [argument(chance.choice(["{", "{}", "[]"]), name=name, index=index) for index, name in enumerate(names)]
        answers = (
            [delta(chance.choice(["", "Hi", " "])), *wrong, delta(finish="tool_calls")],
            [delta("x"), delta(finish="stop")],
        )
        transport = Checked(provider, *(stream_of(provider, *answer) for answer in answers))
        asked = request(provider, _conversation(chance), model="claude-sonnet-4-5", max_repairs=1)
        assert answer_of(asked, transport).result.repairs == 1


# The end of an answer.


def test_the_first_reason_that_reports_an_error_counts() -> None:
    with pytest.raises(Length):
        replayed("openai", stream_of("openai", READS, delta(finish="length"), delta(finish="stop")))


def test_what_follows_the_finish_reason_needs_another_one() -> None:
    begun = [delta("I read."), delta(finish="stop"), READS]
    with pytest.raises(Truncated):
        replayed("openai", stream_of("openai", *begun))
    assert replayed("openai", stream_of("openai", *begun, delta(finish="stop"))).result.solution["calls"]
    empty = delta("")
    assert replayed("openai", stream_of("openai", *begun[:2], empty)).result.solution["message"] == "I read."


@pytest.mark.parametrize("finish", ["tool_calls", "tool_use", "function_call"])
def test_a_finish_reason_of_calls_that_are_missing_is_no_end(finish: str) -> None:
    with pytest.raises(Truncated, match="there are none"):
        replayed("openai", stream_of("openai", delta("I read the file."), delta(finish=finish)))


# Texts and numbers.


def test_halves_of_a_character_are_joined_or_replaced_before_anybody_sees_them() -> None:
    pieces = [delta("a\ud83d"), delta("\ude00b"), delta("\ud800c\udc00"), delta("\ud83d"), delta(finish="stop")]
    thinks = delta(reasoning_content="\ud83d!")
    answer = replayed("openai", stream_of("openai", thinks, *pieces))
    assert answer.text == answer.result.solution["message"] == "a😀b\ufffdc\ufffd\ufffd"
    assert answer.thoughts == "\ufffd!"


def test_a_mended_text_is_the_same_however_it_is_cut() -> None:
    text = "a\ud83d\ude00\ud83d\ud83d\ude00é\udc00b\ud83d"
    for cut in range(len(text) + 1):
        mender = Mender()
        pieces = [mender.feed(text[:cut]), mender.feed(""), mender.feed(text[cut:]), mender.finish()]
        assert "".join(pieces) == "a😀\ufffd😀é\ufffdb\ufffd"


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    mark, data = b"\xef\xbb\xbf", stream_of("openai", delta("Hello"), delta(finish="stop"))
    for pieces in ((mark + data,), (mark[:2], mark[2:], data)):
        assert answer_of(request(), Replayed("openai", *pieces)).text == "Hello"


@pytest.mark.parametrize("strategy", ["calls", "json"])
def test_numbers_that_no_double_holds_are_the_largest_one(strategy: Any) -> None:
    chunk = (
        argument('{"value": -1e999}', name="any")
        if strategy == "calls"
        else delta('{"message": "", "calls": [{"_tool": "any", "value": -1e999}]}')
    )
    answer = replayed("openai", stream_of("openai", chunk, delta(finish="stop")), strategy=strategy, strict=False)
    assert answer.result.solution["calls"][0]["value"] == answer.items[0]["value"] == -1.7976931348623157e308
    assert past_arguments({"function": {"arguments": '{"a": NaN}'}}) == {}


@cases("depth", [150, 5_000, 100_000])
@cases("strategy", ["calls", "json", "native"])
def test_a_value_that_is_nested_too_deeply_is_invalid(strategy: Any, depth: int) -> None:
    value = f"{'[' * depth}{']' * depth}"
    calls = strategy == "calls"
    chunk = argument(f'{{"value": {value}}}', name="any") if calls else delta(
        f'{{"message": "", "calls": [{{"_tool": "any", "value": {value}}}]}}')  # fmt: skip
    with pytest.raises(ModelError, match="nested"):
        replayed("openai", stream_of("openai", chunk, delta(finish="stop")), strategy=strategy)
    past_arguments({"function": {"arguments": f'{{"a": {value}}}'}})


def test_tokens_are_counted_only_if_they_can_be() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 10**60, "completion_tokens": -5}}
    answer = replayed("openai", stream_of("openai", delta("x"), delta(finish="stop"), usage))
    assert (answer.result.usage.prompt, answer.result.usage.completion) == (None, None)


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_reasoning_that_goes_back_has_numbers_that_can_be_sent(number: str) -> None:
    thinks = event(delta(reasoning_details=[{"type": "x", "data": 1.5}])).replace(b"1.5", number.encode())
    data = thinks + stream_of("openai", argument('{"path": 5}', name="read"), delta(finish="tool_calls"))
    transport = Replayed("openrouter", data)
    with pytest.raises(InvalidAnswer):
        answer_of(request("openrouter", max_repairs=1, thinking=True), transport)
    assert len(transport.requests) == 2
    assert b"reasoning_details" in transport.requests[1]


def test_reasoning_in_many_pieces_costs_what_its_length_does() -> None:
    def read(count: int) -> None:
        start = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "a"}}
        piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "b" * 50}}
        data = b"".join([event(start), event(piece) * count, event({"type": "content_block_stop", "index": 0})])
        *_, [*_, last] = client(spoken("anthropic-messages")).chunks(iter([data]), streams=True)
        [block] = last["choices"][0]["delta"]["thinking_blocks"]
        assert block["thinking"] == "a" + "b" * 50 * count
        collector = ReasoningCollector()
        for _ in range(count):
            collector.take({"reasoning_details": [{"type": "x", "text": "b" * 50}]})
        assert collector.fields == {"reasoning_details": [{"type": "x", "text": "b" * 50 * count}]}

    few, many = (min(seconds(partial(read, count)) for _ in range(2)) for count in (500, 16_000))
    assert many < 150 * few, "thirty-two times as many"


# Errors.


@pytest.mark.parametrize("depth", [100, 2_000, 9_000])
def test_an_error_within_errors_is_an_error(depth: int) -> None:
    data = '{"error": ' * depth + '"no"' + "}" * depth
    with pytest.raises(TransportError):
        replayed("openai", f"data: {data}\n\n".encode())
    assert isinstance(refusal_of(400, {}, data.encode()), TransportError)


@cases("wait", ["inf", "1e400", "9" * 400, "-1", "nan"])
@cases("header", ["retry-after", "retry-after-ms"])
def test_a_wait_of_any_length_can_be_told(header: str, wait: str) -> None:
    error = refusal_of(429, {header: wait}, b"{}")
    assert isinstance(error, TransportError)
    assert error.retry_after is not None
    assert 0 <= error.retry_after <= 1e10
    assert "too many requests" in error.public_message


@cases("code", ["000000400" + "1" * 5_000, "4" * 5_000, ["400"], {"400": 1}, "\ud800"])
def test_a_code_of_any_form_is_an_error(code: Any) -> None:
    with pytest.raises(TransportError) as caught:
        checked_object({"error": {"code": code, "message": "schema" * 100_000}})
    assert caught.value.status is None
    assert len(caught.value.message) <= 4_000


# Many and large.


def test_calls_without_end_are_no_answer() -> None:
    assembler = CallAssembler([], [])
    for index in range(256):
        assembler.take({"index": index, "function": {"name": "read"}}, is_whole=False)
    with pytest.raises(ValueError, match="more than 256"):
        assembler.take({"index": 256, "function": {"name": "read"}}, is_whole=False)


@pytest.mark.parametrize("name", ["read", "x" * 100_000])
def test_a_repair_of_many_wrong_calls_is_short(name: str) -> None:
    calls = [argument("{", name=name, index=index) for index in range(200)]
    transport = Replayed("openai", stream_of("openai", *calls, delta(finish="tool_calls")))
    with pytest.raises(InvalidAnswer):
        answer_of(request(max_repairs=1), transport)
    first, second = transport.requests
    assert len(second) - len(first) < 100_000


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def test_spaces_before_the_root_cost_what_other_characters_do() -> None:
    def scan(count: int) -> None:
        scanner = Scanner([("a",)], prose=True)
        for piece in ("```{", *(" " for _ in range(count)), '"a": "b"}'):
            events = scanner.feed(piece)
        assert [part.text for part in events] == ["b"]  # type: ignore[union-attr]

    few, many = (min(seconds(partial(scan, count)) for _ in range(3)) for count in (2_000, 32_000))
    assert many < 100 * few, "sixteen times as many"
