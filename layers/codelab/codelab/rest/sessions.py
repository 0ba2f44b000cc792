"""Sessions: create, list, read, change, fork, delete."""

import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from fastapi import Body as OfRequest
from pydantic import BaseModel, Field, StringConstraints
from pydantic.config import JsonDict

from codelab.engine.deleter import Deleter
from codelab.engine.fork import fork
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import WhenBusy, parse_json
from codelab.protocol.modes import Autonomy, Mode, mode_of, shown
from codelab.protocol.outgoing import Status
from codelab.rest import paging
from codelab.rest.bodies import Body, JsonRoute, timestamp, with_example
from codelab.rest.error_responses import refusals
from codelab.rest.identity import RemainingMs, Sender, SessionId, SessionName, User, check_user
from codelab.sessions import keys
from codelab.sessions.items import AboutItem
from codelab.sessions.register import Phase, Register
from codelab.turns import control, lifecycle
from codelab.turns.control import Change
from codelab.turns.lifecycle import CreateSession
from codelab.wiring import engine

router = APIRouter(prefix="/sessions", tags=["sessions"], route_class=JsonRoute)

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=limits.ID_CHARS,
        pattern=r"^[!-~]+$",
        description="Requests with the same key are executed once",
    ),
]

#: A search looks at so many sessions at a time, and a list in one request so many times.
_SEARCH_PAGE, _MAX_READS = 100, 10

Title = Annotated[str, StringConstraints(min_length=1, max_length=200)]

_EXAMPLE: JsonDict = {
    "session_id": "session_456",
    "user_id": "user_123",
    "created_at": "2024-01-09T10:00:00.000Z",
    "last_activity": "2024-01-09T10:05:00.000Z",
    "metadata": {"project_path": "/path/to/project"},
    "title": "Создай файл main.dart",
    "agent": "universal",
    "status": "idle",
    "turn_id": None,
    "mode": "code",
    "settings": {"when_busy": "queue"},
    "messages": 2,
    "last_seq": 17,
}


class NewSession(Body):
    """A session to create. Without `session_id`, the server makes an id."""

    model_config = with_example(user_id="user_123", metadata={"project_path": "/path/to/project"})

    user_id: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = Field(
        default=None, description="Must be the subject of the token; without tokens it is only stored"
    )
    metadata: dict[str, Any] | None = Field(default=None, description="Stored unchanged; at most 16 KB of JSON")
    session_id: SessionName | None = None
    title: Title | None = None


class CreatedSession(BaseModel):
    """The session that was created, or that existed already."""

    model_config = with_example(session_id="session_456", created_at="2024-01-09T10:00:00.000Z")

    session_id: str
    created_at: str


class Session(BaseModel):
    """A session. `messages` is the length of its history, `last_seq` the number of its frames."""

    model_config = with_example(**_EXAMPLE)

    session_id: str
    user_id: str
    created_at: str
    last_activity: str
    metadata: dict[str, Any]
    title: str
    agent: str
    status: Status
    turn_id: str | None = Field(description="The running turn, or null")
    mode: Mode
    settings: dict[str, Any]
    messages: int
    last_seq: int


class SettingsChange(Body):
    """Settings to change, as in the frame `session_config`; null means no change."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="The model to use from the next step on, one that the server offers"
    )
    when_busy: WhenBusy | None = Field(default=None, description="What to do with a message that arrives during a turn")
    mode: Mode | None = Field(default=None, description="What the agent may do")
    autonomy: Autonomy | None = Field(
        default=None, description="The older name of `mode`, for the modes in which the agent acts; not with `mode`"
    )


class SessionChange(Body):
    """The title and settings to change; null means no change."""

    model_config = with_example(title="A new name", settings={"when_busy": "interrupt"})

    title: Title | None = None
    settings: SettingsChange | None = None


class DeletedSession(BaseModel):
    """The session is gone for every caller. `complete: false`: its data is still being removed."""

    model_config = with_example(status="deleted", complete=True)

    status: Literal["deleted"] = "deleted"
    complete: bool


class Fork(Body):
    """`up_to`: how many messages of the history to copy; absent: all."""

    model_config = with_example(up_to=2, title="Another way")

    up_to: int | None = Field(default=None, ge=0)
    title: Title | None = None


class ListedSession(BaseModel):
    """A session in a list."""

    session_id: str
    title: str
    last_activity: str
    metadata: dict[str, Any]


class SessionList(BaseModel):
    """A page of the user's sessions, latest activity first."""

    model_config = with_example(
        sessions=[
            {
                "session_id": "session_456",
                "title": "Создай файл main.dart",
                "last_activity": "2024-01-09T10:05:00.000Z",
                "metadata": {"project_path": "/path/to/project"},
            }
        ],
        next_cursor=None,
    )

    sessions: list[ListedSession]
    next_cursor: str | None = Field(description="The `cursor` for the next page; null on the last page")


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": CreatedSession, "description": "The session already exists"},
        **refusals(ErrorCode.PERMISSION_DENIED, ErrorCode.BUSY, ErrorCode.RATE_LIMITED, ErrorCode.PAYLOAD_TOO_LARGE),
    },
)
def create_session(
    sender: Sender,
    response: Response,
    new_session: Annotated[NewSession, OfRequest(default_factory=NewSession)],
    idempotency_key: IdempotencyKey = None,
) -> CreatedSession:
    """Create a session. If one with this `session_id` or `Idempotency-Key` exists, return it unchanged."""
    session_id = new_session.session_id or _id_of(idempotency_key)
    caller = sender(session_id)
    check_user(caller.user, new_session.user_id)
    event = CreateSession(new_session.user_id or caller.user, new_session.metadata or {}, new_session.title or "")
    result = engine().handle(lifecycle.create, event, caller)
    if result.transition is None:
        response.status_code = 200
    return CreatedSession(session_id=session_id, created_at=timestamp(result.register.created_at))


@router.get("", responses=refusals(ErrorCode.INVALID_ARGUMENTS))
def list_sessions(
    user: User,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: paging.Cursor = None,
    title: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Only sessions with this text in the title")
    ] = None,
    metadata: Annotated[
        str | None,
        Query(
            max_length=2_000,
            description="A JSON object: only sessions whose metadata has all of these values",
            examples=['{"cwd": "/home/ann/sorting"}'],
        ),
    ] = None,
) -> SessionList:
    """The user's sessions by last activity. A new session may be missing for a moment.

    Without those that were only connected to: they have neither a title, which the first message gives, nor metadata. A
    page may have fewer than `limit` sessions, or none; go on as long as there is a `next_cursor`.
    """
    criteria, store = _criteria_of(metadata), engine().store
    text = (title or "").casefold()
    is_search = bool(text or criteria)
    sessions: list[ListedSession] = []
    position = paging.position(cursor)
    for _ in range(_MAX_READS):
        page, next_position = store.listed(user, _SEARCH_PAGE if is_search else limit, position)
        page = [item for item in page if text in item.title.casefold()]
        abouts = store.abouts(user, [item.session_id for item in page])
        for item in page:
            if not item.title and item.session_id not in abouts:
                continue
            item_metadata = abouts[item.session_id].metadata if item.session_id in abouts else {}
            if any(name not in item_metadata or item_metadata[name] != value for name, value in criteria.items()):
                continue
            sessions.append(
                ListedSession(
                    session_id=item.session_id,
                    title=item.title,
                    last_activity=timestamp(item.last_activity),
                    metadata=item_metadata,
                )
            )
            if len(sessions) == limit:
                end = next_position if item is page[-1] else (item.last_activity, item.session_id)
                return SessionList(sessions=sessions, next_cursor=paging.cursor(end))
        position = next_position
        if position is None:
            break
    return SessionList(sessions=sessions, next_cursor=paging.cursor(position))


def _criteria_of(metadata: str | None) -> dict[str, Any]:
    """The values that a session's metadata must have."""
    try:
        criteria = parse_json(metadata or "{}")
    except ProtocolError:
        criteria = None
    if not isinstance(criteria, dict):
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS, "metadata must be a JSON object", details={"field": "metadata"}
        )
    return criteria


@router.get("/{session_id}", responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def get_session(session_id: SessionId, user: User) -> Session:
    """The session's current state."""
    register, about = engine().store.read_about(keys.partition(user, session_id))
    return _session_of(existing(register), about)


@router.patch("/{session_id}", responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def change_session(session_id: SessionId, change: SessionChange, sender: Sender) -> Session:
    """Change the title or settings, from the next message or step on. Absent fields do not change."""
    changes = {} if change.settings is None else change.settings.model_dump(exclude_none=True)
    if change.title is not None:
        changes["title"] = change.title
    caller = sender(session_id)
    engine().handle(control.change, Change(changes), caller)
    return get_session(session_id, caller.user)


@router.delete("/{session_id}", responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def delete_session(session_id: SessionId, sender: Sender, remaining_ms: RemainingMs) -> DeletedSession:
    """Delete the session with all its data. It is gone for every caller at once, and its connections are closed."""
    caller = sender(session_id)
    return DeletedSession(complete=Deleter(engine()).delete(caller.user, session_id, remaining_ms, caller))


@router.post(
    "/{session_id}/fork",
    status_code=201,
    responses=refusals(
        ErrorCode.SESSION_NOT_FOUND, ErrorCode.BUSY, ErrorCode.RATE_LIMITED, ErrorCode.PAYLOAD_TOO_LARGE
    ),
)
def fork_session(
    session_id: SessionId,
    sender: Sender,
    remaining_ms: RemainingMs,
    options: Annotated[Fork, OfRequest(default_factory=Fork)],
    idempotency_key: IdempotencyKey = None,
) -> CreatedSession:
    """Create a session with this one's history (up to a point), context files, settings and remembered rules."""
    fork_id = _id_of(idempotency_key and f"{session_id}#{idempotency_key}")
    register = fork(engine(), sender(fork_id), session_id, options.up_to, options.title, remaining_ms)
    return CreatedSession(session_id=fork_id, created_at=timestamp(register.created_at))


def existing(register: Register | None) -> Register:
    """The register. Raises ProtocolError SESSION_NOT_FOUND without one; another user's session looks the same."""
    if register is None or register.erase_at:
        raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "No such session")
    return register


def _session_of(register: Register, about: AboutItem | None) -> Session:
    details = about or AboutItem(register.user, {})
    return Session(
        session_id=register.session_id,
        user_id=details.user_id,
        created_at=timestamp(register.created_at),
        last_activity=timestamp(register.last_activity),
        metadata=details.metadata,
        title=register.title,
        agent=register.agent,
        status=register.status,
        turn_id=register.turn_id if register.phase is not Phase.IDLE else None,
        mode=mode_of(register.settings),
        settings=shown(register.settings),
        messages=register.history_n,
        last_seq=register.last_seq,
    )


def _id_of(key: str | None) -> str:
    """The id of a new session, always the same for the same key."""
    return "session_" + (engine().ids() if key is None else hashlib.sha256(key.encode()).hexdigest()[:24])
