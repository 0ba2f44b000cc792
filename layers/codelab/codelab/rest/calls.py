"""Tool calls over HTTP: the connected IDE executes them, outside of any turn."""

import hashlib
import json
import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field, StringConstraints

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.rest.bodies import Body, JsonRoute, with_example
from codelab.rest.error_responses import refusals
from codelab.rest.identity import RemainingMs, Sender, SessionName, User
from codelab.rest.sessions import IdempotencyKey, existing
from codelab.sessions import keys
from codelab.sessions.items import CallItem, Content, Reference
from codelab.sessions.register import CallState
from codelab.turns import out_of_turn_calls
from codelab.turns.out_of_turn_calls import ExecuteTool
from codelab.wiring import engine

router = APIRouter(prefix="/tools", tags=["tools"], route_class=JsonRoute)

#: The longest wait for a result, in seconds; API Gateway gives up on an integration after 29 s.
LONGEST_WAIT_S = 20.0
#: Seconds between two reads of the call: during the first second, and later.
_SOON_S, _LATER_S, _SOON_FOR_S = 0.05, 0.25, 1.0
#: Seconds reserved for sending the answer.
_MARGIN_S = 2.0
#: The most bytes of a result in the answer itself; Lambda's limit is 6 MB.
_INLINE_BYTES = 4_000_000

_STATUS_BY_STATE = {CallState.AWAITING_APPROVAL: "pending_approval", CallState.EXECUTING: "pending"}

SessionOf = Annotated[SessionName, Query(description="The session of the call")]


class NewCall(Body):
    """A call to execute. Repeating the body with the same `call_id` does not make another call."""

    model_config = with_example(
        session_id="session_123", call_id="call_456", tool_name="read_file", arguments={"path": "/src/main.dart"}
    )

    session_id: SessionName
    tool_name: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        description="A tool of the catalogue, or one that the session's client declared"
    )
    arguments: dict[str, Any] = Field(default_factory=dict, description="The arguments, valid for the tool's schema")
    call_id: SessionName | None = Field(default=None, description="An id of your choice; absent: the server makes one")


class CallError(BaseModel):
    """Why a call failed."""

    code: ErrorCode
    message: str


class Call(BaseModel):
    """The state of a call.

    `result` is present if it is `completed` (or `rejected` or `expired`: the human's answer), `error` if it is `failed`
    or `cancelled`. A result over 4 MB is at `payload_url` for an hour, as `{"result": …}`.
    """

    model_config = with_example(call_id="call_456", status="completed", result={"content": "void main() {}"})

    call_id: str
    status: str = Field(description="pending, pending_approval, completed, failed, rejected, expired or cancelled")
    result: Any = None
    error: CallError | None = None
    payload_url: str | None = None


@router.post(
    "/execute",
    response_model_exclude_unset=True,
    responses={
        202: {"model": Call, "description": "It waits for the IDE or for a human: ask again later"},
        **refusals(
            ErrorCode.SESSION_NOT_FOUND,
            ErrorCode.TOOL_NOT_FOUND,
            ErrorCode.EXECUTION_FAILED,
            ErrorCode.PERMISSION_DENIED,
            ErrorCode.RATE_LIMITED,
            ErrorCode.FILE_TOO_LARGE,
            ErrorCode.INVALID_PATH,
            ErrorCode.PATH_OUTSIDE_WORKSPACE,
        ),
    },
)
def execute_tool(
    new_call: NewCall,
    sender: Sender,
    response: Response,
    remaining_ms: RemainingMs,
    idempotency_key: IdempotencyKey = None,
    wait: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for the result of a new call")
    ] = (LONGEST_WAIT_S),
) -> Call:
    """Execute a tool in the connected IDE, after a human's approval if the policy requires it.

    The call belongs to no turn and is not part of the history. 202: it is not finished; send the same request again,
    which is answered at once, or read `/tools/calls/{call_id}`.
    """
    sessions, caller = engine(), sender(new_call.session_id)
    user = caller.user
    call_id = new_call.call_id or "call_" + (_digest(idempotency_key) if idempotency_key else sessions.ids())
    transition = sessions.handle(
        out_of_turn_calls.execute, ExecuteTool(call_id, new_call.tool_name, new_call.arguments), caller
    ).transition
    # A repeated request does not wait: the first one did, and each wait holds an execution.
    wait_s = min(wait, remaining_ms() / 1000 - _MARGIN_S) if transition is not None else 0.0
    call = _wait_until_settled(user, new_call.session_id, call_id, wait_s)
    call_status = _status_of(user, new_call.session_id, call)
    if call_status.error is not None:
        raise ProtocolError(
            ErrorCode.EXECUTION_FAILED,
            call_status.error.message or f"{call.tool} failed",
            call_id=call_id,
            details={"reason": call_status.error.code.value, "status": call_status.status},
        )
    if CallState(call.state).is_open:
        response.status_code = 202
    return call_status


@router.get(
    "/calls/{call_id}",
    response_model_exclude_unset=True,
    responses=refusals(ErrorCode.SESSION_NOT_FOUND, ErrorCode.INVALID_CALL_ID),
)
def get_call(
    call_id: Annotated[str, Path(min_length=1, max_length=limits.ID_CHARS)], user: User, session_id: SessionOf
) -> Call:
    """The state of a call, made by an agent or over HTTP. If the call failed, `error` says why, with status 200."""
    register, call = engine().store.read_call(keys.partition(user, session_id), call_id)
    existing(register)
    if call is None:
        raise ProtocolError(ErrorCode.INVALID_CALL_ID, "No such call in this session", call_id=call_id)
    return _status_of(user, session_id, call)


def _digest(key: str) -> str:
    """A key as a part of an id. The key may have characters that no path allows."""
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def _wait_until_settled(user: str, session_id: str, call_id: str, wait_s: float) -> CallItem:
    """The call once it is settled, or as it is after `wait_s` seconds. Reads one item by key each time."""
    pk, started_at = keys.partition(user, session_id), time.monotonic()
    while True:
        items = engine().store.calls(pk, [call_id])
        if not items:  # the session was deleted meanwhile
            raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "The session was deleted")
        (call,) = items
        elapsed = time.monotonic() - started_at
        if not CallState(call.state).is_open or elapsed >= wait_s:
            return call
        time.sleep(min(_SOON_S if elapsed < _SOON_FOR_S else _LATER_S, wait_s - elapsed))


def _status_of(user: str, session_id: str, call: CallItem) -> Call:
    state = CallState(call.state)
    call_status = Call(call_id=call.call_id, status=_STATUS_BY_STATE.get(state, state.value))
    if call.outcome is None:
        return call_status
    if isinstance(call.outcome, Reference) and call.outcome.bytes > _INLINE_BYTES:
        call_status.payload_url = engine().payloads.url(user, session_id, call.outcome.digest)
        return call_status
    outcome = _value(user, session_id, call.outcome)
    if "error" in outcome:
        call_status.error = CallError(**outcome["error"])
    else:
        call_status.result = outcome["result"]
    return call_status


def _value(user: str, session_id: str, content: Content) -> dict[str, Any]:
    if not isinstance(content, Reference):
        return content
    value: dict[str, Any] = json.loads(engine().payloads.read(user, session_id, content.digest))
    return value
