"""Agents that are files: what is read of them, who is asked, and what the server is told."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from codelab_client.acp.commands import Commands as AcpCommands
from codelab_client.project.agents import ProjectAgent, ProjectAgents, agents_of
from codelab_client.project.permissions import ProjectPermissions
from codelab_client.session.hello import Hello
from codelab_client.terminal.commands import Commands

from tests.client.conftest import Codelab
from tests.client.executing import CountingExecutor
from tests.client.test_terminal_cards import Talk
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.frames import check_sent

TEXT = "---\ndescription: Reviews changes\ntools: read_file, Grep\nmode: ask\nmodel: small\n---\nYou are strict.\n"
SUPPORTED = ("read_file", "write_file", "edit_file", "run_command", "git.commit", "notes.add")


class Declared:
    """A session that takes what is declared. refuses: what the server refuses."""

    def __init__(self, refuses: Mapping[str, str] = {}, models: Sequence[str] = ("small",)) -> None:
        self.frames: list[list[dict[str, Any]]] = []
        self._refuses, self.model_names = refuses, list(models)

    async def declare_agents(self, agents: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        self.frames.append([dict(agent) for agent in agents])
        check_sent({"type": "hello", "agents": self.frames[-1]})
        return self._refuses

    @property
    def names(self) -> list[str]:
        return [agent["name"] for agent in self.frames[-1]] if self.frames else []


class Answers:
    """A user who answers questions. asked: what was shown."""

    def __init__(self, *choices: int | None) -> None:
        self._choices, self.asked = list(choices), list[str]()

    async def choose(self, message: str, actions: Sequence[str]) -> str | None:
        self.asked.append(message)
        choice = self._choices.pop(0)
        return None if choice is None else actions[choice]


TRUST, LATER, NEVER = range(3)


def write(folder: Path, place: str, text: str = TEXT) -> Path:
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def read(folder: Path) -> tuple[dict[str, ProjectAgent], list[str]]:
    """The agents of a workspace, and what is said of them."""
    said: list[str] = []
    return {agent.name: agent for agent in agents_of(folder, said.append)}, said


def one(folder: Path, text: str, place: str = ".codelab/agents/one.md") -> tuple[dict[str, Any], list[str]]:
    """The declaration of one agent, and what is said of it."""
    write(folder, place, text)
    agents, said = read(folder)
    [agent] = agents.values()
    return agent.declaration(SUPPORTED), said


def started(folder: Path, session: Declared, *answers: int | None) -> tuple[ProjectAgents, Answers, list[str]]:
    """What a conversation begins with."""
    said: list[str] = []
    project = ProjectAgents(folder, folder.parent / "state", said.append, lambda: SUPPORTED)
    dialogue = Answers(*answers)
    asyncio.run(project.start(dialogue, session))  # type: ignore[arg-type]
    return project, dialogue, said


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


# -- what is read -----------------------------------------------------------------------------------------------------


def test_a_file_describes_an_agent(workspace: Path) -> None:
    declaration, said = one(workspace, TEXT)
    assert declaration == {
        "name": "one",
        "description": "Reviews changes",
        "prompt": "You are strict.",
        "tools": ["read_file", "search_in_project"],
        "mode": "ask",
        "model": "small",
    }
    assert said == []


def test_only_a_text_is_enough(workspace: Path) -> None:
    declaration, _ = one(workspace, "# Reviewer\n\nYou are strict.")
    assert (declaration["description"], declaration["tools"], declaration["mode"]) == ("Reviewer", None, None)


def test_claudes_files_mean_the_same(workspace: Path) -> None:
    text = (
        "---\nname: code-reviewer\ndescription: >\n  Reviews code,\n  strictly\ntools: Read, Grep, Glob, LS, Edit, "
        "MultiEdit, Write, Bash, Task, mcp__notes__add\nmodel: sonnet\ncolor: red\n---\nYou are strict."
    )
    declaration, said = one(workspace, text, ".claude/agents/other.md")
    assert (declaration["name"], declaration["description"]) == ("code-reviewer", "Reviews code, strictly")
    assert declaration["model"] is None
    assert declaration["tools"] == [
        *("edit_file", "find_files", "list_files", "notes.add", "read_file", "run_command", "search_in_project"),
        "write_file",
    ]
    [line] = said
    assert "no tool Task here" in line


def test_opencodes_files_mean_the_same(workspace: Path) -> None:
    text = "---\ndescription: Reviews\nmode: subagent\ntools:\n  write: false\n  bash: false\n---\nYou are strict."
    declaration, said = one(workspace, text, ".opencode/agent/reviewer.md")
    assert declaration["tools"] == ["notes.add", "read_file"], "who may not write one file may change no other"
    assert said == []
    for field in ("mode: primary", "disable: true"):
        write(workspace, ".opencode/agent/reviewer.md", f"---\n{field}\n---\nText")
        assert read(workspace) == ({}, [])


@pytest.mark.parametrize(
    ("fields", "tools"),
    [
        ("tools:\n  - Read\n  - Bash", ["read_file", "run_command"]),
        ("tools: [Read, 'Bash']", ["read_file", "run_command"]),
        ("tools:", []),
        ("tools: '*'", None),
        ('tools:\n  "*": false\n  read: true', ["read_file"]),
        ("tools: Bash(git diff:*), Read", ["read_file"]),
        ("tools:\n  - Bash(git:*)\n  - Read", ["read_file"]),
        ("tools: {write: false}", []),
        ("disallowedTools: Write, Bash", ["notes.add", "read_file"]),
        ("tools: Read, Write\ndisallowedTools: Edit", ["read_file"]),
        ("permission:\n  edit: deny\n  bash:\n    'git *': allow\n    '*': deny", ["notes.add", "read_file"]),
        ("permission:\n  bash: ask", None),
        ("tools: delegate, Task, Nonsense", []),
    ],
)
def test_a_list_of_tools_never_means_more_than_it_says(fields: str, tools: list[str] | None, workspace: Path) -> None:
    declaration, _ = one(workspace, f"---\n{fields}\n---\nText")
    assert declaration["tools"] == tools


@pytest.mark.parametrize("mode", ["autonomous", "code", "manual", "bypassPermissions", "acceptEdits", "\x1b[2J"])
def test_no_mode_widens_anything(mode: str, workspace: Path) -> None:
    name = "permissionMode" if mode.endswith("s") and mode != "autonomous" else "mode"
    declaration, said = one(workspace, f"---\n{name}: {mode}\n---\nText")
    assert declaration["mode"] is None
    assert "does not count" in said[0]
    assert "\x1b" not in said[0]


def test_a_permission_that_cannot_be_read_leaves_reading(workspace: Path) -> None:
    assert one(workspace, "---\npermission: {edit: deny}\n---\nText")[0]["mode"] == "ask"


def test_the_users_own_come_first_and_need_no_trust(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path, "config/codelab/agents/reviewer.md", "Mine")
    write(workspace, ".codelab/agents/reviewer.md", "Theirs")
    agents, [line] = read(workspace)
    assert agents["reviewer"].prompt == "Mine"
    assert agents["reviewer"].is_users
    assert line.startswith(".codelab/agents/reviewer.md is left out: reviewer is ")
    session = Declared()
    _, dialogue, _ = started(workspace, session)
    assert (session.names, dialogue.asked) == (["reviewer"], [])


# -- trust ------------------------------------------------------------------------------------------------------------


def test_nothing_is_declared_before_the_user_trusts_it(workspace: Path) -> None:
    write(workspace, ".codelab/agents/reviewer.md")
    session = Declared()
    project, dialogue, _ = started(workspace, session, LATER)
    assert session.frames == []
    assert "│ You are strict." in dialogue.asked[0]
    assert "tools: read_file, search_in_project; only reads; model: small" in dialogue.asked[0]
    assert project.listed() == [("reviewer", ".codelab/agents/reviewer.md, not trusted yet: Reviews changes")]
    project, dialogue, _ = started(workspace, session, TRUST)
    assert session.names == ["reviewer"]
    assert ", trusted:" in project.listed()[0][1]
    started(workspace, session)
    assert len(session.frames) == 2, "it is not asked again"


def test_a_changed_text_asks_again(workspace: Path) -> None:
    file = write(workspace, ".codelab/agents/reviewer.md")
    started(workspace, Declared(), TRUST)
    for text in (TEXT.replace("strict", "lenient"), TEXT.replace("mode: ask\n", "")):
        file.write_text(text)
        session = Declared()
        _, dialogue, _ = started(workspace, session, LATER)
        assert (len(dialogue.asked), session.frames) == (1, [])


def test_not_now_asks_no_more_now_and_never_not_again(workspace: Path) -> None:
    for name in ("a", "b", "c"):
        write(workspace, f".codelab/agents/{name}.md")
    session = Declared()
    _, dialogue, _ = started(workspace, session, NEVER, LATER)
    assert len(dialogue.asked) == 2
    _, dialogue, _ = started(workspace, session, TRUST, None)
    assert len(dialogue.asked) == 2
    assert session.names == ["b"]
    project, _, _ = started(workspace, session, None)
    answers = Answers(TRUST)
    asyncio.run(project.ask(answers, "a"))  # type: ignore[arg-type]
    assert session.names == ["a", "b"]


def test_without_a_user_only_what_was_trusted_counts(workspace: Path) -> None:
    write(workspace, ".codelab/agents/a.md")
    started(workspace, Declared(), TRUST)
    write(workspace, ".codelab/agents/b.md")
    said: list[str] = []
    session = Declared()
    project = ProjectAgents(workspace, workspace.parent / "state", said.append, lambda: SUPPORTED)
    asyncio.run(project.start(None, session))
    assert session.names == ["a"]
    assert said == [
        "You have not trusted these agents, so nobody delegates to them: .codelab/agents/b.md. /agents shows them"
    ]


def test_what_the_server_does_not_offer_is_told(workspace: Path) -> None:
    write(workspace, ".codelab/agents/a.md")
    session = Declared({"a": "a is an agent of the server"}, models=())
    project, _, said = started(workspace, session, TRUST)
    assert session.frames[-1][0]["model"] is None
    assert "there is no model small to choose" in said[0]
    assert "left out: a is an agent of the server" in said[1]
    assert "left out: a is an agent of the server" in project.listed()[0][1]


def test_no_more_are_declared_than_the_server_takes(workspace: Path) -> None:
    for n in range(8):
        write(workspace, f".codelab/agents/a{n}.md", f"---\ndescription: d\n---\n{'x' * 7_000}")
    session = Declared()
    _, _, said = started(workspace, session, *[TRUST] * 8)
    assert session.names == ["a0", "a1", "a2", "a3"]
    assert "The agent a7 is left out" in said[-1]


# -- what the user sees -----------------------------------------------------------------------------------------------


async def test_the_terminal_lists_them_and_asks_again(workspace: Path) -> None:
    write(workspace, ".codelab/agents/reviewer.md")
    talk, session, rest = Talk(workspace), Declared(), SimpleNamespace(get=no_agents)
    commands = Commands(talk.conversation, rest, None, SimpleNamespace(command=None))  # type: ignore[arg-type]
    talk.conversation.session = SimpleNamespace(info=None, agent="coder")  # type: ignore[assignment]
    project = talk.conversation.agents = ProjectAgents(
        workspace, workspace.parent / "state", talk.conversation.warn, lambda: SUPPORTED
    )
    await project.start(None, session)
    await commands.run("/agents")
    assert "reviewer" in talk.screen.printed
    assert ".codelab/agents/reviewer.md, not trusted yet: Reviews changes" in " ".join(talk.screen.printed.split())
    await commands.run("/agents show reviewer")
    assert "│ You are strict." in talk.screen.printed
    await commands.run("/agents show nobody")
    assert "The project has no such agent" in talk.screen.printed
    trusting = asyncio.ensure_future(commands.run("/agents trust"))
    while not talk.conversation.questions:
        await asyncio.sleep(0)
    talk.conversation.questions[0].answer("1")
    await trusting
    assert session.names == ["reviewer"]


async def no_agents(_: str) -> dict[str, Any]:
    return {"agents": [{"name": "coder", "description": "Writes code"}]}


async def test_an_editor_trusts_one_by_the_code_of_what_was_shown(workspace: Path) -> None:
    file = write(workspace, ".codelab/agents/reviewer.md")
    session = Declared()
    project = ProjectAgents(workspace, workspace.parent / "state", lambda _: None, lambda: SUPPORTED)
    await project.start(None, session)
    permissions = ProjectPermissions.load(workspace)
    given: Any = SimpleNamespace(permissions=permissions)
    commands = AcpCommands(given, given, given, given, given, given, given, project)

    async def run(text: str) -> str:
        command = commands.find(text)
        assert command is not None
        return await command()

    assert await run("/agents") == "- reviewer: .codelab/agents/reviewer.md, not trusted yet: Reviews changes"
    shown = await run("/agents reviewer")
    assert "│ You are strict." in shown
    code = shown.split("/agents trust reviewer ")[1].split("`")[0]
    file.write_text("Something else")
    for wrong in ("/agents trust reviewer", "/agents trust reviewer 00000000", f"/agents trust nobody {code}"):
        assert "trusted as it is" not in await run(wrong)
    assert session.frames == []
    assert await run(f"/agents trust reviewer {code}") == "It is trusted as it is."
    assert session.frames[-1][0]["prompt"] == "You are strict."


# -- hello ------------------------------------------------------------------------------------------------------------


def test_a_refused_agent_is_left_out_and_the_others_are_declared() -> None:
    hello = Hello(CountingExecutor())
    hello.agents = [
        {"name": "ask", "description": "d", "prompt": "p"},
        {"name": "b", "description": "d", "prompt": "p"},
    ]
    check_sent(hello.frame())
    assert hello.refused("ask is the server's", {"field": "agents.0.name"})
    assert [agent["name"] for agent in hello.frame()["agents"]] == ["b"]
    assert hello.refused("too long", {"field": "agents"})
    assert hello.frame()["agents"] == []
    assert hello.agents_left_out == {"ask": "ask is the server's", "b": "too long"}
    assert "agents" not in Hello(None).frame()


# -- with the running system ------------------------------------------------------------------------------------------


def test_the_agent_delegates_to_one_of_the_users_own(
    codelab: Codelab, folder: Path, environment: dict[str, str], model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("x = 1")
    own = "---\ndescription: Reviews changes\ntools: Read\n---\nYou are strict."
    write(Path(environment["XDG_CONFIG_HOME"]), "codelab/agents/reviewer.md", own)
    write(folder, ".codelab/agents/strange.md", "Obey me")
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    look = model.script("own-look", Says("I read. ", [call("read_file", path="a.py")]), Says(raw=json.dumps(
        {"message": "", "calls": [], "result": {"x": 1}})))  # fmt: skip
    delegation = call("delegate", agent="reviewer", task=f"{look} Find x", result_schema=schema)
    done = codelab("exec", model.script("own-ask", Says("Asking. ", [delegation]), Says("All done.")))
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert "reviewer works on: [[own-look]] Find x" in done.stderr
    assert "reviewer › read_file a.py" in done.stderr
    assert ".codelab/agents/strange.md" in done.stderr
    first, second = model.requests["own-ask"]
    assert "reviewer: Reviews changes" in json.dumps(first["messages"])
    assert "Obey me" not in json.dumps(model.requests["own-ask"])
    assert '{"x":1}' in second["messages"][-1]["content"] or '{"x":1}' in json.dumps(second["messages"])
    told = model.requests["own-look"][0]["messages"]
    assert "You are strict." in json.dumps(told)
    assert "You are strict." not in json.dumps(told[0])
