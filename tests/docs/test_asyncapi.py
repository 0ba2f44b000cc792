"""The AsyncAPI document is valid for the official schema, and complete."""

import json
import operator
import re
from functools import cache, reduce
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from infra.docs.asyncapi import document
from infra.docs.named_schemas import anonymous, with_names
from infra.docs.schemas import EXTENSION, client_models, server_models
from tests.cases import cases
from tests.frames import DOCUMENT

# AsyncAPI's own JSON Schema, from the npm package @asyncapi/specs 6.11.1 (Apache-2.0, its licence lies beside it).
OFFICIAL = Path(__file__).with_name("asyncapi") / "3.0.0.json"
DOCS = Path(__file__).parents[2] / "docs"
PUBLISHED = DOCS / "asyncapi.yaml"

WRITTEN = document(DOCUMENT)


@cache
def official() -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator(json.loads(OFFICIAL.read_text()))


def resolve(reference: str) -> Any:
    parts = reference.removeprefix("#/").split("/")
    return reduce(operator.getitem, (part.replace("~1", "/").replace("~0", "~") for part in parts), WRITTEN)


def test_the_document_is_valid_for_the_official_schema() -> None:
    published = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    assert [error.message for error in official().iter_errors(published)] == []
    assert published == json.loads(json.dumps(WRITTEN))


@cases(
    ("path", "value"),
    [
        ("info/title", None),
        ("operations/send_pong/action", "shout"),
        ("channels/session/bindings/ws/method", "PATCH"),
        ("components/securitySchemes/query/in", "pocket"),
        ("components/schemas/PongFrame/type", "thing"),
    ],
)
def test_the_official_schema_rejects_errors(path: str, value: str | None) -> None:
    broken = json.loads(json.dumps(WRITTEN))
    *parents, last = path.split("/")
    reduce(operator.getitem, parents, broken)[last] = value
    assert not official().is_valid(broken)


def test_every_reference_resolves() -> None:
    for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(WRITTEN))):
        assert resolve(reference), reference


def test_every_address_of_the_protocol_has_a_server_whose_variables_are_described() -> None:
    section = (DOCS / "protocol.md").read_text(encoding="utf-8").partition("## Connecting")[2].partition("\n## ")[0]
    servers = WRITTEN["servers"].values()
    found = {f"{server['protocol']}://{server['host']}{server['pathname']}" for server in servers}
    assert found == set(re.findall(r"^\| .* \| `(wss?://[^?`]+)", section, re.MULTILINE))
    for server in servers:
        assert set(re.findall(r"{(\w+)}", server["host"] + server["pathname"])) == set(server["variables"])


def test_every_frame_has_an_operation() -> None:
    found = {(operation["action"], name) for name, operation in WRITTEN["operations"].items()}
    assert found == {
        *(("receive", f"receive_{name}") for name in client_models()),
        *(("send", f"send_{name}") for name in server_models()),
        ("send", "send_gateway_error"),
    }


def test_requests_have_their_reply_and_the_error_frame() -> None:
    reply = WRITTEN["operations"]["receive_ping"]["reply"]
    names = [resolve(resolve(message["$ref"])["$ref"])["name"] for message in reply["messages"]]
    assert names == ["pong", "error"]


def test_every_message_has_a_valid_example() -> None:
    definitions = {"components": WRITTEN["components"]}
    for message in WRITTEN["components"]["messages"].values():
        validator = jsonschema_rs.Draft7Validator({**message["payload"], **definitions})
        assert message["examples"]
        for example in message["examples"]:
            assert validator.is_valid(example["payload"]), message["name"]


def test_every_schema_has_a_name() -> None:
    components = WRITTEN["components"]["schemas"]
    assert anonymous(components) == []
    assert {name: schema["title"] for name, schema in components.items()} == {name: name for name in components}
    assert [
        name for name, schema in components.items() if {"properties", "anyOf"} <= schema.keys() or "if" in schema
    ] == []


def test_a_schema_without_a_name_is_found_and_named_once() -> None:
    mode = {"enum": ["a", "b"], "description": "Which."}
    pair = {
        "type": "object",
        "properties": {"mode": mode, "modes": {"items": mode}, "none": {"anyOf": [mode, {"type": "null"}]}},
    }
    components: dict[str, Any] = {
        "First": pair,
        "Second": {"properties": {"kind": {"anyOf": [{"type": "string"}, {"properties": {}}]}}},
    }
    assert len(anonymous(components)) == 5
    named = with_names(components)
    assert anonymous(named) == []
    assert named.keys() - components.keys() == {"FirstMode", "SecondKind", "SecondKindObject"}
    assert named["First"]["properties"]["mode"] == {"$ref": "#/components/schemas/FirstMode", "description": "Which."}


def test_extensions_are_tagged() -> None:
    for name, message in WRITTEN["components"]["messages"].items():
        is_extension = WRITTEN["components"]["schemas"][name].get(EXTENSION, False)
        assert [tag["name"] for tag in message.get("tags", [])] == ["extension"] * is_extension
