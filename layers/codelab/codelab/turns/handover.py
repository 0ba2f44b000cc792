"""Another agent answers from here on: because the user wants it, or because an agent asks for it."""

from datetime import UTC, datetime
from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import AgentSwitched
from codelab.sessions.register import Register
from codelab.turns.draft import Draft

#: Times that agents may hand one turn over, so that two of them cannot pass it to and fro for ever.
MOST = 3


def switch(draft: Draft, to_agent: str, reason: str, confidence: float | None = None) -> None:
    """The session's agent is `to_agent` from the next step on, and the clients are told."""
    told: dict[str, Any] = {
        "from_agent": draft.register.agent,
        "to_agent": to_agent,
        "reason": reason,
        "timestamp": datetime.fromtimestamp(draft.now / 1000, UTC).isoformat(timespec="milliseconds"),
    }
    if confidence is not None:
        told["confidence"] = confidence
    draft.register.agent = to_agent
    draft.emit(AgentSwitched(content=f"Switched to {to_agent}", metadata=told, **told))


def forbid(register: Register) -> None:
    """No agent may hand the running turn over any more."""
    register.handovers = MOST


def hand_over(draft: Draft, arguments: dict[str, Any]) -> Any:
    """The tool `switch_agent`. Raises ProtocolError PERMISSION_DENIED where the turn may not be handed over again."""
    register, to_agent = draft.register, arguments["agent_type"]
    if to_agent == register.agent:
        raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, f"{to_agent!r} is already the current agent")
    if register.handovers >= MOST:
        raise ProtocolError(
            ErrorCode.PERMISSION_DENIED,
            "This turn cannot be handed over: the user chose the agent, or it was handed over too often. Continue"
            " yourself, or tell the user what to do",
        )
    register.handovers += 1
    switch(draft, to_agent, arguments["reason"])
    return {"agent": to_agent}
