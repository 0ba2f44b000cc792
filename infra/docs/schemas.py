"""The JSON Schemas of all frames, generated from the server's models.

Adds what the models do not express. Client frames: null means an absent optional field, and some fields have a second
name. Server frames: absent fields are omitted, never null, except for a model's `nulls`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from codelab.protocol.incoming import FRAMES, SYNONYMS, ClientFrame, Referenced
from codelab.protocol.outgoing import ServerFrame
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from infra.docs.examples import EXAMPLES, GATEWAY_ERROR, REFERENCED

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: The keyword that marks an extension frame.
EXTENSION = "x-extension"

_REFERENCE = "#/$defs/"
_TOP = ("ClientFrame", "ReferencedFrame", "ServerFrame", "GatewayErrorFrame")
_NULL = {"type": "null"}
_OPEN = "Ignore fields that are not listed here."


class _WithoutTitles(GenerateJsonSchema):
    """A field's title would repeat its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def server_models() -> dict[str, type[ServerFrame]]:
    """The models of the server's frames by type, in the order of their module."""
    frames = [model for model in _subclasses(ServerFrame) if "type" in model.model_fields]
    return {model.model_fields["type"].default: model for model in frames}


def client_models() -> Mapping[str, type[ClientFrame]]:
    """The models of the client's frames by type."""
    return FRAMES


def bundle() -> Schema:
    """One schema document: one definition per frame, and `ClientFrame` and `ServerFrame` for all of them."""
    shared: dict[str, Schema] = {}
    server = {name: _server_frame(model, shared) for name, model in server_models().items()}
    client = {name: _client_frame(model, shared) for name, model in client_models().items()}
    taken = {schema["title"] for schema in server.values()}
    for schema in client.values():
        if schema["title"] in taken:
            schema["title"] = f"Client{schema['title']}"
    for frames, examples in ((client, EXAMPLES["client"]), (server, EXAMPLES["server"])):
        for name, schema in frames.items():
            schema["examples"] = [{"type": name, **example} for example in examples.get(name, [])]
    definitions = {
        "ClientFrame": _any_of("A frame from the client.", client.values()),
        "ServerFrame": _any_of("A frame from the server.", server.values()),
    }
    definitions |= {schema["title"]: schema for schema in [*client.values(), *server.values()]}
    definitions["ReferencedFrame"] = {**_client_frame(Referenced, shared), "examples": [REFERENCED]}
    definitions["GatewayErrorFrame"] = _gateway_error()
    return {
        "$schema": DIALECT,
        "$id": "urn:codelab:frames",
        "title": "CodeLab frames",
        "description": "Every frame of the WebSocket protocol, both directions. " + _OPEN,
        "anyOf": [{"$ref": f"{_REFERENCE}{name}"} for name in _TOP],
        "$defs": definitions | dict(sorted(shared.items())),
    }


def frames_of(document: Schema, direction: str) -> dict[str, Schema]:
    """The frame schemas of a `bundle` by type; `direction` is `ClientFrame` or `ServerFrame`."""
    names = [branch["$ref"].removeprefix(_REFERENCE) for branch in document["$defs"][direction]["oneOf"]]
    schemas = [document["$defs"][name] for name in names]
    return {schema["properties"]["type"]["const"]: schema for schema in schemas}


def _subclasses(model: type[ServerFrame]) -> list[type[ServerFrame]]:
    return [found for child in model.__subclasses__() for found in (child, *_subclasses(child))]


def _any_of(description: str, schemas: Iterable[Schema]) -> Schema:
    return {"description": description, "oneOf": [{"$ref": f"{_REFERENCE}{schema['title']}"} for schema in schemas]}


def _schema_of(model: type[BaseModel], mode: Any, shared: dict[str, Schema]) -> Schema:
    schema = model.model_json_schema(mode=mode, ref_template=f"{_REFERENCE}{{model}}", schema_generator=_WithoutTitles)
    for name, definition in schema.pop("$defs", {}).items():
        if mode == "serialization":
            _leave_out_nulls(definition)
        assert shared.setdefault(name, definition) == definition, f"{name} means two things"
    schema["title"] += "Frame"
    return _in_reading_order(schema, model)


def _client_frame(model: type[ClientFrame], shared: dict[str, Schema]) -> Schema:
    schema = _schema_of(model, "validation", shared)
    properties = schema["properties"]
    for name, field in properties.items():
        if name not in schema["required"]:
            properties[name] = _nullable(field)
    for name, synonym in SYNONYMS:
        if name in properties:
            properties[synonym] = {**properties[name], "description": f"An alias of `{name}`."}
    return schema


def _server_frame(model: type[ServerFrame], shared: dict[str, Schema]) -> Schema:
    schema = _schema_of(model, "serialization", shared)
    _leave_out_nulls(schema)
    for name in model.nulls:
        schema["properties"][name] = _nullable(schema["properties"][name])
    if schema["additionalProperties"] is False:
        del schema["additionalProperties"]  # a later version may send more
    if model.extension:
        schema[EXTENSION] = True
    return schema


def _nullable(field: Schema) -> Schema:
    """The schema of an optional field that may also be null."""
    field = {key: value for key, value in field.items() if not (key == "default" and value is None)}
    core = {key: value for key, value in field.items() if key not in ("description", "default")}
    if not core or _NULL in core.get("anyOf", []):
        return field
    branches = core["anyOf"] if core.keys() == {"anyOf"} else [core]
    rest = {key: value for key, value in field.items() if key not in core}
    return {"anyOf": [*branches, _NULL], **rest}


def _leave_out_nulls(schema: Schema) -> None:
    """Forbid nulls, and require fields whose default is not None: they are always sent."""
    required = set(schema.get("required", []))
    for name, field in schema.get("properties", {}).items():
        if field.pop("default", required) is not None:
            required.add(name)
        elif "anyOf" in field:
            branches = [branch for branch in field.pop("anyOf") if branch != _NULL]
            described = dict(field)
            field.clear()
            field.update(branches[0] if len(branches) == 1 else {"anyOf": branches})
            field.update(described)
    if "properties" in schema:
        schema["required"] = [name for name in schema["properties"] if name in required]


def _in_reading_order(schema: Schema, model: type[BaseModel]) -> Schema:
    """The type first, then the frame's own fields, then inherited ones."""
    own = vars(model).get("__annotations__", {})
    properties = schema["properties"]
    schema["properties"] = {name: properties[name] for name in sorted(properties, key=lambda name: name not in own)}
    first_keys = ("title", "description", "type", "properties", "required")
    return {key: schema[key] for key in sorted(schema, key=lambda key: (*first_keys, key).index(key))}


def _gateway_error() -> Schema:
    text = {"type": "string"}
    return {
        "title": "GatewayErrorFrame",
        "description": "Sent by API Gateway, without a `type`, when it throttles frames, or when a function failed or "
        "took longer than 29 seconds. The connection stays open. Wait for a random time that grows with each refusal "
        "(half a second to a minute), then send `resume` alone; after `resumed`, send the frame again. It may have "
        "been accepted: a `user_message` is recognised as a repeat only by its `client_msg_id`.",
        "type": "object",
        "properties": {
            "message": {
                **text,
                "description": "`Too Many Requests` (the throttle of the stage or of a route), "
                "`Internal server error`, `Endpoint request timed out`, or `Forbidden` (no route takes the frame).",
            },
            "connectionId": {**text, "description": "API Gateway's id of the connection."},
            "requestId": {**text, "description": "API Gateway's id of the request, as in its log."},
        },
        "required": ["message", "connectionId", "requestId"],
        "examples": [GATEWAY_ERROR, {**GATEWAY_ERROR, "message": "Too Many Requests"}],
    }
