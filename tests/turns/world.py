"""A session in memory: the pure core's decisions are applied as the table would apply them."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from codelab.agents import Agent, agents, subagents
from codelab.config import Settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import (
    Cancel,
    Compact,
    ContextUpdate,
    Hello,
    HitlDecision,
    Rules,
    SessionConfig,
    SwitchAgent,
    ToolResult,
    UserMessage,
    Withdraw,
)
from codelab.protocol.modes import DEFAULT, reading_mode
from codelab.sessions import keys
from codelab.sessions.items import Audience, CallRequest, EventItem, InputItem, ToolsItem, dumps
from codelab.sessions.register import LEASE_MS, Register
from codelab.sessions.spending import Slot, Spending, attribute_of
from codelab.sessions.store import Duplicate, SeqTaken, SlotTaken
from codelab.sessions.transition import Step, Transition
from codelab.turns import (
    calls,
    cancel,
    connections,
    control,
    files,
    inbox,
    messages,
    out_of_turn_calls,
    requested_compaction,
    routing,
    steps,
    sweep,
)
from codelab.turns.assignments import agent_of
from codelab.turns.caller import Caller
from codelab.turns.decision import Decision, decide_and_commit
from codelab.turns.draft import Draft
from codelab.turns.out_of_turn_calls import ExecuteTool
from codelab.turns.own_tools import tools_of_connection
from codelab.turns.routing import Choice
from codelab.turns.steps import Failure, Lease, ModelAnswer

from tests.frames import check_received

IDE = Caller("ann", "s1", "conn-1", extensions=True)
#: A second window of the same user.
OTHER = Caller("ann", "s1", "conn-2", extensions=True)
VIEWER = Caller("ann", "s1", "conn-9", viewer=True)
HTTP = Caller("ann", "s1", "")

Call = tuple[str, dict[str, Any]]
READ: Call = ("read_file", {"path": "a.py"})
WRITE: Call = ("write_file", {"path": "a.py", "content": "1"})
RUN: Call = ("run_command", {"command": "make"})

E = TypeVar("E")


#: The seed documents' bounds of a context, by which tests of long sessions are short.
_SEEDS = {"max_context_tokens": 8_000, "max_context_messages": 50}


class World:
    """Drives one session, and is its `Access`. `frames` are all logged frames, `invokes` all started steps."""

    def __init__(self, **settings: Any) -> None:
        self._begin(Settings(**{**_SEEDS, "default_agent": "universal", **settings}), "s1")
        decide_and_commit(lambda draft: connections.connect.decide(draft, IDE, None), self, caller=IDE, creates=True)

    def _begin(self, settings: Settings, session_id: str) -> None:
        self.now = 1_000_000
        self.settings = settings
        self._ids = (f"id{n}" for n in itertools.count(1))
        #: The session's parent and its children, by id; they share it.
        self.family: dict[str, World] = {session_id: self}
        self.table: dict[str, dict[str, Any]] = {}
        #: What is in S3.
        self.objects: dict[str, str] = {}
        #: Items that the next decision is given as they were read before.
        self.known: dict[str, dict[str, Any] | None] = {}
        self.events: list[EventItem] = []
        self.frames: list[dict[str, Any]] = []
        self.invokes: list[Step] = []
        self.reposts: list[tuple[int, int]] = []
        self.replies: list[tuple[str, dict[str, Any]]] = []
        self.resends: list[tuple[str, int]] = []
        self._exists = False
        self.register = Register("ann", session_id, self.now, "universal")

    def decide(
        self, decide: Callable[[Draft], Transition | None], *, include_hidden: bool = False
    ) -> Transition | None:
        """Make a decision, and apply it as the table would."""
        known, self.known = self.known, {}
        transition = decide_and_commit(
            decide, self, register=self.register, read_items=known, include_hidden=include_hidden
        ).transition
        if transition is not None:
            self._run_effects(transition)
        return transition

    def handle(self, decision: Decision[E], event: E, caller: Caller = IDE) -> Transition | None:
        return self.decide(lambda draft: decision.decide(draft, caller, event))

    # -- what decisions read and write -------------------------------------------------------------------------------

    def clock(self) -> int:
        return self.now

    def new_id(self) -> str:
        return next(self._ids)

    def of(self, session_id: str) -> "World":
        if session_id not in self.family:
            relative = World.__new__(World)
            relative._begin(self.settings, session_id)
            relative._ids, relative.family = self._ids, self.family
            self.family[session_id] = relative
        self.family[session_id].now = self.now
        return self.family[session_id]

    def read(self, wanted: Sequence[str]) -> tuple[Register | None, dict[str, dict[str, Any] | None]]:
        return self.register if self._exists else None, {key: self.table.get(key) for key in wanted}

    def items(self, wanted: Sequence[str]) -> dict[str, dict[str, Any]]:
        log = {event.key(): event.row() for event in self.events}
        return {key: found for key in wanted if (found := self.table.get(key) or log.get(key)) is not None}

    def object(self, digest: str) -> str:
        return self.objects[digest]

    def streamed(self, register: Register) -> list[EventItem]:
        return self.events[register.message_seq :]

    def log_end(self, known: int) -> int:
        return len(self.events)

    def back_off(self, attempt: int) -> None:
        raise AssertionError("nobody else writes")

    def commit(self, transition: Transition) -> None:
        """As the table does, which refuses what it refuses."""
        changes = [(self, transition), *((self.of(one.after.session_id), one) for one in transition.family)]
        for world, change in changes:
            world._check(change)
        _check_sizes([change for _, change in changes])
        for world, change in changes:
            world._write(change)

    def _check(self, transition: Transition) -> None:
        for item in transition.puts:
            if isinstance(item, InputItem) and item.key() in self.table:
                raise Duplicate(item.key())
        if transition.events and transition.events[0].seq <= len(self.events):
            raise SeqTaken
        if transition.takes_over:
            assert transition.before is not None
            assert transition.before.lease_until == self.register.lease_until <= self.now, "the owner is alive"
        if transition.slot is not None and not self._has(transition.slot):
            raise SlotTaken(transition.slot.token)

    def _has(self, slot: Slot) -> bool:
        """Is the slot what the transition takes it for? The table refuses the transaction otherwise."""
        item = self.table.get(slot.key())
        if slot.taken_at:
            return Slot.is_free(item, slot.taken_at)
        return item is None or item["token"] == slot.token

    def _count(self, spent: Spending) -> None:
        """As the table does after the commit."""
        if spent:
            item = self.table.setdefault(keys.usage_key(self.now), {})
            for name, amount in spent.amounts().items():
                attribute = attribute_of(name, self.now)
                item[attribute] = item.get(attribute, 0) + amount

    def _write(self, transition: Transition) -> None:
        self._exists = True
        if transition.slot is not None:
            assert self._has(transition.slot), "another's slot"
            self.table.pop(transition.slot.key(), None)
            if transition.slot.until:
                self.table[transition.slot.key()] = transition.slot.row()
        written = [item.key() for item in transition.puts]
        assert len(written) == len(set(written)), "a transaction must not write one item twice"
        self.objects |= transition.objects
        for item in transition.puts:
            if not item.replaces:
                assert item.key() not in self.table, f"{item.key()} is put twice"
            self.table[item.key()] = item.row()
        for key in transition.deletes:
            del self.table[key]
        for event in transition.events:
            assert event.seq == len(self.frames) + 1
            check_received(_posted(event))
            self.frames.append(event.frame)
            self.events.append(event)
        # What is stored is what the next decision reads.
        version = self.register.version + 1
        stored = {**transition.after.attributes(), "version": version, "due_at": transition.after.due_at()}
        self.register = Register.of(stored)

    def _run_effects(self, transition: Transition) -> None:
        self.last = transition
        self._count(transition.spending)
        self.reposts += transition.repost
        self.resends += [(resend.connection_id, resend.seq) for resend in transition.resend]
        self.replies += transition.replies
        if transition.invoke and not transition.invoke.compacts:
            self.invokes.append(transition.invoke)
        for change in transition.family:
            self.of(change.after.session_id)._run_effects(change)

    # -- events --------------------------------------------------------------------------------------------------

    def say(self, content: str = "hello", caller: Caller = IDE, **fields: Any) -> Transition | None:
        frame = UserMessage(
            type="user_message",
            content=content,
            role=fields.get("role", "user"),
            client_msg_id=fields.get("id"),
            when_busy=fields.get("when_busy"),
        )
        return self.handle(messages.user_message, frame, caller)

    def acquire(self, step: Step | None = None) -> Lease | None:
        step = step or self.invokes[-1]
        token, message_id = steps.token(self.new_id(), self.new_id()), "msg_" + self.new_id()
        lease = Lease(token, self.now + LEASE_MS, message_id, self.now + 305_000)
        done = self.decide(lambda draft: steps.acquire(draft, step, lease))
        return lease if done else None

    def route(self, lease: Lease, agent: str) -> Transition | None:
        return self.decide(lambda draft: routing.route(draft, lease, "orchestrator", Choice(agent)))

    def renew(self, lease: Lease) -> bool:
        """Extend the lease as the sender does, past `version`. False: it is lost."""
        if self.register.lease != lease.token:
            return False
        self.register.lease_until = self.now + LEASE_MS
        return True

    def stream(self, lease: Lease, text: str) -> None:
        """Log text as the sender does, past the register."""
        seq = len(self.events) + 1
        frame = {"type": "assistant_message", "seq": seq, "token": text, "is_final": False}
        message_id = self.register.message_id if self.register.lease == lease.token else lease.message_id
        self.frames.append({**frame, "message_id": message_id})
        self.events.append(EventItem(seq, self.frames[-1], Audience.ALL, ttl=self.now))

    def break_off(self, lease: Lease) -> Transition | None:
        """The model breaks off, and is asked again."""
        message_id = "msg_" + self.new_id()
        return self.decide(lambda draft: steps.restart(draft, lease, message_id, {"llm_calls": 1}, len(self.events)))

    def answer(
        self,
        text: str = "",
        *wanted: Call,
        lease: Lease | None = None,
        title: str = "",
        is_text: bool = False,
        result: dict[str, Any] | None = None,
    ) -> list[str]:
        """Acquire (unless a lease is given), answer, commit. is_text: as text. Returns the calls' ids.

        result: the object that a child was asked for.
        """
        held = lease or self.acquire()
        assert held is not None
        requests = tuple(CallRequest("call_" + self.new_id(), tool, arguments) for tool, arguments in wanted)
        agent, usage = self.agent(), {"prompt_tokens": 10, "llm_calls": 1}
        answer = ModelAnswer(text, requests, agent, agent.tools, usage, title, has_text_call=is_text, result=result)
        self.decide(lambda draft: steps.commit(draft, held, answer, len(self.events)))
        return [request.call_id for request in requests]

    def agent(self) -> Agent:
        """The agent that answers, with the tools that it has if a client has declared agents."""
        register, item = self.register, ToolsItem.of(self.table.get(keys.TOOLS))
        agent = (agents() if register.delegation is None else subagents())[register.agent]
        if not (item.agents or item.assignment.agent):
            return agent
        executor = tools_of_connection(item, register.executor)
        mode = reading_mode(register.settings) or DEFAULT
        return agent_of(item.assignment, agent).for_executor(executor, mode=mode)

    def result(self, call_id: str, caller: Caller = IDE, **outcome: Any) -> Transition | None:
        frame = ToolResult.model_validate({"type": "tool_result", "call_id": call_id, **outcome})
        return self.handle(calls.tool_result, frame, caller)

    def decision(self, call_id: str, decision: str, caller: Caller = IDE, **fields: Any) -> Transition | None:
        frame = HitlDecision.model_validate(
            {"type": "hitl_decision", "call_id": call_id, "decision": decision, **fields}
        )
        return self.handle(calls.hitl_decision, frame, caller)

    def execute(self, call_id: str, tool: str, **arguments: Any) -> Transition | None:
        """A program asks over HTTP for a call that belongs to no turn."""
        return self.handle(out_of_turn_calls.execute, ExecuteTool(call_id, tool, arguments), HTTP)

    def fail(self, lease: Lease, streamed: str = "") -> None:
        """The owner ends without an answer, as it does when its model fails or its turn was cancelled."""
        error = ProtocolError(ErrorCode.LLM_ERROR, "The model failed")
        failure = Failure(error, {"llm_calls": 1}, streamed)
        self.decide(lambda draft: steps.commit(draft, lease, failure, len(self.events)))

    def cancel(self, turn_id: str | None = None, caller: Caller = IDE, **fields: Any) -> Transition | None:
        return self.handle(cancel.cancel, Cancel(type="cancel", turn_id=turn_id, **fields), caller)

    def withdraw(self, client_msg_id: str, caller: Caller = IDE) -> Transition | None:
        return self.handle(inbox.withdraw, Withdraw(type="withdraw", client_msg_id=client_msg_id), caller)

    def compact(self, caller: Caller = IDE) -> Transition | None:
        return self.handle(requested_compaction.compact, Compact(type="compact"), caller)

    def begin_compaction(self) -> str | None:
        """Claim the compaction that was asked for. Returns the claim, None if there is nothing to do."""
        lease, until = self.new_id(), self.now + 65_000
        return lease if self.decide(lambda draft: requested_compaction.claim(draft, lease, until)) else None

    def end_compaction(self, lease: str) -> Transition | None:
        return self.decide(lambda draft: requested_compaction.end(draft, lease, None, None, None, ()))

    def configure(self, caller: Caller = IDE, **fields: Any) -> None:
        frame = SessionConfig.model_validate({"type": "session_config", **fields})
        self.handle(control.configure, frame, caller)

    def remembered(self, action: str = "list", **fields: Any) -> list[dict[str, Any]]:
        """`rules`. Returns the rules that the answer lists."""
        frame = Rules.model_validate({"type": "rules", "action": action, **fields})
        self.handle(control.change_rules, frame)
        listed: list[dict[str, Any]] = self.replies[-1][1]["rules"]
        return listed

    def hello(self, caller: Caller = IDE, **fields: Any) -> dict[str, Any]:
        """Returns the `session_info` that answers it."""
        self.handle(control.hello, Hello.model_validate({"type": "hello", **fields}), caller)
        connection_id, frame = self.replies[-1]
        assert connection_id == caller.connection_id
        return frame

    def switch(self, agent: str) -> None:
        frame = SwitchAgent.model_validate({"type": "switch_agent", "agent_type": agent})
        self.handle(control.switch_agent, frame)

    def context(self, action: str, path: str | None = None, content: str | None = None, **fields: Any) -> None:
        data = {"path": path, "content": content}
        frame = ContextUpdate.model_validate({"type": "context_update", "action": action, "data": data, **fields})
        self.handle(files.context_update, frame)

    def join(self, caller: Caller) -> None:
        self.handle(connections.connect, None, caller)

    def leave(self, caller: Caller = IDE) -> None:
        self.decide(lambda draft: connections.disconnect(draft, caller.connection_id))

    def pass_time(self, seconds: float, dead: str | None = None) -> None:
        """`dead` is an invocation whose failure is reported."""
        self.now += int(seconds * 1000)
        for session_id, world in list(self.family.items()):
            world.now = self.now
            if world.register.erase_at:
                del self.family[session_id]  # the sweep deletes it
            elif world._exists:
                world.decide(lambda draft: sweep.tick(draft, dead))

    @property
    def children(self) -> "list[World]":
        """The children that have not ended."""
        relatives = self.family.values()
        return [world for world in relatives if world._exists and world.register.delegation and world.is_alive]

    @property
    def is_alive(self) -> bool:
        """The session is neither hidden nor deleted."""
        return not self.register.erase_at

    @property
    def owner(self) -> str:
        """The invocation that runs the step."""
        return self.register.lease.partition(":")[0]

    # -- what came of it -----------------------------------------------------------------------------------------

    def of_type(self, frame_type: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == frame_type]

    def statuses(self) -> list[str]:
        return [frame["status"] for frame in self.of_type("agent_status")]

    def history(self) -> list[tuple[str, str]]:
        found = [item for sk, item in sorted(self.table.items()) if sk.startswith("MESSAGE#")]
        return [(item["role"], item["content"]) for item in found]

    def call_item(self, call_id: str) -> dict[str, Any]:
        return self.table[f"CALL#{call_id}"]


def _posted(event: EventItem) -> dict[str, Any]:
    """The logged frame as it is posted, with a URL in place of what is too large."""
    if event.payload is None or not {"arguments", "result"}.isdisjoint(event.frame):
        return event.frame
    return {**event.frame, "payload_url": "https://bucket.invalid", "payload_bytes": event.payload.bytes}


def _check_sizes(transitions: Sequence[Transition]) -> None:
    """DynamoDB takes 400 KB an item, 4 MB and 100 items a transaction."""
    rows = [item.row() for transition in transitions for item in (*transition.puts, *transition.events)]
    items = [*rows, *(transition.after.attributes() for transition in transitions)]
    sizes = [sum(len(name) + _size(value) for name, value in item.items()) for item in items]
    assert max(sizes) < 400_000, "an item is too large"
    assert sum(sizes) < 4_000_000, "a transaction is too large"
    count = len(items) + sum(len(change.deletes) + (change.slot is not None) for change in transitions)
    assert count <= 100, "a transaction has too many items"


def _size(value: Any) -> int:
    """The bytes of an attribute's value, or a few more."""
    if isinstance(value, (int, float)):
        return 21
    return len((value if isinstance(value, str) else dumps(value)).encode())


def dispatched(**settings: Any) -> World:
    """A session whose user has said hello."""
    world = World(**settings)
    world.say()
    return world


def running(**settings: Any) -> tuple[World, Lease]:
    """The same, and a step runs."""
    world = dispatched(**settings)
    lease = world.acquire()
    assert lease is not None
    return world, lease


def calling(*wanted: Call, **settings: Any) -> tuple[World, list[str]]:
    """The same, and the model has answered with these calls. Returns their ids too."""
    world = dispatched(**settings)
    return world, world.answer("", *wanted)


def refusal(run: Callable[[], Any]) -> ProtocolError:
    """The error that `run` is refused with."""
    try:
        run()
    except ProtocolError as error:
        return error
    raise AssertionError("nothing was refused")


def unchanged(transition: Transition | None) -> bool:
    """A repeat is accepted and writes nothing; at most it has frames posted again."""
    return transition is None or not transition.writes
