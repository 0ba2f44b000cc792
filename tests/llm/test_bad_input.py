"""Bad input is a typed error that names the place, before any call is made."""

from __future__ import annotations

from typing import Any

import pytest
from codelab.llm.client.bare import parse_bare, run_bare
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest

from tests.cases import cases
from tests.fakes.model.in_process import Queued

HELLO = [{"role": "user", "content": "Hello"}]
CONFIG = {"model": "m"}
SCHEMA = {"type": "object"}
MISSHAPEN_CALLS: list[Any] = [
    5,
    {},
    {"function": None},
    {"function": {}},
    {"function": {"name": 5}},
    {"function": {"name": "a", "arguments": {"b": 1}}},
    {"id": [1], "function": {"name": "a"}},
]


def pointer_of(schema: Any = SCHEMA, context: Any = HELLO, config: Any = CONFIG) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parse_bare({"kind": "request", "config": config, "schema": schema, "context": context})
    assert caught.value.code == "invalid_request"
    assert (caught.value.pointer or "root") in str(caught.value)
    return caught.value.pointer


@cases(
    ("schema", "pointer"),
    [
        (5, "/schema"),
        (None, "/schema"),
        ([{"type": "object"}], "/schema"),
        ({"type": "objekt"}, "/schema/type"),
        ({"properties": {"a/b": {"type": 5}}}, "/schema/properties/a~1b/type"),
        ({"properties": {"a": {"minimum": "1"}}}, "/schema/properties/a/minimum"),
        ({"$ref": "https://example.com/other.json"}, "/schema"),
        ({"$ref": "#/$defs/missing"}, "/schema"),
    ],
)
def test_an_invalid_schema_is_an_error(schema: Any, pointer: str) -> None:
    assert pointer_of(schema=schema).startswith(pointer)


@cases(
    ("context", "pointer"),
    [
        ([], "/context"),
        ("Hello", "/context"),
        (None, "/context"),
        (["Hello"], "/context/0"),
        ([*HELLO, {"content": "Hello"}], "/context/1/role"),
        ([{"role": "boss", "content": "Hello"}], "/context/0/role"),
        ([{"role": "user"}], "/context/0/content"),
        ([{"role": "user", "content": 5}], "/context/0/content"),
        ([{"role": "user", "content": {"type": "nothing"}}], "/context/0/content/type"),
        ([{"role": "user", "content": {"no": "type"}}], "/context/0/content/type"),
        ([{"role": "user", "type": "nothing"}], "/context/0/type"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, 5]}], "/context/0/content/1"),
        ([{"role": "user", "content": [{"type": "video"}]}], "/context/0/content/0/type"),
        ([{"role": "user", "content": [{"type": []}]}], "/context/0/content/0/type"),
        *(
            ([{"role": "user", "content": ["a", {"type": kind, kind: value}]}], f"/context/0/content/1/{kind}")
            for kind, value in (
                ("text", 5), ("text", None), ("refusal", []), ("file", "a.py"), ("input_audio", 5), ("image_url", None),
                ("image_url", "http://x"), ("image_url", {}), ("image_url", {"url": 5}),
            )
        ),
        *(
            ([{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "a"}}, call]}],
             "/context/0/tool_calls/1")
            for call in MISSHAPEN_CALLS
        ),
        ([{"role": "assistant", "content": None, "tool_calls": {"a": 1}}], "/context/0/tool_calls"),
        ([{"role": "tool", "content": "x", "tool_call_id": {"a": 1}}], "/context/0/tool_call_id"),
        ([{"type": "data", "data": 1}], "/context/0/kind"),
        ([{"role": "user", "content": {"type": "data", "kind": "k"}}], "/context/0/content/data"),
        ([{"type": "tool", "name": ""}], "/context/0/name"),
        ([{"type": "tool", "name": "t", "parameters": []}], "/context/0/parameters"),
        ([{"type": "meta", "config": {"temperature": "hot"}}], "/context/0/config"),
        ([{"type": "tool", "name": "t"}], "/context"),
    ],
)  # fmt: skip
def test_a_wrong_context_is_an_error(context: Any, pointer: str) -> None:
    assert pointer_of(context=context) == pointer


@cases(
    ("config", "pointer"),
    [
        (5, "/config"),
        ({}, "/config/model"),
        ({"model": " "}, "/config/model"),
        ({"model": "m", "temprature": 1}, "/config/temprature"),
        ({"model": "m", "provider": "acme"}, "/config/provider"),
        ({"model": "m", "temperature": 3}, "/config/temperature"),
        ({"model": "m", "temperature": float("nan")}, "/config/temperature"),
        ({"model": "m", "n": 0}, "/config/n"),
        ({"model": "m", "max_repairs": -1}, "/config/max_repairs"),
        ({"model": "m", "max_output_tokens": True}, "/config/max_output_tokens"),
        ({"model": "m", "stream_fields": "message"}, "/config/stream_fields"),
        ({"model": "m", "strategy": "magic"}, "/config/strategy"),
        ({"model": "m", "open_objects": "shut"}, "/config/open_objects"),
        ({"model": "m", "extra_body": {"messages": []}}, "/config/extra_body/messages"),
        ({"model": "m", "thinking": False, "reasoning_effort": "high"}, "/config/reasoning_effort"),
        ({"model": "m", "provider": "groq", "strategy": "native", "strict": "yes"}, "/config/strict"),
    ],
)
def test_a_wrong_or_contradictory_setting_is_an_error(config: Any, pointer: str) -> None:
    assert pointer_of(config=config) == pointer


@cases(
    ("payload", "pointer"),
    [
        (5, ""),
        ({"kind": "turn"}, "/kind"),
        ({"kind": "request", "context": HELLO, "config": CONFIG}, "/schema"),
        ({"kind": "request", "schema": SCHEMA, "config": CONFIG}, "/context"),
        ({"kind": "request", "schema": SCHEMA, "context": HELLO, "config": CONFIG, "extra": 1}, "/extra"),
    ],
)
def test_a_wrong_payload_is_an_error(payload: Any, pointer: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_bare(payload)
    assert caught.value.pointer == pointer


def test_bad_input_makes_no_call() -> None:
    untouched = Queued()
    with pytest.raises(InvalidRequest):
        run_bare({"schema": {"type": "objekt"}, "context": HELLO, "config": CONFIG}, untouched)
    with pytest.raises(InvalidRequest):
        Request(RequestConfig("m"), SCHEMA, [])
    assert untouched.requests == []
