"""A session's context: the files that the agent sees with every Request, and the latest messages."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from codelab.llm.tokens import estimate_tokens
from codelab.protocol.errors import ErrorCode
from codelab.protocol.incoming import ContextUpdate
from codelab.rest.bodies import JsonRoute, timestamp, with_example
from codelab.rest.error_responses import refusals
from codelab.rest.history import Message, example, page
from codelab.rest.identity import Sender, SessionId, User
from codelab.rest.sessions import existing
from codelab.sessions import keys
from codelab.sessions.items import FileItem
from codelab.turns import files, models
from codelab.wiring import engine

router = APIRouter(prefix="/context", tags=["context"], route_class=JsonRoute)


class ContextChange(ContextUpdate):
    """Add or replace a file, remove a file, or remove all files. The history does not change.

    A file without `content` is a reference: the agent reads it when it needs it.
    """

    model_config = ConfigDict(
        defer_build=False,  # FastAPI builds it with the route
        **with_example(action="add_file", data={"path": "/src/main.dart", "content": "void main() {}"}),
    )

    type: Literal["context_update"] = "context_update"


class ChangedContext(BaseModel):
    """`context_size` is the estimated number of tokens of all files."""

    model_config = with_example(status="updated", context_size=1024, files=1)

    status: Literal["updated"] = "updated"
    context_size: int
    files: int


class StoredFile(BaseModel):
    """`reference`: only the path is stored; the agent reads the file when it needs it."""

    path: str
    added_at: str
    updated_at: str
    tokens: int
    reference: bool


class Context(BaseModel):
    """The last messages (at most as many as the model gets), the files, and the estimated tokens of both."""

    model_config = with_example(
        session_id="session_123",
        messages=[example("msg_1", 1, "user", "Привет", "2024-01-09T10:00:00.000Z")],
        files=[
            {
                "path": "src/main.dart",
                "added_at": "2024-01-09T10:00:00.000Z",
                "updated_at": "2024-01-09T10:00:00.000Z",
                "tokens": 5,
                "reference": False,
            }
        ],
        total_tokens=1024,
    )

    session_id: str
    messages: list[Message]
    files: list[StoredFile]
    total_tokens: int


@router.post(
    "/{session_id}",
    responses=refusals(
        ErrorCode.SESSION_NOT_FOUND,
        ErrorCode.RATE_LIMITED,
        ErrorCode.CONTEXT_TOO_LARGE,
        ErrorCode.FILE_TOO_LARGE,
        ErrorCode.INVALID_PATH,
        ErrorCode.PATH_OUTSIDE_WORKSPACE,
    ),
)
def change_context(session_id: SessionId, change: ContextChange, sender: Sender) -> ChangedContext:
    """Change the context files. Idempotent."""
    register = engine().handle(files.context_update, change, sender(session_id)).register
    return ChangedContext(context_size=files.context_tokens(register), files=len(register.files))


@router.get("/{session_id}", responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def get_context(session_id: SessionId, user: User) -> Context:
    """The part of the session that the agent sees."""
    sessions = engine()
    register = existing(sessions.store.read(keys.partition(user, session_id)))
    messages, _ = page(register, register.history_n, models.most_messages(sessions.settings))
    return Context(
        session_id=session_id,
        messages=messages,
        files=[_shown(file) for file in sessions.store.files(register)],
        total_tokens=files.context_tokens(register) + sum(estimate_tokens(message.content) for message in messages),
    )


def _shown(file: FileItem) -> StoredFile:
    return StoredFile(
        path=file.path,
        added_at=timestamp(file.added_at),
        updated_at=timestamp(file.updated_at),
        tokens=file.tokens,
        reference=file.content is None,
    )
