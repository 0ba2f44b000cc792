"""Sessions: create, list, look at."""

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from codelab.gateway.services import engine
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import Status
from codelab.rest import paging
from codelab.rest.bodies import Body, JsonRoute, timestamp
from codelab.rest.errors import refusals
from codelab.rest.identity import SESSION_ID, SessionId, User, check_user
from codelab.sessions import keys
from codelab.sessions.items import AboutItem, dumps
from codelab.sessions.register import Register
from codelab.turns import lifecycle

router = APIRouter(prefix="/sessions", tags=["sessions"], route_class=JsonRoute)

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=limits.ID_CHARS,
        pattern=r"^[!-~]+$",
        description="The same key again is the same request: it is carried out once",
    ),
]

_EXAMPLE: JsonDict = {
    "session_id": "session_456",
    "user_id": "user_123",
    "created_at": "2024-01-09T10:00:00.000Z",
    "last_activity": "2024-01-09T10:05:00.000Z",
    "metadata": {"project_path": "/path/to/project"},
    "title": "Создай файл main.dart",
    "agent": "universal",
    "status": "idle",
    "turn_id": "8c2f0e7c1a5b4d3e9f6a7b8c",
    "settings": {"when_busy": "queue"},
    "messages": 2,
    "last_seq": 17,
}


class NewSession(Body):
    """A session to be created. Without `session_id` the server makes one."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"user_id": "user_123", "metadata": {"project_path": "/path/to/project"}}]}
    )

    user_id: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = Field(
        default=None, description="Must be the subject of the token; where there are no tokens it is only recorded"
    )
    metadata: dict[str, Any] | None = Field(default=None, description="Kept as it is, 16 KB of JSON at most")
    session_id: Annotated[str, StringConstraints(pattern=SESSION_ID, min_length=1, max_length=128)] | None = None
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None


class CreatedSession(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"session_id": "session_456", "created_at": "2024-01-09T10:00:00.000Z"}]}
    )

    session_id: str
    created_at: str


class Session(BaseModel):
    """A session as it is. `messages` counts its history, `last_seq` its frames."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    session_id: str
    user_id: str
    created_at: str
    last_activity: str
    metadata: dict[str, Any]
    title: str
    agent: str
    status: Status
    turn_id: str | None
    settings: dict[str, Any]
    messages: int
    last_seq: int


class ListedSession(BaseModel):
    session_id: str
    title: str
    last_activity: str


class SessionList(BaseModel):
    """A page of the user's sessions, the latest activity first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "sessions": [
                        {
                            "session_id": "session_456",
                            "title": "Создай файл main.dart",
                            "last_activity": "2024-01-09T10:05:00.000Z",
                        }
                    ],
                    "next_cursor": None,
                }
            ]
        }
    )

    sessions: list[ListedSession]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")


@router.post(
    "",
    status_code=201,
    response_model=CreatedSession,
    responses={
        200: {"model": CreatedSession, "description": "There was such a session already"},
        **refusals(ErrorCode.PERMISSION_DENIED, ErrorCode.PAYLOAD_TOO_LARGE),
    },
)
def create_session(
    new: NewSession, user: User, response: Response, idempotency_key: IdempotencyKey = None
) -> CreatedSession:
    """Create a session. With the `session_id` or the `Idempotency-Key` of one that exists: that one, unchanged."""
    check_user(user, new.user_id)
    about = AboutItem(new.user_id or user, new.metadata or {})
    if len(dumps(about.metadata).encode()) > limits.METADATA_BYTES:
        raise ProtocolError(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"metadata may have {limits.METADATA_BYTES} bytes",
            details={"field": "metadata"},
        )
    session_id = new.session_id or "session_" + (_digest(idempotency_key) if idempotency_key else engine().ids())
    register, is_new = engine().create(
        user,
        session_id,
        lambda given: lifecycle.create(user, session_id, about, given, title=new.title or ""),
    )
    if not is_new:
        response.status_code = 200
    return CreatedSession(session_id=session_id, created_at=timestamp(register.created_at))


@router.get("", response_model=SessionList, responses=refusals())
def list_sessions(
    user: User, limit: Annotated[int, Query(ge=1, le=100)] = 20, cursor: paging.Cursor = None
) -> SessionList:
    """The user's sessions by last activity. A session that was just created may be missing for a moment."""
    found, following = engine().store.listed(user, limit, paging.position(cursor))
    return SessionList(
        sessions=[
            ListedSession(session_id=it.session_id, title=it.title, last_activity=timestamp(it.last_activity))
            for it in found
        ],
        next_cursor=paging.cursor(following),
    )


@router.get("/{session_id}", response_model=Session, responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def get_session(session_id: SessionId, user: User) -> Session:
    """The session as it is now."""
    register, items = engine().store.read_with(keys.partition(user, session_id), [keys.ABOUT])
    if register is None:
        raise absent()
    found = items[keys.ABOUT]
    return shown(register, AboutItem.of(found) if found else AboutItem(user, {}))


def shown(register: Register, about: AboutItem) -> Session:
    return Session(
        session_id=register.session_id,
        user_id=about.user_id,
        created_at=timestamp(register.created_at),
        last_activity=timestamp(register.last_activity),
        metadata=about.metadata,
        title=register.title,
        agent=register.agent,
        status=register.status,
        turn_id=register.turn_id or None,
        settings=register.settings,
        messages=register.history_n,
        last_seq=register.last_seq,
    )


def absent() -> ProtocolError:
    """There is none, or it is another user's: nobody can tell."""
    return ProtocolError(ErrorCode.SESSION_NOT_FOUND, "There is no such session")


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:24]
