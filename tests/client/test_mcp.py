"""MCP servers of a workspace: nothing starts unasked, and one that dies costs only its own tools."""

import asyncio
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from codelab_client.execution import ToolCall, ToolOutcome
from codelab_client.mcp import (
    Decision,
    McpConfigError,
    McpError,
    McpTools,
    Offer,
    ServerConfig,
    Subject,
    start_trusted,
    starting,
    workspace_servers,
)
from codelab_client.own_tools import WithOwnTools
from codelab_client.session import events as on

from tests.client.conftest import Open
from tests.client.executing import CountingExecutor
from tests.client.mcp_config import PROGRAM, PYTHON, sandboxed, write_config, write_settings
from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.client.test_terminal import decide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import run, until

__all__ = ["sandboxed"]

SMALL = ServerConfig("small", sys.executable, (str(PROGRAM),), {"OWN": "${MCP_TEST_VALUE:-default}"})


async def called(tools: McpTools, name: str, **arguments: Any) -> ToolOutcome:
    return await tools.execute(ToolCall("c", name, arguments))


async def test_tools_are_called_and_a_server_that_dies_costs_only_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    changes: list[int] = []
    tools = McpTools(tmp_path, tmp_path / "state", lambda: changes.append(1))
    await tools.add(SMALL)
    try:
        assert not any(tool.read_only for tool in tools.declared_tools)
        tools.trust_tools(tools.offer("small"))
        declared = {tool.name: tool for tool in tools.declared_tools}
        assert declared["small.echo"].read_only
        assert not declared["small.fail"].read_only
        assert (await called(tools, "small.echo", text="hi")).result == {"content": "hi"}
        assert (await called(tools, "small.fail")).error is not None
        where = json.loads((await called(tools, "small.where")).result["content"])
        assert (Path(where["cwd"]), where["own"]) == (tmp_path, "default")
        assert "AWS_SECRET_ACCESS_KEY" not in where["variables"]
        await called(tools, "small.grow")
        while "small.late" not in {tool.name for tool in tools.declared_tools}:
            await asyncio.sleep(0.01)
        assert len(changes) >= 2
        late = await tools.execute(ToolCall("c", "small.slow", deadline=1))
        assert late.error is not None
        assert late.error.code == "TIMEOUT"
        assert (await called(tools, "small.nothing")).error is not None
    finally:
        await tools.aclose()
    again = McpTools(tmp_path, tmp_path / "state")
    await again.add(SMALL)
    said: list[str] = []
    again.say = said.append
    assert (await called(again, "small.die")).error is not None
    while not said:
        await asyncio.sleep(0.01)
    assert said == ["The MCP server small had ended; it was started again"]
    assert (await called(again, "small.echo", text="again")).result == {"content": "again"}
    assert (await called(again, "small.die")).error is not None
    while again.servers:
        await asyncio.sleep(0.01)
    assert list(again.declared_tools) == []
    assert said[1:] == ["The MCP server small has ended again: /mcp start small starts it"]
    await again.add(SMALL)
    assert (await called(again, "small.echo", text="alive")).result == {"content": "alive"}
    await again.aclose()
    assert (tmp_path / "state" / "mcp-small.log").read_text() == "a line of the log\n"


@pytest.mark.parametrize("server", [ServerConfig("x", "no-such-program"), ServerConfig("x", "false")])
async def test_a_server_that_does_not_start_is_an_error(tmp_path: Path, server: ServerConfig) -> None:
    with pytest.raises(McpError, match="x does not start"):
        await McpTools(tmp_path, tmp_path).add(server)


async def test_a_program_of_the_workspace_is_not_taken_for_one_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "npx"
    program.write_text("#!/bin/sh\ntouch started\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f".:{tmp_path}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(McpError, match="there is no program npx"):
        await McpTools(tmp_path, tmp_path).add(ServerConfig("x", "npx"))
    assert not (tmp_path / "started").exists()


async def test_an_address_without_encryption_is_refused(tmp_path: Path) -> None:
    with pytest.raises(McpError, match="not encrypted"):
        await McpTools(tmp_path, tmp_path).add(ServerConfig("x", url="http://192.0.2.1/mcp", headers={"Key": "k"}))


def test_a_description_does_not_end_where_a_value_wants() -> None:
    """A newline or spaces in a value could make it look like another program, or like words of the client."""
    program = ServerConfig("x", "npx\nIt is harmless.", ("-y", "a b"), env={"A": "1 npx server", "B c\n": "/opt"})
    assert program.described() == "$ A='1 npx server' 'B c\\n'=/opt 'npx\\nIt is harmless.' -y 'a b'"
    address = ServerConfig("x", url="https://e.example/mcp?k=1\n ", headers={"Authorization": "Bearer ${TOKEN}"})
    assert address.described() == "'https://e.example/mcp?k=1\\n '\n  Authorization: 'Bearer ${TOKEN}'"
    assert ServerConfig("x", url="https://e.example/mcp?k=1").described() == "https://e.example/mcp?k=1"


def test_nothing_starts_unasked_and_another_description_is_asked_about_again(tmp_path: Path, sandboxed: None) -> None:
    shutil.copy(PROGRAM, tmp_path)
    mark = tmp_path / "started"
    config = {"command": PYTHON, "args": ["mcp_server.py", str(mark)], "writable": True}
    write_config(tmp_path, small=config)
    asked: list[str] = []
    said: list[str] = []
    answer: Decision | None = None

    class Asking:
        async def ask_to_start(self, subject: Subject, question: str) -> Decision | None:
            asked.append(question)
            return answer

        async def ask_to_trust(self, offer: Offer) -> bool:
            asked.append(offer.description)
            return True

    async def start(*, asks: bool) -> None:
        tools = McpTools(tmp_path, tmp_path / "state")
        await start_trusted(tools, tmp_path, Asking() if asks else None, said.append)
        await tools.aclose()

    run(start(asks=False))
    assert not mark.exists()
    assert "nobody has trusted it" in said[0]
    run(start(asks=True))
    answer = "denied"
    run(start(asks=True))
    run(start(asks=True))
    assert not mark.exists()
    assert len(asked) == 2
    assert f"$ {PYTHON} mcp_server.py {mark}" in asked[0]
    assert "  mcp_server.py\n" in asked[0]
    write_config(tmp_path, small={**config, "env": {"A": "1"}})
    answer = "trusted"
    run(start(asks=True))
    assert mark.exists()
    mark.unlink()
    run(start(asks=False))
    assert mark.exists()
    assert len(asked) == 4
    assert asked[-1].startswith("small.echo runs without asking, because it only reads\n    Say it again.\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "must look like"),
        ('{"mcpServers": []}', "must look like"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / ".mcp.json").write_text(text)
    with pytest.raises(McpConfigError, match=said):
        workspace_servers(tmp_path)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ('"a b": {"command": "x"}', "a server's name"),
        ('"a": {}', "needs a command"),
        ('"a": []', "must be an object"),
        ('"a": {"type": "sse", "url": "x"}', "only stdio and streamable HTTP"),
        ('"a": {"command": "x", "args": "y"}', "args must be a list"),
        ('"a": {"command": "x", "env": {"A": 1}}', "env must be an object of texts"),
        ('"a": {"command": "x", "network": "yes"}', "network must be true or false"),
        ('"GOOD": {"command": "x"}', "in capitals only"),
    ],
)
def test_a_broken_entry_is_named_and_left_out(tmp_path: Path, entries: str, said: str) -> None:
    text = f'{{"mcpServers": {{"good": {{"command": "y"}}, {entries}, "better": {{"command": "z"}}}}}}'
    (tmp_path / ".mcp.json").write_text(text)
    problems: list[str] = []
    servers = workspace_servers(tmp_path, problems.append)
    assert [server.command for server in servers] == ["y", "z"]
    assert len(problems) == 1
    assert said in problems[0]
    assert problems[0].endswith("; this server is left out")


def test_links_and_fifos_are_no_configuration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".mcp.json")
    assert workspace_servers(tmp_path) == []


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(McpConfigError, match="NEVER_SET"):
        ServerConfig("x", "y", ("${NEVER_SET}",)).expanded({})
    assert ServerConfig("x", url="https://${HOST}/").expanded({"HOST": "box"}).url == "https://box/"


def test_the_files_of_editors_name_servers_too(tmp_path: Path) -> None:
    write_config(tmp_path, mine={"command": "one"})
    for folder, text in {
        ".cursor": '{"mcpServers": {"Mine": {"command": "no"}, "second": {"command": "two", "args": ["${env:HOST}"]}}}',
        ".vscode": """{ // servers of the team
          "inputs": [{"id": "key", "type": "promptString"}], /* "servers": {} */
          "servers": {"third": {"command": "three", "args": ["a//b", "/* c */", ",}"],},
                      "asks": {"command": "four", "env": {"KEY": "${input:key}"}},},
        }""",
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mcp.json").write_text(text)
    servers = {server.name: server for server in workspace_servers(tmp_path)}
    assert {name: server.command for name, server in servers.items()} == {
        "mine": "one",
        "second": "two",
        "third": "three",
        "asks": "four",
    }
    assert servers["third"].args == ("a//b", "/* c */", ",}")
    assert all(server.sandboxed for server in servers.values())
    assert servers["second"].expanded({"HOST": "box"}).args == ("box",)
    with pytest.raises(McpConfigError, match=r"asks needs \$\{input:key\}, for which only the editor asks"):
        servers["asks"].expanded({})


def test_a_broken_file_of_an_editor_is_named_and_costs_no_other(tmp_path: Path) -> None:
    write_config(tmp_path, mine={"command": "one"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mcp.json").write_text('{"mcpServers": {"linked": {"command": "x"}}}')
    (tmp_path / ".cursor").symlink_to("elsewhere")
    (tmp_path / ".vscode").mkdir()
    for text, problem in (("{", "not JSON"), ("[]", ""), ('{"inputs": []}', ""), ('{"servers": 7}', "must look like")):
        (tmp_path / ".vscode" / "mcp.json").write_text(text)
        said: list[str] = []
        assert [server.name for server in workspace_servers(tmp_path, said.append)] == ["mine"]
        assert len(said) == bool(problem)
        assert problem in "".join(said)


def test_editors_variables_have_their_values(tmp_path: Path) -> None:
    server = ServerConfig("x", "${workspaceFolder}/run", ("${workspaceFolderBasename}", "${userHome}", "${HOME}"))
    expanded = server.expanded({"HOME": "/home", "workspaceFolder": "/evil"}, tmp_path)
    assert expanded.command == f"{tmp_path}/run"
    assert expanded.args == (tmp_path.name, str(Path.home()), "/home")


@pytest.mark.parametrize("text", ['"' * 100_000, "/*" * 100_000, "//" * 100_000, ',"' * 100_000, "," + " " * 100_000])
def test_a_strange_file_of_an_editor_takes_no_long_time(tmp_path: Path, text: str) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "mcp.json").write_text(text[:190_000])
    assert workspace_servers(tmp_path) == []


async def test_the_agent_calls_a_tool_and_the_user_approves_what_is_not_read_only(
    new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    script = model.script(
        "mcp-call", Says("", [call("small.echo", text="hi")]), Says("", [call("small.fail")]), Says("Done")
    )
    asked: list[str] = []
    tools = McpTools(tmp_path, tmp_path / "state")
    await tools.add(SMALL)
    tools.trust_tools(tools.offer("small"))
    async with new_session(WithOwnTools(CountingExecutor(), [tools])) as session:
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                asked.append(event.tool_name)
                await session.approve(event.call_id)
    assert tools.servers == {}
    assert asked == ["small.fail"]
    assert "hi" in model.requests["mcp-call"][1]["messages"][-1]["content"]


async def test_the_agent_gets_those_tools_that_the_user_chooses(tmp_path: Path) -> None:
    def names(tools: McpTools) -> set[str]:
        return {tool.name for tool in tools.declared_tools}

    tools = McpTools(tmp_path, tmp_path / "state")
    with pytest.raises(McpError, match="does not run"):
        tools.choice("small", ["echo"])
    await tools.add(SMALL)
    everything = names(tools)
    try:
        assert "Of small the agent gets echo, fail" in tools.choice("small")
        with pytest.raises(McpError, match=r"No tool of small matches\. It has: echo, fail"):
            tools.choice("small", ["small.echo"])
        assert names(tools) == everything
        said = tools.choice("small", ["ech*", "where", "nothing"])
        assert said.startswith("Of small the agent gets echo, where, and not fail, ")
        assert names(tools) == {"small.echo", "small.where"}
        assert set(tools.offer("small").names) == names(tools)  # the user is asked about no others
        assert tools.servers == {"small": ["echo", "where"]}
        assert (await called(tools, "small.fail")).error is not None
        await called(tools, "small.where")
        await tools.add(SMALL)
        assert names(tools) == {"small.echo", "small.where"}
    finally:
        await tools.aclose()
    again = McpTools(tmp_path, tmp_path / "state")
    await again.add(SMALL)
    assert names(again) == {"small.echo", "small.where"}
    again.choice("small", ["*"])
    assert names(again) == everything
    await again.aclose()


async def test_images_reach_the_agent(new_session: Open, model: ScriptedModel, tmp_path: Path) -> None:
    script = model.script("mcp-images", Says("", [call("small.draw")]), Says("Done"))
    tools = McpTools(tmp_path, tmp_path / "state")
    await tools.add(SMALL)
    result = (await called(tools, "small.draw")).result
    assert [image["media_type"] for image in result["images"]] == ["image/png"] * 4
    async with new_session(WithOwnTools(CountingExecutor(), [tools])) as session:
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                await session.approve(event.call_id)
    assert str(model.requests["mcp-images"][1]).count("data:image/png;base64,") == 4


def test_the_terminal_asks_before_it_starts_a_server(
    environment: dict[str, str], folder: Path, model: ScriptedModel, tmp_path: Path
) -> None:
    shutil.copy(PROGRAM, folder)
    mark = folder / "started"
    write_config(folder, small={"command": PYTHON, "args": ["mcp_server.py", str(mark)], "writable": True})
    write_settings(Path(environment["XDG_CONFIG_HOME"]))
    with Terminal(CODELAB, environment, folder, columns=300) as terminal:
        terminal.expect("This workspace wants to use the MCP server small")
        terminal.expect("Your choice")  # the last line of the question
        assert f"$ {PYTHON} mcp_server.py" in " ".join(terminal.shown().split())
        assert not mark.exists()
        time.sleep(0.7)  # an answer counts when the question has been on the screen for long enough
        terminal.type("1\r")
        until(mark.exists)
        terminal.expect("small.where asks before each call")
        terminal.expect("trust them as they are")
        time.sleep(0.7)
        terminal.type("1\r")
        list_until(terminal, "small  runs: echo")
        terminal.type("/mcp tools small where echo\r")
        terminal.expect("Of small the agent gets echo, where, and not fail")
        script = model.script("mcp-terminal", Says("", [call("small.where")]), Says("All done."))
        terminal.type(f"{script}\r")
        decide(terminal, "y")
        terminal.expect("All done.")
        terminal.type("/mcp forget small\r")
        list_until(terminal, "small  not trusted")


def list_until(terminal: Terminal, text: str) -> None:
    """Type /mcp until it shows this."""

    def is_there() -> bool:
        terminal.type("/mcp\r")
        time.sleep(0.3)
        return text in terminal.shown()

    until(is_there)


def test_servers_of_a_workspace_start_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("one", "two", "three")
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {name: {"command": "true"} for name in names}}))
    barrier, said = asyncio.Barrier(len(names)), list[str]()

    async def may_start(*_: Any) -> bool:
        return True

    async def start(_: McpTools, subject: Any, *__: Any) -> None:
        await barrier.wait()  # until all are there
        if subject.server.name == "two":
            raise McpError("two does not start")

    monkeypatch.setattr(starting, "may_start", may_start)
    monkeypatch.setattr(starting, "start", start)
    run(starting.start_trusted(McpTools(tmp_path, tmp_path / "state"), tmp_path, None, said.append))
    assert said == ["two does not start"]
