"""A session in memory: the pure core's decisions are applied as the table would apply them."""

import itertools
from collections.abc import Callable
from typing import Any

from codelab.agents import agents
from codelab.config import Settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import ContextUpdate, Hello, HitlDecision, Rules, SessionConfig, SwitchAgent, ToolResult
from codelab.sessions import keys
from codelab.sessions.items import Audience, CallRequest, EventItem, InputItem, dumps
from codelab.sessions.register import Register
from codelab.sessions.spending import Slot, Spending, attribute_of
from codelab.sessions.transition import Step, Transition
from codelab.turns import calls, cancel, connections, control, files, messages, routing, side_calls, steps, sweep
from codelab.turns.connections import Caller
from codelab.turns.draft import Circumstances, Draft, NeedsItems, NeedsLog, NeedsObject
from codelab.turns.routing import Choice
from codelab.turns.steps import Answer, Lease

from tests.frames import check_received

IDE = Caller("ann", "s1", "conn-1", extensions=True)
HTTP = Caller("ann", "s1", "")


class World:
    """Drives one session. `frames` are all logged frames, `invokes` all steps that were started."""

    def __init__(self, **settings: Any) -> None:
        self.now = 1_000_000
        self.settings = Settings(**{"default_agent": "universal", **settings})
        self._ids = (f"id{n}" for n in itertools.count(1))
        self.items: dict[str, dict[str, Any]] = {}
        #: What is in S3, and which of it the decision has read.
        self.objects: dict[str, str] = {}
        self._objects: dict[str, str] = {}
        self._read: dict[str, dict[str, Any] | None] = {}
        self._fresh: set[str] = set()
        self._log: list[EventItem] | None = None
        #: Items that the next decision is given as they were read before.
        self.known: dict[str, dict[str, Any] | None] = {}
        #: Slots that the next decision is told to be another's.
        self._lost: set[str] = set()
        self.events: list[EventItem] = []
        self.frames: list[dict[str, Any]] = []
        self.invokes: list[Step] = []
        self.reposts: list[tuple[int, int]] = []
        self.replies: list[tuple[str, dict[str, Any]]] = []
        self.resends: list[tuple[str, int]] = []
        self.register = Register("ann", "s1", self.now, "universal")
        self._read = {keys.usage_key(self.now): None}
        self.apply(connections.create(IDE, self._given()))

    def _given(self) -> Circumstances:
        read, objects = dict(self._read), dict(self._objects)
        return Circumstances(
            self.now,
            self.settings,
            lambda: next(self._ids),
            read,
            frozenset(self._fresh),
            self._log,
            objects,
            frozenset(self._lost),
        )

    def decide(self, decide: Callable[[Draft], Transition | None]) -> Transition | None:
        """Apply a decision, reading the items that it asks for as the shell does."""
        self._read, self._fresh, self._log, self._objects = dict(self.known), set(), None, {}
        self.known, self._lost = {}, set()
        # The log may be ahead of the register; a writer starts at the log's end.
        self.register.last_seq = len(self.events)
        while True:
            try:
                transition = decide(Draft.of(self.register, self._given()))
            except NeedsItems as needs:
                self._read |= {key: self.items.get(key) for key in needs.keys}
                self._fresh |= set(needs.keys)
                continue
            except NeedsObject as needs:
                self._objects[needs.digest] = self.objects[needs.digest]
                continue
            except NeedsLog:
                self._log = self.events[self.register.message_seq :]
                continue
            if transition is not None:
                repeated = {item.key() for item in transition.puts if item.key().startswith("INPUT#")} & set(self.items)
                if repeated:  # the table refuses the transaction, and the shell asks again with what is there
                    self._read = {key: self.items[key] for key in repeated}
                    continue
                if transition.slot is not None and not self._has(transition.slot):
                    self._lost.add(transition.slot.token)
                    self._read = {}
                    continue
                self.apply(transition)
            return transition

    def _has(self, slot: Slot) -> bool:
        """Is the slot what the transition takes it for? The table refuses the transaction otherwise."""
        item = self.items.get(slot.key())
        if slot.taken_at:
            return Slot.is_free(item, slot.taken_at)
        return item is None or item["token"] == slot.token

    def _count(self, spent: Spending) -> None:
        """As the table does after the commit."""
        if spent:
            item = self.items.setdefault(keys.usage_key(self.now), {})
            for name, amount in spent.amounts().items():
                attribute = attribute_of(name, self.now)
                item[attribute] = item.get(attribute, 0) + amount

    def apply(self, transition: Transition) -> None:
        self.last = transition
        if transition.slot is not None:
            assert self._has(transition.slot), "another's slot"
            self.items.pop(transition.slot.key(), None)
            if transition.slot.until:
                self.items[transition.slot.key()] = {"sk": transition.slot.key(), **transition.slot.attributes()}
        self._count(transition.spent)
        written = [item.key() for item in transition.puts]
        assert len(written) == len(set(written)), "a transaction must not write one item twice"
        _check_sizes(transition)
        self.objects |= transition.objects
        for item in transition.puts:
            if not item.replaces:
                assert item.key() not in self.items, f"{item.key()} is put twice"
            self.items[item.key()] = {"sk": item.key(), **item.attributes()}
        for key in transition.deletes:
            del self.items[key]
        for event in transition.events:
            assert event.seq == len(self.frames) + 1
            check_received(_posted(event))
            self.frames.append(event.frame)
            self.events.append(event)
        # What is stored is what the next decision reads.
        version = self.register.version + 1
        stored = {**transition.after.attributes(), "version": version, "due_at": transition.after.due_at()}
        self.register = Register.of(stored)
        self.reposts += transition.repost
        self.resends += [(resend.connection_id, resend.seq) for resend in transition.resend]
        self.replies += transition.replies
        if transition.invoke:
            self.invokes.append(transition.invoke)

    # -- events --------------------------------------------------------------------------------------------------

    def say(self, content: str = "hello", caller: Caller = IDE, **fields: Any) -> Transition | None:
        message = InputItem(fields.get("id") or next(self._ids), content, fields.get("role", "user"), self.now)
        return self.decide(lambda draft: messages.user_message(draft, caller, message))

    def acquire(self, step: Step | None = None) -> Lease | None:
        step = step or self.invokes[-1]
        lease = Lease(steps.token(next(self._ids), next(self._ids)), self.now + 305_000, "msg_" + next(self._ids))
        done = self.decide(lambda draft: steps.acquire(draft, step, lease))
        return lease if done else None

    def route(self, lease: Lease, agent: str, confidence: float | None = 0.9) -> Transition | None:
        choice = Choice(agent, "It suits", confidence, {"llm_calls": 1})
        return self.decide(lambda draft: routing.route(draft, lease, "orchestrator", choice))

    def stream(self, lease: Lease, text: str) -> None:
        """Log text as the sender does, past the register."""
        seq = len(self.events) + 1
        frame = {"type": "assistant_message", "seq": seq, "token": text, "is_final": False}
        self.frames.append({**frame, "message_id": lease.message_id})
        self.events.append(EventItem(seq, self.frames[-1], Audience.ALL, ttl=self.now))

    def answer(
        self, text: str = "", *wanted: tuple[str, dict[str, Any]], lease: Lease | None = None, title: str = ""
    ) -> list[str]:
        """Acquire (unless a lease is given), answer, commit. Returns the ids of the calls."""
        held = lease or self.acquire()
        assert held is not None
        requests = tuple(CallRequest("call_" + next(self._ids), tool, arguments) for tool, arguments in wanted)
        agent = agents()[self.register.agent]
        answer = Answer(text, requests, agent, agent.tools, {"prompt_tokens": 10, "llm_calls": 1}, title)
        self.decide(lambda draft: steps.commit(draft, held, answer, len(self.events)))
        return [request.call_id for request in requests]

    def result(self, call_id: str, caller: Caller = IDE, **outcome: Any) -> Transition | None:
        frame = ToolResult.model_validate({"type": "tool_result", "call_id": call_id, **outcome})
        return self.decide(lambda draft: calls.tool_result(draft, caller, frame))

    def decision(self, call_id: str, decision: str, caller: Caller = IDE, **fields: Any) -> Transition | None:
        frame = HitlDecision.model_validate(
            {"type": "hitl_decision", "call_id": call_id, "decision": decision, **fields}
        )
        return self.decide(lambda draft: calls.hitl_decision(draft, caller, frame))

    def execute(self, call_id: str, tool: str, **arguments: Any) -> Transition | None:
        """A program asks over HTTP for a call that belongs to no turn."""
        return self.decide(lambda draft: side_calls.execute(draft, HTTP, call_id, tool, arguments))

    def fail(self, lease: Lease, streamed: str = "") -> None:
        """The owner ends without an answer, as it does when its model fails or its turn was cancelled."""
        error = ProtocolError(ErrorCode.LLM_ERROR, "The model failed")
        self.decide(lambda draft: steps.fail(draft, lease, error, {"llm_calls": 1}, streamed, len(self.events)))

    def cancel(self, turn_id: str | None = None, caller: Caller = IDE) -> Transition | None:
        return self.decide(lambda draft: cancel.cancel(draft, caller, turn_id))

    def configure(self, caller: Caller = IDE, **fields: Any) -> None:
        frame = SessionConfig.model_validate({"type": "session_config", **fields})
        self.decide(lambda draft: control.configure(draft, caller, frame))

    def remembered(self, action: str = "list", **fields: Any) -> list[dict[str, Any]]:
        """`rules`. Returns the rules that the answer lists."""
        frame = Rules.model_validate({"type": "rules", "action": action, **fields})
        self.decide(lambda draft: control.change_rules(draft, IDE, frame))
        listed: list[dict[str, Any]] = self.replies[-1][1]["rules"]
        return listed

    def hello(self, caller: Caller = IDE, **fields: Any) -> None:
        frame = Hello.model_validate({"type": "hello", **fields})
        self.decide(lambda draft: control.hello(draft, caller, frame))

    def greet(self, caller: Caller = IDE) -> dict[str, Any]:
        """`hello`. Returns the `session_info` that answers it."""
        self.decide(lambda draft: control.greet(draft, caller))
        connection_id, frame = self.replies[-1]
        assert connection_id == caller.connection_id
        return frame

    def switch(self, agent: str, known: set[str]) -> None:
        frame = SwitchAgent.model_validate({"type": "switch_agent", "agent_type": agent})
        self.decide(lambda draft: control.switch_agent(draft, IDE, frame, known, None))

    def context(self, action: str, path: str | None = None, content: str | None = None, **fields: Any) -> None:
        data = {"path": path, "content": content}
        frame = ContextUpdate.model_validate({"type": "context_update", "action": action, "data": data, **fields})
        self.decide(lambda draft: files.context_update(draft, IDE, frame))

    def join(self, caller: Caller) -> None:
        self.decide(lambda draft: connections.connect(draft, caller))

    def leave(self, caller: Caller = IDE) -> None:
        self.decide(lambda draft: connections.disconnect(draft, caller.connection_id))

    def pass_time(self, seconds: float, dead: str | None = None) -> None:
        """`dead` is an invocation whose failure is reported."""
        self.now += int(seconds * 1000)
        self.decide(lambda draft: sweep.tick(draft, dead))

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
        found = [item for sk, item in sorted(self.items.items()) if sk.startswith("MESSAGE#")]
        return [(item["role"], item["content"]) for item in found]

    def call_item(self, call_id: str) -> dict[str, Any]:
        return self.items[f"CALL#{call_id}"]


def _posted(event: EventItem) -> dict[str, Any]:
    """The logged frame as it is posted, with a URL in place of what is too large."""
    if event.payload is None or not {"arguments", "result"}.isdisjoint(event.frame):
        return event.frame
    return {**event.frame, "payload_url": "https://bucket.invalid", "payload_bytes": event.payload.bytes}


def _check_sizes(transition: Transition) -> None:
    """DynamoDB takes 400 KB an item, 4 MB and 100 items a transaction."""
    items = [*transition.puts, *transition.events, transition.after]
    sizes = [
        sum(
            len(name) + len((it if isinstance(it, str) else dumps(it)).encode())
            for name, it in item.attributes().items()
        )
        for item in items
    ]
    assert max(sizes) < 400_000, "an item is too large"
    assert sum(sizes) < 4_000_000, "a transaction is too large"
    count = len(items) + len(transition.deletes) + (transition.slot is not None)
    assert count <= 100, "a transaction has too many items"


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
