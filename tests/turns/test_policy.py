"""Which calls a human must approve."""

import pytest
from codelab.config import Settings
from codelab.protocol.tools import find_tool
from codelab.turns.policy import needs_approval


def asked(**settings):
    configured = Settings(**settings)
    return {
        name
        for name in ("read_file", "write_file", "apply_patch", "run_command")
        if needs_approval(find_tool(name), configured)
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"write_file", "apply_patch", "run_command"}),
        ({"hitl_enabled": False}, {"run_command"}),
        ({"hitl_dangerous_tools": "read_file, write_file"}, {"read_file", "write_file", "run_command"}),
        ({"hitl_dangerous_tools": "+read_file"}, {"read_file", "write_file", "apply_patch", "run_command"}),
    ],
)
def test_settings_change_the_defaults_but_commands_always_ask(settings, expected):
    assert asked(**settings) == expected
