"""`codelab notify`: tells the desktop when a session waits for its user, and when a turn has ended.

It looks on, as a viewer: it executes nothing, decides nothing, and sends nothing but what keeps a connection.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from codelab_client import waiting
from codelab_client.desktop import Desktop
from codelab_client.safe_text import safe, safe_line
from codelab_client.session import events as on
from codelab_client.session.address import Address
from codelab_client.session.calls import states
from codelab_client.session.errors import SessionError, Unauthorized, Unreachable
from codelab_client.session.opening import connect
from codelab_client.session.rest import Rest, RestError, of_session
from codelab_client.session.tokens import Token
from codelab_client.terminal.attention import desktop_sequence

#: The newest sessions that are followed, and seconds between two looks at which those are.
MOST_SESSIONS = 10
_LOOK_S = 30.0
#: Notifications that wait for those before; of more, only the lines are written.
_MOST_WAITING = 20
#: Turns whose end is remembered, so that it is told once.
_ENDED = 50
_TITLE = "CodeLab"
#: The tool that asks the user, without an approval.
_QUESTION = "prompt_user"
_ENDS = {
    "completed": "has finished",
    "max_steps": "has stopped after its last step",
    "refused": "has ended: the model refused",
    "budget": "has stopped: its budget is used up",
}


class Attending:
    """What a session's events mean to a user who looks elsewhere."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}  # the tools of calls
        self._turn_ids: list[str] = []

    def take(self, event: on.Event) -> str:
        """What to tell about an event; empty for most. Of several calls that wait, the first one calls."""
        match event:
            case on.ToolCall() if event.requires_approval or event.tool_name == _QUESTION:
                is_first = not self._waiting
                self._waiting[event.call_id] = event.tool_name
                return f"waits for you: {safe_line(event.tool_name, 60)}" if is_first else ""
            case on.ToolCall() | on.CallUpdate():
                self._waiting.pop(event.call_id, None)
            case on.Resumed():
                now = states(event.open_calls)
                for call_id in [
                    call_id for call_id, tool in self._waiting.items() if not _waits(tool, now.get(call_id))
                ]:
                    del self._waiting[call_id]
            case on.TurnEnd():
                self._waiting.clear()
                if event.turn_id in self._turn_ids:
                    return ""
                self._turn_ids = [*self._turn_ids[1 - _ENDED :], event.turn_id]
                # Who has cancelled it knows.
                return "" if event.reason == "cancelled" else _ENDS.get(event.reason, "has failed")
        return ""


def _waits(tool: str, state: str | None) -> bool:
    """Whether a call in such a state, None if it is closed, waits for the user."""
    return state == "awaiting_approval" or (state == "executing" and tool == _QUESTION)


class Teller:
    """Tells the user: a line, and a notification of the desktop, or else of the terminal with its bell."""

    def __init__(self, desktop: Desktop | None, write: Callable[[str], None], *, is_terminal: bool) -> None:
        self._desktop, self._write, self._is_terminal = desktop, write, is_terminal
        self._queue: asyncio.Queue[str] = asyncio.Queue(_MOST_WAITING)

    def tell(self, name: str, event_text: str) -> None:
        """Tell that something has happened in a session. name: its title, or its id."""
        text = f"{safe_line(name, 80)} {event_text}"
        self._write(f"{text}\n")
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(text)

    async def run(self) -> None:
        """Show the notifications, one after the other."""
        while True:
            text = await self._queue.get()
            if self._desktop is None or not self._desktop.program:
                self._ring(text)
            elif reason := await asyncio.to_thread(self._desktop.show, _TITLE, text):
                self._write(f"The notification was not shown: {safe(reason)}\n")
                self._ring(text)

    def _ring(self, text: str) -> None:
        if self._is_terminal:
            self._write(f"{desktop_sequence(text)}\x07")


class Following:
    """Follows sessions: those that are named or else, as time goes by, the user's newest ones."""

    def __init__(self, address: Address, folder: Path, token: Token, tell: Callable[[str, str], None]) -> None:
        self._address, self._folder, self._token, self._tell = address, folder, token, tell
        self._rest_api = Rest(address, token)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._begun_at: str | None = None  # by the server's clock, when this client began; None: not known
        self._closed_ids: set[str] = set()  # by the server: they are not opened again
        self._lost_ids: set[str] = set()  # those without a connection

    async def named(self, session_ids: Sequence[str]) -> None:
        """Follow these until the server has closed all of them. Raises SessionError."""
        for session_id in session_ids:
            await self._follow(session_id)
        _say(f"Following {', '.join(session_ids)}. Ctrl-C ends.")
        await self._attend(None)

    async def newest(self) -> None:
        """Follow the newest ones for ever. Raises SessionError if they cannot be listed, or not any more."""
        sessions = await self._listed()
        self._begun_at = max(sessions.values(), default="")
        await self._follow_newest(sessions)
        _say(f"Following your {MOST_SESSIONS} newest sessions, now {len(self._tasks)}. Ctrl-C ends.")
        is_lost = False
        while True:
            await self._attend(_LOOK_S)
            try:
                sessions = await self._listed()
            except Unreachable as reason:
                if not is_lost:
                    _say(f"{reason}. Trying again")
                is_lost = True
                continue
            is_lost = False
            await self._follow_newest(sessions)

    async def end(self) -> None:
        """Follow nothing any more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _follow_newest(self, ids: Collection[str]) -> None:
        old_ids = set(self._tasks) - set(ids)
        self._lost_ids -= old_ids
        old_tasks = [self._tasks.pop(session_id) for session_id in old_ids]
        for task in old_tasks:
            task.cancel()
        await asyncio.gather(*old_tasks, return_exceptions=True)
        for session_id in ids:
            if session_id in self._tasks or session_id in self._closed_ids:
                continue
            try:
                await self._follow(session_id)
            except Unauthorized:
                raise
            except SessionError:
                pass  # it is gone, or nothing answers: the next look tells

    async def _attend(self, seconds: float | None) -> None:
        """Follow them for so long; None: as long as there are any. Raises what following one raises."""
        end = None if seconds is None else time.monotonic() + seconds
        while self._tasks:
            remaining_s = None if end is None else max(0.0, end - time.monotonic())
            ended_tasks, _ = await asyncio.wait(
                self._tasks.values(), timeout=remaining_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended_tasks:
                return
            for session_id in [session_id for session_id, task in self._tasks.items() if task in ended_tasks]:
                self._closed_ids.add(session_id)
                self._lost_ids.discard(session_id)
                self._tasks.pop(session_id).result()
        if end is not None:
            await asyncio.sleep(end - time.monotonic())

    async def _listed(self) -> dict[str, str]:
        """The newest sessions, and when something last happened in each."""
        page = await self._asked(f"/sessions?limit={MOST_SESSIONS}")
        items = page.get("sessions") if isinstance(page, dict) else None
        sessions = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        return {str(it.get("session_id")): str(it.get("last_activity")) for it in sessions[:MOST_SESSIONS]}

    async def _follow(self, session_id: str) -> None:
        """Begin to follow a session: from now on, or from its beginning if that is after this client's."""
        session = await self._asked(f"/sessions/{of_session(session_id)}")
        fields = session if isinstance(session, dict) else {}
        is_new = self._begun_at is not None and str(fields.get("created_at")) > self._begun_at
        last_seq = fields.get("last_seq")
        position = 0 if is_new or not isinstance(last_seq, int) else max(0, last_seq)
        self._tasks[session_id] = asyncio.ensure_future(self._look_on(session_id, position))

    async def _look_on(self, session_id: str, last_seq: int) -> None:
        attending, is_open = Attending(), False
        while True:
            opening = connect(
                self._address,
                self._folder,
                session_id=session_id,
                token=self._token,
                viewer=True,
                last_seq=last_seq,
                state=self._folder,  # the journal of a viewer is empty
            )
            try:
                async with opening as session:
                    is_open = True
                    async for event in session.events():
                        last_seq = session.last_seq
                        if event_text := attending.take(event):
                            self._tell(session.title or session_id, event_text)
                        self._follow_connection(session_id, event)
            except Unauthorized:
                raise
            except Unreachable:
                await asyncio.sleep(_LOOK_S)
            except SessionError as error:
                _say(f"{session_id}: {error}" if is_open else f"{session_id} cannot be followed: {error}")
                return

    def _follow_connection(self, session_id: str, event: on.Event) -> None:
        """Say once for all sessions that the server is lost, and that it is back."""
        if isinstance(event, on.Connected):
            self._lost_ids.discard(session_id)
            if event.again and not self._lost_ids:
                _say("Connected again")
        elif isinstance(event, on.Disconnected):
            if not self._lost_ids:
                _say(waiting.notice(event))
            self._lost_ids.add(session_id)

    async def _asked(self, path: str) -> Any:
        """GET a path. Raises SessionError."""
        try:
            return await self._rest_api.get(path)
        except RestError as error:
            if error.status in (401, 403):
                raise Unauthorized(str(error)) from None
            if error.status == 404:
                raise SessionError(f"{path.rpartition('/')[2]}: {error}") from None
            raise Unreachable(str(error)) from None


async def notify(address: Address, token: Token, session_ids: Sequence[str], desktop: Desktop | None) -> int:
    """Follow sessions, without ids the user's newest ones, until the user ends it. desktop: None: only the terminal's
    bell. Returns the exit code.
    """
    is_terminal = sys.stdout.isatty()
    teller = Teller(desktop, _write, is_terminal=is_terminal)
    if desktop is None or not desktop.program:
        _say("No notifications of the desktop" + (": the terminal's bell rings" if is_terminal else ""))
    showing = asyncio.ensure_future(teller.run())
    with tempfile.TemporaryDirectory(prefix="codelab-notify-") as folder:
        following = Following(address, Path(folder), token, teller.tell)
        try:
            await (following.named(session_ids) if session_ids else following.newest())
        finally:
            await following.end()
            showing.cancel()
    return 0


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"{safe(text)}\n")
    sys.stderr.flush()
