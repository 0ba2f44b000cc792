"""Which calls a human must approve, and how long each may take."""

from collections.abc import Mapping
from typing import Any

from codelab.config import Settings
from codelab.protocol.tools import Tool, canonical_name


def needs_approval(tool: Tool, arguments: Mapping[str, Any], settings: Settings, autonomy: str = "balanced") -> bool:
    """The catalogue's defaults, changed by the operator and by the session's `autonomy`.

    What runs a command always asks, and so does a change of what makes a tool run one: a human sees every way there is
    to run code, whatever was configured.

    The operator: `HITL_ENABLED=false` turns the defaults off; `HITL_DANGEROUS_TOOLS` replaces them, or adds to them. A
    tool that is listed asks for all its calls, also those of an autonomous session; by default one that changes nothing
    by this very call does not. The session: `manual` asks for all that does not only read, whatever the operator says;
    `autonomous` for what always asks and for what the operator has listed.
    """
    if always_asks(tool, arguments):
        return True
    if autonomy == "manual" and tool.risk_of(arguments) != "read":
        return True
    if not settings.hitl_enabled:
        return False
    written = settings.hitl_dangerous_tools.strip()
    listed = tool.name.casefold() in _names(written.removeprefix("+"))
    if autonomy == "autonomous":
        return listed
    by_default = tool.approval and not tool.is_harmless(arguments)
    if written and not written.startswith("+"):
        return listed
    return listed or by_default


def always_asks(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Is a human asked about this call in every session, whatever else was configured or decided before?"""
    return tool.always_approval or tool.makes_tools_run_code(arguments)


def deadline_ms(tool: Tool, *, awaiting_approval: bool, settings: Settings) -> int:
    """How long the call may stay as it is, in milliseconds."""
    slow = awaiting_approval or tool.waits_for_human
    return 1000 * (settings.approval_timeout_s if slow else settings.tool_timeout_s)


def _names(listed: str) -> set[str]:
    return {canonical_name(name.strip()).casefold() for name in listed.split(",")}
