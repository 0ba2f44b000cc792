"""Which calls a human must approve."""

from typing import Any

from codelab.config import Settings
from codelab.protocol.tools import KNOWN_TOOLS
from codelab.turns.policy import needs_approval

from tests.cases import cases


def asked(*names: Any, **settings: Any) -> Any:
    configured = Settings(**settings)
    tools = [KNOWN_TOOLS[name] for name in names or ("read_file", "write_file", "apply_patch", "run_command")]
    return {tool.name for tool in tools if needs_approval(tool, {}, configured)}


@cases(
    ("settings", "expected"),
    [
        ({}, {"write_file", "apply_patch", "run_command"}),
        ({"hitl_enabled": False}, {"run_command"}),
        ({"hitl_dangerous_tools": "read_file, WRITE_FILE"}, {"read_file", "write_file", "run_command"}),
        ({"hitl_dangerous_tools": "+read_file"}, {"read_file", "write_file", "apply_patch", "run_command"}),
    ],
)
def test_settings_change_the_defaults_but_commands_always_ask(settings: Any, expected: Any) -> None:
    assert asked(**settings) == expected


def test_an_operator_who_lists_write_file_means_edit_file_too() -> None:
    assert asked("edit_file", hitl_dangerous_tools="write_file") == {"edit_file"}
    assert asked("edit_file", hitl_dangerous_tools="delete_file") == set()
    assert asked("edit_file", hitl_enabled=False) == set()


def test_by_default_everything_that_changes_something_asks() -> None:
    assert asked(*KNOWN_TOOLS) == {
        "write_file",
        "edit_file",
        "fetch_url",
        "delete_file",
        "move_file",
        "create_directory",
        "apply_patch",
        "run_command",
        "run_persistent",
        "kill_process",
        "git.commit",
        "git.push",
        "git.branch",
        "propose_plan",
    }


@cases(
    ("action", "settings", "asks"),
    [
        ("list", {}, False),
        ("create", {}, True),
        ("switch", {}, True),
        ("delete", {}, True),
        ("delete", {"hitl_enabled": False}, False),
        ("list", {"hitl_dangerous_tools": "+write_file"}, False),
        ("list", {"hitl_dangerous_tools": "+git.branch"}, True),
        ("list", {"hitl_dangerous_tools": "git.branch"}, True),
        ("create", {"hitl_dangerous_tools": "write_file"}, False),
    ],
)
def test_whether_a_branch_call_asks_depends_on_what_it_does(action: str, settings: Any, asks: Any) -> None:
    branch = KNOWN_TOOLS["git.branch"]
    assert needs_approval(branch, {"action": action, "name": "x"}, Settings(**settings)) is asks


def test_a_tool_may_be_listed_by_its_alias() -> None:
    assert asked(hitl_dangerous_tools="write_to_file") == {"write_file", "run_command"}
