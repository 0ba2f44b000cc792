"""An MCP server by the SDK, which knows the newer revision: `python mcp_sdk_server.py MARK [PORT]`.

`add` adds, `ask` asks for a colour, `always` asks for ever, `grow` adds the tool `late`, and `wait` takes a minute and
writes the file MARK if it is cancelled. Without a port it serves stdio.
"""

import asyncio
import sys
from pathlib import Path

from mcp import types
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("sdk", instructions="Ask for a colour first.")
FORM = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}


@server.tool()
async def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def ask(context: Context) -> str | types.InputRequiredResult:
    if not (answers := context.input_responses):
        return question("Which colour?")
    answer = answers["colour"]
    assert isinstance(answer, types.ElicitResult)
    return f"{answer.action}: {answer.content}, after {context.request_state}"


@server.tool()
async def always(context: Context) -> types.InputRequiredResult:
    return question("Again?")


def question(text: str) -> types.InputRequiredResult:
    params = types.ElicitRequestFormParams(message=text, requested_schema=FORM)
    return types.InputRequiredResult(
        input_requests={"colour": types.ElicitRequest(params=params)}, request_state="a question"
    )


@server.tool()
async def grow(context: Context) -> str:
    def late() -> str:
        return "late"

    server.add_tool(late)
    await context.notify_tools_changed()
    return "grown"


@server.tool()
async def wait() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        Path(sys.argv[1]).write_text("cancelled")
        raise
    return "waited"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
