"""Searches of a workspace that is larger than what is looked at without ripgrep: nothing is missed in silence."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from codelab_client.execution import ToolCall
from codelab_client.sandbox import Unsandboxed, choose
from codelab_client.tools import executor, limits, processes, ripgrep, workspace
from codelab_client.tools.executor import Executor
from codelab_client.tools.tree import Tree
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import Output, git, repository, result
from tests.sampling import sampled

#: How many entries are looked at without ripgrep in these tests, so that a few files are too many.
MOST = 30

pytestmark = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of 60 folders with 2 files each, of which the last ones are far beyond what is looked at."""
    monkeypatch.setattr(limits, "ENTRIES", MOST)
    top = repository(tmp_path / "ws", **{".gitignore": "build/\n*.log\n", "a.py": "first line\nNeedle 1\nlast line\n"})
    for number in range(60):
        place = top / f"d{number:02}"
        place.mkdir()
        (place / "code.py").write_text(f"before {number}\r\nneedle {number}\r\nafter {number}\r\n")
        (place / "text.txt").write_text("nothing\n")
    for name in ("build/out.py", "d59/x.log", "d59/code.js"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("needle 999\n")
    (top / "d59/AGENTS.md").write_text("Deep advice")
    (top / "link").symlink_to("d59")
    return top


@pytest.fixture
def by_ripgrep(folder: Path) -> Executor:
    sandbox = choose(folder.parent / "home").sandbox
    assert sandbox.guarantees.writes_only_there
    return Executor(DiskWorkspace(folder), sandbox)


@pytest.fixture
def by_us(folder: Path) -> Executor:
    return Executor(DiskWorkspace(folder), Unsandboxed())


#: Searches and how many lines they have.
SEARCHES: list[tuple[dict[str, Any], int]] = [
    ({"query": "needle"}, 62),
    ({"query": r"^needle \d+$", "regex": True}, 62),
    ({"query": r"needle 5\d", "regex": True, "glob": "*.py"}, 10),
    ({"query": "needle", "glob": "d5*/*.py", "context": 1}, 10),
    ({"query": "NEEDLE", "case_sensitive": True}, 0),
    ({"query": "needle", "path": "d59"}, 2),
    ({"query": "needle", "path": "build"}, 1),
    ({"query": "needle", "glob": "{code}.py"}, 0),
    ({"query": "needle", "glob": "code.[jp]?"}, 61),
    ({"query": "59\nno"}, 0),
]


@pytest.mark.parametrize(("given", "count"), SEARCHES, ids=str)
def test_a_search_looks_at_everything(by_ripgrep: Executor, given: dict[str, Any], count: int) -> None:
    found = result(by_ripgrep, "search_in_project", **given)
    assert (len(found["matches"]), found["truncated"], "note" in found) == (count, False, False)


@pytest.mark.parametrize(("given", "_"), sampled(SEARCHES), ids=str)
def test_ripgrep_and_we_find_the_same(
    by_ripgrep: Executor, by_us: Executor, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], _: int
) -> None:
    monkeypatch.setattr(limits, "ENTRIES", 5_000)

    def matches(executor: Executor) -> list[Any]:
        found = result(executor, "search_in_project", **given)["matches"]
        return sorted((match["path"], match["line"], match["text"], *match.get("before", ())) for match in found)

    assert matches(by_ripgrep) == matches(by_us)


@pytest.mark.parametrize(
    ("glob", "path", "count"),
    [("*.py", ".", 61), ("d59/*", ".", 4), ("**/*.js", ".", 1), ("*.log", ".", 0), ("*", "build", 1), ("x", ".", 0)],
)
def test_files_are_found_wherever_they_are(by_ripgrep: Executor, glob: str, path: str, count: int) -> None:
    found = result(by_ripgrep, "find_files", glob=glob, path=path)
    assert (len(found["files"]), found["truncated"]) == (count, False)
    assert found["files"] == sorted(found["files"])


def test_a_listing_by_a_pattern_is_of_everything(by_ripgrep: Executor) -> None:
    listed = result(by_ripgrep, "list_files", path=".", recursive=True, pattern="code.js")
    assert listed["files"] == [{"name": "d59/code.js", "type": "file", "size": 11}]
    assert listed["truncated"] is False
    many = result(by_ripgrep, "list_files", path=".", recursive=True, pattern="*.py")
    assert (len(many["files"]), many["truncated"]) == (MOST, True)


def test_what_was_not_looked_at_is_said(by_us: Executor, by_ripgrep: Executor) -> None:
    """A search that finds nothing must not look like one that has looked."""
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("search_in_project", {"query": "needle 59"}, "matches"),
        ("search_in_project", {"query": "needle 59", "regex": True, "context": 1}, "matches"),
        ("find_files", {"glob": "**/code.js"}, "files"),
        ("list_files", {"path": ".", "recursive": True, "pattern": "code.js"}, "files"),
    ]
    for tool, given, field in calls:
        found = result(by_us, tool, **given)
        assert (found[field], found["truncated"]) == ([], True), tool
        assert "name a folder" in found["note"]
    listed = result(by_ripgrep, "list_files", path=".", recursive=True)
    assert (len(listed["files"]), listed["truncated"], "note" in listed) == (MOST, True, True)


def test_instructions_are_found_wherever_they_are(by_ripgrep: Executor) -> None:
    assert asyncio.run(by_ripgrep.instructions()) == [{"path": "d59/AGENTS.md", "content": "Deep advice"}]


def test_the_work_of_a_search_does_not_grow_with_the_workspace(
    by_ripgrep: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client itself opens no file and starts few programs, however many files there are."""
    started: list[Sequence[str]] = []
    opened: list[object] = []
    start, read = processes.Process.start.__func__, Tree.read  # type: ignore[attr-defined]

    async def counted_start(cls: Any, launch: Any, *arguments: Any, **options: Any) -> Any:
        started.append(launch.argv)
        return await start(cls, launch, *arguments, **options)

    monkeypatch.setattr(processes.Process, "start", classmethod(counted_start))
    monkeypatch.setattr(Tree, "read", lambda *arguments: opened.append(arguments) or read(*arguments))
    for given, _ in SEARCHES[:4]:
        result(by_ripgrep, "search_in_project", **given)
    result(by_ripgrep, "find_files", glob="*.py")
    assert (len(started), len(opened)) == (10, 0), "each time ripgrep, and git for its settings"


def test_ripgrep_is_stopped_when_there_are_enough_matches(folder: Path, by_ripgrep: Executor) -> None:
    (folder / "d00/many.py").write_text("needle\n" * 50_000)
    found = result(by_ripgrep, "search_in_project", query="needle", max_results=3)
    assert ([match["line"] for match in found["matches"]], found["truncated"]) == ([2, 2, 1], True)


async def test_a_search_ends_when_it_is_cancelled(folder: Path) -> None:
    script = folder.parent / "rg"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    sandbox = choose(folder.parent / "home").sandbox
    slow = Executor(DiskWorkspace(folder), sandbox, environment={"PATH": f"{folder.parent}:{os.defpath}"})
    running = asyncio.ensure_future(slow.execute(ToolCall("call", "find_files", {"glob": "*"}), Output()))
    await asyncio.sleep(0.2)
    await slow.cancel("call")
    outcome = await running
    assert outcome.error is not None
    assert outcome.error.code == "CANCELLED"


def test_a_walk_looks_at_little_more_than_it_may(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops within a level, and between two batches it can be cancelled."""
    monkeypatch.setattr(workspace, "_BATCH", 5)
    scanned: list[object] = []
    scan = Tree.scan
    monkeypatch.setattr(Tree, "scan", lambda *arguments: scanned.append(arguments) or scan(*arguments))
    result(Executor(DiskWorkspace(folder)), "list_files", path=".", recursive=True)
    assert len(scanned) <= 1 + MOST // 2 + 5


def test_what_the_repository_above_ignores_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace that is a part of a repository: its `.gitignore` is above, where ripgrep would not see it."""
    top = repository(tmp_path / "top", **{".gitignore": "dist/\n", "x": ""})
    (top / ".git/info/exclude").write_text("secret.txt\n")
    part = top / "packages/a"
    for name in ("dist/out.js", "src/in.js", "secret.txt"):
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).write_text("needle\n")
    executor = Executor(DiskWorkspace(part), choose(tmp_path / "home").sandbox)
    found = result(executor, "search_in_project", query="needle")
    assert [match["path"] for match in found["matches"]] == ["src/in.js"]
    assert result(executor, "find_files", glob="*")["files"] == ["src/in.js"]
    git(top, "status")


def test_too_much_output_is_said(by_ripgrep: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "_OUTPUT", 2_000)
    found = result(by_ripgrep, "search_in_project", query="needle")
    assert found["truncated"] is True
    assert 0 < len(found["matches"]) < 62


def test_a_folder_without_end_is_not_waited_for(
    by_ripgrep: Executor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    (folder / "AGENTS.md").write_text("Be brief.")
    monkeypatch.setattr(ripgrep.Ripgrep, "_run", endless)
    monkeypatch.setattr(executor, "_WHOLE_S", 0.01)
    assert asyncio.run(by_ripgrep.instructions()) == [{"path": "AGENTS.md", "content": "Be brief."}]
    assert "tree" not in asyncio.run(by_ripgrep.environment())
