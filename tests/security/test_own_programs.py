"""Programs that the client runs for itself are the user's, and what it gives to commands is what they need."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from codelab_client import doctor
from codelab_client.terminal import commands, editor
from codelab_client.terminal.commands import Commands
from codelab_client.tools.processes import scrubbed

LOCALE = {
    "LC_ALL": "C.UTF-8", "LC_COLLATE": "C", "LC_CTYPE": "C", "LC_MESSAGES": "C", "LC_MONETARY": "C", "LC_NUMERIC": "C",
    "LC_TIME": "C", "LC_ADDRESS": "C", "LC_IDENTIFICATION": "C", "LC_MEASUREMENT": "C", "LC_NAME": "C", "LC_PAPER": "C",
    "LC_TELEPHONE": "C",
}  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose programs come first on PATH, as direnv or an active virtual environment has it."""
    folder = tmp_path / "workspace"
    (folder / "bin").mkdir(parents=True)
    for name in ("git", "rg", "vi", "my-editor"):
        program = folder / "bin" / name
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\necho {name} version 9\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:bin:.:/usr/bin:/bin")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", ["git", "rg"])
def test_the_doctor_runs_no_program_of_the_workspace(workspace: Path, name: str) -> None:
    finding = doctor._program(name, "something", workspace)
    assert not (workspace.parent / "owned").exists()
    assert "version 9" not in finding.text


@pytest.mark.parametrize("chosen", ["vi", "my-editor", "my-editor --wait"])
def test_the_editor_is_no_program_of_the_workspace(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    monkeypatch.setenv("EDITOR", chosen)
    monkeypatch.setenv("PATH", f"{workspace / 'bin'}:bin:.")
    monkeypatch.delenv("VISUAL", raising=False)
    with pytest.raises(editor.EditError, match="no such program outside the workspace"):
        editor.edited("run_command", {"command": "ls"})
    assert not (workspace.parent / "owned").exists()


def test_the_editor_of_the_user_is_run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "true --wait")
    monkeypatch.delenv("VISUAL", raising=False)
    assert editor.edited("run_command", {"command": "ls"}) is None


async def test_the_setup_of_the_terminal_loads_no_module_of_the_workspace(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = workspace.parent / "owned"
    for module in ("argparse", "codelab_client", "sitecustomize"):
        (workspace / f"{module}.py").write_text(f"open({str(owned)!r}, 'w').close()\n")
    outputs: list[str] = []

    def call(command: list[str]) -> int:
        process = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
        outputs.append(process.stdout)
        return process.returncode

    async def lend(work: Callable[[], int]) -> int:
        return work()

    monkeypatch.setattr(commands, "subprocess", SimpleNamespace(call=call))
    screen = SimpleNamespace(lend=lend, show=lambda _: None)
    conversation: Any = SimpleNamespace(screen=screen, workspace=workspace)
    terminal = Commands(conversation, None, None, SimpleNamespace(command=None))  # type: ignore[arg-type]
    await terminal.run("/setup")
    assert not owned.exists()
    assert "usage: codelab setup" in outputs[0]


def test_a_command_gets_only_the_known_variables_of_the_locale() -> None:
    secrets = {
        "LC_TOKEN": "secret",
        "LC_": "x",
        "LC_PASSWORD": "y",
        "LC_ALL_KEY": "z",
        "lc_all": "w",
        "LC_TERMINAL": "v",
    }
    environment = scrubbed({**LOCALE, **secrets, "HOME": "/home/ann"})
    assert environment.items() >= LOCALE.items()
    assert not environment.keys() & secrets.keys()
    assert scrubbed(secrets, also=["LC_TOKEN"])["LC_TOKEN"] == "secret"  # the user's settings name it
