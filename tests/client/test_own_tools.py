"""Tools that the client declares: skills, with the limits of the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from codelab_client.execution import DeclaredTool, ToolCall, ToolOutcome
from codelab_client.own_tools import WithOwnTools
from codelab_client.session import events as on
from codelab_client.session.hello import Hello
from codelab_client.skills import Skills

from tests.client.conftest import FAST, Open
from tests.client.executing import CountingExecutor
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.frames import check_sent


def add_skill(workspace: Path, name: str, text: str, folder: str = ".agents/skills") -> None:
    path = workspace / folder / name
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text(text)


class Tools:
    """Tools of these names, which answer with their name, or wait."""

    def __init__(self, *names: str, description: str = "d", waits: bool = False) -> None:
        self.declared_tools = [DeclaredTool(name, description, {"type": "object", "properties": {}}) for name in names]
        self._waits = waits
        self.closed = False

    async def execute(self, call: ToolCall) -> ToolOutcome:
        if self._waits:
            await asyncio.sleep(60)
        return ToolOutcome(f"{call.tool_name} was called")

    async def aclose(self) -> None:
        self.closed = True


async def test_the_agent_reads_a_skill_when_it_needs_it(
    new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    add_skill(tmp_path, "release", '---\nname: release\ndescription: "How we release"\n---\nTag, then push.')
    script = model.script("own-skill", Says("", [call("read_skill", name="release")]), Says("Done"))
    async with new_session(WithOwnTools(CountingExecutor(), [Skills(tmp_path)])) as session:
        async for event in session.prompt(script):
            assert not (isinstance(event, on.ToolCall) and event.requires_approval)
    first, second = model.requests["own-skill"]
    assert "release: How we release" in str(first)
    assert "Tag, then push." in second["messages"][-1]["content"]


async def test_no_source_takes_a_tool_of_the_catalogue() -> None:
    """An MCP server `git` may have a tool `status`; the catalogue's runs without asking."""
    executor = CountingExecutor()
    tool = executor.tools_supported[0]
    both = WithOwnTools(executor, [Tools(tool)])
    outcome = await both.execute(ToolCall("c1", tool, {}), lambda *_: asyncio.sleep(0))
    assert outcome.result != f"{tool} was called"


def test_a_long_description_takes_no_long_time(tmp_path: Path) -> None:
    """With time that grows with the square of the length, this would run for a minute."""
    add_skill(tmp_path, "slow", f"---\ndescription: '  How{' ' * 90_000}so '\n---\n")
    [tool] = Skills(tmp_path).declared_tools
    assert tool.description.endswith("- slow: How so")


def test_only_folders_of_the_workspace_with_a_readable_file_are_skills(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "SKILL.md").write_text("secret")
    add_skill(workspace, "good", "# A title\n\ntext")
    add_skill(workspace, "bad name", "x")
    add_skill(workspace, "good", "the second one", folder=".claude/skills")
    (workspace / ".agents/skills/out").symlink_to(tmp_path / "secret")
    (workspace / ".agents/skills/empty").mkdir()
    skills = Skills(workspace)
    (tool,) = skills.declared_tools
    assert tool.parameters["properties"]["name"]["enum"] == ["good"]
    assert "good: A title" in tool.description
    assert asyncio.run(skills.execute(ToolCall("c", "read_skill", {"name": "../secret"}))).error is not None
    assert Skills(tmp_path).declared_tools == []


def test_what_the_server_does_not_take_is_left_out(tmp_path: Path) -> None:
    for number in range(60):
        add_skill(tmp_path, f"skill-{number}", f"# {'very ' * 100}long")

    class Declaring(CountingExecutor):
        """Of another program than ours, which has no way to find the rest."""

        declared_tools = (*Skills(tmp_path).declared_tools, *Tools(*(f"tool_{n}" for n in range(40))).declared_tools)

    hello = Hello(Declaring())
    check_sent(hello.frame())
    assert len(hello.frame()["capabilities"]["tools"]) == 32
    assert set(hello.left_out) == {f"tool_{n}" for n in range(31, 40)}
    large = Hello(WithOwnTools(CountingExecutor(), [Tools("a", "b", description="d" * 2_000)]))
    check_sent(large.frame())
    assert large.left_out == {}


async def test_a_tool_that_the_server_refuses_does_not_cost_the_others(new_session: Open) -> None:
    tools = Tools("good", "read_file", "better")
    patient = replace(FAST, repeat_s=60)  # a hello that is sent twice is refused twice
    async with new_session(WithOwnTools(CountingExecutor(), [tools]), timing=patient) as session:
        assert list(session.tools_left_out) == ["read_file"]
        tools.declared_tools += Tools("write_file", "best").declared_tools
        assert list(await session.declare()) == ["read_file", "write_file"]


async def test_a_call_of_an_own_tool_asks_and_can_be_cancelled(new_session: Open, model: ScriptedModel) -> None:
    script = model.script("own-cancel", Says("", [call("slow")]), Says("Done"))
    before: list[str] = []
    after: list[str] = []

    @asynccontextmanager
    async def note(call: ToolCall) -> AsyncIterator[None]:
        before.append(call.tool_name)
        try:
            yield
        finally:
            after.append(call.tool_name)

    tools = Tools("slow", waits=True)
    async with new_session(WithOwnTools(CountingExecutor(), [tools], note)) as session:
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                assert before == []
                await session.approve(event.call_id)
            if isinstance(event, on.CallStarted):
                await session.cancel()
    assert tools.closed
    assert before == after == ["slow"]


async def test_an_unknown_tool_goes_to_the_other_executor() -> None:
    executor = WithOwnTools(CountingExecutor(), [Tools("mine")])

    async def nowhere(_: object, __: str) -> None:
        pass

    assert (await executor.execute(ToolCall("c", "mine"), nowhere)).result == "mine was called"
    assert "mine" in executor.tools_supported
    assert (await executor.execute(ToolCall("d", "read_file", {"path": "a"}), nowhere)).error is None
