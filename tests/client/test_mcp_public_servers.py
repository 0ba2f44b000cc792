"""Six public MCP servers that we did not write, all at once, with more tools than a session takes."""

import contextlib
import re
import sys
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from codelab_client import find_tool
from codelab_client.execution import ToolCall
from codelab_client.mcp import McpTools, ServerConfig
from codelab_client.own_tools import WithOwnTools
from codelab_client.session import events as on

from tests.client.conftest import Open
from tests.client.executing import CountingExecutor
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.node import node_with
from tests.processes import run

FOLDER = Path(__file__).parent / "mcp_servers"
UV = Path(__file__).parents[2] / ".uv/bin/uv"
PAGE = "<html><body><h1>A page</h1><p>It says hello.</p></body></html>"
#: A server of ours with as many tools as the others together, and more.
MANY = """
import json, sys
tools = [{"name": f"tool_{n}", "description": f"Do number {n}.", "inputSchema": {"type": "object"}} for n in range(80)]
for line in sys.stdin:
    message = json.loads(line)
    results = {
        "initialize": lambda: {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "many", "version": "1"},
        },
        "tools/list": lambda: {"tools": tools},
        "tools/call": lambda: {"content": [{"type": "text", "text": message["params"]["name"]}]},
    }
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        known = results.get(message["method"])
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps(answer | ({"result": known()} if known else {"error": error})), flush=True)
"""


class Page(BaseHTTPRequestHandler):
    """A small page."""

    def do_GET(self) -> None:
        found = self.path == "/page"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode() if found else b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/page"
    server.shutdown()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the servers that Python runs, in an environment of their own."""
    environment = tmp_path_factory.mktemp("mcp") / "venv"
    python = environment / "bin" / "python"
    for arguments in (
        ("venv", "--python", sys.executable, str(environment)),
        ("pip", "install", "--no-deps", "--python", str(python), "-r", str(FOLDER / "requirements.txt")),
    ):
        done = run(str(UV), *arguments)
        if done.returncode:
            pytest.skip(f"the servers cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return environment / "bin"


@pytest.fixture
def configs(programs: Path, tmp_path: Path) -> list[ServerConfig]:
    node, packages = node_with(FOLDER), FOLDER / "node_modules/@modelcontextprotocol"
    repository = tmp_path / "repository"
    run("git", "init", "-q", "-b", "main", str(repository))
    (repository / "notes.txt").write_text("hello from a file\n")
    many = tmp_path / "many.py"
    many.write_text(MANY)
    by_node = {
        "everything": ("server-everything", ()),
        "filesystem": ("server-filesystem", (str(repository),)),
        "memory": ("server-memory", ()),
    }
    return [
        ServerConfig("many", sys.executable, (str(many),)),
        *(
            ServerConfig(
                name,
                node,
                (str(packages / package / "dist/index.js"), *arguments),
                {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")},
            )
            for name, (package, arguments) in by_node.items()
        ),
        ServerConfig("git", str(programs / "mcp-server-git"), ("--repository", str(repository))),
        ServerConfig("fetch", str(programs / "mcp-server-fetch"), ("--ignore-robots-txt", "--allow-private-ips")),
        ServerConfig("time", str(programs / "mcp-server-time"), ("--local-timezone", "UTC")),
    ]


@contextlib.asynccontextmanager
async def started(configs: list[ServerConfig], tmp_path: Path) -> AsyncIterator[McpTools]:
    tools = McpTools(tmp_path, tmp_path / "state")
    try:
        for config in configs:
            await tools.add(config)
            tools.trust_tools(tools.offer(config.name))
        yield tools
    finally:
        await tools.aclose()


async def content(tools: McpTools, name: str, **arguments: Any) -> str:
    outcome = await tools.execute(ToolCall("c", name, arguments))
    assert outcome.error is None, outcome.error
    return str(outcome.result)


@pytest.mark.deep
async def test_each_of_them_works(configs: list[ServerConfig], address: str, tmp_path: Path) -> None:
    async with started(configs, tmp_path) as tools:
        counts = {name: len(names) for name, names in tools.servers.items()}
        sys.stdout.write(f"\n{sum(counts.values())} tools: {counts}\n")
        assert sum(counts.values()) >= 120
        assert "Echo: hi" in await content(tools, "everything.echo", message="hi")
        image = await tools.execute(ToolCall("c", "everything.get-tiny-image"))
        assert [it["media_type"] for it in image.result["images"]] == ["image/png"]
        path = str(tmp_path / "repository" / "notes.txt")
        assert "hello from a file" in await content(tools, "filesystem.read_text_file", path=path)
        entity = {"name": "CodeLab", "entityType": "project", "observations": ["is tested"]}
        await content(tools, "memory.create_entities", entities=[entity])
        assert "is tested" in await content(tools, "memory.read_graph")
        assert "notes.txt" in await content(tools, "git.git_status", repo_path=str(tmp_path / "repository"))
        assert "It says hello" in await content(tools, "fetch.fetch", url=address)
        assert "UTC" in await content(tools, "time.get_current_time", timezone="UTC")
        outside = await tools.execute(ToolCall("c", "filesystem.read_text_file", {"path": "/etc/passwd"}))
        assert outside.error is not None


@pytest.mark.deep
async def test_the_agent_finds_and_calls_a_tool_of_each_in_one_turn(
    configs: list[ServerConfig], address: str, new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    repository = str(tmp_path / "repository")
    calls = [
        call("everything.get-sum", a=2, b=3),
        call("filesystem.list_directory", path=repository),
        call("memory.read_graph"),
        call("git.git_status", repo_path=repository),
        call("fetch.fetch", url=address),
        call("time.convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"),
    ]
    needs = [
        "add two numbers",
        "list_directory",
        "read the whole knowledge graph",
        "git status of the working tree",
        "fetch a page from the internet",
        "convert a time between timezones",
    ]
    pairs = ([call("find_tool", need=need), it] for need, it in zip(needs, calls, strict=True))
    script = model.script("mcp-public", *(Says("", [it]) for pair in pairs for it in pair), Says("Done"))
    async with started(configs, tmp_path) as tools:
        executor = WithOwnTools(CountingExecutor(), [tools])
        async with new_session(executor) as session:
            assert session.tools_left_out == {}
            async for event in session.prompt(script):
                if isinstance(event, on.ToolCall) and event.requires_approval:
                    await session.approve(event.call_id)
            assert session.tools_left_out == {}
            assert executor.offered_tools[0].name == find_tool.NAME
            assert len(executor.declared_tools) > 120 > len(executor.offered_tools)
    request = str(model.requests["mcp-public"][-1])
    for expected in ("The sum of 2 and 3 is 5", "notes.txt", "entities", "It says hello", "21:00"):
        assert expected in request
    assert not re.search(r"TOOL_NOT_FOUND|EXECUTION_FAILED", request)


@pytest.mark.deep
async def test_every_tool_of_theirs_is_taken_as_it_is(
    configs: list[ServerConfig], new_session: Open, tmp_path: Path
) -> None:
    """None of their schemas is refused: a session declares all of them, as many as it takes at a time."""
    async with started(configs[1:], tmp_path) as tools:
        declared = list(tools.declared_tools)
        for first in range(0, len(declared), 8):
            part = declared[first : first + 8]

            class Part:
                declared_tools = part
                execute = tools.execute

                async def aclose(self) -> None: ...

            async with new_session(WithOwnTools(CountingExecutor(), [Part()])) as session:
                assert await session.declare() == {}
