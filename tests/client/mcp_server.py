"""A small MCP server on stdio, by hand: `python mcp_server.py [MARK]`. It writes the file MARK when it starts.

`echo` returns its text, `fail` fails, `slow` takes a minute, `die` ends the server, `grow` adds the tool `late`, `ask`
returns what the user answers to its form, `draw` returns images, and `where` tells the working directory and the
environment.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
FORM = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "title": "Colour", "enum": ["red", "blue"]},
        "count": {"type": "integer", "minimum": 1},
        "sure": {"type": "boolean", "default": False},
    },
    "required": ["colour"],
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
TOOLS = [
    {"name": "echo", "description": "Say it again.", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    *({"name": name, "inputSchema": NOTHING} for name in ("fail", "slow", "die", "grow", "ask", "draw", "where")),
]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def called(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    if name == "slow":
        time.sleep(60)
    if name == "die":
        os._exit(1)
    if name == "grow":
        TOOLS.append({"name": "late", "inputSchema": NOTHING})
        send({"method": "notifications/tools/list_changed"})
    if name == "ask":
        send(
            {"id": "q1", "method": "elicitation/create", "params": {"message": "Which\u202e?", "requestedSchema": FORM}}
        )
        return json.dumps(next(json.loads(line) for line in sys.stdin if '"q1"' in line)), False
    if name == "where":
        return json.dumps(
            {"cwd": str(Path.cwd()), "variables": sorted(os.environ), "own": os.environ.get("OWN")}
        ), False
    return arguments.get("text", ""), name == "fail"


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "small", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text, failed = called(params["name"], params.get("arguments") or {})
        images = [{"type": "image", "mimeType": "image/png", "data": PIXEL}] * 5 if params["name"] == "draw" else []
        return {"content": [{"type": "text", "text": text}, *images], "isError": failed}
    return {}


def main() -> None:
    sys.stderr.write("a line of the log\n")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("started")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            send({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})


if __name__ == "__main__":
    main()
