"""A session: one conversation that survives broken connections."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from codelab_client.execution import DeclaresTools, OffersMoreTools, ToolExecutor
from codelab_client.session import payloads, tokens
from codelab_client.session.address import Address
from codelab_client.session.awaited_turn import AwaitedTurn
from codelab_client.session.calls import Calls
from codelab_client.session.deciding import Deciding
from codelab_client.session.decisions import Decisions
from codelab_client.session.elsewhere import Elsewhere
from codelab_client.session.errors import Refused, SessionClosed, SessionError
from codelab_client.session.events import (
    Ack,
    AgentStatus,
    AgentSwitched,
    AssistantMessage,
    CallUpdate,
    Compacted,
    ContextUpdated,
    Error,
    Event,
    GatewayError,
    Ignored,
    MalformedFrame,
    ModeSwitched,
    Plan,
    Queued,
    Resumed,
    ResyncRequired,
    Rules,
    SessionInfo,
    ToolCall,
    TurnEnd,
    UploadTicket,
    UserMessage,
    Withdrawn,
    read,
)
from codelab_client.session.gate import Gate, Restrictions, Unrestricted
from codelab_client.session.hello import Hello
from codelab_client.session.journal import Journal
from codelab_client.session.link import Link, Owner, Phase
from codelab_client.session.open_calls import OpenCalls
from codelab_client.session.outgoing import Outgoing
from codelab_client.session.payload_hosts import PayloadHosts
from codelab_client.session.replies import Replies
from codelab_client.session.sequence import Sequence as FrameSequence
from codelab_client.session.stream import EventStream
from codelab_client.session.timing import Timing

Scope = Literal["session", "user"]
Attachments = Sequence[Mapping[str, Any]]
WhenBusy = Literal["queue", "steer", "interrupt", "reject"]

#: Seconds that what was stopped may take to end, and between two looks at that.
_SETTLED_S, _LOOK_S = 30.0, 0.02
#: Cancelled messages that are named again on a new connection.
_CANCELLED = 20
#: The mode of a session in which nobody has chosen one; and the modes by the older name of the setting.
_DEFAULT_MODE = "code"
_OF_AUTONOMY = {"manual": "manual", "balanced": _DEFAULT_MODE, "autonomous": "autonomous"}
_ACTING_MODES = frozenset(_OF_AUTONOMY.values())


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
        instructions: Sequence[Mapping[str, str]] | None,
        on_event: Callable[[Event], None] | None,
        elsewhere: Elsewhere,
        situation: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
        drafts: bool = False,
        restrictions: Restrictions | None = None,
        delegates: bool = True,
    ) -> None:
        self.address, self.session_id = address, session_id
        #: Where calls run that were decided elsewhere.
        self.elsewhere = elsewhere
        self.status, self.agent, self.title = "idle", "", ""
        self.plan: list[dict[str, Any]] = []
        self.mode = self.acting_mode = _DEFAULT_MODE  # what the agent may do; the same, now or after `ask` and `plan`
        self.info: SessionInfo | None = None
        self._journal, self._executor = journal, executor
        self._hello = Hello(executor, None if executor is None else instructions, drafts=drafts, delegates=delegates)
        self._sequence = FrameSequence(journal.position if last_seq is None else last_seq)
        self._resumed_from = 0  # the position that the last `resume` named
        self._on_event = on_event
        self._situation, self._situation_lock = situation, asyncio.Lock()
        self._streams: list[EventStream] = []
        self._events = self._subscribe()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening_end = asyncio.Event()  # the session was online once, or has failed
        self._failure: BaseException | None = None
        self._closing = False
        self.queued: dict[str, str] = {}  # messages that wait, from all windows: the beginnings of their texts
        self._sent_message_ids: set[str] = set()
        self._cancelled_message_ids: list[str] = []  # the newest messages that were cancelled
        self._turn_id: str | None = None
        self._cancelling = False
        self._repeat_s = timing.repeat_s
        owner = Owner(
            self._greet,
            self._resume,
            self._receive,
            self._look,
            self._lost,
            lambda: self.status == "idle",
            self._show,
            self._start,
        )
        self._link = Link(address, session_id, token, owner, timing, viewer=executor is None)
        self._payload_hosts = PayloadHosts(address, lambda: self._link.peer)
        self._outgoing = Outgoing(
            self._link.write,
            self._link.takes,
            self._show,
            hosts=self._payload_hosts,
            ticket_s=timing.open_s,
        )
        send = self._outgoing.send
        self._replies = Replies(send, lambda: self.is_online, self._start, self._check_open, timing.repeat_s)
        if isinstance(executor, OffersMoreTools):
            executor.declare = self.declare
        self._decisions = Decisions(
            journal, elsewhere, lambda: executor.declared_tools if isinstance(executor, DeclaresTools) else ()
        )
        self._gate = (
            Gate(self._decisions, send, self._show, lambda: self.is_online, restrictions or Unrestricted())
            if executor is not None
            else None
        )
        self._calls = (
            Calls(executor, journal, send, self._show, self._fail, self._has_room, self._gate)
            if executor is not None
            else None
        )
        self._open_calls = OpenCalls(
            self._calls,
            send,
            self._show,
            self._start,
            lambda: self._link.phase,
            hosts=self._payload_hosts,
            pause_s=timing.pause_s,
            decision_refused=self._decisions.refused,
        )
        self._deciding = Deciding(self._decisions, self._gate, self._open_calls)

    # -- talking -------------------------------------------------------------------------------------------------

    async def prompt(
        self, content: str, client_msg_id: str | None = None, attachments: Attachments = ()
    ) -> AsyncIterator[Event]:
        """Send a message, and yield the events until its turn has ended. The last one is the turn's `TurnEnd`.

        If another turn is running, the message waits, and the events are those of both turns. Calls that need approval
        wait for `approve`, `edit` or `reject`.
        """
        stream = self._subscribe()
        try:
            message_id = await self.send(content, client_msg_id, attachments)
            turn = AwaitedTurn(message_id)
            async for event in stream:
                yield event
                if turn.is_over(event):
                    return
        finally:
            self._streams.remove(stream)

    def events(self) -> AsyncIterator[Event]:
        """All events since the session was opened, for one reader. It ends when the session ends."""
        return aiter(self._events)

    async def send(
        self,
        content: str,
        client_msg_id: str | None = None,
        attachments: Attachments = (),
        *,
        when_busy: WhenBusy | None = None,
    ) -> str:
        """Send a message, which starts a turn or waits for the running one. Returns its `client_msg_id`.

        attachments: images and texts, see docs/frames.md, `user_message`.
        when_busy: what becomes of it if a turn is running; None: what the session's settings say.
        """
        message_id = client_msg_id or uuid.uuid4().hex
        self._sent_message_ids.add(message_id)
        async with self._situation_lock:  # messages are sent in the order in which they were given
            environment = {} if self._situation is None else await self._situation()
        options: dict[str, Any] = {"environment": dict(environment)} if environment else {}
        if when_busy is not None:
            options["when_busy"] = when_busy
        await self._replies.ask(
            {
                "type": "user_message",
                "content": content,
                "role": "user",
                "client_msg_id": message_id,
                **({"attachments": [dict(attachment) for attachment in attachments]} if attachments else {}),
                **options,
            },
            self._accepts(message_id),
        )
        return message_id

    async def withdraw(self, client_msg_id: str) -> None:
        """Take back a message that waits. Raises Refused if the agent has it already."""
        await self._replies.ask(
            {"type": "withdraw", "client_msg_id": client_msg_id},
            lambda event: isinstance(event, Withdrawn) and client_msg_id in event.client_msg_ids,
        )

    async def compact(self) -> str:
        """Have the history compacted for the model. Returns what the server says; `Compacted` tells the end."""
        answer = await self._replies.ask({"type": "compact"}, lambda event: isinstance(event, Compacted))
        return answer.outcome if isinstance(answer, Ack | Compacted) else ""

    def has_sent(self, client_msg_id: str) -> bool:
        """Whether a message is one that this client has sent since the session was opened."""
        return client_msg_id in self._sent_message_ids

    async def approve(
        self,
        call_id: str,
        *,
        tool: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        remember: Scope | None = None,
        pattern: str | None = None,
        mode: str | None = None,
    ) -> None:
        """Approve a call. Only this call is executed: the server cannot exchange it for another one.

        tool, arguments: those that the user saw; None: the newest ones that came. remember: makes a rule that approves
        similar calls, see docs/protocol.md, "Approvals"; a call that was decided elsewhere makes none.
        mode: of a plan: the mode in which it is carried out; None: the one before `plan`.
        Raises Refused if a call that was decided elsewhere waits under the id, and is another one.
        """
        self._check_open()
        await self._deciding.approve(call_id, tool, arguments, _remembrance(remember, pattern), mode)

    async def edit(self, call_id: str, arguments: Mapping[str, Any], *, mode: str | None = None) -> None:
        """Approve a call with other arguments: all of them, not only the changed ones. mode: as for `approve`."""
        self._check_open()
        await self._deciding.edit(call_id, arguments, mode)

    async def reject(
        self, call_id: str, feedback: str = "", *, remember: Scope | None = None, pattern: str | None = None
    ) -> None:
        """Reject a call. The model sees the feedback."""
        self._check_open()
        await self._deciding.reject(call_id, feedback, _remembrance(remember, pattern))

    async def cancel(self, client_msg_id: str | None = None) -> None:
        """Stop the running turn, or the one that a message that is on its way starts.

        client_msg_id: cancel this message instead: its turn, its place in the queue, or its way to the server.
        """
        if client_msg_id is None:
            self._cancelling = True
            await self._send_cancel()
        else:
            self._cancelled_message_ids = [*self._cancelled_message_ids[1 - _CANCELLED :], client_msg_id]
            await self._outgoing.send({"type": "cancel", "client_msg_id": client_msg_id})

    async def settle(self, patience_s: float = _SETTLED_S) -> None:
        """Stop the running turn, take back all messages that wait, and wait until nothing runs any more, here too.

        What another window begins meanwhile is stopped as well. Raises SessionError if that takes longer than
        `patience_s` seconds; it may be called again.
        """
        late, asked_at = time.monotonic() + patience_s, 0.0
        while not self.is_settled:
            self._check_open()
            now = time.monotonic()
            if now > late:
                raise SessionError("What runs has not ended; try again")
            if self.is_online and now - asked_at > self._repeat_s:
                asked_at = now
                await self._outgoing.send({"type": "cancel", "queued": True})
            await asyncio.sleep(_LOOK_S)

    @property
    def is_settled(self) -> bool:
        """Whether no turn runs, none waits, and no call of one is being executed here, as far as is known."""
        is_idle = self.status in ("idle", "error") and not self.queued and self._replies.awaited != "user_message"
        return self.is_online and is_idle and (self._calls is None or self._calls.is_idle)

    async def switch_agent(self, agent: str) -> None:
        """Let another agent answer from now on."""
        if agent == self.agent:
            return
        await self._replies.ask(
            {"type": "switch_agent", "agent_type": agent},
            lambda event: isinstance(event, AgentSwitched) and event.to_agent == agent,
        )

    async def configure(
        self,
        *,
        model: str | None = None,
        title: str | None = None,
        mode: str | None = None,
        when_busy: str | None = None,
        thinking: str | None = None,
    ) -> SessionInfo:
        """Change the session's settings; None leaves one as it is. Returns the session's state.

        Its mode is another one than wanted if another client has switched it meanwhile, or an earlier server does not
        know it.
        """
        all_settings = {
            "model": model,
            "title": title,
            "when_busy": when_busy,
            "thinking": thinking,
        }
        changes = {name: value for name, value in all_settings.items() if value is not None}

        def is_made(info: SessionInfo) -> bool:  # a reply to an earlier frame that was sent twice is not
            return all(
                (info.title if name == "title" else info.settings.get(name)) == changes[name] for name in changes
            )

        # What the user acted on: the state that was shown may be newer than the newest frame.
        seen_seq = max(self._sequence.last_seq, 0 if self.info is None else self.info.last_seq)
        switch = {} if mode is None else {"mode": mode, "last_seq": seen_seq}
        info = await self._replies.ask_for(SessionInfo, {"type": "session_config", **changes, **switch}, is_made)
        if mode is not None:
            is_switched = mode == (info.mode or _acting_mode(info))
            self._decisions.chose_mode(mode if is_switched else _DEFAULT_MODE)  # nobody consents to another's switch
        return info

    async def instruct(
        self, instructions: Sequence[Mapping[str, str]], environment: Mapping[str, str] | None = None
    ) -> None:
        """Tell the project's instructions, each with `path` and `content`, and where calls run; see docs/frames.md."""
        if list(instructions) != self._hello.instructions or environment != self._hello.environment:
            self._hello.instructions, self._hello.environment = list(instructions), environment
            await self.declare()

    async def declare(self) -> dict[str, str]:
        """Offer the executor's own tools to the agent, which have changed. Returns why some are left out, by name."""
        while True:
            try:
                await self._replies.ask_for(SessionInfo, self._hello.frame())
            except Refused as refusal:
                if not self._hello.refused(str(refusal), refusal.details):
                    raise
            else:
                return self.tools_left_out

    async def declare_agents(self, agents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Let the agent delegate to these, in place of earlier ones; see docs/frames.md, `hello`.

        Returns why some are left out, by name.
        """
        self._hello.agents, self._hello.agents_left_out = list(agents), {}
        await self.declare()
        return dict(self._hello.agents_left_out)

    @property
    def model_names(self) -> list[str]:
        """The models that the user may choose; empty if the server does not say."""
        models = self.info.models if self.info is not None else []
        return [str(model.get("name")) for model in models]

    @property
    def tools_left_out(self) -> dict[str, str]:
        """Why some of the executor's own tools are not offered to the agent, by name."""
        return dict(self._hello.left_out)

    async def rules(self) -> list[dict[str, Any]]:
        """The remembered rules."""
        rules = (await self._replies.ask_for(Rules, {"type": "rules", "action": "list"})).rules
        self._decisions.saw_rules(rules)
        return rules

    async def revoke(self, rule_id: str) -> list[dict[str, Any]]:
        """Revoke a remembered rule. Returns the others."""
        frame = {"type": "rules", "action": "revoke", "rule_id": rule_id}

        def is_gone(rules: Rules) -> bool:
            return all(rule.get("rule_id") != rule_id for rule in rules.rules)

        rules = (await self._replies.ask_for(Rules, frame, is_gone)).rules
        self._decisions.revoked(rule_id)
        return rules

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
        return self._open_calls.known

    @property
    def last_seq(self) -> int:
        """The `seq` of the last frame that was shown."""
        return self._sequence.last_seq

    @property
    def is_online(self) -> bool:
        """Whether the connection is open and everything missed has been replayed."""
        return self._link.phase is Phase.ONLINE

    @property
    def token(self) -> str:
        """The token of the open connection; empty if there is none."""
        return self._link.token

    # -- opening and closing -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect. Returns when everything missed has been replayed. Raises SessionError."""
        self._start(self._link.run())
        await self._opening_end.wait()
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
        await self._link.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._end(None)

    def _fail(self, error: BaseException) -> None:
        """End the session with an error."""
        if self._failure is None and not self._closing:
            self._failure = error
            self._end(error)
            self._opening_end.set()
            self._start(self._link.stop())

    def _end(self, error: BaseException | None) -> None:
        for stream in self._streams:
            stream.end(error)
        end = error or SessionClosed("The session is closed")
        self._replies.end(end)
        self._outgoing.give_up(end)

    def _start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine beside the others; the session ends with its error."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise SessionClosed("The session is closed")

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    # -- the connection ------------------------------------------------------------------------------------------

    async def _greet(self) -> None:
        """Begin the handshake: `hello`, then `resume` when `session_info` has come."""
        self._open_calls.connected()
        self._sequence.connected()
        if self._gate is not None:
            self._gate.connected()
        if self._calls is not None:
            self._calls.clock_skew_ms = self._link.clock_skew_ms
        await self._say_hello()

    async def _say_hello(self) -> None:
        await self._outgoing.send(self._hello.frame())

    async def _resume(self) -> None:
        now = time.monotonic()
        self._link.resuming(now)
        self._sequence.asked(now)
        self._resumed_from = self._sequence.last_seq
        await self._outgoing.send({"type": "resume", "last_seq": self._sequence.last_seq})

    async def _look(self, now: float) -> None:
        """Ask for what should have come, and send again what should have been answered."""
        must_check = self._calls is not None and self._calls.must_check()
        if must_check or self._sequence.has_gap(now):
            await self._resume()
        await self._replies.repeat_if_due(now)

    def _lost(self) -> None:
        self._outgoing.give_up(payloads.TransferError("the connection broke"))

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
                self._open_calls.take(event)
            return
        for following in ready:
            self._apply(following)

    def _take_reply(self, event: Event) -> None:
        """Take a frame that answers one of this connection's."""
        match event:
            case SessionInfo():
                self.info = event
                self.status, self.agent, self.title, self.plan = event.status, event.agent, event.title, event.plan
                self.acting_mode = _acting_mode(event)
                self.mode = event.mode or self.acting_mode
                self._turn_id = event.turn_id
                self.queued = {
                    str(message.get("client_msg_id")): str(message.get("preview", "")) for message in event.queued
                }
                if self._link.was_greeted():
                    self._open_calls.take_pending(event.pending_calls)
                    self._start(self._resume())
                    self._show(event)
                    return  # the answer to `hello`, not to what was asked
            case Resumed():
                self._resumed(event)
                return
            case ResyncRequired():
                self._resync(event)
            case UploadTicket():
                self._outgoing.take_ticket(event)
                return
            case ToolCall():
                self._open_calls.take(event)
                return
            case Error():
                if self._take_error(event):
                    return
            case GatewayError():
                self._refused_by_gateway(event)
        self._replies.take(event)
        self._show(event)

    def _apply(self, event: Event) -> None:
        """Take the next frame of the conversation."""
        before = self.status
        self._replies.take(event)
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
            case ModeSwitched():
                self.mode = event.to_mode
                if event.to_mode in _ACTING_MODES:
                    self.acting_mode = event.to_mode
            case Plan():
                self.plan = event.items
            case TurnEnd():
                self._turn_id, self._cancelling = None, False
                self.title = event.title or self.title
                self._open_calls.turn_ended(event.turn_id)
                self._keep_position()
            case CallUpdate():
                self._open_calls.settled(event.call_id)
            case Queued():
                self.queued[event.client_msg_id] = event.preview
            case UserMessage():
                self.queued.pop(event.client_msg_id, None)
            case Withdrawn():
                for client_msg_id in event.client_msg_ids:
                    self.queued.pop(client_msg_id, None)
        if isinstance(event, ToolCall):
            self._open_calls.take(event)
        elif isinstance(event, UserMessage) and event.content is None and not self.has_sent(event.client_msg_id):
            self._start(self._fetch_message(event))
        else:
            self._show(event)

    async def _fetch_message(self, message: UserMessage) -> None:
        """Show a long message of another window; if it cannot be fetched, without its content."""
        with contextlib.suppress(payloads.TransferError):
            payload = await payloads.fetch(message.payload_url or "", message.payload_bytes, self._payload_hosts)
            message = replace(message, content=str(payload))
        self._show(message)

    def _keep_position(self) -> None:
        """Record where a later process goes on: never behind an open call, because it would not see the call."""
        if not self._open_calls.known:
            self._journal.position = self._sequence.last_seq

    def _refused_by_gateway(self, event: GatewayError) -> None:
        """A frame may be lost: after a pause, `resume` and what follows `resumed` send it again."""
        self._replies.hurry()
        self._outgoing.give_up(payloads.TransferError("the server is busy"))
        self._link.busy(event.message)

    def _resumed(self, event: Resumed) -> None:
        if self._link.is_pausing:
            return  # frames sent after it were refused: it is asked for again
        if event.more:
            if self._sequence.last_seq > self._resumed_from:
                self._start(self._resume())
            else:
                self._link.busy("it replays nothing")
            return
        self._open_calls.resumed(event)
        self._link.resumed()
        self._opening_end.set()
        self._start(self._catch_up(event))

    async def _catch_up(self, event: Resumed) -> None:
        """Repeat what may have been lost with the connection before. Repeats have no effect."""
        await self._open_calls.catch_up(event)
        await self._replies.repeat_if_sent_before(self._link.opened_at)
        if self._cancelling:
            await self._send_cancel()
        for message_id in self._cancelled_message_ids:
            await self._outgoing.send({"type": "cancel", "client_msg_id": message_id})

    def _resync(self, event: ResyncRequired) -> None:
        """The log does not have the frames after the client's position."""
        is_other_session = event.last_seq < self._sequence.last_seq
        if is_other_session:  # it was deleted, and there is a new one with its id
            self._journal.forget()
        self._open_calls.clear()
        self._sequence.restart(0 if is_other_session else event.last_seq)
        if self._link.greet_again():
            self._start(self._say_hello())  # then `resume`

    def _take_error(self, event: Error) -> bool:
        """The server refused a frame. Returns whether somebody waits for the reply, and is told."""
        if event.error_code == "SESSION_EXPIRED":
            self._start(self._link.refresh())
        elif event.error_code == "UNAUTHORIZED":
            self._start(self._link.restart())  # the next upgrade tells whether there is a valid token
        elif event.call_id is not None:
            self._open_calls.refused(event)
        elif self._link.is_greeting and self._hello.refused(event.message, event.details):
            self._start(self._say_hello())
        elif not self._outgoing.refused(event):
            return self._replies.refused(event)
        return False

    # -- sending -------------------------------------------------------------------------------------------------

    def _accepts(self, message_id: str) -> Callable[[Event], bool]:
        """What shows that a message was accepted: it waits, or a turn begins."""

        def is_reply(event: Event) -> bool:
            if isinstance(event, Queued | UserMessage):
                return event.client_msg_id == message_id
            return isinstance(event, AgentStatus) and event.status == "thinking" and self.status == "idle"

        return is_reply

    async def _update_context(self, fields: dict[str, Any]) -> ContextUpdated:
        frame = {"type": "context_update", **fields}
        return await self._replies.ask_for(ContextUpdated, frame, lambda reply: reply.action == fields["action"])

    async def _send_cancel(self) -> None:
        if self.status == "idle":
            if self._replies.awaited == "user_message":
                return  # sent when its turn begins
            # The server may have accepted a message whose turn's first frame is not here yet. It knows.
            self._cancelling = False
        await self._outgoing.send({"type": "cancel", **({"turn_id": self._turn_id} if self._turn_id else {})})

    # -- showing -------------------------------------------------------------------------------------------------

    def _subscribe(self) -> EventStream:
        stream = EventStream()
        self._streams.append(stream)
        return stream

    def _show(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)
        for stream in self._streams:
            stream.put(event)

    async def _has_room(self) -> None:
        """Wait until the readers have caught up, for a second at most."""
        for _ in range(100):
            if all(stream.has_room for stream in self._streams):
                return
            await asyncio.sleep(0.01)


def _acting_mode(info: SessionInfo) -> str:
    """The mode in which the agent acts, now or after `ask` and `plan`; by the older name of the setting if need be."""
    if info.mode in _ACTING_MODES:
        return info.mode
    return _OF_AUTONOMY.get(str(info.settings.get("autonomy")), _DEFAULT_MODE)


def _remembrance(scope: Scope | None, pattern: str | None) -> dict[str, str] | None:
    if scope is None:
        return None
    return {"scope": scope} if pattern is None else {"scope": scope, "pattern": pattern}
