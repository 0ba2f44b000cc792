"""The modes of a session: what its agent may do, from reading only to acting without questions.

In `ask` and `plan` the agent reads; in `plan` it also proposes a plan, which a human accepts, edits or rejects. In the
other modes it acts, and the mode says how much needs approval.
"""

from collections.abc import Mapping
from typing import Any, Literal

from codelab.protocol.tools.tool import Tool

Mode = Literal["ask", "plan", "manual", "code", "autonomous"]
ActingMode = Literal["manual", "code", "autonomous"]
#: The older name of the setting, with the values of clients that know no modes.
Autonomy = Literal["manual", "balanced", "autonomous"]

DEFAULT: ActingMode = "code"
#: The autonomy in each mode in which the agent acts, and the other way round.
AUTONOMY: Mapping[ActingMode, Autonomy] = {"manual": "manual", "code": "balanced", "autonomous": "autonomous"}
_OF_AUTONOMY: Mapping[str, ActingMode] = {autonomy: mode for mode, autonomy in AUTONOMY.items()}


def mode_of(settings: Mapping[str, Any]) -> Mode:
    """The mode of a session with these settings.

    `mode` is only stored while the agent reads; `autonomy` stays, and tells in which mode it acts.
    """
    mode: Mode = reading_mode(settings) or acting_mode(settings)
    return mode


def reading_mode(settings: Mapping[str, Any]) -> Literal["ask", "plan", ""]:
    """`ask` or `plan`; empty if the agent acts. All modes in which it acts offer the same tools."""
    mode: Literal["ask", "plan", ""] = settings.get("mode", "")
    return mode


def acting_mode(settings: Mapping[str, Any]) -> ActingMode:
    """The mode in which the agent acts, now or after `ask` and `plan`."""
    return _OF_AUTONOMY.get(settings.get("autonomy", ""), DEFAULT)


def with_mode(settings: Mapping[str, Any], mode: Mode) -> dict[str, Any]:
    """The settings with this mode, as they are stored."""
    others = {name: value for name, value in settings.items() if name != "mode"}
    if mode == "ask" or mode == "plan":
        return {**others, "mode": mode}
    return {**others, "autonomy": AUTONOMY[mode]}


def shown(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as clients get them, which have the mode in a field of its own."""
    return {name: value for name, value in settings.items() if name != "mode"}


def offers(mode: str, tool: Tool) -> bool:
    """May an agent call this tool in this mode? While it reads, only tools of which no call changes anything."""
    if tool.modes is not None:
        return mode in tool.modes
    return mode not in ("ask", "plan") or tool.risk == "read"
