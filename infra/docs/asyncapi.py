"""The WebSocket API as an AsyncAPI 3.0 document. The application it describes is the server: it receives and sends."""

import json
from typing import Any

import yaml
from codelab.protocol import PROTOCOL_VERSION

from infra.docs.schemas import EXTENSION, frames_of

Document = dict[str, Any]

_HEADER = "# Written by `make docs` from the server's models; do not edit.\n"

#: Which frame answers which, for the one connection that asked. Any frame may be answered by `error` instead.
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
An IDE keeps one WebSocket. The user's message starts a turn, the answer streams back, tools run in the IDE.
Conversations, the delivery rules and every scenario are told in docs/protocol.md.

Frames marked as extensions are sent only to a connection that asked for them, by `extensions=1` or by a frame like
`hello` that is one itself.
Fields that are not listed are to be ignored, by both sides; in a client's frame null means that the field is absent.

A frame that is too large for a WebSocket message is uploaded, and `{type, call_id?, payload_ref}` sent in its place.
"""

_SERVERS: Document = {
    "local": {
        "host": "localhost:8000",
        "pathname": "/ws/{session_id}",
        "protocol": "ws",
        "description": "`make run`. Everyone is the user `local`, unless AUTH_MODE=jwt.",
        "variables": {"session_id": {"description": "1 to 128 of A-Z a-z 0-9 _ . : -", "examples": ["my_session"]}},
    },
    "deployed": {
        "host": "{api}.execute-api.{region}.amazonaws.com",
        "pathname": "/{stage}",
        "protocol": "wss",
        "description": "The stack's output names the address. The session is in the query.",
        "variables": {
            "api": {"description": "The WebSocket API's id."},
            "region": {"description": "The stack's region.", "examples": ["eu-central-1"]},
            "stage": {"description": "The API's stage.", "examples": ["v1"]},
        },
        "security": [
            {"$ref": "#/components/securitySchemes/bearer"},
            {"$ref": "#/components/securitySchemes/subprotocol"},
            {"$ref": "#/components/securitySchemes/query"},
        ],
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
        "description": "The last resort: a URL is written down in more places than a header.",
    },
}

_QUERY: Document = {
    "type": "object",
    "properties": {
        "session_id": {
            "type": "string",
            "pattern": "^[A-Za-z0-9_.:-]{1,128}$",
            "description": "The session, where the path does not name it. Without one the server makes one up, which "
            "`session_info` tells. It is private to its user.",
        },
        "extensions": {"type": "string", "enum": ["1"], "description": "Ask for extension frames."},
        "last_seq": {
            "type": "string",
            "pattern": "^[0-9]+$",
            "description": "Replay every later frame, as `resume` does, once the connection stands.",
        },
        "viewer": {"type": "string", "enum": ["1"], "description": "This connection never executes calls."},
        "profile": {"type": "string", "enum": ["args"], "description": "Calls carry their `arguments` as `args` too."},
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
                "description": "The whole conversation, one JSON object a WebSocket message.",
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
            "schemas": {name: _moved(schema) for name, schema in bundle["$defs"].items() if "oneOf" not in schema},
            "securitySchemes": _SECURITY,
        },
    }


def text(bundle: Document) -> str:
    """The document as YAML."""
    return _HEADER + yaml.dump(document(bundle), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes repeated parts out, and texts of several lines as such."""

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


def _moved(schema: Document) -> Document:
    """A definition of the bundle as a component; its examples are the message's."""
    kept = {key: value for key, value in schema.items() if key != "examples"}
    moved: Document = json.loads(json.dumps(kept).replace("#/$defs/", "#/components/schemas/"))
    return moved
