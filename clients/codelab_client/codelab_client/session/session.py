"""A session: one conversation that survives broken connections."""

import asyncio
import contextlib
import json
import random
import ssl
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus

from codelab_client import __version__
from codelab_client.execution import ToolExecutor
from codelab_client.session import payloads, tokens
from codelab_client.session.address import Address, checked_session_id
from codelab_client.session.calls import Calls, states
from codelab_client.session.errors import (
    InvalidAddress,
    Refused,
    SessionClosed,
    SessionError,
    Unauthorized,
    Unreachable,
)
from codelab_client.session.events import (
    AgentStatus,
    AgentSwitched,
    AssistantMessage,
    CallUpdate,
    Connected,
    ContextUpdated,
    Disconnected,
    Error,
    Event,
    GatewayError,
    Ignored,
    MalformedFrame,
    Plan,
    Queued,
    Resumed,
    ResyncRequired,
    Rules,
    SessionInfo,
    ToolCall,
    TurnEnd,
    UploadTicket,
    read,
)
from codelab_client.session.journal import Journal, state_folder
from codelab_client.session.sequence import Sequence
from codelab_client.session.stream import EventStream

E = TypeVar("E", bound=Event)
Scope = Literal["session", "user"]


@dataclass(frozen=True)
class Timing:
    """How long a session waits, in seconds."""

    open_s: float = 20.0  # for a connection, and again until it has replayed everything
    repeat_s: float = 15.0  # until a frame without a reply is sent again
    ping_s: float = 300.0  # of silence until a ping; API Gateway closes a silent connection after ten minutes
    lifetime_s: float = 6_600.0  # until an idle connection is replaced; API Gateway closes each after two hours
    pause_s: float = 0.1  # before the second try to connect; it doubles with each, up to `longest_pause_s`
    longest_pause_s: float = 30.0
    tick_s: float = 0.25  # between two looks at the clock


#: Bytes of the largest message that is read; the server sends 128 KB at most.
_MESSAGE_BYTES = 1_000_000
#: Replies of the server are waited for so often before a frame that may be sent again counts as refused.
_TRIES = 5
_PLATFORMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}


@dataclass
class _Asked:
    """A frame that waits for its reply, and is sent again until the reply comes."""

    frame: dict[str, Any]
    is_reply: Callable[[Event], bool]
    reply: "asyncio.Future[Event]"
    sent_at: float = 0.0
    tries: int = 0


@dataclass
class _Connection:
    """What is known about the open connection."""

    socket: ClientConnection
    token: str
    opened_at: float
    used_at: float
    lasts_s: float
    greeting: bool = True  # `session_info` has not come, and `resume` follows it
    resuming: bool = True  # `resumed` has not come: which calls are open is not known
    announced: bool = False  # the user knows that it is online
    online_at: float = 0.0
    resume_sent_at: float = 0.0
    held: dict[str, ToolCall] = field(default_factory=dict)  # calls that came meanwhile


class Session:
    """One conversation with the server; see `connect`.

    All methods belong to the event loop in which the session was opened. Those that send a frame wait for its reply,
    also across a broken connection; they raise Refused if the server refuses the frame, and SessionError once the
    session has ended.
    """

    def __init__(
        self,
        address: Address,
        session_id: str,
        journal: Journal,
        executor: ToolExecutor | None,
        token: tokens.Token,
        last_seq: int | None,
        timing: Timing,
    ) -> None:
        self.address, self.session_id = address, session_id
        self.status, self.agent, self.title = "idle", "", ""
        self.plan: list[dict[str, Any]] = []
        self.info: SessionInfo | None = None
        self._journal, self._executor, self._token, self._timing = journal, executor, token, timing
        self._sequence = Sequence(journal.position if last_seq is None else last_seq)
        self._calls = (
            Calls(executor, journal, self._send, self._show, self._fail, self._has_room)
            if executor is not None
            else None
        )
        self._streams: list[EventStream] = []
        self._events = self._subscribe()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connection: _Connection | None = None
        self._opened = asyncio.Event()  # the session was online once, or has failed
        self._was_online = False
        self._failure: BaseException | None = None
        self._closing = False
        self._replacing = False
        self._failures = 0
        self._asking = asyncio.Lock()
        self._asked: _Asked | None = None
        self._uploading = asyncio.Lock()
        self._ticket: asyncio.Future[UploadTicket] | None = None
        self._decisions: dict[str, dict[str, Any]] = {}
        self._open_calls: dict[str, ToolCall] = {}
        self._turn_id: str | None = None
        self._cancelling = False

    # -- talking -------------------------------------------------------------------------------------------------

    async def prompt(self, content: str) -> AsyncIterator[Event]:
        """Send a message, and yield the events until its turn has ended. The last one is the turn's `TurnEnd`.

        If another turn is running, the message waits, and the events are those of both turns. Calls that need approval
        wait for `approve`, `edit` or `reject`.
        """
        stream = self._subscribe()
        try:
            message_id = await self.send(content)
            turns_left, status = 0, "idle"
            lost = False
            async for event in stream:
                yield event
                match event:
                    case Queued(client_msg_id=queued, position=position) if queued == message_id:
                        turns_left = position + 1
                    case AgentStatus():
                        if event.status == "thinking" and status == "idle" and not turns_left:
                            turns_left = 1
                        status = event.status
                    case TurnEnd() if turns_left:
                        turns_left -= 1
                        if not turns_left:
                            return
                    case ResyncRequired():
                        lost = True
                    case SessionInfo() if lost:
                        if event.status == "idle":
                            return
                        turns_left, lost = 1, False
        finally:
            self._streams.remove(stream)

    def events(self) -> AsyncIterator[Event]:
        """All events since the session was opened, for one reader. It ends when the session ends."""
        return aiter(self._events)

    async def send(self, content: str) -> str:
        """Send a message, which starts a turn or waits for the running one. Returns its `client_msg_id`."""
        message_id = uuid.uuid4().hex
        await self._ask(
            {"type": "user_message", "content": content, "role": "user", "client_msg_id": message_id},
            self._accepts(message_id),
        )
        return message_id

    async def approve(self, call_id: str, *, remember: Scope | None = None, pattern: str | None = None) -> None:
        """Approve a call; `remember` makes a rule that approves similar calls, see docs/protocol.md, "Approvals"."""
        await self._decide(call_id, {"decision": "approve"}, remember, pattern)

    async def edit(self, call_id: str, arguments: Mapping[str, Any]) -> None:
        """Approve a call with other arguments: all of them, not only the changed ones."""
        await self._decide(call_id, {"decision": "edit", "modified_arguments": dict(arguments)}, None, None)

    async def reject(
        self, call_id: str, feedback: str = "", *, remember: Scope | None = None, pattern: str | None = None
    ) -> None:
        """Reject a call. The model sees the feedback."""
        await self._decide(call_id, {"decision": "reject", "feedback": feedback}, remember, pattern)

    async def cancel(self) -> None:
        """Stop the running turn, or the one that a message that is on its way starts."""
        self._cancelling = True
        await self._send_cancel()

    async def switch_agent(self, agent: str) -> None:
        """Let another agent answer from now on."""
        if agent == self.agent:
            return
        await self._ask(
            {"type": "switch_agent", "agent_type": agent},
            lambda event: isinstance(event, AgentSwitched) and event.to_agent == agent,
        )

    async def configure(
        self,
        *,
        model: str | None = None,
        title: str | None = None,
        autonomy: str | None = None,
        when_busy: str | None = None,
    ) -> SessionInfo:
        """Change the session's settings; None leaves one as it is. Returns the session's state."""
        given = {"model": model, "title": title, "autonomy": autonomy, "when_busy": when_busy}
        wanted = {name: value for name, value in given.items() if value is not None}

        def is_made(info: SessionInfo) -> bool:  # a reply to an earlier frame that was sent twice is not
            return all((info.title if name == "title" else info.settings.get(name)) == wanted[name] for name in wanted)

        return await self._ask_for(SessionInfo, {"type": "session_config", **wanted}, is_made)

    async def rules(self) -> list[dict[str, Any]]:
        """The remembered rules."""
        return (await self._ask_for(Rules, {"type": "rules", "action": "list"})).rules

    async def revoke(self, rule_id: str) -> list[dict[str, Any]]:
        """Revoke a remembered rule. Returns the others."""
        frame = {"type": "rules", "action": "revoke", "rule_id": rule_id}
        found = await self._ask_for(Rules, frame, lambda left: all(one.get("rule_id") != rule_id for one in left.rules))
        return found.rules

    async def add_file(self, path: str, content: str | None = None) -> ContextUpdated:
        """Show a file to the agent with every Request. Without content, the agent reads it when it needs it."""
        data = {"path": path} if content is None else {"path": path, "content": content}
        return await self._update_context({"action": "add_file", "data": data})

    async def remove_file(self, path: str) -> ContextUpdated:
        """Show a file no longer."""
        return await self._update_context({"action": "remove_file", "data": {"path": path}})

    async def clear_files(self) -> ContextUpdated:
        """Show no files."""
        return await self._update_context({"action": "clear"})

    @property
    def open_calls(self) -> dict[str, ToolCall]:
        """The calls that are known to be open, by `call_id`."""
        return dict(self._open_calls)

    @property
    def last_seq(self) -> int:
        """The `seq` of the last frame that was shown."""
        return self._sequence.last_seq

    @property
    def is_online(self) -> bool:
        """Whether the connection is open and everything missed has been replayed."""
        return self._connection is not None and not self._connection.resuming

    @property
    def token(self) -> str:
        """The token of the open connection; empty if there is none."""
        return self._connection.token if self._connection is not None else ""

    # -- opening and closing -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect. Returns when everything missed has been replayed. Raises SessionError."""
        self._start(self._run())
        await self._opened.wait()
        if self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        """Stop running calls, whose results say so, and close the connection."""
        if self._calls is not None:
            with contextlib.suppress(SessionError):
                await self._calls.aclose()
        if self._executor is not None:
            await self._executor.aclose()
        self._closing = True
        if self._connection is not None:
            await self._connection.socket.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._end(None)

    def _fail(self, error: BaseException) -> None:
        """End the session with an error."""
        if self._failure is None and not self._closing:
            self._failure = error
            self._end(error)
            self._opened.set()
            if self._connection is not None:
                self._start(self._connection.socket.close())

    def _end(self, error: BaseException | None) -> None:
        for stream in self._streams:
            stream.end(error)
        ended = error or SessionClosed("The session is closed")
        for waiting in (self._asked.reply if self._asked is not None else None, self._ticket):
            if waiting is not None and not waiting.done():
                waiting.set_exception(ended)

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine beside the others; the session ends with its error."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    # -- the connection ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Keep a connection open until the session ends."""
        refused_token = None
        while not self._closing and self._failure is None:
            token = await tokens.current(self._token)
            if token == refused_token:
                raise Unauthorized("The server does not accept the token" if token else "The server needs a token")
            refused_token, why, pause = None, "", 0.0
            try:
                why = await self._connect(token)
            except InvalidStatus as refusal:
                status = refusal.response.status_code
                why = f"HTTP {status}"
                if status == 401:
                    refused_token = token
                elif status == 429:
                    pause = _seconds(refusal.response.headers.get("Retry-After")) or 60.0
                elif status in (400, 403, 404) or (status not in (409, 500, 502, 503, 504) and not self._was_online):
                    raise _refused_upgrade(self.address, status) from None
            except (InvalidMessage, InvalidHandshake, EOFError, TimeoutError, OSError) as error:
                why = _told(error)
                if not self._was_online:
                    raise Unreachable(f"No CodeLab server answers at {self.address.shown}: {why}") from None
            if self._closing or self._failure is not None:
                return
            if refused_token is not None or self._replacing:
                self._replacing = False
                continue
            pause += random.uniform(
                0, min(self._timing.longest_pause_s, self._timing.pause_s * 2 ** min(self._failures, 20))
            )
            self._failures += 1
            self._show(Disconnected(why=why, retry_in=pause))
            await asyncio.sleep(pause)

    async def _connect(self, token: str) -> str:
        """Keep one connection until it is closed. Returns why. Raises SessionClosed if that is final."""
        query: dict[str, object] = {"extensions": 1}
        if self._executor is None:
            query["viewer"] = 1
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with open_websocket(
            self.address.of(self.session_id, **query),
            additional_headers=headers,
            user_agent_header=f"codelab/{__version__}",
            open_timeout=self._timing.open_s,
            close_timeout=2,
            max_size=_MESSAGE_BYTES,
            max_queue=1_000,
        ) as socket:
            now = time.monotonic()
            connection = _Connection(socket, token, now, now, self._timing.lifetime_s * random.uniform(0.9, 1.0))
            self._connection = connection
            self._note_clock(socket)
            ticking = asyncio.ensure_future(self._tick(connection))
            try:
                await self._greet()
                async for message in socket:
                    self._receive(message)
            except ConnectionClosed:
                pass
            finally:
                ticking.cancel()
                self._connection = None
                if self._ticket is not None and not self._ticket.done():
                    self._ticket.set_exception(payloads.TransferError("the connection broke"))
        code, reason = socket.close_code, socket.close_reason
        by_server = not (self._closing or self._replacing or self._failure)
        if by_server and code in (1000, 1003):
            raise SessionClosed(
                "The server closed the session: it was deleted, or newer connections replaced this one"
                if code == 1000
                else "The server does not accept binary data"
            )
        return f"the connection was closed ({code}{', ' + reason[:100] if reason else ''})"

    def _note_clock(self, socket: ClientConnection) -> None:
        """Compare the clocks: deadlines are times of the server's."""
        date = socket.response.headers.get("Date") if socket.response is not None else None
        if self._calls is not None and date is not None:
            with contextlib.suppress(ValueError, TypeError):
                ahead_ms = int((time.time() - parsedate_to_datetime(date).timestamp()) * 1000)
                self._calls.clock_skew_ms = ahead_ms if abs(ahead_ms) > 5_000 else 0

    async def _greet(self) -> None:
        hello = {
            "type": "hello",
            "client": {"name": "codelab", "version": __version__},
            "platform": _PLATFORMS.get(sys.platform, sys.platform[:32]),
            "capabilities": {},
        }
        await self._send(hello)

    async def _resume(self, connection: _Connection) -> None:
        connection.resuming, connection.resume_sent_at = True, time.monotonic()
        self._sequence.asked(connection.resume_sent_at)
        await self._send({"type": "resume", "last_seq": self._sequence.last_seq})

    async def _tick(self, connection: _Connection) -> None:
        """Do what becomes due while the connection is open."""
        timing = self._timing
        while True:
            await asyncio.sleep(timing.tick_s)
            now = time.monotonic()
            if connection.resuming:
                if now - max(connection.opened_at, connection.resume_sent_at) > timing.open_s:
                    await connection.socket.close(1001)
                continue
            must_check = self._calls is not None and self._calls.must_check()
            if must_check or self._sequence.has_gap(now):
                await self._resume(connection)
            asked = self._asked
            if asked is not None and now - asked.sent_at > timing.repeat_s:
                await self._repeat(asked)
            if now - connection.used_at > timing.ping_s:
                await self._send({"type": "ping"})
            age, is_idle = now - connection.online_at, self.status == "idle"
            if age > connection.lasts_s * (1.0 if is_idle else 1.05):
                self._replacing = True
                await connection.socket.close()
            if callable(self._token) and (due := tokens.refresh_at(connection.token)) and time.time() > due:
                await self._refresh(connection)

    async def _refresh(self, connection: _Connection) -> None:
        """Give the server a newer token, if there is one. Raises Unauthorized if there is none after the expiry."""
        token = await tokens.current(self._token)
        if token == connection.token:
            expires = tokens.expires_at(token)
            if expires is None or expires < time.time():
                raise Unauthorized("The token has expired")
            return
        connection.token, connection.greeting, connection.resuming = token, True, True
        connection.resume_sent_at = time.monotonic()
        await self._send({"type": "refresh_token", "token": token})

    # -- receiving -----------------------------------------------------------------------------------------------

    def _receive(self, message: str | bytes) -> None:
        """Take one message of the server."""
        try:
            if isinstance(message, bytes):
                raise MalformedFrame("binary data")
            event = read(message)
        except MalformedFrame as error:
            self._show(Ignored(why=f"The server sent a malformed frame: {error}"))
            return
        if event.seq is None or event.seq == 0:
            self._take_reply(event)
            return
        ready = self._sequence.take(event, time.monotonic())
        if ready is None:
            if isinstance(event, ToolCall):
                self._take_call(event)
            return
        for following in ready:
            self._apply(following)

    def _take_reply(self, event: Event) -> None:
        """Take a frame that answers one of this connection's."""
        connection = self._connection
        assert connection is not None
        match event:
            case SessionInfo():
                self.info = event
                self.status, self.agent, self.title, self.plan = event.status, event.agent, event.title, event.plan
                self._turn_id = event.turn_id
                if connection.greeting:
                    connection.greeting = False
                    self._start(self._resume(connection))
                    self._show(event)
                    return  # the answer to `hello`, not to what was asked
            case Resumed():
                self._resumed(connection, event)
                return
            case ResyncRequired():
                self._resync(connection, event)
            case UploadTicket():
                if self._ticket is not None and not self._ticket.done():
                    self._ticket.set_result(event)
                return
            case ToolCall():
                self._take_call(event)
                return
            case Error():
                if self._take_error(connection, event):
                    return
            case GatewayError():
                if self._asked is not None:
                    self._asked.sent_at = 0.0  # it may have been accepted: the repeat has the same id
                self._start(self._resume(connection))
        self._answer(event)
        self._show(event)

    def _apply(self, event: Event) -> None:
        """Take the next frame of the conversation."""
        before = self.status
        self._answer(event)
        match event:
            case AgentStatus():
                self.status = event.status
                if event.status == "idle":
                    self._turn_id, self._cancelling = None, False
                elif self._cancelling and before == "idle":
                    self._start(self._send_cancel())
            case AssistantMessage() | ToolCall() if event.turn_id:
                self._turn_id = event.turn_id
            case AgentSwitched():
                self.agent = event.to_agent
            case Plan():
                self.plan = event.items
            case TurnEnd():
                self._turn_id, self._cancelling = None, False
                self.title = event.title or self.title
                self._open_calls = {
                    call_id: call for call_id, call in self._open_calls.items() if call.turn_id != event.turn_id
                }
                self._keep_position()
            case CallUpdate():
                self._open_calls.pop(event.call_id, None)
                self._decisions.pop(event.call_id, None)
                if self._calls is not None:
                    self._start(self._calls.settled(event.call_id))
        if isinstance(event, ToolCall):
            self._take_call(event)
        else:
            self._show(event)

    def _keep_position(self) -> None:
        """Record where a later process goes on: never behind an open call, because it would not see the call."""
        if not self._open_calls:
            self._journal.position = self._sequence.last_seq

    def _take_call(self, call: ToolCall) -> None:
        """Show and execute a call, once each. A repeated frame may make this connection the executor."""
        known = self._open_calls.get(call.call_id)
        is_new = known is None or known.requires_approval != call.requires_approval
        if not call.requires_approval:
            self._decisions.pop(call.call_id, None)
        elif known is not None and not known.requires_approval:
            return  # a repeat that comes late
        self._open_calls[call.call_id] = call
        if call.arguments is None and call.payload_url:
            self._start(self._fetch(call, is_new))
        else:
            self._see_call(call, is_new)

    async def _fetch(self, call: ToolCall, is_new: bool) -> None:
        """Fetch a call's arguments; after three failures, they stay None."""
        for wait in (5 * self._timing.pause_s, 20 * self._timing.pause_s, None):
            try:
                found = await payloads.fetch(
                    call.payload_url or "", call.payload_bytes, secure=self.address.url.startswith("wss:")
                )
                if not isinstance(found, dict):
                    raise payloads.TransferError("the arguments are not an object")
                call = replace(call, arguments=found, frame={**call.frame, "arguments": found})
                break
            except payloads.TransferError as error:
                if wait is None:
                    self._show(Ignored(why=f"The arguments of {call.tool_name} could not be fetched: {error}"))
                else:
                    await asyncio.sleep(wait)
        self._open_calls[call.call_id] = call
        self._see_call(call, is_new)

    def _see_call(self, call: ToolCall, is_new: bool) -> None:
        if is_new:
            self._show(call)
        if call.requires_approval or not call.execute or self._calls is None:
            return
        if self._connection is None or self._connection.resuming:
            if self._connection is not None:
                self._connection.held[call.call_id] = call
        else:
            self._calls.take(call)

    def _resumed(self, connection: _Connection, event: Resumed) -> None:
        if event.more:
            self._start(self._resume(connection))
            return
        connection.resuming = False
        open_calls = states(event.open_calls)
        for call in connection.held.values():
            is_open = open_calls.get(call.call_id) == "executing" or (call.seq or 0) > event.last_seq
            if is_open and self._calls is not None:
                self._calls.take(call)
        connection.held.clear()
        for call_id, call in list(self._open_calls.items()):
            if call_id not in open_calls and (call.seq or 0) <= event.last_seq:
                del self._open_calls[call_id]
        self._failures = 0
        if not connection.announced:
            connection.announced, connection.online_at = True, time.monotonic()
            self._show(Connected(again=self._was_online))
        self._was_online = True
        self._opened.set()
        self._start(self._catch_up(event.last_seq, open_calls))

    async def _catch_up(self, last_seq: int, open_calls: Mapping[str, str]) -> None:
        """Repeat what may have been lost with the connection before. Repeats have no effect."""
        if self._calls is not None:
            await self._calls.reconcile(last_seq, open_calls)
        for call_id, decision in list(self._decisions.items()):
            if open_calls.get(call_id) == "awaiting_approval":
                await self._send(decision)
            elif call_id not in open_calls:
                self._decisions.pop(call_id, None)
        connection, asked = self._connection, self._asked
        if asked is not None and connection is not None and asked.sent_at < connection.opened_at:
            await self._repeat(asked)
        if self._cancelling:
            await self._send_cancel()

    def _resync(self, connection: _Connection, event: ResyncRequired) -> None:
        """The log does not have the frames after the client's position."""
        is_other_session = event.last_seq < self._sequence.last_seq
        if is_other_session:  # it was deleted, and there is a new one with its id
            self._journal.forget()
        self._open_calls.clear()
        self._sequence.restart(0 if is_other_session else event.last_seq)
        connection.greeting = True
        self._start(self._greet())  # then `resume`

    def _take_error(self, connection: _Connection, event: Error) -> bool:
        """The server refused a frame. Returns whether somebody waits for the reply, and is told."""
        asked = self._asked
        if event.error_code == "SESSION_EXPIRED":
            self._start(self._refresh(connection))
        elif event.error_code == "UNAUTHORIZED":
            self._start(connection.socket.close(1001))  # the next upgrade tells whether there is a valid token
        elif event.call_id is not None:
            self._decisions.pop(event.call_id, None)
            if self._calls is not None:
                self._start(self._calls.refused(event))
        elif self._ticket is not None and not self._ticket.done() and _is_about_upload(event):
            self._ticket.set_exception(payloads.TransferError(event.message))
        elif asked is not None and not asked.reply.done():
            may_repeat = event.retryable and event.error_code not in ("RATE_LIMITED", "BUSY")
            if may_repeat and asked.tries < _TRIES:
                asked.sent_at = time.monotonic() - self._timing.repeat_s + 1.0
            else:
                asked.reply.set_exception(Refused(event.error_code, event.message, event.retry_after))
            return True
        return False

    def _answer(self, event: Event) -> None:
        """Give an event to the one who asked for it."""
        asked = self._asked
        if asked is not None and not asked.reply.done() and asked.is_reply(event):
            asked.reply.set_result(event)

    def _accepts(self, message_id: str) -> Callable[[Event], bool]:
        """What shows that a message was accepted: it waits, or a turn begins."""

        def is_reply(event: Event) -> bool:
            if isinstance(event, Queued):
                return event.client_msg_id == message_id
            return isinstance(event, AgentStatus) and event.status == "thinking" and self.status == "idle"

        return is_reply

    # -- sending -------------------------------------------------------------------------------------------------

    async def _ask_for(self, kind: type[E], frame: dict[str, Any], is_made: Callable[[E], bool] = lambda _: True) -> E:
        """Ask for a reply of this kind that shows that what was asked is made."""
        reply = await self._ask(frame, lambda event: isinstance(event, kind) and is_made(event))
        assert isinstance(reply, kind)
        return reply

    async def _update_context(self, fields: dict[str, Any]) -> ContextUpdated:
        frame = {"type": "context_update", **fields}
        return await self._ask_for(ContextUpdated, frame, lambda reply: reply.action == fields["action"])

    async def _ask(self, frame: dict[str, Any], is_reply: Callable[[Event], bool]) -> Event:
        """Send a frame until its reply comes. Raises Refused, or what has ended the session."""
        async with self._asking:
            self._check_open()
            asked = self._asked = _Asked(frame, is_reply, asyncio.get_running_loop().create_future())
            try:
                if self.is_online:
                    self._start(self._repeat(asked))
                return await asked.reply
            finally:
                self._asked = None

    async def _repeat(self, asked: _Asked) -> None:
        asked.sent_at = time.monotonic()
        asked.tries += 1
        await self._send(asked.frame)

    async def _decide(self, call_id: str, fields: dict[str, Any], remember: Scope | None, pattern: str | None) -> None:
        self._check_open()
        frame = {"type": "hitl_decision", "call_id": call_id, **fields}
        if remember is not None:
            frame["remember"] = {"scope": remember} if pattern is None else {"scope": remember, "pattern": pattern}
        self._decisions[call_id] = frame
        await self._send(frame)

    async def _send_cancel(self) -> None:
        if self.status == "idle":
            if self._asked is None or self._asked.frame["type"] != "user_message":
                self._cancelling = False
            return
        await self._send({"type": "cancel", **({"turn_id": self._turn_id} if self._turn_id else {})})

    async def _send(self, frame: Mapping[str, Any]) -> None:
        """Send a frame on the current connection, a large one by reference; drop it if there is no connection."""
        connection = self._connection
        if connection is None:
            return
        body = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
        if len(body) > payloads.INLINE_BYTES:
            reference = await self._upload(body)
            if reference is None:
                return
            kept = {name: frame[name] for name in ("type", "call_id") if name in frame}
            body = json.dumps({**kept, "payload_ref": reference}).encode()
        connection.used_at = time.monotonic()
        with contextlib.suppress(ConnectionClosed):
            await connection.socket.send(body.decode())

    async def _upload(self, body: bytes) -> str | None:
        """Upload a frame. Returns its reference; None if that failed: whoever waits for a reply sends again."""
        async with self._uploading:
            ticket = self._ticket = asyncio.get_running_loop().create_future()
            try:
                await self._send({"type": "upload_request", "bytes": len(body)})
                async with asyncio.timeout(self._timing.open_s):
                    found = await ticket
                await payloads.put(found.url, body, found.headers, secure=self.address.url.startswith("wss:"))
            except (payloads.TransferError, TimeoutError) as error:
                self._show(Ignored(why=f"A large frame could not be uploaded: {error or 'no ticket came'}"))
                return None
            finally:
                self._ticket = None
            return str(found.payload_ref)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise SessionClosed("The session is closed")

    # -- showing -------------------------------------------------------------------------------------------------

    def _subscribe(self) -> EventStream:
        stream = EventStream()
        self._streams.append(stream)
        return stream

    def _show(self, event: Event) -> None:
        for stream in self._streams:
            stream.put(event)

    async def _has_room(self) -> None:
        """Wait until the readers have caught up, for a second at most."""
        for _ in range(100):
            if all(stream.has_room for stream in self._streams):
                return
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def connect(
    url: str,
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
) -> AsyncIterator[Session]:
    """Open a session, and close it at the end of the block.

    url: the server, see `Address.parse`. workspace: the folder in which calls are executed.
    session_id: the conversation; None begins a new one.
    token: a JWT, or a function that returns the newest one; None takes it from CODELAB_TOKEN, if that is set.
    executor: executes the calls; None: the package's own, in `workspace`. viewer: this client never executes calls.
    last_seq: frames after this one are shown; None: those after the last finished turn that this machine has seen.
    state: the folder of the journal; None: see `state_folder`.
    Raises SessionError if no session can be opened.
    """
    import os

    address = Address.parse(url, rest_url)
    session_id = new_session_id() if session_id is None else checked_session_id(session_id)
    token = os.environ.get("CODELAB_TOKEN") if token is None else token
    first = await tokens.current(token)
    if executor is None and not viewer:
        from codelab_client.local_executor import LocalExecutor

        executor = LocalExecutor(Path(workspace).resolve())
    journal = Journal(state or state_folder(), f"{address.origin}#{tokens.subject(first)}#{session_id}")
    try:
        session = Session(
            address, session_id, journal, None if viewer else executor, token, last_seq, timing or Timing()
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


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


def _is_about_upload(error: Error) -> bool:
    return (
        error.details.get("field") == "bytes"
        or error.error_code == "PAYLOAD_TOO_LARGE"
        or (error.details.get("quota") == "stored_bytes_per_day")
    )


def _refused_upgrade(address: Address, status: int) -> SessionError:
    if status == 403:
        return Unauthorized(f"{address.shown} refuses this session (HTTP 403)")
    if status == 404:
        return Unreachable(f"{address.shown} is not a CodeLab server, or the path is wrong (HTTP 404)")
    if status == 400:
        return InvalidAddress(f"{address.shown} does not understand the address (HTTP 400)")
    return Unreachable(f"{address.shown} does not accept the connection (HTTP {status})")


def _told(error: BaseException) -> str:
    """Why a connection could not be opened."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, InvalidMessage | EOFError):
        return "what listens there does not speak WebSocket"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
