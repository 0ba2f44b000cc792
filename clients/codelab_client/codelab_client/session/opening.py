"""Opening a session: `async with connect(url, workspace) as session`."""

import contextlib
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from codelab_client.execution import ToolExecutor
from codelab_client.session import tokens
from codelab_client.session.address import Address, checked_session_id
from codelab_client.session.elsewhere import Elsewhere
from codelab_client.session.events import Event
from codelab_client.session.gate import Restrictions
from codelab_client.session.journal import Journal, state_folder
from codelab_client.session.session import Session
from codelab_client.session.timing import Timing


@contextlib.asynccontextmanager
async def connect(
    url: str | Address,
    workspace: str | Path = ".",
    *,
    session_id: str | None = None,
    token: tokens.Token = None,
    executor: ToolExecutor | None = None,
    viewer: bool = False,
    last_seq: int | None = None,
    state: Path | None = None,
    rest_url: str = "",
    timing: Timing | None = None,
    instructions: Sequence[Mapping[str, str]] | None = None,
    on_event: Callable[[Event], None] | None = None,
    decided_elsewhere: bool = False,
    situation: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
    drafts: bool = False,
    restrictions: Restrictions | None = None,
    delegates: bool = True,
) -> AsyncIterator[Session]:
    """Open a session, and close it at the end of the block.

    url: the server, see `Address.parse`. workspace: the folder in which calls are executed.
    session_id: the conversation; None begins a new one.
    token: a JWT, or a function that returns the newest one; None takes it from CODELAB_TOKEN, if that is set.
    executor: executes the calls; None: the package's own, in `workspace`. viewer: this client never executes calls.
    last_seq: frames after this one are shown; None: those after the last finished turn that this machine has seen.
    state: the folder of the journal; None: see `state_folder`.
    instructions: the project's for the agent, each with `path` and `content`; None leaves those of the session.
    on_event: called for each event from the very first, also while the session is being opened.
    decided_elsewhere: execute calls also if they need a decision and nobody here has made it, because the user trusts
    the server's word; otherwise a `CallDecidedElsewhere` asks, unless the user has allowed it for good.
    situation: tells with each message how things stand where calls run, see docs/frames.md, `user_message`.
    drafts: ask for a `ToolCallDraft` now and then while the model writes a call.
    restrictions: the project's: what they deny is not executed, and what they ask about comes as a
    `CallDecidedElsewhere` if nobody here has decided about just that call; None: there are none.
    delegates: let the agent have others do parts of its work, whose calls are executed here too; see `SubagentUpdate`.
    Raises SessionError if no session can be opened.
    """
    address = url if isinstance(url, Address) else Address.parse(url, rest_url)
    session_id = new_session_id() if session_id is None else checked_session_id(session_id)
    token = os.environ.get("CODELAB_TOKEN") if token is None else token
    first = await tokens.current(token)
    folder = Path(workspace).resolve()
    if executor is None and not viewer:
        from codelab_client.local_executor import LocalExecutor

        executor = LocalExecutor(folder)
    state = state or state_folder()
    journal = Journal(state, f"{address.origin}#{tokens.subject(first)}#{session_id}", str(folder))
    try:
        session = Session(
            address,
            session_id,
            journal,
            None if viewer else executor,
            token,
            last_seq,
            timing or Timing(),
            instructions,
            on_event,
            Elsewhere(state, address.origin, folder, always=decided_elsewhere),
            situation,
            drafts,
            restrictions,
            delegates,
        )
        try:
            await session.open()
            yield session
        finally:
            await session.aclose()
    finally:
        journal.close()


def new_session_id() -> str:
    """An id for a new conversation, which sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
