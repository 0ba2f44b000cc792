"""The pipeline: all forms of a message, all built-in types, and custom types."""

from __future__ import annotations

from typing import Any

import pytest
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.llm.content import BUILT_IN
from codelab.llm.errors import InvalidRequest
from codelab.llm.pipeline import Message, PreparedRequest, Registry

from tests.cases import cases
from tests.llm.encoder import encode
from tests.llm.schemas import INTEGER, STRING, array, closed, obj, optional

SCHEMA = obj(message=STRING)
CONFIG = RequestConfig("m")
HELLO = {"role": "user", "content": "Hello"}


def prepared(*context: Any, schema: Any = SCHEMA, registry: Registry = BUILT_IN) -> Request:
    return Request(CONFIG, schema, list(context), registry=registry)


def text_of(*context: Any) -> str:
    return str(prepared(*context).messages[-1]["content"])


@cases(
    "message",
    [
        {"role": "user", "content": {"type": "data", "kind": "k", "data": [1]}},
        {"role": "user", "content": {"kind": "k", "data": [1]}},
        {"role": "user", "type": "data", "kind": "k", "data": [1]},
        {"type": "data", "kind": "k", "data": [1]},
        {"kind": "k", "data": [1]},
        {"role": "user", "content": [{"type": "data", "kind": "k", "data": [1]}]},
    ],
)
def test_all_forms_of_a_typed_message_are_equal(message: Any) -> None:
    assert prepared(message).messages == [{"role": "user", "content": "# Data: k\n[1]"}]


def test_plain_messages_do_not_change() -> None:
    context = [
        {"role": "developer", "content": "Be kind."},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "read"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "done"},
    ]
    assert prepared(*context).messages == context


def test_typed_parts_become_separate_messages() -> None:
    parts = ["See:", {"type": "text", "text": "this"}, {"type": "file", "path": "a.py", "content": "x = 1"}, "?"]
    first, second, third = prepared({"role": "user", "content": parts}).messages
    assert first["content"] == [{"type": "text", "text": "See:"}, {"type": "text", "text": "this"}]
    assert second["content"].startswith("# File: a.py\n```")
    assert third["content"] == [{"type": "text", "text": "?"}]


def test_a_text_message_becomes_its_text() -> None:
    assert text_of({"role": "user", "type": "text", "text": "Hi"}) == "Hi"


def test_data_of_a_kind_is_merged_at_the_first_place() -> None:
    messages = prepared(
        {"type": "data", "kind": "user", "data": {"name": "Ann", "tags": ["a"]}, "description": "Who asks."},
        HELLO,
        {"type": "data", "kind": "user", "data": {"age": 5, "tags": ["b"]}, "schema": {"type": "object"}},
        {"type": "data", "kind": "other", "data": 1},
    ).messages
    assert [message["content"] for message in messages] == [
        '# Data: user\nWho asks.\nSchema: {"type": "object"}\n{"name": "Ann", "tags": ["a", "b"], "age": 5}',
        "Hello",
        "# Data: other\n1",
    ]


def test_input_and_error_become_sections() -> None:
    assert text_of({"type": "input", "input": {"q": "é"}}) == '# Input\n{"q": "é"}'
    assert text_of({"type": "error", "error": "It broke."}) == "# Error\nIt broke."
    assert text_of({"type": "error", "error": {"code": "E1"}}) == '# Error\n{"code": "E1"}'


@pytest.mark.parametrize(("type_", "title"), [("state", "Current state"), ("plan", "Plan")])
def test_only_the_latest_state_or_plan_is_kept(type_: str, title: str) -> None:
    messages = prepared({"type": type_, type_: ["old"]}, HELLO, {"type": type_, type_: ["new"]}).messages
    assert messages == [HELLO, {"role": "system", "content": f'# {title}\n["new"]'}]


def test_meta_adds_facts_and_changes_settings() -> None:
    request = prepared({"type": "meta", "meta": {"locale": "de"}, "config": {"temperature": 0, "model": "big"}}, HELLO)
    assert (request.config.temperature, request.config.model) == (0, "big")
    assert request.messages[0]["content"] == '# About this request\n{"locale": "de"}'
    assert prepared({"type": "meta", "config": {"seed": 1}}, HELLO).messages == [HELLO]


def test_a_file_becomes_a_fenced_section() -> None:
    body = "a ``` b"
    text = text_of({"type": "file", "path": "r.md", "content": body, "language": "md"})
    assert text == f"# File: r.md\n````md\n{body}\n````"
    part = {"type": "file", "file": {"file_id": "f"}}
    assert prepared({"role": "user", "content": part}).messages[0]["content"] == [part]


def test_an_image_becomes_an_image_part() -> None:
    image = {"type": "image", "url": "https://a/b.png", "text": "What is it?", "detail": "low"}
    assert prepared(image).messages[0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
    ]
    [part] = prepared({"type": "image", "data": "AAAA", "media_type": "image/jpeg"}).messages[0]["content"]
    assert part["image_url"]["url"] == "data:image/jpeg;base64,AAAA"


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": "tool", "name": name, "description": f"To {name}.", "parameters": parameters}


def test_a_tool_becomes_a_branch_of_calls_with_its_name_first() -> None:
    read = tool("read", **obj(path=STRING))
    request = prepared(HELLO, read, tool("stop"))
    assert request.messages == [HELLO]
    assert list(request.schema["properties"]) == ["message", "calls"]
    assert request.schema["required"] == ["message", "calls"]
    first, second = request.schema["properties"]["calls"]["items"]["anyOf"]
    assert first == closed(obj(_tool=STRING | {"const": "read"}, path=STRING)) | {"description": "To read."}
    assert list(second["properties"]) == ["_tool"]


def test_the_last_definition_of_a_tool_wins() -> None:
    old, new = tool("a", properties={"x": STRING}), tool("a", properties={"y": STRING})
    branches = prepared(HELLO, old, tool("b"), new).schema["properties"]["calls"]["items"]["anyOf"]
    assert [list(branch["properties"]) for branch in branches] == [["_tool", "y"], ["_tool"]]


def test_a_tool_keeps_its_references_and_combinations() -> None:
    reference = {"$ref": "#/$defs/tree"}
    tree = tool("grow", **obj(tree=reference), **{"$defs": {"tree": optional(kids=array(reference))}})
    either = tool("either", anyOf=[closed(obj(a=INTEGER)), closed(obj(b=INTEGER))])
    request = prepared(HELLO, tree, either)
    validator = request._compiled._validator
    for call, good in (
        ({"_tool": "grow", "tree": {"kids": [{"kids": []}]}}, True),
        ({"_tool": "grow", "tree": {"kids": [5]}}, False),
        ({"_tool": "either", "b": 1}, True),
        ({"_tool": "either"}, False),
        ({"_tool": "either", "a": 1, "c": 2}, False),
    ):
        assert validator.is_valid({"message": "", "calls": [call]}) is good, call
    codec = request._compiled.codec()
    answer = {"message": "", "calls": [{"_tool": "grow", "tree": {"kids": [{}]}}, {"_tool": "either", "b": 1}]}
    assert codec.decode(encode(codec, answer)) == answer


def test_a_custom_type_can_change_settings_schema_and_messages() -> None:
    registry = BUILT_IN.copy()

    @registry.register("poll", role="system")
    def poll(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
        content = messages[-1]["content"]
        messages[-1] = {"role": "system", "content": f"Vote: {content['question']}"}
        schema = {**schema, "properties": {**schema["properties"], "vote": {"enum": content["options"]}}}
        return config.changed(temperature=0), schema, messages

    request = prepared(HELLO, {"type": "poll", "question": "Tea?", "options": ["yes", "no"]}, registry=registry)
    assert request.config.temperature == 0
    assert request.schema["properties"]["vote"] == {"enum": ["yes", "no"]}
    assert request.messages == [HELLO, {"role": "system", "content": "Vote: Tea?"}]
    with pytest.raises(InvalidRequest, match="unknown content type 'poll'"):
        prepared({"type": "poll"})


def test_the_beginning_of_a_context_stays_the_same() -> None:
    context = [HELLO, {"type": "data", "kind": "a", "data": 1}, tool("t"), {"type": "input", "input": 2}]
    shorter = prepared(*context).messages
    assert prepared(*context, HELLO).messages[: len(shorter)] == shorter
    assert prepared(*context).schema == prepared(*context).schema
