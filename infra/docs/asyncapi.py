"""The WebSocket API as an AsyncAPI 3.0 document, from the server's perspective."""

import json
from collections.abc import Iterable
from typing import Any

import yaml
from codelab.protocol import PROTOCOL_VERSION

from infra.docs.named_schemas import with_names
from infra.docs.schemas import EXTENSION, frames_of

Document = dict[str, Any]

_NULL = {"type": "null"}
_HEADER = "# Written by `make docs` from the server's models; do not edit.\n"

#: The server's reply to each client frame. Any frame may be answered by `error` instead.
REPLIES = {
    "hello": "session_info",
    "session_config": "session_info",
    "refresh_token": "session_info",
    "context_update": "context_updated",
    "ping": "pong",
    "upload_request": "upload_ticket",
    "resume": "resumed",
    "rules": "rules",
}

_DESCRIPTION = """\
An IDE keeps one WebSocket open. A user message starts a turn, the answer streams back, and tools run in the IDE.
docs/protocol.md describes conversations, delivery and every scenario.

Extension frames are sent only to connections that asked for them, with `extensions=1` or an extension frame such as
`hello`. Both sides ignore fields that are not listed.

This document is for generators, so it leaves out what they cannot express: that null means absent in a client's
frame, and conditions between fields (a result has exactly one of `result` and `error`). docs/schemas/frames.json
has them.

If a frame is too large for a WebSocket message, upload it and send `{type, call_id?, payload_ref}` instead.
"""

_SESSION_ID: Document = {"description": "1 to 128 of A-Z a-z 0-9 _ . : -", "examples": ["my_session"]}
_TOKENS: list[Document] = [
    {"$ref": "#/components/securitySchemes/bearer"},
    {"$ref": "#/components/securitySchemes/subprotocol"},
    {"$ref": "#/components/securitySchemes/query"},
]
_SERVERS: Document = {
    "local": {
        "host": "localhost:8000",
        "pathname": "/ws/{session_id}",
        "protocol": "ws",
        "description": "`make run`. Every client is the user `local`, unless AUTH_MODE=jwt.",
        "variables": {"session_id": _SESSION_ID},
    },
    "edge": {
        "host": "{host}",
        "pathname": "/ws/{session_id}",
        "protocol": "wss",
        "description": "A stack with Edge=true. The address is an output of the stack.",
        "variables": {
            "host": {"description": "CloudFront's name, or EdgeDomain.", "examples": ["codelab.example.com"]},
            "session_id": _SESSION_ID,
        },
        "security": _TOKENS,
    },
    "deployed": {
        "host": "{api}.execute-api.{region}.amazonaws.com",
        "pathname": "/{stage}",
        "protocol": "wss",
        "description": "A stack without Edge. The address is an output of the stack. The session is in the query.",
        "variables": {
            "api": {"description": "The WebSocket API's id."},
            "region": {"description": "The stack's region.", "examples": ["eu-central-1"]},
            "stage": {"description": "The API's stage.", "examples": ["v1"]},
        },
        "security": _TOKENS,
    },
}

_SECURITY: Document = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "`Authorization: Bearer …`. The token's `sub` is the user.",
    },
    "subprotocol": {
        "type": "httpApiKey",
        "name": "Sec-WebSocket-Protocol",
        "in": "header",
        "description": "The subprotocols `codelab, token.<jwt>`, for browsers; the server echoes `codelab` alone.",
    },
    "query": {
        "type": "httpApiKey",
        "name": "token",
        "in": "query",
        "description": "The last resort, because URLs end up in logs.",
    },
}

_QUERY: Document = {
    "type": "object",
    "properties": {
        "session_id": {
            "type": "string",
            "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,128}$",
            "description": "The session, if it is not in the path. Without it, the server makes an id and sends it in "
            "`session_info`. Ids are private to each user.",
        },
        "extensions": {"type": "string", "enum": ["1"], "description": "Ask for extension frames."},
        "last_seq": {
            "type": "string",
            "pattern": "^[0-9]+$",
            "description": "Replay every later frame once connected, as `resume` does.",
        },
        "viewer": {"type": "string", "enum": ["1"], "description": "This connection never executes calls."},
        "profile": {"type": "string", "enum": ["args"], "description": "Repeat a call's `arguments` as `args`."},
        "token": {"type": "string", "description": "See the security scheme `query`."},
    },
}


def document(bundle: Document) -> Document:
    """The AsyncAPI document for the frames of a `schemas.bundle`."""
    client, server = frames_of(bundle, "ClientFrame"), frames_of(bundle, "ServerFrame")
    names = {schema["title"]: name for frames in (client, server) for name, schema in frames.items()}
    messages = {
        _message_name(schema): _message(names[schema["title"]], schema)
        for schema in [*client.values(), *server.values()]
    }
    gateway = bundle["$defs"]["GatewayErrorFrame"]
    messages[_message_name(gateway)] = _message("gateway_error", gateway)
    channel = {"$ref": "#/channels/session"}

    def operation(action: str, name: str, schema: Document) -> Document:
        found: Document = {
            "action": action,
            "channel": channel,
            "summary": _summary(schema),
            "messages": [_in_channel(_message_name(schema))],
        }
        if action == "receive" and name in REPLIES:
            answers = [server[REPLIES[name]], server["error"]]
            found["reply"] = {"channel": channel, "messages": [_in_channel(_message_name(one)) for one in answers]}
        return found

    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "CodeLab WebSocket API",
            "version": PROTOCOL_VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "servers": _SERVERS,
        "channels": {
            "session": {
                "address": "/",
                "title": "A session",
                "description": "The conversation, one JSON object per WebSocket message.",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {"ws": {"method": "GET", "query": _QUERY, "bindingVersion": "0.1.0"}},
            }
        },
        "operations": {
            **{f"receive_{name}": operation("receive", name, schema) for name, schema in client.items()},
            **{f"send_{name}": operation("send", name, schema) for name, schema in server.items()},
            "send_gateway_error": operation("send", "gateway_error", gateway),
        },
        "components": {
            "messages": messages,
            "schemas": _components(bundle, server.values()),
            "securitySchemes": _SECURITY,
        },
    }


def text(bundle: Document) -> str:
    """The document as YAML."""
    return _HEADER + yaml.dump(document(bundle), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and multi-line strings as blocks."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value.strip() else None)


_Dumper.add_representer(str, _text)


def _message_name(schema: Document) -> str:
    return str(schema["title"])


def _message(name: str, schema: Document) -> Document:
    message: Document = {
        "name": name,
        "title": schema["title"],
        "summary": _summary(schema),
        "payload": {"$ref": f"#/components/schemas/{schema['title']}"},
        "examples": [{"payload": example} for example in schema["examples"]],
    }
    if schema.get(EXTENSION):
        message["tags"] = [{"name": "extension"}]
    return message


def _summary(schema: Document) -> str:
    return " ".join(schema["description"].split())


def _in_channel(message: str) -> Document:
    return {"$ref": f"#/channels/session/messages/{message}"}


def _components(bundle: Document, server: Iterable[Document]) -> Document:
    """The schemas of frames and their parts. All have names, those that may be null in the server's frames too."""
    schemas: Document = {}
    for name, schema in bundle["$defs"].items():
        if "oneOf" not in schema:
            schemas[name] = _moved(_without_conditions(schema if schema in server else _without_nulls(schema)))
    for name, schema in list(schemas.items()):
        for field_name, field in schema.get("properties", {}).items():
            if _NULL in field.get("anyOf", []):
                nullable = name.removesuffix("Frame") + field_name.capitalize()
                schemas[nullable] = {"anyOf": field.pop("anyOf")}
                field["$ref"] = f"#/components/schemas/{nullable}"
    return with_names(schemas)


def _without_conditions(schema: Document) -> Document:
    """A schema without conditions between its fields: generators take them for types."""
    return {key: value for key, value in schema.items() if key not in ("anyOf", "if", "then")}


def _without_nulls(schema: Document) -> Document:
    """A schema of what a client sends, without null as another word for absent."""
    if "properties" not in schema:
        return schema
    return {**schema, "properties": {name: _not_null(field) for name, field in schema["properties"].items()}}


def _not_null(field: Document) -> Document:
    plain = {key: value for key, value in field.items() if (key, value) != ("default", None)}
    branches = [_without_nulls(branch) for branch in plain.pop("anyOf", []) if branch != _NULL]
    if isinstance(plain.get("type"), list):
        (plain["type"],) = [name for name in plain["type"] if name != "null"]
    return {**plain, **({"anyOf": branches} if len(branches) > 1 else branches[0] if branches else {})}


def _moved(schema: Document) -> Document:
    """A definition of the bundle as a component, without the examples, which belong to the message."""
    kept = {key: value for key, value in schema.items() if key != "examples"}
    moved: Document = json.loads(json.dumps(kept).replace("#/$defs/", "#/components/schemas/"))
    return moved
