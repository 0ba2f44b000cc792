"""Which calls a human must approve, and how long each may take."""

from collections.abc import Mapping
from typing import Any

from codelab.config import Settings
from codelab.protocol.tools import Tool, canonical_name


def needs_approval(tool: Tool, arguments: Mapping[str, Any], settings: Settings) -> bool:
    """The catalogue's defaults, changed by `HITL_ENABLED` and `HITL_DANGEROUS_TOOLS`; run_command always asks.

    A tool that is listed asks for all its calls; by default one that changes nothing by this very call does not.
    """
    if tool.always_approval:
        return True
    if not settings.hitl_enabled:
        return False
    by_default = tool.approval and not tool.is_harmless(arguments)
    listed = settings.hitl_dangerous_tools.strip()
    if listed.startswith("+"):
        return by_default or tool.name in _names(listed[1:])
    if listed:
        return tool.name in _names(listed)
    return by_default


def deadline_ms(tool: Tool, *, awaiting_approval: bool, settings: Settings) -> int:
    """How long the call may stay as it is, in milliseconds."""
    slow = awaiting_approval or tool.waits_for_human
    return 1000 * (settings.approval_timeout_s if slow else settings.tool_timeout_s)


def _names(listed: str) -> set[str]:
    return {canonical_name(name.strip()) for name in listed.split(",")}
