"""The WebSocket API as an AsyncAPI 3.0 document, from the server's perspective."""

import json
from typing import Any

import yaml
from codelab.protocol import PROTOCOL_VERSION

from infra.docs.schemas import EXTENSION, frames_of

Document = dict[str, Any]

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
`hello`. Both sides ignore fields that are not listed; in a client's frame, null means absent.

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
            "schemas": {name: _moved(schema) for name, schema in bundle["$defs"].items() if "oneOf" not in schema},
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


def _moved(schema: Document) -> Document:
    """A definition of the bundle as a component, without the examples, which belong to the message."""
    kept = {key: value for key, value in schema.items() if key != "examples"}
    moved: Document = json.loads(json.dumps(kept).replace("#/$defs/", "#/components/schemas/"))
    return moved
