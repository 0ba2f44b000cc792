"""Keeps to the session's mode: which calls it refuses, and what the model is told of it."""

from collections.abc import Mapping

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.modes import Mode, mode_of, offers, with_mode
from codelab.protocol.outgoing import ModeSwitched
from codelab.protocol.tools import Tool
from codelab.turns.draft import Draft

#: What the prompt says of the modes in which the agent reads. It changes only together with the tools, so that a
#: provider's cache of the prompt lasts as long as that of the tools.
PROMPTS: Mapping[str, str] = {
    "ask": """\
# Mode: ask
The user wants answers and no changes: you can only read. If something has to be changed, say what and where; the user \
can switch the mode.""",
    "plan": """\
# Mode: plan
The user wants to see a plan before anything is changed: you can only read. Look at what the task is about, and ask \
about what only the user can decide. Then call `propose_plan`. If the user rejects the plan, propose another one that \
does what they say. If nothing has to be changed, just answer.""",
}


def check(draft: Draft, tool: Tool) -> None:
    """Raise ProtocolError PERMISSION_DENIED if the agent may not call the tool in the session's mode."""
    mode = mode_of(draft.register.settings)
    if not offers(mode, tool):
        raise ProtocolError(
            ErrorCode.PERMISSION_DENIED,
            f"{tool.name} is not allowed in the mode {mode}, which the user has chosen",
            details={"reason": "mode", "mode": mode},
        )


def set_mode(draft: Draft, mode: Mode, call_id: str | None = None) -> None:
    """Set the session's mode, and tell the clients if it has changed. `call_id` is the plan whose acceptance did it."""
    register = draft.register
    before = mode_of(register.settings)
    register.settings = with_mode(register.settings, mode)
    if mode != before:
        register.failures.clear()  # what this mode allows may have been refused before
        register.mode_seq = draft.emit(ModeSwitched(from_mode=before, to_mode=mode, call_id=call_id))
