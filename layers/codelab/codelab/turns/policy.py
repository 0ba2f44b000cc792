"""Which calls need approval, and how long a call may take."""

from collections.abc import Mapping
from typing import Any

from codelab.config import Settings
from codelab.protocol import modes
from codelab.protocol.modes import ActingMode
from codelab.protocol.tools import Tool, canonical_name

#: What the model is told of the modes in which it acts.
APPROVAL_NOTES: Mapping[str, str] = {
    "manual": "every change and every command waits for the user's approval",
    "code": "changes and commands wait for the user's approval, unless a rule allows them",
    "autonomous": "commands and protected files wait for the user's approval, other changes do not",
}


def needs_approval(
    tool: Tool, arguments: Mapping[str, Any], settings: Settings, mode: ActingMode = modes.DEFAULT
) -> bool:
    """Does the call need approval, by the catalogue, the operator's settings and the session's mode?

    A call that runs a command always does, and so does a change of files that make a tool run one: a human sees every
    way to run code, whatever is configured.

    The operator: `HITL_ENABLED=false` turns the defaults off; `HITL_DANGEROUS_TOOLS` replaces or extends them. All
    calls of a listed tool need approval, in an autonomous session too; by default, a call that changes nothing does
    not.

    The session: with `manual`, all calls that do more than read need approval, whatever the operator says; with
    `autonomous`, only those that always do and those of listed tools.
    """
    if always_asks(tool, arguments):
        return True
    if mode == "manual" and tool.risk_of(arguments) != "read":
        return True
    if not settings.hitl_enabled:
        return False
    setting = settings.hitl_dangerous_tools.strip()
    names = _names(setting.removeprefix("+"))
    is_listed = tool.name.casefold() in names or (bool(tool.listed_with) and tool.listed_with.casefold() in names)
    if mode == "autonomous":
        return is_listed
    is_default = tool.approval and not tool.is_harmless(arguments)
    if setting and not setting.startswith("+"):
        return is_listed
    return is_listed or is_default


def always_asks(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Does this call need approval in every session, whatever is configured?"""
    return tool.always_approval or tool.makes_tools_run_code(arguments)


def asks_as_text(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Does this call need approval in every session if the model has written it as text, which may be a quotation?

    All that change or execute something do, and those that reach the network.
    """
    return not tool.is_harmless(arguments) and (tool.risk != "read" or tool.approval)


def deadline_ms(tool: Tool, *, awaiting_approval: bool, settings: Settings) -> int:
    """How long the call may stay in its state, in milliseconds."""
    waits_for_human = awaiting_approval or tool.waits_for_human
    return 1000 * (settings.approval_timeout_s if waits_for_human else settings.tool_timeout_s)


def _names(setting: str) -> set[str]:
    return {canonical_name(name.strip()).casefold() for name in setting.split(",")}
