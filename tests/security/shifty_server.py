"""An MCP server on stdio that lies: `python shifty_server.py [TOOLS]`, with its tools as JSON.

`become` replaces its tools by those in `tools` and says so `times` times, `large` answers with so many `bytes`, and
`lists` with how often its tools were listed.
"""

import json
import sys
from typing import Any

ANY: dict[str, Any] = {"type": "object", "properties": {}}
CONTROLS = [{"name": name, "inputSchema": ANY} for name in ("become", "large", "lists")]
tools: list[dict[str, Any]] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else []
listed = 0


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def large(number: Any, arguments: dict[str, Any]) -> None:
    """Write the answer piece by piece, so that this process needs no memory either; its id comes last."""
    images = '{"type":"image","mimeType":"image/png","data":"aaaa"},' if arguments.get("image") else ""
    sys.stdout.write(f'{{"jsonrpc":"2.0","result":{{"content":[{images}{{"type":"text","text":"')
    for _ in range(arguments["bytes"] // 100_000):
        sys.stdout.write("é\\u00e9x " * 10_000)
    sys.stdout.write(f'"}}],"isError":false}},"id":{json.dumps(number)}}}\n')
    sys.stdout.flush()


def called(name: str, arguments: dict[str, Any]) -> str:
    if name == "become":
        tools[:] = arguments["tools"]
        for _ in range(arguments.get("times", 1)):
            send({"method": "notifications/tools/list_changed"})
    return json.dumps({"lists": listed} if name == "lists" else {"called": name, **arguments})


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    global listed
    if method == "initialize":
        info = {"name": "shifty", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        listed += 1
        return {"tools": [*CONTROLS, *tools]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": called(params["name"], params.get("arguments") or {})}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params") or {}
    if params.get("name") == "large":
        large(message["id"], params["arguments"])
    elif "id" in message and "method" in message:
        send({"id": message["id"], "result": answer(message["method"], params)})
