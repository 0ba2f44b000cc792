"""Titles of calls, for lists and cards."""

from codelab.protocol.tools import CATALOGUE, find_tool
from codelab.protocol.tools.tool import Tool

from tests.cases import cases


@cases(
    ("tool", "arguments", "title"),
    [
        ("read_file", {"path": "src/a.py"}, "Read src/a.py"),
        ("search_in_project", {"query": "TODO"}, "Search for TODO"),
        ("search_in_project", {"query": "TODO", "path": "src"}, "Search for TODO in src"),
        ("move_file", {"from": "a", "to": "b"}, "Move a to b"),
        ("run_command", {"command": "make test", "cwd": "app"}, "Run make test in app"),
        ("git.commit", {"message": "Add a test\n\nIt fails."}, "Commit: Add a test It fails."),
        ("apply_patch", {"diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"}, "Patch x"),
        ("run_command", {"command": "[echo {cwd}]"}, "Run [echo {cwd}]"),
    ],
)
def test_a_title_says_what_the_call_does(tool: Tool, arguments: dict, title: str) -> None:
    assert find_tool(tool).title_of(arguments) == title


def test_a_title_is_one_short_line_that_controls_no_terminal() -> None:
    title = find_tool("run_command").title_of({"command": "ls\x1b[2J\r\n\u202emoc\x9b0m" + "x" * 1_000})
    assert title.isprintable()
    assert len(title) == 160
    assert title.startswith("Run ls [2J moc 0mxxx")


@cases("tool", [tool for tool in CATALOGUE.values() if not tool.server_side], ids=lambda it: it.name)
def test_every_tool_of_the_ide_has_a_title_for_its_examples(tool: Tool) -> None:
    for example in tool.examples:
        assert tool.title_of(example.arguments) != tool.name


def test_a_patch_of_many_files_names_some_of_them() -> None:
    diff = "".join(f"--- a/{n}\n+++ b/{n}\n@@ -1 +1 @@\n-1\n+2\n" for n in range(40))
    tool = find_tool("apply_patch")
    assert tool.title_of({"diff": diff}) == "Patch 0, 1, 2 and 37 more"
    assert tool.shown_paths({"diff": diff}) == [str(n) for n in range(30)]
