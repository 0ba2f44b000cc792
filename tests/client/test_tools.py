"""What an agent sees of every tool: results, limits and errors as docs/tools.md has them."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
from codelab.protocol import limits as protocol_limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools import ALIASES as PROTOCOL_ALIASES
from codelab.protocol.tools import CATALOGUE
from codelab_client.execution import ToolCall
from codelab_client.sandbox import choose
from codelab_client.tools import limits
from codelab_client.tools.arguments import ALIASES, ARGUMENTS
from codelab_client.tools.executor import Executor
from codelab_client.tools.failure import Code
from codelab_client.tools.memory import MemoryWorkspace
from codelab_client.tools.workspace import DiskWorkspace, Workspace

from tests.cases import cases
from tests.client.calls import Answers, Output, error_code, execute, git, repository, result, snapshot
from tests.sampling import sampled


@pytest.fixture
def executor(folder: Path) -> Executor:
    return Executor(DiskWorkspace(folder), dialogue=Answers("approve", [1]))


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, folder: Path) -> Executor:
    """An executor over each kind of workspace."""
    workspace: Workspace = DiskWorkspace(folder) if request.param == "disk" else MemoryWorkspace()
    return Executor(workspace)


def contents(found: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """A snapshot without the times at which directories changed."""
    return {name: (mode, said) for name, (mode, _, said) in found.items()}


# -- the catalogue -----------------------------------------------------------------------------------------------------


def test_every_tool_of_the_catalogue_that_runs_in_an_ide_is_supported(executor: Executor) -> None:
    names = [tool.name for tool in CATALOGUE.values() if not tool.server_side]
    assert list(executor.tools_supported) == names, "see ARGUMENTS of tools/arguments.py and tools/handlers"
    assert ALIASES == PROTOCOL_ALIASES


@cases("name", ARGUMENTS)
def test_the_arguments_are_those_of_the_schema(name: str) -> None:
    schema = CATALOGUE[name].parameters
    assert list(schema["properties"]) == list(ARGUMENTS[name])
    assert schema["required"] == [known for known, argument in ARGUMENTS[name].items() if argument.required]
    for known, argument in ARGUMENTS[name].items():
        said = schema["properties"][known]
        assert said["type"] == ("array" if argument.kind in ("strings", "objects") else argument.kind)
        assert list(said.get("items", {}).get("properties", {})) == list(argument.parts)
        assert tuple(said.get("enum", ())) == argument.choices
        least = said.get("minLength", said.get("minItems", said.get("minimum", 0)))
        assert (least, said.get("maxLength", said.get("maxItems", said.get("maximum")))) == (
            argument.minimum,
            argument.maximum,
        )


def test_the_limits_are_those_of_the_protocol() -> None:
    assert (limits.PATH_CHARS, limits.FILE_BYTES, limits.DIFF_BYTES) == (
        protocol_limits.LONG_PATH_CHARS,
        protocol_limits.FILE_BYTES,
        protocol_limits.DIFF_BYTES,
    )


def test_results_have_the_form_of_the_protocol(executor: Executor, folder: Path) -> None:
    repository(folder, **{"a.txt": "hello\n", "b.txt": "b\n"})
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-hello\n+bye\n"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "a.txt"}),
        ("write_file", {"path": "c/d.txt", "content": "d\n"}),
        ("list_files", {"path": "."}),
        ("search_in_project", {"query": "hello"}),
        ("create_directory", {"path": "e"}),
        ("move_file", {"from": "c/d.txt", "to": "f.txt"}),
        ("delete_file", {"path": "f.txt"}),
        ("run_command", {"command": "echo out; echo err >&2; exit 3"}),
        ("run_command", {"command": "kill -9 $$"}),
        ("run_persistent", {"command": "echo up; sleep 60", "process_id": "p"}),
        ("apply_patch", {"diff": diff}),
        ("git.diff", {"path": "."}),
        ("git.status", {}),
        ("git.log", {}),
        ("git.branch", {"action": "create", "name": "other"}),
        ("git.branch", {"action": "list"}),
        ("git.commit", {"message": "second", "files": ["a.txt"]}),
        ("apply_patch_review", {"diff": diff}),
        ("prompt_user", {"message": "?", "actions": ["approve", "deny"]}),
    ]
    for name, arguments in calls:
        CATALOGUE[name].check(arguments)
        found = result(executor, name, **arguments)
        assert CATALOGUE[name].result.fits(found), (name, found)
        assert CATALOGUE[name].result.normal(found) == found


def test_error_codes_are_the_protocols() -> None:
    assert set(get_args(Code)) <= set(ErrorCode)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("read_file", {}, "INVALID_ARGUMENTS"),
        ("read_file", {"path": 1}, "INVALID_ARGUMENTS"),
        ("read_file", {"path": "a", "more": 1}, "INVALID_ARGUMENTS"),
        ("list_files", {"path": ".", "recursive": "yes"}, "INVALID_ARGUMENTS"),
        ("git.log", {"limit": 0}, "INVALID_ARGUMENTS"),
        ("git.log", {"limit": True}, "INVALID_ARGUMENTS"),
        ("git.branch", {"action": "push"}, "INVALID_ARGUMENTS"),
        ("git.commit", {"message": "m", "files": [1]}, "INVALID_ARGUMENTS"),
        ("prompt_user", {"message": "m", "actions": []}, "INVALID_ARGUMENTS"),
        ("git.push", {}, "TOOL_NOT_FOUND"),
        ("deploy", {}, "TOOL_NOT_FOUND"),
        ("switch_agent", {"agent_type": "coder", "reason": ""}, "TOOL_NOT_FOUND"),
        ("read_file", {"path": "none.txt"}, "FILE_NOT_FOUND"),
        ("list_files", {"path": "none"}, "FILE_NOT_FOUND"),
        ("search_in_project", {"query": "x", "path": "none"}, "FILE_NOT_FOUND"),
        ("delete_file", {"path": "none"}, "FILE_NOT_FOUND"),
        ("move_file", {"from": "none", "to": "b"}, "FILE_NOT_FOUND"),
        ("run_command", {"command": "true", "cwd": "none"}, "FILE_NOT_FOUND"),
        ("run_command", {"command": "a\0b"}, "INVALID_ARGUMENTS"),
        ("kill_process", {"process_id": "none"}, "EXECUTION_FAILED"),
        ("git.status", {}, "GIT_NOT_INITIALIZED"),
        ("git.log", {}, "GIT_NOT_INITIALIZED"),
        ("write_file", {"path": "a", "content": "\ud800"}, "ENCODING_ERROR"),
        ("write_file", {"path": "a", "content": "x" * 1_000_001}, "FILE_TOO_LARGE"),
        ("apply_patch", {"diff": "x" * 5_000_001}, "FILE_TOO_LARGE"),
        ("apply_patch", {"diff": "one line"}, "INVALID_ARGUMENTS"),
    ],
)
def test_errors_have_their_codes(executor: Executor, tool: str, arguments: dict[str, Any], code: str) -> None:
    assert error_code(executor, tool, **arguments) == code


def test_a_file_that_is_not_found_is_looked_for_by_its_name(files: Executor) -> None:
    result(files, "write_file", path="src/only_here.py", content="x")

    def said(path: str) -> str:
        error = execute(files, "read_file", path=path).error
        assert error is not None
        assert error.code == "FILE_NOT_FOUND"
        return error.message

    assert said("shop/src/only_here.py").endswith("relative to the workspace, which has: src/only_here.py")
    assert "workspace" not in said("shop/nowhere.py") + said("shop/*")


def test_an_absent_argument_may_be_null(executor: Executor) -> None:
    assert result(executor, "list_files", path=".", pattern=None) == {"files": []}


def test_a_call_that_awaits_approval_is_not_executed(executor: Executor, folder: Path) -> None:
    waiting = ToolCall("c", "write_file", {"path": "a", "content": ""}, requires_approval=True)
    outcome = asyncio.run(executor.execute(waiting, Output()))
    assert outcome.error is not None
    assert (outcome.error.code, list(folder.iterdir())) == ("PERMISSION_DENIED", [])


def test_a_workspace_in_memory_has_no_commands_and_no_git() -> None:
    supported = Executor(MemoryWorkspace()).tools_supported
    assert "write_file" in supported
    assert not {"run_command", "git.status", "prompt_user"} & set(supported)


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_is_written_read_moved_and_deleted(files: Executor) -> None:
    assert result(files, "write_file", path="src/a.py", content="é\r\n") == {"success": True, "bytes_written": 4}
    found = result(files, "read_file", path="src/a.py")
    assert (found["content"], found["encoding"], found["size"]) == ("é\r\n", "utf-8", 4)
    assert result(files, "move_file", **{"from": "src/a.py", "to": "lib/x/b.py"}) == {"success": True}
    assert error_code(files, "read_file", path="src/a.py") == "FILE_NOT_FOUND"
    assert result(files, "search_in_project", query="É") == {
        "matches": [{"path": "lib/x/b.py", "line": 1, "text": "é"}],
        "truncated": False,
    }
    assert result(files, "delete_file", path="lib") == {"success": True}
    assert error_code(files, "read_file", path="lib/x/b.py") == "FILE_NOT_FOUND"


def test_a_directory_is_no_file(files: Executor) -> None:
    assert result(files, "create_directory", path="a/b") == {"success": True}
    assert result(files, "create_directory", path="a/b") == {"success": True}
    assert error_code(files, "read_file", path="a/b") == "EXECUTION_FAILED"
    assert error_code(files, "write_file", path="a", content="") == "EXECUTION_FAILED"
    assert result(files, "write_file", path="f", content="") == {"success": True, "bytes_written": 0}
    assert error_code(files, "write_file", path="f/g", content="") == "FILE_NOT_FOUND"
    assert error_code(files, "create_directory", path="f") == "FILE_NOT_FOUND"


def test_nothing_is_moved_onto_something_or_into_itself(files: Executor) -> None:
    for name in ("a/x", "b/y"):
        result(files, "write_file", path=name, content=name)
    for source, target in (("a", "b"), ("a/x", "b/y"), ("a", "a/c"), ("a", "a")):
        assert error_code(files, "move_file", **{"from": source, "to": target}) == "EXECUTION_FAILED"
    assert result(files, "read_file", path="b/y")["content"] == "b/y"


@pytest.mark.parametrize("tool", ["delete_file", "read_file", "write_file", "move_file"])
def test_the_workspace_itself_is_not_changed(executor: Executor, folder: Path, tool: str) -> None:
    (folder / "a").write_text("a")
    given = {"write_file": {"path": ".", "content": ""}, "move_file": {"from": ".", "to": "b"}}
    assert error_code(executor, tool, **given.get(tool, {"path": "./"})) == "EXECUTION_FAILED"
    assert (folder / "a").read_text() == "a"


def test_a_written_file_keeps_its_mode_and_a_new_one_has_the_users(executor: Executor, folder: Path) -> None:
    script = folder / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    result(executor, "read_file", path="run.sh")
    result(executor, "write_file", path="run.sh", content="new")
    result(executor, "write_file", path="new.txt", content="new")
    (folder / "theirs").touch()
    assert (script.stat().st_mode & 0o7777, script.read_text()) == (0o750, "new")
    assert (folder / "new.txt").stat().st_mode == (folder / "theirs").stat().st_mode
    assert sorted(entry.name for entry in folder.iterdir()) == ["new.txt", "run.sh", "theirs"]


def test_the_name_of_a_file_outside_keeps_its_content(executor: Executor, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("old")
    (folder / "a").hardlink_to(tmp_path / "outside")
    result(executor, "read_file", path="a")
    assert error_code(executor, "write_file", path="a", content="new") == "PERMISSION_DENIED"
    result(executor, "delete_file", path="a")
    result(executor, "write_file", path="a", content="new")
    assert (tmp_path / "outside").read_text() == "old"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"x" * 1_000_001, "FILE_TOO_LARGE"),
        (b"x" * 2_000_000, "FILE_TOO_LARGE"),
        (b"\xff\xfe\x00", "ENCODING_ERROR"),
        (b"text\0", "ENCODING_ERROR"),
        (b"\xed\xa0\x80", "ENCODING_ERROR"),
    ],
)
def test_a_file_that_is_too_large_or_no_text_is_not_read(
    executor: Executor, folder: Path, content: bytes, code: str
) -> None:
    (folder / "a").write_bytes(content)
    assert error_code(executor, "read_file", path="a") == code


def test_the_largest_file_is_written_and_read(files: Executor) -> None:
    text = "é" * 500_000
    assert result(files, "write_file", path="a", content=text)["bytes_written"] == 1_000_000
    assert result(files, "read_file", path="a")["content"] == text


def test_links_inside_the_workspace_are_read_but_not_changed(executor: Executor, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real/a").write_text("a")
    (folder / "link").symlink_to("real")
    (folder / "file").symlink_to(folder / "real" / "a")
    (folder / "real/up").symlink_to("../real/a")
    for name in ("link/a", "file", "link/up"):
        assert result(executor, "read_file", path=name)["content"] == "a"
    assert result(executor, "list_files", path="link")["files"][0]["name"] == "a"
    for name in ("link/a", "file", "link/new", "link/up"):
        outcome = execute(executor, "write_file", path=name, content="b")
        assert outcome.error is not None
        assert outcome.error.code == "PERMISSION_DENIED"
    outcome = execute(executor, "write_file", path="link/a", content="b")
    assert outcome.error is not None
    assert "symbolic link to real" in outcome.error.message
    assert error_code(executor, "delete_file", path="link/a") == "PERMISSION_DENIED"
    assert result(executor, "delete_file", path="link") == {"success": True}
    assert (folder / "real/a").read_text() == "a"


def test_listings_descend_match_and_leave_out_what_git_ignores(executor: Executor, folder: Path) -> None:
    repository(folder, **{".gitignore": "build/\n*.log\n", "a.py": "", "b.txt": "needle\n"})
    for name in ("src/c.py", "src/deep/d.py", "build/e.py", "x.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("needle\n")

    def names(**arguments: Any) -> list[str]:
        return [entry["name"] for entry in result(executor, "list_files", **arguments)["files"]]

    assert names(path=".") == [".gitignore", "a.py", "b.txt", "build", "src", "x.log"]
    assert names(path=".", recursive=True, pattern="*.py") == ["a.py", "src/c.py", "src/deep/d.py"]
    assert names(path=".", recursive=True, pattern="src/**/*.py") == ["src/c.py", "src/deep/d.py"]
    assert names(path="src", recursive=True) == ["c.py", "deep", "deep/d.py"]
    assert names(path="build", recursive=True) == ["e.py"]
    found = result(executor, "search_in_project", query="NEEDLE")["matches"]
    assert [match["path"] for match in found] == ["b.txt", "src/c.py", "src/deep/d.py"]


def test_searches_respect_case_several_lines_and_one_file(files: Executor) -> None:
    result(files, "write_file", path="a.txt", content="One\ntwo one\r\nthree\n")
    result(files, "write_file", path="b.bin", content="one\0")

    def found(**arguments: Any) -> list[tuple[int, str]]:
        matches = result(files, "search_in_project", **arguments)["matches"]
        return [(match["line"], match["text"]) for match in matches]

    assert found(query="one") == [(1, "One"), (2, "two one")]
    assert found(query="one", case_sensitive=True) == [(2, "two one")]
    assert found(query="One\ntwo") == [(1, "One")]
    assert found(query="three", path="a.txt") == [(3, "three")]
    assert found(query=".*") == []


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
@pytest.mark.parametrize("query", sampled(["e.d", "NEEDLE", "needle needle"]))
@pytest.mark.parametrize("case_sensitive", [False, True])
def test_ripgrep_finds_what_we_find(folder: Path, query: str, case_sensitive: bool) -> None:
    files = {".gitignore": "build/\n", "a.py": "x\nNeedle\n", "--pre=x": "needle needle\r\n", ".b": "needle"}
    repository(folder, **files)
    for name, content in (("build/e.py", "needle"), ("src/c.py", "needle\n" * 3), ("bin", "needle\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "link").symlink_to("src")
    sandbox = choose(folder.parent / "home").sandbox
    assert sandbox.guarantees.writes_only_there
    by_ripgrep, by_us = Executor(DiskWorkspace(folder), sandbox), Executor(DiskWorkspace(folder))
    assert by_ripgrep._search._ripgrep is not None
    assert by_us._search._ripgrep is None

    def found(executor: Executor, path: str) -> list[Any]:
        said = result(executor, "search_in_project", path=path, query=query, case_sensitive=case_sensitive)
        return sorted((match["path"], match["line"], match["text"]) for match in said["matches"])

    for path in (".", "src", "build", "a.py"):
        assert found(by_ripgrep, path) == found(by_us, path)


def test_searches_take_patterns_globs_and_context(files: Executor) -> None:
    result(files, "write_file", path="src/a.py", content="one\r\nTODO: two\r\nthree\r\n")
    result(files, "write_file", path="src/deep/b.py", content="todo\nFIXME\nTODO\n")
    result(files, "write_file", path="c.txt", content="TODO\n")

    def found(**arguments: Any) -> list[tuple[str, int]]:
        matches = result(files, "search_in_project", **arguments)["matches"]
        return [(match["path"], match["line"]) for match in matches]

    assert found(query="^(TODO|FIXME)$", regex=True, glob="*.py") == [
        ("src/deep/b.py", 1),
        ("src/deep/b.py", 2),
        ("src/deep/b.py", 3),
    ]
    assert found(query="two$", regex=True, case_sensitive=True) == [("src/a.py", 2)], "a CR is no part of a line"
    assert found(query="todo", glob="src/*.py", path=".") == [("src/a.py", 2)]
    assert found(query="todo", glob="deep/*.py", path="src") == [("src/deep/b.py", 1), ("src/deep/b.py", 3)]
    (match,) = result(files, "search_in_project", query="two", context=1)["matches"]
    assert (list(match["before"]), match["text"], list(match["after"])) == (["one"], "TODO: two", ["three"])
    some = result(files, "search_in_project", query="todo", max_results=2)
    assert (len(some["matches"]), some["truncated"]) == (2, True)


@pytest.mark.parametrize("query", ["(", "(?=x)", "a{2000}", "(a{1000}){1000}"])
def test_a_wrong_pattern_is_refused_and_an_evil_one_takes_no_time(files: Executor, query: str) -> None:
    result(files, "write_file", path="a", content="a" * 100_000 + "!\n")
    assert error_code(files, "search_in_project", query=query, regex=True) == "INVALID_ARGUMENTS"
    assert result(files, "search_in_project", query="(a*)*(a|aa)*$", regex=True)["matches"]


def test_files_are_found_by_their_names(files: Executor) -> None:
    for path in ("src/a_test.py", "src/a.py", "b_test.py"):
        result(files, "write_file", path=path, content="")
    assert result(files, "find_files", glob="*_test.py") == {
        "files": ["b_test.py", "src/a_test.py"],
        "truncated": False,
    }
    assert result(files, "find_files", glob="**/*.py", path="src")["files"] == ["src/a.py", "src/a_test.py"]
    assert result(files, "find_files", glob="*", max_results=1) == {"files": ["b_test.py"], "truncated": True}
    assert error_code(files, "find_files", glob="*", path="gone") == "FILE_NOT_FOUND"


# -- parts of files and edits ------------------------------------------------------------------------------------------


def test_a_part_of_a_file_is_read_by_lines(files: Executor) -> None:
    result(files, "write_file", path="a", content="one\ntwo\r\n\x0cthree\nfour")

    def part(**arguments: int) -> tuple[str, int, int]:
        read = result(files, "read_file", path="a", **arguments)
        return read["content"], read["first_line"], read["total_lines"]

    assert part() == ("one\ntwo\r\n\x0cthree\nfour", 1, 4)
    assert part(offset=2, limit=2) == ("two\r\n\x0cthree\n", 2, 4)
    assert part(offset=4) == ("four", 4, 4)
    assert part(offset=3, limit=9) == ("\x0cthree\nfour", 3, 4)
    beyond = result(files, "read_file", path="a", offset=5, limit=2)
    assert (beyond["content"], beyond["message"], beyond["total_lines"]) == ("", "a has only 4 lines", 4)
    assert "first_line" not in beyond
    result(files, "write_file", path="empty", content="")
    assert result(files, "read_file", path="empty", offset=1)["content"] == ""


def test_a_part_of_a_large_file_can_be_read(executor: Executor, folder: Path) -> None:
    (folder / "log").write_text("".join(f"line {n}\n" for n in range(1, 300_001)))
    assert error_code(executor, "read_file", path="log") == "FILE_TOO_LARGE"
    assert result(executor, "read_file", path="log", offset=299_999)["content"] == "line 299999\nline 300000\n"
    assert error_code(executor, "read_file", path="log", limit=200_000) == "FILE_TOO_LARGE"


def refusal(executor: Executor, **arguments: Any) -> str:
    outcome = execute(executor, "edit_file", **arguments)
    assert outcome.error is not None
    assert outcome.error.code == "PATCH_APPLY_FAILED"
    return outcome.error.message


def test_edits_refer_to_the_file_as_it_was(files: Executor) -> None:
    result(files, "write_file", path="a", content="a = 1\nb = 2\nc = 1\n")
    swapped = [{"old": "a = 1", "new": "b = 2"}, {"old": "b = 2", "new": "a = 1"}]
    assert result(files, "edit_file", path="a", edits=swapped) == {"success": True, "replacements": 2}
    assert result(files, "read_file", path="a")["content"] == "b = 2\na = 1\nc = 1\n"
    everywhere = [{"old": " = 1", "new": " = 7", "replace_all": True}]
    assert result(files, "edit_file", path="a", edits=everywhere)["replacements"] == 2
    assert result(files, "read_file", path="a")["content"] == "b = 2\na = 7\nc = 7\n"


def test_an_edit_that_is_not_clear_is_refused_and_shows_where_it_might_be(files: Executor) -> None:
    content = "def f(x):\n\treturn x + 1\n\ndef g(x):\n\treturn x + 1\n"
    result(files, "write_file", path="a.py", content=content)

    def why(old: str, new: str = "", **more: Any) -> str:
        return refusal(files, path="a.py", edits=[{"old": old, "new": new, **more}])

    assert "occurs 2 times (lines 2, 5)" in why("\treturn x + 1")
    shown = why("def g(x):\n    return x + 2")
    assert "The closest lines are:\n1\tdef f(x):" in shown
    assert shown.endswith("\n4\tdef g(x):\n5\t\treturn x + 1")
    assert "No line of the file is like it" in why("something else entirely")
    assert "old and new are equal" in why("def f", "def f")
    assert "overlap" in refusal(
        files, path="a.py", edits=[{"old": "def f(x)", "new": "1"}, {"old": "f(x):", "new": "2"}]
    )
    result(files, "write_file", path="aaa", content="aaa")
    assert "occurs 2 times" in refusal(files, path="aaa", edits=[{"old": "aa", "new": "b"}])
    assert "overlap" in refusal(files, path="aaa", edits=[{"old": "aa", "new": "b", "replace_all": True}])
    assert result(files, "read_file", path="a.py")["content"] == content


def test_line_ends_stay_as_they_are(files: Executor) -> None:
    result(files, "write_file", path="a", content="one\r\ntwo\r\n")
    result(files, "edit_file", path="a", edits=[{"old": "one\ntwo", "new": "1\n2"}])
    assert result(files, "read_file", path="a")["content"] == "1\r\n2\r\n"
    result(files, "write_file", path="a", content="one\r\ntwo\nthree\n")
    result(files, "edit_file", path="a", edits=[{"old": "one\ntwo", "new": "1\n2"}])
    assert result(files, "read_file", path="a")["content"] == "1\r\n2\nthree\n"


def test_edits_of_hostile_sizes_end_soon(files: Executor) -> None:
    result(files, "write_file", path="a", content="a" * 1_000_000)
    assert "overlap" in refusal(files, path="a", edits=[{"old": "a" * 500_000, "new": "b", "replace_all": True}])
    assert "many times" in refusal(files, path="a", edits=[{"old": "a" * 500_000, "new": "b"}])
    assert "use write_file" in refusal(files, path="a", edits=[{"old": "a", "new": "b", "replace_all": True}])
    grown = [{"old": "a" * 1_000_000, "new": "b" * 1_000_001}]
    assert error_code(files, "edit_file", path="a", edits=grown) == "FILE_TOO_LARGE"
    assert error_code(files, "edit_file", path="gone", edits=grown) == "FILE_NOT_FOUND"


def test_a_long_search_and_a_long_listing_say_that_there_is_more(executor: Executor, folder: Path) -> None:
    (folder / "a").write_text("x\n" * 600)
    found = result(executor, "search_in_project", query="x")
    assert (len(found["matches"]), found["truncated"]) == (500, True)
    (folder / "many").mkdir()
    for number in range(limits.ENTRIES + 1):
        (folder / "many" / f"{number:05}").touch()
    listed = result(executor, "list_files", path="many")
    assert (len(listed["files"]), listed["truncated"]) == (limits.ENTRIES, True)


def test_a_name_that_is_not_utf8_is_listed(executor: Executor, folder: Path) -> None:
    (folder / os.fsdecode(b"a\xff")).touch()
    assert result(executor, "list_files", path=".")["files"][0]["name"] == "a\ufffd"
    assert result(executor, "search_in_project", query="x")["matches"] == []


# -- patches -----------------------------------------------------------------------------------------------------------


def test_a_patch_changes_creates_deletes_and_renames_files(files: Executor) -> None:
    for name, content in (("a", "1\n2\n3\n"), ("b", "b\n"), ("c", "c\n")):
        result(files, "write_file", path=name, content=content)
    diff = (
        "--- a/a\n+++ b/a\n@@ -2 +2 @@\n-2\n+two\n"
        "--- /dev/null\n+++ b/new/d\n@@ -0,0 +1 @@\n+d\n\\ No newline at end of file\n"
        "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
        "diff --git a/c b/e\nrename from c\nrename to e\n--- a/c\n+++ b/e\n@@ -1 +1 @@\n-c\n+e\n"
    )
    found = result(files, "apply_patch", diff=diff)
    assert (found["success"], sorted(found["files_modified"])) == (True, ["a", "b", "c", "e", "new/d"])
    assert result(files, "read_file", path="a")["content"] == "1\ntwo\n3\n"
    assert result(files, "read_file", path="new/d")["content"] == "d"
    assert result(files, "read_file", path="e")["content"] == "e\n"
    assert error_code(files, "read_file", path="b") == error_code(files, "read_file", path="c") == "FILE_NOT_FOUND"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("--- a/b\n+++ b/b\n@@ -1 +1 @@\n-other\n+x\n", "PATCH_APPLY_FAILED"),
        ("--- a/none\n+++ b/none\n@@ -1 +1 @@\n-b\n+x\n", "PATCH_APPLY_FAILED"),
        ("--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n", "PATCH_APPLY_FAILED"),
        ("--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", "PATCH_APPLY_FAILED"),  # it has two lines
        ("--- /dev/null\n+++ b/b/c\n@@ -0,0 +1 @@\n+x\n", "FILE_NOT_FOUND"),
        ("--- /dev/null\n+++ b/new/link/y\n@@ -0,0 +1 @@\n+x\n", "PERMISSION_DENIED"),
        ("--- a/link/x\n+++ b/link/x\n@@ -1 +1 @@\n-x\n+y\n", "PERMISSION_DENIED"),
        ("--- a/../b\n+++ b/../b\n@@ -1 +1 @@\n-b\n+x\n", "PATH_OUTSIDE_WORKSPACE"),
        ("--- a/dir\n+++ b/dir\n@@ -1 +1 @@\n-b\n+x\n", "EXECUTION_FAILED"),
    ],
)
def test_a_patch_is_applied_completely_or_not_at_all(executor: Executor, folder: Path, last: str, code: str) -> None:
    (folder / "a").write_text("a\n")
    (folder / "b").write_text("b\nb2\n")
    (folder / "dir").mkdir()
    (folder / "dir/x").write_text("x\n")
    (folder / "new").mkdir()
    (folder / "new/link").symlink_to("../dir")
    (folder / "link").symlink_to("dir")
    before = snapshot(folder)
    first = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+changed\n--- /dev/null\n+++ b/fresh/deep/f\n@@ -0,0 +1 @@\n+f\n"
    outcome = execute(executor, "apply_patch", diff=first + last)
    assert outcome.error is not None
    assert outcome.error.code == code
    assert contents(snapshot(folder)) == contents(before)


def test_a_patch_keeps_line_ends_the_byte_order_mark_other_encodings_and_the_mode(
    executor: Executor, folder: Path
) -> None:
    (folder / "crlf").write_bytes(b"a\r\nb\r\nc\r\n")
    (folder / "bom").write_bytes(b"\xef\xbb\xbfa\nb\n")
    (folder / "latin1").write_bytes(b"caf\xe9\nb\n")
    (folder / "latin1").chmod(0o755)
    diff = (
        "--- a/crlf\n+++ b/crlf\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+B2\n c\n"
        "--- a/bom\n+++ b/bom\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"
        "--- a/latin1\n+++ b/latin1\n@@ -2 +2 @@\n-b\n+B\n"
    )
    result(executor, "apply_patch", diff=diff)
    assert (folder / "crlf").read_bytes() == b"a\r\nB\r\nB2\r\nc\r\n"
    assert (folder / "bom").read_bytes() == b"\xef\xbb\xbfA\nb\n"
    assert (folder / "latin1").read_bytes() == b"caf\xe9\nB\n"
    assert (folder / "latin1").stat().st_mode & 0o777 == 0o755


def test_a_patch_sets_the_mode_it_names(executor: Executor, folder: Path) -> None:
    (folder / "a").write_text("a\n")
    (folder / "a").chmod(0o644)
    result(executor, "apply_patch", diff="diff --git a/a b/a\nold mode 100644\nnew mode 100755\n")
    assert (folder / "a").stat().st_mode & 0o777 == 0o755
    new = "diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"
    result(executor, "apply_patch", diff=new)
    assert (folder / "n").stat().st_mode & 0o100


def test_a_hunk_whose_lines_have_moved_is_found(files: Executor) -> None:
    result(files, "write_file", path="a", content="x\n" * 50 + "one\ntwo\n" + "y\n" * 50)
    result(files, "apply_patch", diff="--- a/a\n+++ b/a\n@@ -3,2 +3,2 @@\n one\n-two\n+2\n")
    assert result(files, "read_file", path="a")["content"] == "x\n" * 50 + "one\n2\n" + "y\n" * 50


# -- questions ---------------------------------------------------------------------------------------------------------

TWO_FILES = (
    "--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n 1\n+x\n 2\n@@ -5 +6,0 @@\n-5\n@@ -9 +9 @@ here\n-9\n+nine\n"
    "diff --git a/s b/s\nold mode 100644\nnew mode 100755\n"
)


@pytest.mark.parametrize(
    ("chosen", "kept", "action"),
    [
        ([1, 2, 3, 4], TWO_FILES.replace("@@ -5 +6,0 @@", "@@ -5,1 +5,0 @@").replace("-9 +9", "-9,1 +9,1"), "apply"),
        ([3], "--- a/a\n+++ b/a\n@@ -9,1 +9,1 @@ here\n-9\n+nine\n", "apply"),
        ([4, 4, 99], "diff --git a/s b/s\nold mode 100644\nnew mode 100755\n", "apply"),
        ([], "", "cancel"),
        (None, "", "cancel"),
    ],
)
def test_a_review_gives_the_chosen_chunks(folder: Path, chosen: list[int] | None, kept: str, action: str) -> None:
    executor = Executor(DiskWorkspace(folder), dialogue=Answers(chunks=chosen))
    found = result(executor, "apply_patch_review", diff=TWO_FILES)
    assert (found["filtered_diff"], found["action"], found["chunks_total"]) == (kept, action, 4)
    assert found["chunks_selected"] == sorted({number for number in chosen or () if number <= 4})
    if kept:
        CATALOGUE["apply_patch"].check({"diff": kept})


def test_a_question_that_the_user_closes_is_an_error(folder: Path) -> None:
    executor = Executor(DiskWorkspace(folder), dialogue=Answers())
    assert error_code(executor, "prompt_user", message="?", actions=["a"]) == "EXECUTION_FAILED"


# -- git ---------------------------------------------------------------------------------------------------------------


def test_git_shows_commits_and_switches(executor: Executor, folder: Path) -> None:
    repository(folder, a="1\n", b="b\n", c="c\n")
    (folder / "a").write_text("2\n")
    (folder / "new file").write_text("n\n")
    git(folder, "mv", "b", "B")
    git(folder, "rm", "-q", "c")
    status = result(executor, "git.status")
    assert status["branch"] == "main"
    assert {(entry["path"], entry["status"], entry["staged"]) for entry in status["files"]} == {
        ("a", "modified", False),
        ("B", "renamed", True),
        ("c", "deleted", True),
        ("new file", "untracked", False),
    }
    assert "-1\n+2\n" in result(executor, "git.diff", path="a")["diff"]
    assert "rename to B" in result(executor, "git.diff", path=".", staged=True)["diff"]
    made = result(executor, "git.commit", message="-m second", files=["a", "new file"])
    assert made["hash"] == git(folder, "rev-parse", "HEAD").strip()
    assert git(folder, "show", "--name-only", "--format=").split("\n")[:-1] == ["a", "new file"]
    log = result(executor, "git.log", limit=5)["commits"]
    assert [(entry["message"], entry["author"]) for entry in log] == [("-m second", "Ann"), ("first", "Ann")]
    assert [entry["message"] for entry in result(executor, "git.log", path="b")["commits"]] == ["first"]
    assert result(executor, "git.commit", message="staged")["success"]
    result(executor, "git.branch", action="create", name="feature/x")
    result(executor, "git.branch", action="switch", name="feature/x")
    assert result(executor, "git.branch", action="list") == {"branches": ["feature/x", "main"], "current": "feature/x"}
    result(executor, "git.branch", action="switch", name="main")
    result(executor, "git.branch", action="delete", name="feature/x")
    assert git(folder, "branch", "--format=%(refname:short)").split() == ["main"]


def test_a_commit_has_the_given_files_and_leaves_the_staged_ones(executor: Executor, folder: Path) -> None:
    repository(folder, a="1\n", b="1\n", gone="1\n", c="1\n")
    (folder / "sub").mkdir()
    for name in ("a", "b", "sub/new", "c"):
        (folder / name).write_text("2\n")
    git(folder, "add", "a", "b")
    (folder / "gone").unlink()
    result(executor, "git.commit", message="\n some \n", files=["a", "gone", "sub"])
    assert git(folder, "show", "--name-status", "--format=%B").split() == [
        "some",
        "M",
        "a",
        "D",
        "gone",
        "A",
        "sub/new",
    ]
    assert git(folder, "status", "--short").split("\n")[:-1] == ["M  b", " M c"]
    assert git(folder, "reflog", "-1", "--format=%gs").strip() == "commit: some"
    git(folder, "fsck", "--strict")
    assert not list((folder / ".git").glob("codelab-*"))


def test_the_first_commit_and_one_of_a_detached_head(executor: Executor, folder: Path) -> None:
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "Ann")
    git(folder, "config", "user.email", "ann@example.org")
    (folder / "a").write_text("1\n")
    (folder / "b").write_text("1\n")
    made = result(executor, "git.commit", message="one", files=["a"])["hash"]
    assert git(folder, "rev-parse", "main").strip() == made
    git(folder, "checkout", "--quiet", "--detach")
    made = result(executor, "git.commit", message="two", files=["b"])["hash"]
    assert git(folder, "rev-parse", "HEAD").strip() == made != git(folder, "rev-parse", "main").strip()


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("git.commit", {"message": "nothing"}, "GIT_ERROR"),
        ("git.commit", {"message": "m", "files": ["none"]}, "FILE_NOT_FOUND"),
        ("git.branch", {"action": "switch", "name": "none"}, "GIT_ERROR"),
        ("git.branch", {"action": "create", "name": "main"}, "GIT_ERROR"),
        ("git.branch", {"action": "create"}, "INVALID_ARGUMENTS"),
        ("git.branch", {"action": "delete", "name": "-D"}, "INVALID_ARGUMENTS"),
        ("git.branch", {"action": "switch", "name": "a..b"}, "INVALID_ARGUMENTS"),
        ("git.branch", {"action": "create", "name": "@{-1}"}, "INVALID_ARGUMENTS"),
    ],
)
def test_git_fails_with_its_codes(
    executor: Executor, folder: Path, tool: str, arguments: dict[str, Any], code: str
) -> None:
    repository(folder, a="1\n")
    assert error_code(executor, tool, **arguments) == code


def test_a_repository_without_commits_has_an_empty_log(executor: Executor, folder: Path) -> None:
    git(folder, "init", "--quiet", "--initial-branch=main")
    assert result(executor, "git.log") == {"commits": []}
    assert result(executor, "git.branch", action="list") == {"branches": [], "current": "main"}


def test_a_part_of_a_repository_sees_only_itself(tmp_path: Path) -> None:
    top = repository(tmp_path / "top", a="1\n")
    (top / "part").mkdir()
    (top / "part/b").write_text("b\n")
    (top / "a").write_text("2\n")
    executor = Executor(DiskWorkspace(top / "part"))
    assert result(executor, "git.status")["files"] == [{"path": "b", "status": "untracked", "staged": False}]
    assert result(executor, "git.diff", path=".")["diff"] == ""
    result(executor, "git.commit", message="part", files=["b"])
    assert git(top, "show", "--name-only", "--format=").split() == ["part/b"]
    result(executor, "git.branch", action="create", name="x")
    assert error_code(executor, "git.branch", action="switch", name="x") == "PERMISSION_DENIED"


def test_a_working_tree_uses_its_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", a="1\n")
    git(main, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    executor = Executor(DiskWorkspace(tmp_path / "side"))
    (tmp_path / "side/a").write_text("2\n")
    assert result(executor, "git.status")["branch"] == "side"
    result(executor, "git.commit", message="side", files=["a"])
    assert git(main, "log", "-1", "--format=%s", "side").strip() == "side"


def test_commits_have_the_users_name_unless_the_repository_has_one(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text("[user]\n\tname = Home\n\temail = home@example.org\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    folder = tmp_path / "ws"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "a").touch()
    executor = Executor(DiskWorkspace(folder), environment=environment)
    result(executor, "git.commit", message="one", files=["a"])
    assert git(folder, "log", "-1", "--format=%an %ae").strip() == "Home home@example.org"
    git(folder, "config", "user.name", "Here")
    (folder / "b").touch()
    result(executor, "git.commit", message="two", files=["b"])
    assert git(folder, "log", "-1", "--format=%an %ae").strip() == "Here home@example.org"


def test_the_clients_own_files_are_nobodys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the workspace is a home, tokens, keys and approvals are below it."""
    state, config = folder / ".local" / "state" / "codelab", folder / ".config" / "codelab"
    for where, name in ((state, "logins.json"), (config, "model.env")):
        where.mkdir(parents=True)
        (where / name).write_text("sk-secret")
    (folder / "link").symlink_to(".config/codelab")
    monkeypatch.setenv("XDG_STATE_HOME", str(state.parent))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parent))
    agents = Executor(DiskWorkspace(folder), choose().sandbox)
    own = [".local/state/codelab/logins.json", ".config/codelab/model.env", "link/model.env"]
    for path in own:
        assert error_code(agents, "read_file", path=path) == "PERMISSION_DENIED"
        assert error_code(agents, "write_file", path=path, content="x") == "PERMISSION_DENIED"
        assert error_code(agents, "delete_file", path=path) == "PERMISSION_DENIED"
    assert error_code(agents, "list_files", path="link") == "PERMISSION_DENIED"
    found = result(agents, "search_in_project", query="sk-secret")
    assert found["matches"] == []
    assert result(agents, "move_file", **{"from": ".config", "to": "moved"})["success"]
    assert error_code(agents, "read_file", path="moved/codelab/model.env") == "PERMISSION_DENIED"
    monkeypatch.undo()
    assert (
        result(Executor(DiskWorkspace(folder)), "read_file", path="moved/codelab/model.env")["content"] == "sk-secret"
    )
