"""The catalogue, and the checks of a call's arguments and paths."""

from typing import Any

from codelab.agents import agents
from codelab.protocol.diffs import check_diff
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.paths import workspace_path
from codelab.protocol.tools import ALIASES, CATALOGUE, KNOWN_TOOLS, SEED, find_tool
from codelab.protocol.tools.tool import Tool

from tests.cases import cases
from tests.turns.world import refusal


def refused(tool: Tool, **arguments: Any) -> ProtocolError:
    return refusal(lambda: find_tool(tool).check(arguments))


# ---------------------------------------------------------------- the catalogue


def test_the_catalogue_has_the_documents_tools_the_extensions_and_the_servers_own() -> None:
    assert {name for name, tool in CATALOGUE.items() if tool.extension} == {
        *("edit_file", "find_files", "read_process", "fetch_url", "delegate")
    }
    assert {name for name, tool in CATALOGUE.items() if not tool.extension} == {
        *("read_file", "write_file", "list_files", "search_in_project", "create_directory", "delete_file", "move_file"),
        *("run_command", "run_persistent", "kill_process"),
        *("git.diff", "git.status", "git.log", "git.branch", "git.commit"),
        *("apply_patch", "apply_patch_review", "prompt_user"),
        *("switch_agent", "update_plan", "propose_plan", "read_result"),
    }
    assert set(KNOWN_TOOLS) - set(CATALOGUE) == {"git.push"}


def test_the_seed_documents_tools_are_as_those_have_them() -> None:
    assert set(SEED) == {name for name, tool in CATALOGUE.items() if not (tool.extension or tool.server_side)}
    extras = {name: tool.extras for name, tool in CATALOGUE.items() if tool.extras}
    assert extras == {
        "read_file": ("offset", "limit"),
        "search_in_project": ("regex", "glob", "context", "max_results"),
    }
    for name, more in extras.items():
        assert not set(SEED[name].parameters["properties"]) & set(more)
        assert refusal(lambda name=name, more=more: SEED[name].check({"path": "a", "query": "b", more[0]: 1}))


def test_the_universal_agent_may_call_every_tool() -> None:
    tools = agents()["universal"].tools
    # Two of them are limited to the agents that there are.
    assert {**tools, **{name: CATALOGUE[name] for name in ("switch_agent", "delegate")}} == CATALOGUE


@cases("tool", KNOWN_TOOLS.values(), ids=KNOWN_TOOLS)
def test_every_field_of_every_tool_has_a_description(tool: Tool) -> None:
    assert tool.description.endswith(".")
    assert all(schema["description"] for schema in tool.parameters["properties"].values())
    assert tool.parameters["additionalProperties"] is False
    arguments = set(tool.parameters["properties"])
    assert set(tool.paths) | set(tool.diffs) | set(tool.byte_limits) | set(tool.harmless) <= arguments
    if tool.name in CATALOGUE:
        assert tool.examples
        assert tool.platforms or tool.server_side
        assert tool.result.schema["properties"].keys() >= set(tool.result_byte_limits)
        assert all(schema["description"] for schema in tool.result.schema["properties"].values())


@cases("tool", CATALOGUE.values(), ids=CATALOGUE)
def test_every_example_is_valid_for_its_tool(tool: Tool) -> None:
    for example in tool.examples:
        assert tool.check(example.arguments) == example.arguments
        assert tool.result.fits(example.result)
        assert tool.result.normal(example.result) == example.result


def test_an_alias_finds_its_tool() -> None:
    assert {alias: find_tool(alias).name for alias in ALIASES} == ALIASES
    assert not set(ALIASES) & set(KNOWN_TOOLS)


@cases("name", ["format_disk", "git.push", "", "READ_FILE"])
def test_an_unknown_tool_is_not_found(name: str) -> None:
    assert refusal(lambda: find_tool(name)).code is ErrorCode.TOOL_NOT_FOUND


# ---------------------------------------------------------------- arguments


@cases(
    ("tool", "arguments", "field"),
    [
        ("read_file", {}, "path"),
        ("read_file", {"path": 5}, "path"),
        ("read_file", {"path": None}, "path"),
        ("read_file", {"path": "a", "lines": 5}, "lines"),
        ("write_file", {"path": "a"}, "content"),
        ("search_in_project", {"query": ""}, "query"),
        ("git.log", {"limit": 0}, "limit"),
        ("git.branch", {"action": "create"}, "name"),
        ("git.branch", {"action": "explode", "name": "x"}, "action"),
        ("git.commit", {"message": "m", "files": ["a", 5]}, "files.1"),
        ("prompt_user", {"message": "Go on?", "actions": []}, "actions"),
    ],
)
def test_an_invalid_argument_is_named(tool: Tool, arguments: Any, field: str) -> None:
    error = refused(tool, **arguments)
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, field)


def test_an_explicit_null_is_an_absent_argument() -> None:
    assert find_tool("git.diff").check({"path": ".", "staged": None}) == {"path": "."}


def test_a_file_over_one_megabyte_is_refused() -> None:
    find_tool("write_file").check({"path": "a", "content": "x" * 1_000_000})
    error = refused("write_file", path="a", content="я" * 500_001)
    assert (error.code, error.details["field"]) == (ErrorCode.FILE_TOO_LARGE, "content")


def test_a_diff_over_five_megabytes_is_refused() -> None:
    find_tool("apply_patch").check({"diff": "x" * 5_000_000})
    assert refused("apply_patch", diff="x" * 5_000_001).code is ErrorCode.FILE_TOO_LARGE


def test_text_that_is_not_utf8_is_refused() -> None:
    error = refused("write_file", path="a", content="\ud800")
    assert (error.code, error.details["field"]) == (ErrorCode.ENCODING_ERROR, "content")


# ---------------------------------------------------------------- paths


@cases("path", ["a.py", "src/main.dart", ".", ".gitignore", "папка/файл.txt", "a..b/c", "x" * 255])
def test_relative_paths_are_accepted(path: str) -> None:
    assert workspace_path(path) == path


def test_a_leading_slash_is_stripped_only_in_lenient_mode() -> None:
    assert workspace_path("/src/main.dart") == "src/main.dart"
    error = refusal(lambda: workspace_path("/src/main.dart", lenient=False))
    assert error.code is ErrorCode.PATH_OUTSIDE_WORKSPACE


@cases(
    "path",
    ["../a", "a/../../b", "..", "a\\..\\b", "//server/x", "\\\\server\\x", "C:\\x", "c:/x", "~/x", "a/.. /b", "..."],
)
def test_paths_outside_the_workspace_are_refused(path: str) -> None:
    assert refusal(lambda: workspace_path(path)).code is ErrorCode.PATH_OUTSIDE_WORKSPACE


@cases("path", ["", "a\0b", "x" * 256, "\ud800"])
def test_invalid_paths_are_refused(path: str) -> None:
    assert refusal(lambda: workspace_path(path)).code is ErrorCode.INVALID_PATH


#: A call for each tool with paths, in which every path is `P`.
WITH_PATHS = {
    "read_file": {"path": "P"},
    "write_file": {"path": "P", "content": ""},
    "edit_file": {"path": "P", "edits": [{"old": "a", "new": "b"}]},
    "list_files": {"path": "P"},
    "find_files": {"glob": "*", "path": "P"},
    "search_in_project": {"query": "x", "path": "P"},
    "create_directory": {"path": "P"},
    "delete_file": {"path": "P"},
    "move_file": {"from": "a", "to": "P"},
    "run_command": {"command": "ls", "cwd": "P"},
    "run_persistent": {"command": "ls", "process_id": "p", "cwd": "P"},
    "delegate": {"agent": "explore", "task": "Look", "files": ["P"]},
    "git.diff": {"path": "P"},
    "git.status": {"path": "P"},
    "git.log": {"path": "P"},
    "git.commit": {"message": "m", "files": ["a", "P"]},
    "apply_patch": {"diff": "--- a/P\n+++ b/P\n@@ -1 +1 @@\n-a\n+b\n"},
    "apply_patch_review": {"diff": "diff --git a/P b/P\nold mode 100644\nnew mode 100755\n"},
}


def with_path(tool: Tool, path: str) -> dict:
    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return value
        return [put(item) for item in value] if isinstance(value, list) else value.replace("P", path)

    return {name: put(value) for name, value in WITH_PATHS[tool].items()}


def test_the_path_tests_cover_every_tool_with_paths() -> None:
    assert set(WITH_PATHS) == {name for name, tool in CATALOGUE.items() if tool.paths or tool.diffs}


@cases("tool", WITH_PATHS)
def test_calls_with_paths_outside_the_workspace_are_refused(tool: Tool) -> None:
    error = refused(tool, **with_path(tool, "../secret"))
    assert error.code is ErrorCode.PATH_OUTSIDE_WORKSPACE
    assert error.details["field"] in find_tool(tool).paths + find_tool(tool).diffs
    inside = with_path(tool, "src/x")
    assert find_tool(tool).check(inside) == inside
    assert "src/x" in find_tool(tool).paths_of(inside)


# ---------------------------------------------------------------- paths of diffs


@cases(
    ("diff", "paths"),
    [
        ("--- a/x.py\t\n+++ b/x.py\t\n@@ -1 +1 @@\n-a\n+b\n", ["x.py"]),
        ("--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+b\n", ["new.py"]),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n\n", ["x", "y"]),
        ("diff --git a/x b/x\ndeleted file mode 100644\nindex e69de29..0000000\n", ["x"]),
        ("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", ["x", "y"]),
        ('--- "a/\\320\\277.py"\n+++ "b/\\320\\277.py"\n@@ -1 +1 @@\n-a\n+b\n', ["п.py"]),
        ("--- a/with space.py\t\n+++ b/with space.py\t\n@@ -1 +1 @@\n-a\n+b\n", ["with space.py"]),
        ("--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n\n-a\n b\r\n\\ No newline at end of file\n", ["x"]),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n--- ../not a header\n a\n", ["x"]),
        ("diff --git a/src/auth.js...", []),
        ("...filtered...", []),
    ],
)
def test_check_diff_returns_the_files_of_a_diff(diff: Any, paths: Any) -> None:
    assert check_diff(diff) == paths


@cases(
    "diff",
    [
        "--- a/x\n+++ b/../../etc/passwd\n",
        "--- a//etc/passwd\n+++ b//etc/passwd\n",
        '--- a/x\n+++ "b/\\056\\056/x"\n',
        "diff --git a/x b/../x\nold mode 100644\nnew mode 100755\n",
        "diff --git a/x b/x\nrename from x\nrename to ../x\n",
        "--- a/x\n+++ b/x\f/../../etc/passwd\n",
    ],
)
def test_diffs_with_paths_outside_the_workspace_are_refused(diff: Any) -> None:
    assert refusal(lambda: check_diff(diff)).code is ErrorCode.PATH_OUTSIDE_WORKSPACE


# ---------------------------------------------------------------- results


@cases(
    ("tool", "sent", "seen"),
    [
        ("read_file", "text", {"content": "text"}),
        ("read_file", {"content": "a", "lines": 1}, {"content": "a", "lines": 1}),
        ("write_file", None, {"success": True}),
        ("write_file", True, {"success": True}),
        ("write_file", {"ok": True}, {"success": True}),
        ("list_files", {"items": [{"name": "a"}]}, {"files": [{"name": "a"}]}),
        ("list_files", ["a", "b/"], {"files": [{"name": "a"}, {"name": "b/"}]}),
        ("list_files", {"files": [{"path": "a", "type": "file"}]}, {"files": [{"name": "a", "type": "file"}]}),
        (
            "search_in_project",
            {"results": [{"file": "a", "line_number": 3, "content": "x"}]},
            {"matches": [{"path": "a", "line": 3, "text": "x"}]},
        ),
        ("run_command", {"output": "a", "exitCode": 0}, {"stdout": "a", "exit_code": 0}),
        ("run_command", "a", {"stdout": "a"}),
        ("git.diff", "diff --git", {"diff": "diff --git"}),
        ("git.status", ["a"], {"files": [{"path": "a"}]}),
        ("git.log", {"log": [{"sha": "1", "subject": "m"}]}, {"commits": [{"hash": "1", "message": "m"}]}),
        ("git.branch", ["main"], {"branches": ["main"]}),
        ("apply_patch_review", "cancel", {"action": "cancel"}),
        ("prompt_user", "approve", {"action": "approve"}),
    ],
)
def test_aliases_in_results_are_normalized(tool: Tool, sent: Any, seen: Any) -> None:
    assert find_tool(tool).result.normal(sent) == seen


@cases("tool", CATALOGUE)
@cases("sent", [{"something": "else"}, [[1]], 5, "\0", {"items": 5}, {"content": {"a": 1}}])
def test_results_that_cannot_be_normalized_are_unchanged(tool: Tool, sent: Any) -> None:
    form = find_tool(tool).result
    seen = form.normal(sent)
    assert seen == sent or form.fits(seen)


def test_errors_about_large_values_are_short() -> None:
    assert len(refused("write_file", path="a", content=["y" * 125_000]).message) < 1_000
