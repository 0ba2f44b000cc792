"""Commands that a user has allowed for the session: what runs again unasked, and what asks again."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from codelab_client.allowed_commands import AllowedCommands
from codelab_client.execution import ToolCall as ExecutedCall
from codelab_client.local_executor import LocalExecutor
from codelab_client.sandbox import Guarantees
from codelab_client.session.events import CallDecidedElsewhere, ToolCall
from codelab_client.tools.executor import Executor, Settings
from codelab_client.tools.workspace import DiskWorkspace

from tests.sampling import sampled

HOLDS = Guarantees(writes_only_there=True, home_hidden=True, protects_git=True, no_network=True)


class Holding:
    """A sandbox that promises something, and runs nothing."""

    name = "promises"

    def __init__(self, guarantees: Guarantees) -> None:
        self.guarantees = guarantees

    def launch(self, *_: Any) -> Any:
        raise OSError("it runs nothing")


def asked(command: str = "pytest", cwd: str | None = None, **fields: Any) -> ToolCall:
    arguments = {"command": command, **({} if cwd is None else {"cwd": cwd})}
    given = {"call_id": "c1", "tool_name": "run_command", "requires_approval": True, "repeatable": True}
    return ToolCall(**{"frame": {}, "arguments": arguments, **given, **fields})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a program of each kind. PATH begins with the environment of the project."""
    root = tmp_path / "project"
    for name, content in {
        "run.sh": "#!/bin/sh\ntrue\n",
        "other.sh": "#!/bin/sh\ntrue\n",
        "Makefile": "test:\n\ttrue\n",
        "package.json": '{"scripts": {"test": "jest --ci", "lint": "eslint ."}}',
        "node_modules/.bin/jest": "#!/bin/sh\ntrue\n",
        "node_modules/left-pad/index.js": "1",
        "tests/conftest.py": "",
        "tests/test_a.py": "def test_a(): pass\n",
        "src/tool.py": "print(1)\n",
        ".git/config": "[core]\n",
        ".git/HEAD": "ref: refs/heads/main\n",
        ".git/hooks/pre-commit.sample": "",
        ".venv/bin/pytest": "#!/bin/sh\ntrue\n",
        ".venv/lib/package.py": "1",
        ".vscode/settings.json": "{}",
        "sub/run.sh": "#!/bin/sh\ntrue\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
        (root / name).chmod(0o755)
    (root / "link.sh").symlink_to("run.sh")
    monkeypatch.setenv("PATH", f"{root}/.venv/bin:{os.environ['PATH']}")
    return root


def allowing(project: Path, call: ToolCall, *, is_confined: bool = True) -> AllowedCommands:
    commands = AllowedCommands(project, lambda: is_confined)
    assert asyncio.run(commands.allow(call))
    return commands


def runs_again(commands: AllowedCommands, call: ToolCall) -> bool:
    return commands.covers(call) and asyncio.run(commands.is_unchanged(call))


COMMANDS = (
    "pytest",
    "pytest -x tests",
    "make test",
    "npm test",
    "./run.sh",
    "sh run.sh",
    "python -m src.tool",
    "git status",
)


def test_commands_run_again_after_ordinary_changes(project: Path) -> None:
    commands = AllowedCommands(project, lambda: True)
    for command in COMMANDS:
        assert asyncio.run(commands.allow(asked(command)))
    (project / "tests" / "test_a.py").write_text("def test_a(): assert 1\n")
    (project / "new.py").write_text("1")
    (project / ".git" / "HEAD").write_text("ref: refs/heads/other\n")
    (project / "node_modules" / ".cache").mkdir()
    (project / "node_modules" / ".cache" / "x").write_text("1")
    for command in COMMANDS:
        assert runs_again(commands, asked(command)), command
        assert runs_again(commands, asked(command.replace(" ", "  "), ".")), "as it is written does not matter"


def wrote(name: str, content: str = "changed\n") -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
        (root / name).chmod(0o755)

    return change


def relinked(root: Path) -> None:
    (root / "link.sh").unlink()
    (root / "link.sh").symlink_to("other.sh")


def swapped(root: Path) -> None:
    (root / "sub").rename(root / "old")
    (root / "sub").symlink_to("old")


CHANGES: dict[str, tuple[str, str | None, Callable[[Path], object]]] = {
    "its script is changed": ("./run.sh", None, wrote("run.sh")),
    "its script is removed": ("./run.sh", None, lambda root: (root / "run.sh").unlink()),
    "an interpreter's script is changed": ("sh run.sh", None, wrote("run.sh")),
    "its script in a folder is changed": ("./run.sh", "sub", wrote("sub/run.sh")),
    "what its link leads to is changed": ("./link.sh", None, wrote("run.sh")),
    "its link leads elsewhere": ("./link.sh", None, relinked),
    "its folder is another": ("./run.sh", "sub", swapped),
    "the Makefile is changed": ("make test", None, wrote("Makefile")),
    "a Makefile that comes first appears": ("make test", None, wrote("GNUmakefile")),
    "the Makefile of its folder is changed": ("make -C sub", None, wrote("sub/Makefile")),
    "its script in package.json is changed": ("npm test", None, wrote("package.json", '{"scripts": {"test": "evil"}}')),
    "a script that runs before it appears": (
        "npm test", None, wrote("package.json", '{"scripts": {"pretest": "evil", "test": "jest --ci"}}')
    ),
    "the program that its script names is changed": ("npm test", None, wrote("node_modules/.bin/jest")),
    "its module is changed": ("python -m src.tool", None, wrote("src/tool.py")),
    "its module is hidden by another": ("python -m pytest", None, wrote("pytest.py")),
    "its program in the project is changed": ("pytest", None, wrote(".venv/bin/pytest")),
    "its program is hidden by another": ("git status", None, wrote(".venv/bin/git")),
    "the program that another starts is hidden": ("time git status", None, wrote(".venv/bin/git")),
    "a variable names what appears": ("PATH=bin git status", None, wrote("bin/git")),
    "env sets a variable that names what is changed": ("env LD_PRELOAD=./run.sh git status", None, wrote("run.sh")),
    "a conftest.py appears": ("pytest", None, wrote("conftest.py")),
    "a conftest.py is changed": ("pytest", None, wrote("tests/conftest.py")),
    "a conftest.py is removed": ("pytest", None, lambda root: (root / "tests" / "conftest.py").unlink()),
    "a protected file of another program is changed": ("make test", None, wrote(".vscode/settings.json")),
    "a hook appears": ("git status", None, wrote(".git/hooks/pre-commit")),
    "git's settings are changed": ("git status", None, wrote(".git/config")),
    "git's folder is led elsewhere": ("git status", None, wrote(".git/commondir")),
    "a repository appears": ("git status", "sub", wrote("sub/.git/config")),
    "a protected file is made a link": (
        "pytest", None, lambda root: ((root / "sub" / "pytest.ini").symlink_to("run.sh"))
    ),
}  # fmt: skip


@pytest.mark.parametrize(("command", "cwd", "change"), sampled([*CHANGES.values()]), ids=CHANGES)
def test_a_command_asks_again_when(
    project: Path, command: str, cwd: str | None, change: Callable[[Path], object]
) -> None:
    commands = allowing(project, asked(command, cwd))
    assert runs_again(commands, asked(command, cwd))
    change(project)
    assert not runs_again(commands, asked(command, cwd))
    assert not commands.covers(asked(command, cwd)), "and is allowed no longer"
    assert commands.listed() == []


OTHERS = {
    "other words": asked("pytest -x"),
    "another folder": asked("pytest", "sub"),
    "another tool": asked(tool_name="run_persistent"),
    "the tool of a server": asked(tool_name="tickets.run_command"),
    "an argument more": asked(arguments={"command": "pytest", "env": {"A": "1"}}),
    "what the server does not leave to the client": asked(repeatable=False),
    "what another client executes": asked(execute=False),
    "what was approved elsewhere": CallDecidedElsewhere.of(asked()),
    "what could not be fetched": asked(arguments=None),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_calls_ask(project: Path, other: ToolCall) -> None:
    commands = allowing(project, asked())
    assert runs_again(commands, asked())
    assert not commands.covers(other)


OPERATORS = (
    "pytest; id", "pytest && id", "pytest | cat", "pytest & id", "pytest > x", "pytest < x", "pytest $(id)",
    "pytest `id`", "pytest $HOME", "pytest ~", "pytest *", "pytest ?", "pytest {a,b}", "pytest 'x'", "pytest\nid",
    'python -c "x"',
    "pytest \\", "(pytest)", "pytest #", "pytest !x", "pytest\tid", "pytest \N{CYRILLIC SMALL LETTER A}", "x" * 501, "",
)  # fmt: skip


def test_a_command_with_operators_cannot_be_allowed(project: Path) -> None:
    commands = AllowedCommands(project, lambda: True)
    assert [command for command in OPERATORS if commands.offers(asked(command))] == []
    assert not commands.offers(asked("pytest", "sub;id"))


def test_nothing_is_allowed_without_a_sandbox_that_holds(project: Path) -> None:
    commands = allowing(project, asked(), is_confined=False)
    assert not commands.offers(asked())
    assert not commands.covers(asked())


NO_SANDBOX: dict[str, tuple[Guarantees, Settings]] = {
    "none": (Guarantees(), Settings()),
    "one that does not protect git": (
        Guarantees(writes_only_there=True, home_hidden=True, no_network=True), Settings()
    ),
    "one with the network": (HOLDS, Settings(network=True)),
    "one that lets commands change .git": (HOLDS, Settings(changes_git=True)),
}  # fmt: skip


@pytest.mark.parametrize(("guarantees", "settings"), NO_SANDBOX.values(), ids=NO_SANDBOX)
def test_a_sandbox_must_hold_everything(project: Path, guarantees: Guarantees, settings: Settings) -> None:
    workspace = DiskWorkspace(project)
    assert Executor(workspace, Holding(HOLDS)).confines_commands
    assert not Executor(workspace, Holding(guarantees), settings).confines_commands


def test_a_program_that_comes_later_on_the_path_counts_too(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sandbox hides the folder of the first one, so that the later one runs."""
    wrote("hidden/pytest")(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/hidden:{os.environ['PATH']}")
    commands = allowing(project, asked())
    wrote(".venv/bin/pytest")(project)
    assert not runs_again(commands, asked())


async def test_a_command_that_may_not_begin_any_more_does_not(project: Path) -> None:
    executor = LocalExecutor(project)
    asked_about: list[str] = []

    async def may_begin(call_id: str) -> bool:
        asked_about.append(call_id)
        return call_id == "c2"

    async def on_output(*_: str) -> None:
        pass

    executor.may_begin = may_begin
    for call_id in ("c1", "c2"):
        call = ExecutedCall(call_id, "run_command", {"command": f"touch {call_id}"}, risk="execute")
        outcome = await executor.execute(call, on_output)
        assert (outcome.error is None) == (call_id == "c2"), outcome
    await executor.aclose()
    assert asked_about == ["c1", "c2"]
    assert not (project / "c1").exists()


async def test_it_is_known_what_a_command_has_left_running(project: Path) -> None:
    executor = LocalExecutor(project)

    async def on_output(*_: str) -> None:
        pass

    assert not executor.has_processes
    started = ExecutedCall("c1", "run_persistent", {"command": "sleep 100", "process_id": "p"}, risk="execute")
    assert (await executor.execute(started, on_output)).error is None
    assert executor.has_processes
    killed = ExecutedCall("c2", "kill_process", {"process_id": "p"}, risk="execute")
    assert (await executor.execute(killed, on_output)).error is None
    assert not executor.has_processes
    await executor.aclose()


def test_commands_of_an_editor_are_not_confined(project: Path) -> None:
    executor = LocalExecutor(project, commands=object())  # type: ignore[arg-type]
    assert not executor.confines_commands
    asyncio.run(executor.prepare())
    assert not executor.confines_commands


def test_a_command_is_revoked_by_its_id(project: Path) -> None:
    commands = allowing(project, asked())
    asyncio.run(commands.allow(asked("make test")))
    first, second = (line.split()[0] for line in commands.listed())
    assert not commands.revoke("allowed-1")
    assert commands.revoke(first)
    assert not commands.covers(asked())
    assert runs_again(commands, asked("make test"))
    assert [line.split()[0] for line in commands.listed()] == [second]


def test_nothing_is_allowed_where_too_much_would_have_to_be_looked_at(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codelab_client.allowed_commands._MOST_ENTRIES", 10)
    commands = AllowedCommands(project, lambda: True)
    assert not asyncio.run(commands.allow(asked()))
    assert not commands.covers(asked())
