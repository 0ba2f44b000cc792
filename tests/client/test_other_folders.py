"""Folders beside the one in which the agent works: calls and commands read them, and change nothing there."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from codelab_client.execution import ToolCall, ToolOutcome
from codelab_client.folders import FolderRefused, Folders
from codelab_client.notes import Notes
from codelab_client.sandbox import choose
from codelab_client.tools.executor import Executor, Settings
from codelab_client.tools.workspace import DiskWorkspace

Run = Callable[..., ToolOutcome]

PATCH = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-one\n+two\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Another folder, with links that lead out of it, also into the workspace."""
    docs = tmp_path / "docs"
    (docs / "api").mkdir(parents=True)
    (docs / "api/index.md").write_text("# The interface\nlook here\n")
    (docs / "AGENTS.md").write_text("Be brief.")
    (docs / "same.md").symlink_to("api/index.md")
    (docs / "out.md").symlink_to(tmp_path / "secret")
    (docs / "up.md").symlink_to("../secret")
    (docs / "work").symlink_to(tmp_path / "work")
    (docs / "above").symlink_to("..")
    os.mkfifo(docs / "pipe")
    (tmp_path / "secret").write_text("secret look here")
    return docs


@pytest.fixture
def run(folder: Path, docs: Path) -> Run:
    """Executes a call in a workspace with `+docs` beside it."""
    (folder / "a.py").write_text("one\n")
    executor = executor_of(folder, docs)

    def run_one(tool: str, **arguments: Any) -> ToolOutcome:
        async def no_output(*_: Any) -> None:
            pass

        return asyncio.run(executor.execute(ToolCall("c", tool, arguments), no_output))

    return run_one


def executor_of(folder: Path, docs: Path) -> Executor:
    folders = Folders.of(folder.resolve(), [docs.resolve()])
    other_folders = {name: DiskWorkspace(path) for name, path in folders.other_folders.items()}
    settings = Settings(readable=tuple(folders.other_folders.values()))
    return Executor(
        DiskWorkspace(folder, folders.other_folders), choose().sandbox, settings, other_folders=other_folders
    )


def test_files_are_read_under_the_name_of_their_folder(run: Run) -> None:
    assert run("read_file", path="+docs/api/index.md").result["content"].startswith("# The interface")
    assert run("read_file", path="+docs/same.md").result["content"].startswith("# The interface")
    names = [entry["name"] for entry in run("list_files", path="+docs").result["files"]]
    assert {"AGENTS.md", "api"} <= set(names)
    assert run("find_files", path="+docs", glob="*.md").result["files"] == ["+docs/AGENTS.md", "+docs/api/index.md"]
    (match,) = run("search_in_project", path="./+docs/", query="look here").result["matches"]
    assert (match["path"], match["line"]) == ("+docs/api/index.md", 2)
    missing = run("read_file", path="+docs/none.md").error
    assert missing is not None
    assert missing.message.startswith("In +docs: none.md")


def test_a_relative_path_is_one_of_the_workspace_alone(run: Run) -> None:
    missing = run("read_file", path="api/index.md").error
    assert missing is not None
    assert missing.code == "FILE_NOT_FOUND"
    assert run("search_in_project", query="look here").result["matches"] == []
    assert run("find_files", glob="**").result["files"] == ["a.py"]


@pytest.mark.parametrize("path", ["out.md", "up.md", "work/a.py", "above/secret", "pipe", "", "api"])
def test_nothing_is_read_through_a_link_out_of_the_folder_or_of_another_kind(run: Run, path: str) -> None:
    outcome = run("read_file", path=f"+docs/{path}")
    assert outcome.error is not None
    assert outcome.error.code in ("PATH_OUTSIDE_WORKSPACE", "PERMISSION_DENIED", "EXECUTION_FAILED")
    assert "secret" not in outcome.error.message.replace("above/secret", "")


@pytest.mark.parametrize(
    "path", ["+docs/../secret", "+docs/..", "+docs\\..\\secret", "/+docs/a", "+docs/~/../../secret"]
)
def test_no_path_leads_up(run: Run, path: str) -> None:
    assert run("read_file", path=path).error is not None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "+docs/new.md", "content": "x"}),
        ("write_file", {"path": "+docs", "content": "x"}),
        ("edit_file", {"path": "+docs/AGENTS.md", "edits": [{"old": "Be", "new": "Do not be"}]}),
        ("create_directory", {"path": "+docs/new"}),
        ("create_directory", {"path": "+docs"}),
        ("delete_file", {"path": "+docs/AGENTS.md"}),
        ("delete_file", {"path": "+docs"}),
        ("move_file", {"from": "+docs/AGENTS.md", "to": "AGENTS.md"}),
        ("move_file", {"from": "a.py", "to": "+docs/a.py"}),
        ("apply_patch", {"diff": PATCH.format("+docs/a.py")}),
        ("apply_patch", {"diff": PATCH.format("a.py") + PATCH.format("+docs/a.py")}),
        ("run_command", {"command": "true", "cwd": "+docs"}),
        ("run_persistent", {"command": "true", "process_id": "p", "cwd": "+docs/api"}),
    ],
)
def test_nothing_is_changed_there_nor_made_under_its_name(
    run: Run, folder: Path, docs: Path, tool: str, arguments: dict[str, Any]
) -> None:
    before = {path: path.lstat().st_mtime_ns for path in (docs, *docs.rglob("*"))}
    outcome = run(tool, **arguments)
    assert outcome.error is not None
    assert "+docs" in outcome.error.message
    assert {path: path.lstat().st_mtime_ns for path in (docs, *docs.rglob("*"))} == before
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("a.py", "one\n")]


def test_a_command_reads_there_and_cannot_write(run: Run, docs: Path) -> None:
    if not choose().sandbox.guarantees.writes_only_there:
        pytest.skip("no sandbox here holds what a command does: install bubblewrap")
    result = run(
        "run_command", command=f"cat {docs}/AGENTS.md; echo x > {docs}/AGENTS.md; cat {docs.parent}/secret"
    ).result
    assert result["stdout"].startswith("Be brief.")
    assert "secret look" not in result["stdout"]
    assert (docs / "AGENTS.md").read_text() == "Be brief."


def test_the_model_is_told_of_the_folder_and_its_instructions(
    folder: Path, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "AGENTS.md").write_text("Work here.")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    Notes(folder).add("user", "Mine.")

    async def told() -> tuple[list[dict[str, str]], dict[str, str]]:
        executor = executor_of(folder, docs)
        return await executor.instructions(), await executor.environment()

    instructions, environment = asyncio.run(told())
    assert [(file["path"], file["content"]) for file in instructions] == [
        ("notes of the user.md", "- Mine.\n"),  # once, however many folders there are
        ("AGENTS.md", "Work here."),
        ("+docs/AGENTS.md", "Be brief."),
    ]
    assert f"+docs/ ({docs.resolve()})" in environment["workspace"]
    assert "+docs/\n  AGENTS.md\n  api/" in environment["tree"]


def test_each_folder_has_a_name_that_nothing_else_has(tmp_path: Path) -> None:
    names = ("work", "one/docs", "two/docs", "three/DOCS", "four/a\nb: c", "five/" + "x" * 200)
    root, *others = [tmp_path / name for name in names]
    for path in (root, *others):
        path.mkdir(parents=True)
    (root / "+docs").symlink_to("nowhere")
    folders = Folders.of(root, [*others, root, root / "src", others[0]])
    assert list(folders.other_folders) == ["+docs-2", "+docs-3", "+DOCS", "+a_b__c", "+" + "x" * 60]
    assert folders.absolute(("+docs-2", "a")) == others[0] / "a"
    assert folders.absolute(("+docs", "a")) == root / "+docs/a"
    assert folders.holding(others[0] / "a/b") == (others[0], "+docs-2/a/b")
    assert folders.holding(root / "a") == (root, "a")
    assert folders.holding(tmp_path / "elsewhere") is None


@pytest.mark.parametrize("place", [".", "state", "state/codelab", "state/codelab/x", "config"])
def test_what_the_client_keeps_and_what_is_around_the_workspace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    with pytest.raises(FolderRefused, match=r"session there instead|files of this client"):
        Folders.of(tmp_path / "work", [tmp_path / place])
