"""Profiles, unsupported features, validation, Bedrock's key, token estimates and bare Requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import pytest
from codelab.llm import tokens
from codelab.llm.client.bare import run_bare
from codelab.llm.client.bedrock import BedrockKey
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest, TransportError
from codelab.llm.modes import Mode, modes
from codelab.llm.overflow import context_overflow
from codelab.llm.profiles import PROFILES, STRATEGIES
from codelab.llm.schema.validation import compile_validator, explain
from codelab.llm.tokens import estimate_context, estimate_tokens
from codelab.llm.unsupported import unsupported_feature

from tests.cases import cases
from tests.demo_model.driver import demo_model
from tests.fakes.model.wire import ScriptedServer
from tests.llm.answer import answer_of
from tests.llm.schemas import INTEGER, STRING, array, closed, obj, optional

# Profiles.


def first(provider: str, **how: Any) -> Mode:
    config = RequestConfig("m", provider=provider, thinking=how.pop("thinking", None))
    return next(modes(PROFILES[provider], config, **{"streaming": True, "strict": True, **how}))


@cases(
    ("provider", "how", "mode"),
    [
        ("openai", {}, Mode("native", strict=True)),
        ("openai", {"strict": False}, Mode("native")),
        ("openai", {"unsupported": {"native:strict"}}, Mode("native")),
        ("openai", {"unsupported": {"native"}}, Mode("tool", strict=True, is_forced=True)),
        ("openai", {"unsupported": {"native", "tool:strict"}}, Mode("tool", is_forced=True)),
        ("openai", {"unsupported": {"native", "tool"}}, Mode("json")),
        ("openai", {"unsupported": {"native", "tool", "json_object"}}, Mode("json", json_object=False)),
        ("groq", {"streaming": False}, Mode("native", strict=True)),
        ("groq", {"streaming": True}, Mode("tool", is_forced=True)),
        ("deepseek", {"thinking": False}, Mode("tool", is_forced=True)),
        ("deepseek", {"thinking": True}, Mode("json")),
        ("moonshot", {}, Mode("tool")),
        ("anthropic", {"thinking": True}, Mode("tool")),
        ("anthropic", {"unsupported": {"tool"}}, Mode("json", json_object=False)),
        ("openai-responses", {}, Mode("native", strict=True)),
        ("anthropic-messages", {}, Mode("tool", is_forced=True)),
        ("anthropic-messages", {"thinking": True}, Mode("tool")),
        ("anthropic-messages", {"unsupported": {"tool"}}, Mode("json", json_object=False)),
        ("ollama", {}, Mode("native")),
        ("ollama-chat", {}, Mode("native")),
        ("ollama-chat", {"unsupported": {"native"}}, Mode("tool")),
        ("generic", {}, Mode("native", strict=True)),
    ],
)
def test_the_strategy_follows_from_what_is_supported(provider: str, how: Any, mode: Mode) -> None:
    assert first(provider, **how) == mode


@cases("provider", PROFILES)
def test_each_provider_always_has_a_strategy(provider: str) -> None:
    for streaming in (True, False):
        for thinking in (True, False, None):
            for strict in (True, False):
                ways = list(modes(PROFILES[provider], RequestConfig("m", provider=provider, thinking=thinking),
                                  streaming=streaming, strict=strict))  # fmt: skip
                assert ways
                assert ways[-1].strategy == "json"


@cases(
    ("message", "mode", "feature"),
    [
        ("Unknown parameter: 'response_format'.", Mode("native", strict=True), "native"),
        ("This response_format type is unavailable now", Mode("native"), "native"),
        ("Thinking mode does not support this tool_choice", Mode("tool", is_forced=True), "tool_choice"),
        ("tool_choice 'specified' is incompatible with thinking enabled", Mode("tool", is_forced=True), "tool_choice"),
        ("Invalid value: 'strict'", Mode("tool", strict=True), "tool:strict"),
        ("Invalid schema for response_format 'answer': 'format' is not permitted", Mode("native", strict=True),
         "keyword:format"),
        ("Invalid schema for response_format 'answer': too many levels", Mode("native", strict=True), "native:strict"),
        ("Invalid schema for response_format 'answer': too many states", Mode("native", strict=True), "native"),
        ("response_format json_object is not supported", Mode("json"), "json_object"),
        ("'stream_options' is not allowed", Mode("native"), "parameter:stream_options"),
        ("Unsupported parameter: 'max_completion_tokens'", Mode("native"), "parameter:max_completion_tokens"),
        ("this model does not support tools", Mode("tool"), "tool"),
        ('tool_choice: type "tool" and "any" are not supported for this model.', Mode("tool", is_forced=True),
         "tool_choice"),
        ("Thinking may not be enabled when tool_choice forces tool use.", Mode("tool", is_forced=True), "tool_choice"),
        ("The compiled grammar is too large, which would cause performance issues.", Mode("native"), "native"),
        ("maximum context length exceeded", Mode("native", strict=True), None),
    ],
)  # fmt: skip
def test_an_error_names_the_unsupported_feature(message: str, mode: Mode, feature: str | None) -> None:
    assert unsupported_feature(TransportError(message, status=400), mode) == feature
    assert unsupported_feature(TransportError(message, status=429), mode) is None


def test_bedrock_gets_no_bounds(server: ScriptedServer) -> None:
    """It answers each with a 400. The schema still holds: an answer out of bounds is sent back."""
    schema = obj(n={"type": "integer", "minimum": 1, "maximum": 9}, l={"type": "array", "minItems": 2})
    server.says('{"n": 0, "l": [1, 2]}', '{"n": 5, "l": ["1", "2"]}')
    transport = DirectTransport(base_url=server.url, api_key="x")
    request = Request(RequestConfig("m", provider="bedrock"), schema, [{"role": "user", "content": "?"}],
                        unsupported=UnsupportedFeatures())  # fmt: skip
    request.compile()
    made = dict(request._compiled._codecs)
    result = request.run(transport)
    assert request._compiled._codecs == made, "compile() made what the first call needs"
    assert (result.solution["n"], result.attempts) == (5, 2)
    for body in server.requests:
        sent = json.dumps(body["response_format"])
        assert '"strict": true' in sent
        assert not any(f'"{bound}":' in sent for bound in ("minimum", "maximum", "minItems", "maxItems"))


# Validation.

TOOLS = {"read": "path", "run": "command", "ask": "question"}
BRANCHES = [closed(obj(_tool={"const": name}, **{field: STRING})) for name, field in TOOLS.items()]
CALLS = optional(calls=array({"anyOf": BRANCHES}))


def test_an_error_is_explained_by_the_intended_branch() -> None:
    validator = compile_validator(CALLS)
    assert explain(validator, {"calls": [{"_tool": "run", "command": 5}]}) == [
        '/calls/0/command: 5 is not of type "string"'
    ]
    [line] = explain(validator, {"calls": [{"_tool": "ask"}]})
    assert line == '/calls/0: "question" is a required property'
    assert explain(validator, {"calls": []}) == []


def test_errors_are_few_and_short() -> None:
    lines = explain(compile_validator(array(INTEGER)), ["x" * 5000] * 100)
    assert len(lines) <= 8
    assert all(len(line) < 500 for line in lines)


@cases(
    ("schema", "valid", "invalid"),
    [
        ({"items": [{"type": "integer"}]}, [1], ["a"]),
        ({"minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({"$schema": "https://example.com/own-dialect", "type": "integer"}, 1, "a"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}, [1], ["a"]),
        ({"prefixItems": [{"type": "integer"}]}, [1], ["a"]),
    ],
)
def test_each_dialect_is_recognised(schema: Any, valid: Any, invalid: Any) -> None:
    validator = compile_validator(schema)
    assert explain(validator, valid) == []
    assert explain(validator, invalid)


# Bedrock.


class Credentials:
    access_key, secret_key, token = "AKID", "SECRET", "SESSION"


def test_a_bedrock_token_is_renewed_before_it_expires() -> None:
    now = [1000.0]
    made: list[int] = []

    def credentials() -> Credentials:
        made.append(1)
        return Credentials()

    key = BedrockKey("eu-west-1", credentials=credentials, clock=lambda: now[0])
    first = key()
    now[0] += 539
    assert key() == first
    assert len(made) == 1
    now[0] += 1
    key()
    assert len(made) == 2


def test_a_bedrock_token_is_a_presigned_call() -> None:
    """This computes the signature again, from AWS's description."""
    token = BedrockKey("eu-west-1", credentials=Credentials)()
    assert token.startswith("bedrock-api-key-")
    url = base64.b64decode(token.removeprefix("bedrock-api-key-")).decode()
    host, _, query = url.partition("/?")
    assert host == "bedrock.amazonaws.com"
    fields = dict(parse_qsl(query))
    assert fields.pop("Version") == "1"
    assert (fields["Action"], fields["X-Amz-Expires"]) == ("CallWithBearerToken", "600")
    assert fields["X-Amz-Security-Token"] == "SESSION"
    signature = fields.pop("X-Amz-Signature")
    date = fields["X-Amz-Date"]
    scope = fields["X-Amz-Credential"].partition("/")[2]
    assert scope == f"{date[:8]}/eu-west-1/bedrock/aws4_request"
    canonical = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted(fields.items()))
    empty = hashlib.sha256(b"").hexdigest()
    for payload in (empty, "UNSIGNED-PAYLOAD"):
        request = f"POST\n/\n{canonical}\nhost:{host}\n\nhost\n{payload}"
        text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        secret = b"AWS4SECRET"
        for part in scope.split("/"):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        if hmac.new(secret, text.encode(), hashlib.sha256).hexdigest() == unquote(signature):
            return
    pytest.fail("the signature is wrong")


def test_bedrock_needs_a_region_and_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(InvalidRequest, match="region"):
        BedrockKey()
    with pytest.raises(InvalidRequest, match="credentials"):
        BedrockKey("eu-west-1", credentials=lambda: None)()


def test_a_bedrock_transport_sends_the_current_token(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    transport = DirectTransport(base_url=server.url, api_key=BedrockKey())
    server.says('{"a": 1}')
    config = RequestConfig("openai.gpt-oss-120b-1:0", provider="bedrock")
    assert Request(config, obj(a=INTEGER), [{"role": "user", "content": "x"}]).run(transport).solution == {"a": 1}
    assert server.received[0].headers["authorization"].startswith("Bearer bedrock-api-key-")


# Tokens.


def test_a_token_estimate_is_close() -> None:
    assert estimate_tokens("") == 0
    assert abs(estimate_tokens("Hello, world!") - 4) <= 1
    assert abs(estimate_tokens("The quick brown fox jumps over the lazy dog.") - 10) <= 1


def test_a_token_estimate_grows_with_the_text_in_any_script() -> None:
    for sentence in (
        "def f(x): return x\n",
        "Слово за словом. ",
        "日本語の文章です。",
        '{"a": [1, 22, 333]} ',
        "😀😀 ",
    ):
        once, many = estimate_tokens(sentence), estimate_tokens(sentence * 50)
        assert 0 < once <= 2 * len(sentence)
        assert 40 * once <= many <= 60 * once + 50


def test_estimates_are_remembered_without_the_texts_and_not_for_ever() -> None:
    texts = [f"{n} of the sentences that somebody has written to a model, again and again" for n in range(5_000)]
    first = [estimate_tokens(text) for text in texts]
    assert [estimate_tokens(text) for text in texts] == first
    assert 0 < len(tokens._estimates) <= 2_048
    assert all(isinstance(it, int) for entry in tokens._estimates.items() for it in entry)


def test_a_text_that_is_estimated_once_is_not_remembered() -> None:
    text = "a sentence that somebody has written to a model, and that another process tells it"
    before = dict(tokens._estimates)
    once = estimate_tokens(text, once=True)
    assert tokens._estimates == before
    assert once == estimate_tokens(text)


def test_a_context_is_estimated_with_all_its_messages() -> None:
    messages = [{"role": "user", "content": "word " * 1000}, {"role": "assistant", "content": "Yes."}]
    assert 800 < estimate_context(messages) < 1300


# The JSON entry.


def test_a_bare_request_returns_json(server: ScriptedServer, transport: Any) -> None:
    payload = {
        "kind": "request",
        "context": [{"role": "user", "content": "Capital of France?"}],
        "schema": obj(city=STRING),
        "config": {"temperature": 0},
    }
    server.says('{"city": "Paris"}', usage={"prompt_tokens": 5, "completion_tokens": 3})
    assert run_bare(payload, transport, defaults={"model": "m", "temperature": 1}) == {
        "solution": {"city": "Paris"},
        "usage": {"prompt": 5, "completion": 3, "cached": None, "reasoning": None, "cache_writes": None},
        "strategy": "native",
        "attempts": 1,
        "finish_reason": "stop",
    }
    assert server.requests[0]["temperature"] == 0


# The demonstration model.


@pytest.fixture(scope="module")
def demonstration() -> Iterator[str]:
    with demo_model() as url:
        yield url


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_demo_model_supports_all_strategies(demonstration: str, strategy: Any, streamed: bool) -> None:
    transport = DirectTransport(base_url=demonstration, api_key="demo")
    read = {"type": "tool", "name": "read_file", "description": "Read a file", "parameters": obj(path=STRING)}
    asked = [{"role": "user", "content": "Read src/main.py and explain it."}, read]
    request = Request(RequestConfig("demo", strategy=strategy), obj(message=STRING), asked)
    answer = answer_of(request, transport, streamed=streamed)
    result = answer.result
    if streamed:
        assert {"message": answer.text, "calls": answer.items} == result.solution
    assert result.strategy == strategy
    assert json.dumps(result.solution["calls"]) == '[{"_tool": "read_file", "path": "src/main.py"}]'


# A context that is larger than the model's window.

#: What providers say, as their users have reported it.
OVERFLOWS = [
    (400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."),
    (400, '{"code": "context_length_exceeded"}'),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "the request exceeds the available context size (4096 tokens), try increasing it"),
    (500, '{"type": "exceed_context_size_error", "n_ctx": 4096}'),
    (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    (400, "Input is too long for requested model."),
    (400, "Please reduce the length of the messages or completion."),
    (400, "This endpoint's maximum context length is 65536 tokens."),
    (400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "Range of input length should be [1, 30720]"),
    (None, "This model's maximum context length is 8192 tokens"),
]
OTHERS = [
    (
        413,
        "Request too large for model on tokens per minute (TPM): Limit 6000, please reduce the length of your message",
    ),
    (429, "Rate limit reached, maximum context length"),
    (400, "'max_tokens' is too large: this model supports at most 16384 completion tokens"),
    (400, "Invalid schema for response_format"),
    (401, "maximum context length"),
    (400, "image exceeds 5 MB maximum"),
]


@cases(("status", "message"), OVERFLOWS)
def test_an_overflow_is_recognised(status: int | None, message: str) -> None:
    found = context_overflow(TransportError("Error code: 400", status=status, body=message))
    assert found is not None
    assert (found.code, found.status, found.retryable) == ("context_overflow", status, False)


@cases(("status", "message"), OTHERS)
def test_other_refusals_are_no_overflow(status: int, message: str) -> None:
    assert context_overflow(TransportError(message, status=status)) is None
