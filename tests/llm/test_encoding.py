"""The bytes of a body: the same with parts that keep their JSON as without."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.llm.encoding import Fixed, TextMessage, encode
from codelab.llm.profiles import STRATEGIES
from codelab.llm.tokens import estimate_context

from tests.cases import cases
from tests.fakes.model.in_process import InProcess

CONTENTS = [
    "Hello",
    "",
    'a "quoted" \\ line\n',
    "\u2028 \x00 \x7f",
    "\u043f\u0440\u0438\u0432\u0435\u0442",
    "\U0001f600",
    "\ud800 half",
]
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
SCHEMA = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "\u00e9"}, "n": {"type": "integer", "maximum": 3}},
    "required": ["message", "n"],
    "additionalProperties": False,
}

#: One for the strategy `calls`.
WITH_CALLS = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "calls": {
            "type": "array",
            "items": {"anyOf": [{"type": "object", "properties": {"_tool": {"const": "f"}}, "required": ["_tool"]}]},
        },
    },
    "required": ["message", "calls"],
}


def plainly(body: Mapping[str, Any]) -> bytes:
    return json.dumps(_plain(body), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return list(map(_plain, value)) if isinstance(value, list) else value


@cases("strategy", STRATEGIES)
def test_a_history_that_was_encoded_before_is_sent_as_one_that_was_not(strategy: Any) -> None:
    history = [TextMessage("user" if n % 2 else "assistant", content) for n, content in enumerate(CONTENTS)]
    config = RequestConfig("m", strategy=strategy, temperature=0.5, extra_body={"user": {"a": [1, None]}})
    schema = WITH_CALLS if strategy == "calls" else SCHEMA
    sent = []
    for messages in ([dict(message) for message in history], history, history):
        transport = InProcess(lambda _body, _call: '{"message": "a", "n": 1}')
        list(Request(config, schema, [{"role": "system", "content": "Be brief."}, CALLED, *messages]).stream(transport))
        (body,) = transport.requests
        assert encode(body) == plainly(body)
        sent.append(encode(body))
    assert sent[0] == sent[1] == sent[2]


@cases(
    "body",
    [
        {},
        {"a": Fixed({"b": Fixed({"c": 1})}), "list": [Fixed(), [Fixed()], {"deep": [Fixed({"x": 1.5})]}]},
        {"a": {"b": {"c": {"d": Fixed({"e": True})}}}},
        {"keys": {1: "one", None: "none", "x": Fixed({"y": 2})}},
        {"tuple": ({"a": 1}, Fixed({"b": 2}))},
        {
            "equal": {
                "true": True,
                "one": 1,
                "one.": 1.0,
                "zero": 0.0,
                "-zero": -0.0,
                "0": 0,
                "false": False,
                "no": None,
            }
        },
    ],
)
def test_parts_that_keep_their_json_may_be_anywhere(body: dict[str, Any]) -> None:
    assert encode(body) == encode(body) == json.dumps(body, separators=(",", ":")).encode()


def test_what_json_does_not_know_is_refused() -> None:
    for value in (float("nan"), {1}, [float("inf")], {"a": b""}):
        with pytest.raises((TypeError, ValueError)):
            encode({"value": value})


def test_what_keeps_its_json_cannot_be_changed_and_counts_as_any_message() -> None:
    message = TextMessage("user", "Hello there")
    with pytest.raises(TypeError):
        message["content"] = "Bye"
    with pytest.raises(TypeError):
        message.update(content="Bye")
    copied = copy.deepcopy(message)
    copied["content"] = "Bye"
    assert encode({"m": message}) != encode({"m": copied})
    assert message == {"role": "user", "content": "Hello there"}
    assert message.tokens == estimate_context([message]) == estimate_context([dict(message)])
