"""A session's open calls: those that wait for a human, and those that wait for the IDE."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from codelab.protocol.errors import ErrorCode
from codelab.rest.bodies import timestamp, with_example
from codelab.rest.error_responses import refusals
from codelab.rest.identity import SessionId, User
from codelab.rest.routes import DirectRoute
from codelab.rest.sessions import existing
from codelab.sessions import keys
from codelab.sessions.items import CallItem, Reference
from codelab.sessions.register import CallState, Register
from codelab.turns import calls
from codelab.wiring import engine

router = APIRouter(prefix="/sessions", tags=["approvals"], route_class=DirectRoute)


class OpenCall(BaseModel):
    """A call with its current arguments; large ones are at `payload_url`, as JSON, for an hour.

    `deadline`: when it fails or counts as rejected.
    """

    call_id: str
    tool_name: str
    arguments: dict[str, Any] | None
    payload_url: str | None
    payload_bytes: int | None
    state: CallState
    risk: str
    created_at: str
    deadline: str


class PendingApprovals(BaseModel):
    """The calls that wait for a decision, and the approved ones that wait for their result."""

    model_config = with_example(
        session_id="session_123",
        pending_approvals=[
            {
                "call_id": "call_456",
                "tool_name": "write_file",
                "arguments": {"path": "src/main.dart", "content": "void main() {}"},
                "payload_url": None,
                "payload_bytes": None,
                "state": "awaiting_approval",
                "risk": "write",
                "created_at": "2024-01-09T10:00:00.000Z",
                "deadline": "2024-01-10T10:00:00.000Z",
            }
        ],
        executing=[],
    )

    session_id: str
    pending_approvals: list[OpenCall]
    executing: list[OpenCall]


@router.get("/{session_id}/pending-approvals", responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def list_pending_approvals(session_id: SessionId, user: User) -> PendingApprovals:
    """The open calls. Decide and answer them on the WebSocket, with the same ids."""
    store = engine().store
    register = existing(store.read(keys.partition(user, session_id)))
    open_calls = [_open_call(register, call) for call in store.calls(register.pk, register.open_calls)]
    open_calls.sort(key=lambda call: (call.created_at, call.call_id))
    return PendingApprovals(
        session_id=session_id,
        pending_approvals=[call for call in open_calls if call.state is CallState.AWAITING_APPROVAL],
        executing=[call for call in open_calls if call.state is not CallState.AWAITING_APPROVAL],
    )


def _open_call(register: Register, call: CallItem) -> OpenCall:
    entry, arguments, tool = register.open_calls[call.call_id], call.effective_arguments, calls.tool_of(call)
    reference = arguments if isinstance(arguments, Reference) else None
    return OpenCall(
        call_id=call.call_id,
        tool_name=call.tool,
        arguments=None if isinstance(arguments, Reference) else arguments,
        payload_url=engine().payloads.url(register.user, register.session_id, reference.digest) if reference else None,
        payload_bytes=reference.bytes if reference else None,
        state=entry.state,
        risk=tool.risk if isinstance(arguments, Reference) else tool.risk_of(arguments),
        created_at=timestamp(call.at),
        deadline=timestamp(entry.due),
    )
