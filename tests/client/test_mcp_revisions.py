"""Servers of both revisions of MCP, one of them by the SDK: what they ask, cancel and change is the same to a user."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from codelab_client.execution import ToolCall, ToolOutcome
from codelab_client.mcp import McpTools, ServerConfig

from tests.client.mcp_config import PROGRAM, served
from tests.sampling import sampled

SERVER = Path(__file__).with_name("mcp_sdk_server.py")


@contextlib.contextmanager
def running(kind: str, tmp_path: Path) -> Iterator[ServerConfig]:
    """A server on stdin and stdout, which the client starts, or one that serves HTTP."""
    mark = str(tmp_path / "cancelled")
    if kind == "stdio":
        yield ServerConfig("sdk", sys.executable, (str(SERVER), mark))
        return
    with served(SERVER.name, mark, "PORT") as url:
        yield ServerConfig("sdk", url=url)


class Answers:
    """The user, who answers a form."""

    def __init__(self, answer: Mapping[str, Any] | None) -> None:
        self.answer, self.asked = answer, list[tuple[str, str]]()

    async def ask(self, server: str, message: str, schema: Any) -> Mapping[str, Any] | None:
        self.asked.append((server, message))
        return self.answer


async def called(tools: McpTools, name: str, call_id: str = "c", **arguments: Any) -> ToolOutcome:
    return await tools.execute(ToolCall(call_id, name, arguments))


@pytest.mark.parametrize("kind", sampled(["stdio", "http"]))
async def test_a_server_of_the_newer_revision(kind: str, tmp_path: Path) -> None:
    user, changes = Answers({"colour": "blue"}), list[int]()
    tools = McpTools(tmp_path, tmp_path / "state", lambda: changes.append(1))
    tools.ask = user.ask
    with running(kind, tmp_path) as server:
        await tools.add(server)
        try:
            assert tools.revision("sdk") == "2026-07-28"
            assert (await called(tools, "sdk.add", a=2, b=3)).result == {"content": "5"}
            answer = (await called(tools, "sdk.ask")).result["content"]
            assert answer == "accept: {'colour': 'blue'}, after a question"
            assert user.asked == [("sdk", "Which colour?")]
            user.answer = None
            assert (await called(tools, "sdk.ask")).result["content"].startswith("decline")
            endless = await called(tools, "sdk.always")
            assert endless.error is not None
            assert "asks again and again" in endless.error.message
            assert len(user.asked) <= 15
            await called(tools, "sdk.grow")
            while "late" not in tools.servers["sdk"]:
                await asyncio.sleep(0.01)
            assert (await called(tools, "sdk.late")).result == {"content": "late"}
        finally:
            await tools.aclose()
    assert changes


@pytest.mark.parametrize("kind", sampled(["http", "stdio"]))
async def test_the_server_is_told_that_a_call_is_cancelled(kind: str, tmp_path: Path) -> None:
    tools = McpTools(tmp_path, tmp_path / "state")
    with running(kind, tmp_path) as server:
        await tools.add(server)
        try:
            call = asyncio.ensure_future(called(tools, "sdk.wait"))
            await asyncio.sleep(0.5)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            while not (tmp_path / "cancelled").exists():
                await asyncio.sleep(0.01)
            assert (await called(tools, "sdk.add", a=1, b=1)).result == {"content": "2"}
        finally:
            await tools.aclose()


async def test_a_server_of_the_older_revision_is_started_by_its_handshake(tmp_path: Path) -> None:
    tools = McpTools(tmp_path, tmp_path / "state")
    await tools.add(ServerConfig("small", sys.executable, (str(PROGRAM),)))
    try:
        assert tools.revision("small") == "2025-11-25"
        assert (await called(tools, "small.echo", text="hi")).result == {"content": "hi"}
    finally:
        await tools.aclose()
