"""The frames' schemas match exactly what the server reads and writes."""

import json
from typing import Any

import jsonschema_rs
import pytest
from codelab.protocol.errors import ProtocolError
from codelab.protocol.incoming import SYNONYMS, parse_frame
from codelab.protocol.tools import CATALOGUE
from hypothesis import given
from hypothesis import strategies as st

from infra.docs.examples import EXAMPLES
from infra.docs.schemas import client_models, frames_of, server_models
from infra.docs.tools import schemas as tool_schemas
from tests.cases import cases
from tests.frames import DOCUMENT, check_received, check_sent, validator_of

CLIENT, SERVER = frames_of(DOCUMENT, "ClientFrame"), frames_of(DOCUMENT, "ServerFrame")
ALL = {f"{side} {name}": schema for side, of in (("client", CLIENT), ("server", SERVER)) for name, schema in of.items()}


def is_understood(frame: dict[str, Any]) -> bool:
    try:
        parse_frame(json.dumps(frame))
    except ProtocolError:
        return False
    return True


def test_the_document_is_valid_and_every_definition_is_used() -> None:
    jsonschema_rs.meta.validate(DOCUMENT)
    text = json.dumps(DOCUMENT)
    assert [name for name in DOCUMENT["$defs"] if f'"#/$defs/{name}"' not in text] == []


def test_every_frame_has_a_schema() -> None:
    assert CLIENT.keys() == client_models().keys()
    assert SERVER.keys() == server_models().keys()


def test_every_example_belongs_to_an_existing_frame() -> None:
    assert EXAMPLES["client"].keys() == CLIENT.keys()
    assert EXAMPLES["server"].keys() == SERVER.keys()


@cases("schema", ALL.values(), ids=ALL)
def test_every_frame_and_field_has_a_description_and_an_example(schema: dict[str, Any]) -> None:
    assert schema["description"]
    assert schema["examples"]
    nameless = [name for name, field in schema["properties"].items() if name != "type" and "description" not in field]
    assert nameless == []
    shown = {name for example in schema["examples"] for name in example}
    assert set(schema["required"]) <= shown


@cases("name", CLIENT)
def test_examples_of_client_frames_are_accepted(name: str) -> None:
    for example in CLIENT[name]["examples"]:
        check_sent(example)
        assert is_understood(example)


@cases("name", SERVER)
def test_examples_of_server_frames_match_their_models(name: str) -> None:
    for example in SERVER[name]["examples"]:
        check_received(example)
        model = server_models()[name]
        sent = {key: value for key, value in example.items() if value is not None or key in model.nulls}
        assert model.model_validate(example).wire() == sent


_SCALARS = (None, "", "x", 5, 0, -1, 1.5, True, False)
_OBJECTS: tuple[Any, ...] = (
    *([], ["x"], {}, {"path": "a"}, {"path": "a", "content": "b"}, {"path": None}, {"path": 5}),
    *({"code": "X"}, {"code": "X", "message": "m"}, {"message": 1}),
)


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Valid and invalid values for a field: from its schema, and at the edges of its limits."""
    named = [value for branch in schema.get("anyOf", [schema]) for value in branch.get("enum", [])]
    most = max((branch.get("maxLength", 0) for branch in schema.get("anyOf", [schema])), default=0)
    edges = ["x" * most, "x" * (most + 1)] if most else []
    return st.sampled_from([*named, *edges, *_SCALARS, *_OBJECTS])


@st.composite
def client_frames(draw: st.DrawFn) -> dict[str, Any]:
    """A frame of a known type with each field missing, valid or invalid, under one of its names."""
    name = draw(st.sampled_from(list(CLIENT)))
    frame: dict[str, Any] = {"type": name}
    hidden = {draw(st.sampled_from(names)) for names in SYNONYMS}
    for field, schema in CLIENT[name]["properties"].items():
        likely = field in CLIENT[name]["required"]
        if field != "type" and field not in hidden and draw(st.integers(0, 9)) < (9 if likely else 4):
            frame[field] = draw(values_of(schema))
    return frame


@given(client_frames())
def test_the_schema_and_the_server_accept_the_same_frames(frame: dict[str, Any]) -> None:
    validator = validator_of("ClientFrame", frame["type"], closed=False)
    assert validator is not None
    assert validator.is_valid(frame) == is_understood(frame)


@cases(
    ("frame", "wrong"),
    [
        ({"type": "nonsense"}, "no ServerFrame"),
        ({"type": "resync_required"}, "last_seq"),
        ({"type": "resync_required", "last_seq": "5"}, "last_seq"),
        ({"type": "resync_required", "last_seq": 5, "first_seq": 1}, "first_seq"),
        ({"type": "resync_required", "last_seq": None}, "last_seq"),
        ({"type": "agent_status", "status": "asleep", "message": ""}, "asleep"),
        ({"type": "resumed", "last_seq": 1, "open_calls": [{"call_id": "c"}]}, "open_calls"),
        ({"message": "Internal server error"}, "requestId"),
    ],
)
def test_an_undocumented_frame_fails_the_test_that_receives_it(frame: dict[str, Any], wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        check_received(frame)


def test_examples_of_tools_are_valid_for_their_schemas() -> None:
    schemas = tool_schemas()
    assert schemas.keys() == {name for name, tool in CATALOGUE.items() if not tool.server_side}
    for name, schema in schemas.items():
        for example in CATALOGUE[name].examples:
            jsonschema_rs.validate(schema["parameters"], example.arguments)
            if example.result is not None:
                jsonschema_rs.validate(schema["result"], example.result)
