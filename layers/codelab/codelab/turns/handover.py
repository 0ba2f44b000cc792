"""Switches the session's agent, for the user or for an agent."""

from datetime import UTC, datetime
from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import AgentSwitched
from codelab.sessions.register import Register
from codelab.turns.draft import Draft

#: How often agents may hand over one turn, so that they cannot pass it back and forth for ever.
MAX_HANDOVERS = 3


def switch(draft: Draft, to_agent: str, reason: str) -> None:
    """Make `to_agent` the session's agent from the next step on, and tell the clients."""
    fields: dict[str, Any] = {
        "from_agent": draft.register.agent,
        "to_agent": to_agent,
        "reason": reason,
        "timestamp": datetime.fromtimestamp(draft.now / 1000, UTC).isoformat(timespec="milliseconds"),
    }
    draft.register.agent = to_agent
    draft.emit(AgentSwitched(content=f"Switched to {to_agent}", metadata=fields, **fields))


def forbid(register: Register) -> None:
    """Forbid further handovers in the running turn."""
    register.handovers = MAX_HANDOVERS


def hand_over(draft: Draft, arguments: dict[str, Any]) -> Any:
    """The tool `switch_agent`.

    Raises ProtocolError INVALID_ARGUMENTS for the current agent, PERMISSION_DENIED after too many handovers.
    """
    register, to_agent = draft.register, arguments["agent_type"]
    if to_agent == register.agent:
        raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, f"{to_agent!r} is already the current agent")
    if register.handovers >= MAX_HANDOVERS:
        raise ProtocolError(
            ErrorCode.PERMISSION_DENIED,
            "This turn cannot be handed over: the user chose the agent, or it was handed over too often. Continue"
            " yourself, or tell the user what to do",
        )
    register.handovers += 1
    switch(draft, to_agent, arguments["reason"])
    return {"agent": to_agent}
