"""Random events against the pure core: in any order, late, repeated; and what must hold whatever happens."""

import contextlib
import json
import random
from collections import Counter
from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.modes import mode_of, offers
from codelab.protocol.tools import CATALOGUE
from codelab.sessions.items import MessageItem, dumps
from codelab.sessions.keys import slot_key
from codelab.sessions.register import CallState, Phase
from codelab.sessions.spending import Slot
from codelab.sessions.store import Conversation
from codelab.turns import requested_compaction
from codelab.turns.caller import Caller
from codelab.turns.context import assemble
from codelab.turns.steps import Lease

from tests.turns.world import IDE, READ, RUN, WRITE, Call, World

CALLERS = (IDE, Caller("ann", "s1", "conn-2"), Caller("ann", "s1", "conn-3", extensions=True, viewer=True))
DELEGATE: Call = ("delegate", {"agent": "universal", "task": "Look"})
CALLS: tuple[Call, ...] = (
    READ,
    WRITE,
    RUN,
    ("write_file", {"path": "big.py", "content": "x = 1\n" * 25_000}),
    ("read_file", {"path": "../outside"}),
    ("no_such_tool", {}),
    ("switch_agent", {"agent_type": "coder", "reason": "It writes code"}),
    ("switch_agent", {"agent_type": "nobody", "reason": "Why not"}),
    ("update_plan", {"items": [{"text": "Read", "status": "in_progress"}]}),
    ("read_result", {"call_id": "call_unknown"}),
    ("propose_plan", {"steps": ["Read", "Write"]}),
    DELEGATE,
    ("delegate", {"agent": "nobody", "task": "Look"}),
)
RESULTS: tuple[dict[str, Any], ...] = (
    {"result": {"content": "x"}},
    {"result": None},
    {"result": {"content": "long\n" * 20_000}},
    {"error": {"code": ErrorCode.FILE_NOT_FOUND, "message": "no"}},
    {"result": {"stdout": "a piece", "exit_code": None}},
)
DECISIONS: tuple[dict[str, Any], ...] = (
    {"decision": "approve"},
    {"decision": "reject", "feedback": "no"},
    {"decision": "edit", "modified_arguments": {"path": "b.py", "content": "2"}},
    {"decision": "edit", "modified_arguments": {"path": 5}},
    {"decision": "edit", "modified_arguments": {"steps": ["Write"]}},
    {"decision": "approve", "mode": "autonomous"},
    {"decision": "approve", "remember": {"scope": "session"}},
    {"decision": "approve", "remember": {"scope": "user", "pattern": "**"}},
    {"decision": "reject", "remember": {"scope": "user"}},
    {"decision": "reject", "remember": {"scope": "session", "pattern": "*.py"}},
)
AGAIN: dict[str, Any] = {"decision": "approve", "remember": {"scope": "session"}}


class Walk:
    """One random walk. Every method is an event that may come at any time."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.world = World(
            tool_timeout_s=30,
            approval_timeout_s=60,
            max_steps=6,
            hitl_strict=choose.random() < 0.2,
            remember_commands=choose.random() < 0.5,
            open_turns=choose.choice((0, 1, 2, 3)),
        )
        if choose.random() < 0.8:
            self.world.hello(platform="linux")
        #: Slots that other sessions of the user have, by key; was the sweep away so long that slots ran out?
        self.others: dict[str, dict[str, Any]] = {}
        self.had_outage = False
        self.leases: list[tuple[Lease, list[str]]] = []
        #: The log's end as each owner knows it, by its lease's token, until it has noticed that it lost the lease.
        self.ends: dict[str, tuple[Lease, int]] = {}
        self.call_ids: list[str] = ["call_unknown"]
        self.said: set[str] = set()
        #: The leases of children's owners, by the session's id, the newest last.
        self.child_leases: dict[str, list[Lease]] = {}
        #: The frames that were looked at.
        self.checked = 0
        #: How many compactions were accepted, and the claims of those who began one, dead or alive.
        self.compactions = 0
        self.claims: list[str] = []
        if choose.random() < 0.3:
            self._begins_with_children()
            self.check()

    def _begins_with_children(self) -> None:
        """The agent has delegated, and its children have answered with calls."""
        self.say()
        self.acquire()
        lease, _ = self.leases[-1]
        self.ends.pop(lease.token, None)
        calls = [DELEGATE] * self.choose.randrange(1, 5) + [READ] * self.choose.randrange(2)
        self.call_ids += self.world.answer("", *calls, lease=lease)
        for _ in range(8):
            self.choose.choice((self.child_acquires, self.child_commits))()

    #: Chosen more often while children work.
    OF_CHILDREN = ("result", "decide", "child_acquires", "child_commits", "child_commits", "child_dies", "child_fails")
    EVENTS = (
        "say", "say", "repeat", "acquire", "acquire", "acquire_any", "stream", "commit", "commit", "commit_any", "fail",
        "renew", "stray_streams", "stray_streams", "break_off",
        "result", "result", "result", "decide", "decide", "cancel", "withdraw", "configure", "switch", "context",
        "compact", "compaction_begins", "compaction_begins", "compaction_ends",
        "join", "leave",
        "wait", "owner_dies", "execute", "revoke", "hello",
        "another_begins", "another_begins", "another_ends", "outage",
        "child_acquires", "child_acquires", "child_acquires", "child_commits", "child_commits", "child_commits",
        "child_fails", "child_dies", "child_owner_is_late",
    )  # fmt: skip

    def step(self) -> None:
        """One random event, and the invariants after it. A refusal is an outcome like any other."""
        of_children = self.OF_CHILDREN if self.world.children and len(self.EVENTS) > 1 else ()
        name = self.choose.choice((*self.EVENTS, *of_children * 3))
        with contextlib.suppress(ProtocolError):
            getattr(self, name)()
        self.check()

    # -- events --------------------------------------------------------------------------------------------------

    def say(self, input_id: str | None = None) -> None:
        input_id = input_id or f"m{len(self.said)}-{self.choose.randrange(10**9)}"
        if f"INPUT#{input_id}" in self.world.table:
            return  # the table's condition refuses it: accepted before
        when_busy = self.choose.choice((None, None, "queue", "steer", "interrupt", "reject"))
        self.world.say(f"says {input_id}", self.choose.choice(CALLERS), id=input_id, when_busy=when_busy)
        self.said.add(input_id)

    def repeat(self) -> None:
        if self.said:
            self.say(self.choose.choice(sorted(self.said)))

    def acquire(self) -> None:
        if self.world.invokes:
            self._acquire(self.world.invokes[-1])

    def acquire_any(self) -> None:
        if self.world.invokes:
            self._acquire(self.choose.choice(self.world.invokes))

    def _acquire(self, step: Any) -> None:
        lease = self.world.acquire(step)
        if lease is not None:
            self.leases.append((lease, []))
            self.ends[lease.token] = (lease, len(self.world.events))

    def stream(self) -> None:
        if self.leases:
            lease, text = self.leases[-1]
            if self.world.register.lease == lease.token and not self.world.register.cancelled_at:
                text.append("word ")
                self.world.stream(lease, "word ")
                self.ends[lease.token] = (lease, len(self.world.events))

    def stray_streams(self) -> None:
        """An owner that was stopped goes on where it was: it appends, unless another writer has its seq."""
        if not self.ends:
            return
        lease, end = self.ends[self.choose.choice(sorted(self.ends))]
        if self.world.register.lease == lease.token:
            return
        if len(self.world.events) == end:
            self.world.stream(lease, "stray ")
            self.ends[lease.token] = (lease, end + 1)
        else:
            del self.ends[lease.token]

    def break_off(self) -> None:
        if self.leases:
            lease, text = self.leases[-1]
            if self.world.break_off(lease):
                text.clear()
                self.ends[lease.token] = (lease, len(self.world.events))

    def renew(self) -> None:
        if self.leases:
            self.world.renew(self.leases[-1][0])

    def commit(self) -> None:
        if self.leases:
            self._commit(*self.leases[-1])

    def commit_any(self) -> None:
        if self.leases:
            self._commit(*self.choose.choice(self.leases))

    def _commit(self, lease: Lease, text: list[str]) -> None:
        self.ends.pop(lease.token, None)
        wanted = [self.choose.choice(CALLS) for _ in range(self.choose.choice((0, 0, 1, 2, 3, 18)))]
        if self.choose.random() < (0.7 if self.world.register.command_rule else 0.2):
            wanted = [RUN]  # alone, or it asks
        if not text and not wanted:
            text.append("word ")
            if self.world.register.lease == lease.token:
                self.world.stream(lease, "word ")
        self.call_ids += self.world.answer("".join(text), *wanted, lease=lease)

    def child_acquires(self) -> None:
        if (child := self._child()) is not None and (lease := child.acquire()) is not None:
            self.child_leases.setdefault(child.register.session_id, []).append(lease)

    def child_commits(self) -> None:
        if (child := self._child()) is not None and (leases := self.child_leases.get(child.register.session_id)):
            self._child_commits(child, leases[-1])

    def _child_commits(self, child: World, lease: Lease) -> None:
        wanted = [self.choose.choice(CALLS) for _ in range(self.choose.choice((0, 0, 1, 2, 6)))]
        if self.choose.random() < 0.2:
            wanted = [RUN]
        self.call_ids += child.answer("" if wanted else "answer", *wanted, lease=lease)

    def child_fails(self) -> None:
        if (child := self._child()) is not None and (leases := self.child_leases.get(child.register.session_id)):
            child.fail(leases[-1])

    def child_dies(self) -> None:
        if (child := self._child()) is not None and (leases := self.child_leases.get(child.register.session_id)):
            self.world.pass_time(0, dead=leases[-1].token.partition(":")[0])

    def child_owner_is_late(self) -> None:
        """An owner that has lost its lease commits, perhaps to a child that has ended."""
        if self.child_leases:
            session_id = self.choose.choice(sorted(self.child_leases))
            self._child_commits(self.world.of(session_id), self.choose.choice(self.child_leases[session_id]))

    def _child(self) -> World | None:
        children = self.world.children
        return self.choose.choice(children) if children else None

    def fail(self) -> None:
        if self.leases:
            lease, text = self.leases[-1]
            self.ends.pop(lease.token, None)
            self.world.fail(lease, "".join(text))

    def result(self) -> None:
        self.world.result(self._call_id(), self.choose.choice(CALLERS), **self.choose.choice(RESULTS))

    def decide(self) -> None:
        call_id, fields = self._call_id(), self.choose.choice(DECISIONS)
        entry = self.world.register.open_calls.get(call_id)
        if entry is not None and entry.tool == "run_command" and self.choose.random() < 0.5:
            fields = AGAIN
        self.world.decision(call_id, caller=self.choose.choice(CALLERS), **fields)

    def _call_id(self) -> str:
        open_calls = list(self.world.register.open_calls)
        return self.choose.choice(open_calls if open_calls and self.choose.random() < 0.7 else self.call_ids)

    def execute(self) -> None:
        """A program's call, or one of its calls once more; `read_file` and `write_file` differ in that one asks."""
        known = [sk.removeprefix("CALL#") for sk, item in self.world.table.items() if not item.get("turn_id", True)]
        call_id = self.choose.choice(known) if known and self.choose.random() < 0.3 else f"side_{len(known)}"
        tool, arguments = CALLS[len(call_id) % 2 + self.choose.choice((0, 0, 1))]
        self.world.execute(call_id, tool, **arguments)
        self.call_ids.append(call_id)

    def cancel(self) -> None:
        caller, which = self.choose.choice(CALLERS), self.choose.randrange(5)
        if which == 0:
            self.world.cancel(caller=caller, queued=True)
        elif which == 1:  # perhaps of one that has not come yet
            self.world.cancel(caller=caller, client_msg_id=self._message_id())
        else:
            self.world.cancel(caller=caller)

    def withdraw(self) -> None:
        self.world.withdraw(self._message_id(), self.choose.choice(CALLERS))

    def compact(self) -> None:
        self.world.register.history_tokens += 1_000  # as if more had been said
        self.compactions += self.world.compact(self.choose.choice(CALLERS)) is not None

    def compaction_begins(self) -> None:
        if (claim := self.world.begin_compaction()) is not None:
            self.claims.append(claim)

    def compaction_ends(self) -> None:
        if self.claims:
            self.world.end_compaction(self.choose.choice(self.claims))

    def _message_id(self) -> str:
        if self.said and self.choose.random() < 0.8:
            return self.choose.choice(sorted(self.said))
        return f"early-{self.choose.randrange(10**9)}"

    def configure(self) -> None:
        if self.choose.random() < 0.5:
            self.world.configure(when_busy=self.choose.choice(("queue", "reject", "interrupt")))
        else:
            self.world.configure(mode=self.choose.choice(("ask", "plan", "plan", "manual", "code", "autonomous")))

    def hello(self) -> None:
        declared = self.choose.choice((None, [], [{"name": "deploy", "description": "Deploy."}]))
        fields = {} if declared is None else {"capabilities": {"tools": declared}}
        self.world.hello(
            self.choose.choice(CALLERS), platform=self.choose.choice(("linux", "linux", "windows")), **fields
        )

    def revoke(self) -> None:
        if rules := self.world.remembered():
            self.world.remembered("revoke", rule_id=self.choose.choice(rules)["rule_id"])

    def switch(self) -> None:
        self.world.switch(self.choose.choice(("universal", "coder", "nobody")))

    def context(self) -> None:
        action = self.choose.choice(("add_file", "add_file", "remove_file", "clear"))
        self.world.context(action, self.choose.choice(("a.py", "b.py", "c.py")), self.choose.choice((None, "x = 1")))

    def join(self) -> None:
        self.world.join(self.choose.choice(CALLERS))

    def leave(self) -> None:
        self.world.leave(self.choose.choice(CALLERS))

    def wait(self) -> None:
        self.world.pass_time(self.choose.choice((0, 1, 11, 24, 31, 61, 310)))

    def owner_dies(self) -> None:
        if self.leases:
            lease, _ = self.choose.choice(self.leases[-2:])
            self.ends.pop(lease.token, None)
            self.world.pass_time(0, dead=lease.token.partition(":")[0])

    def another_begins(self) -> None:
        """Another session of the user takes a slot, if it finds it free."""
        world = self.world
        for k in range(world.settings.open_turns or 0):
            key = slot_key(k)
            if Slot.is_free(world.table.get(key), world.now) and self.choose.random() < 0.5:
                until = world.now + self.choose.choice((60_000, 4_000_000))
                token = f"{k}.other{self.choose.randrange(10**9)}"
                item = {"sk": key, "token": token, "session_id": "s2", "until": until}
                world.table[key] = self.others[key] = item
                return

    def another_ends(self) -> None:
        for key, item in list(self.others.items()):
            if self.world.table.get(key) is item:
                del self.world.table[key]
            del self.others[key]
            return

    def outage(self) -> None:
        """Hours in which nothing happens, not even a sweep."""
        if self.choose.random() < 0.3:
            after = self.world.now + 8_000_000
            for world in self.world.family.values():  # Parents and children have the time of whoever decided last.
                world.now = after
            self.had_outage = True

    # -- what must hold ------------------------------------------------------------------------------------------

    def check(self) -> None:
        world, register = self.world, self.world.register
        unsettled = (register.outbox, register.out_of_turn_calls, register.compact_at)
        outstanding = register.phase is not Phase.IDLE or any(unsettled)
        told = len(world.of_type("compacted")) + bool(register.compact_at)
        assert told == self.compactions, "a compaction was lost, or told twice"
        assert (register.due_at() is not None) == outstanding
        assert len(register.inbox) <= 20
        assert len(register.open_step_calls) <= 16
        assert len(register.out_of_turn_calls) <= 16
        assert not {call.tool for call in register.open_calls.values()} & {"switch_agent", "update_plan", "read_result"}
        self._check_mode(world)
        assert register.handovers <= 3
        assert len(dumps(register.attributes()).encode()) < 8_000, "the register grows"
        if register.phase is Phase.WAITING:
            assert register.open_step_calls, "nothing is waited for"
        if register.phase is Phase.IDLE:
            assert not register.inbox, "a message waits and nothing runs"
            assert not register.open_step_calls
        self._check_slots(world)
        stored = {sk for sk in world.table if sk.startswith("FILE#")}
        assert stored == {f"FILE#{digest}" for digest in register.files}, "a file of the context is lost or left"
        self._check_calls(world)
        self._check_children(world)
        self._check_messages(world)

    def _check_mode(self, world: World) -> None:
        """No call was shown since the last event, and none waits for a human, that the mode does not allow."""
        mode = mode_of(world.register.settings)
        frames, self.checked = world.frames[self.checked :], len(world.frames)
        sent = {frame["tool_name"] for frame in frames if frame["type"] == "tool_call"}
        open_calls = world.register.open_calls.values()
        waiting = [it for it in open_calls if it.state is CallState.AWAITING_APPROVAL and it.due > world.now]
        for name in sent | {entry.tool for entry in waiting}:
            assert offers(mode, CATALOGUE[name]), f"{name} in the mode {mode}"
        plans = [entry for entry in open_calls if entry.tool == "propose_plan"]
        assert all(entry.state is CallState.AWAITING_APPROVAL for entry in plans), "a client is to execute a plan"
        assert len(plans) <= 1

    def _check_children(self, world: World) -> None:
        """Each open delegation has its child, and what a child waits for is open in the parent."""
        children = {child.register.session_id.partition("/")[2]: child for child in world.children}
        assert children.keys() == set(world.register.delegations), "a child that nobody waits for, or the reverse"
        assert len(children) <= 4
        waited_for = set()
        for call_id, child in children.items():
            register = child.register
            assert register.phase is not Phase.IDLE
            assert (register.phase is Phase.WAITING) == bool(register.open_step_calls), "a child waits for nothing"
            assert register.phase is Phase.WAITING or register.due_at() is not None, "nobody looks after a child"
            assert not register.outbox
            for child_call_id in register.open_step_calls:
                assert world.register.child_calls[child_call_id].delegation == call_id
                waited_for.add(child_call_id)
        assert waited_for == world.register.child_calls.keys(), "a child's call that nobody waits for"

    def _check_messages(self, world: World) -> None:
        said = Counter(
            item["content"]
            for sk, item in world.table.items()
            if sk.startswith("MESSAGE#") and item["role"] == "user" and item["content"].startswith("says ")
        )
        assert all(count == 1 for count in said.values()), "a message was taken twice"
        assert not {f"says {each}" for each in self._withdrawn()} & said.keys(), "a withdrawn message is in the history"

    def _withdrawn(self) -> set[str]:
        return {each for frame in self.world.of_type("withdrawn") for each in frame["client_msg_ids"]}

    def _check_slots(self, world: World) -> None:
        register, limit = world.register, world.settings.open_turns
        slots = {sk: item for sk, item in world.table.items() if sk.startswith("SLOT#")}
        own = {item["token"] for item in slots.values() if item["session_id"] == "s1"}
        for key, item in self.others.items():
            assert slots.get(key) is item or item["until"] <= world.now, "the slot of another was taken or given back"
        if register.phase is Phase.IDLE:
            assert not register.slot
            assert not own, "a slot is left over"
        elif register.slot:
            k = register.slot.partition(".")[0]
            held = slots.get(f"SLOT#{k}", {})
            assert own <= {register.slot}, "two slots for one turn"
            assert held.get("token") == register.slot or register.slot_until <= world.now, "the turn's slot is gone"
        else:
            assert not own, "a slot that nobody gives back"
            assert self.had_outage or not limit, "an open turn without a slot"

    def _check_calls(self, world: World) -> None:
        results = Counter(item["call_id"] for item in world.table.values() if item.get("role") == "tool")
        made = {
            call_id
            for sk, item in world.table.items()
            if sk.startswith("MESSAGE#")
            for call_id, _, _ in json.loads(item.get("calls", "[]"))
        }
        assert set(results) <= made, "a result without its call"
        assert all(count == 1 for count in results.values()), "a call was settled twice"
        for sk, item in world.table.items():
            if not sk.startswith("CALL#"):
                continue
            call_id = sk.removeprefix("CALL#")
            settled = not CallState(item["state"]).is_open
            if not item["turn_id"]:
                assert call_id not in results, "a call of no turn is in the history"
                assert settled == (call_id not in world.register.out_of_turn_calls), "an open call that was forgotten"
                continue
            if item.get("delegation"):
                assert call_id not in results, "a child's call is in the parent's history"
                assert settled == (call_id not in world.register.child_calls), "an open call that was forgotten"
                continue
            assert settled == (call_id in results), f"{item['state']} with {results[call_id]} results"
            assert settled or call_id in world.register.open_step_calls, "an open call that nobody waits for"
        self._check_approvals(world)

    def _check_approvals(self, world: World) -> None:
        for frame in world.of_type("tool_call"):
            item = world.call_item(frame["call_id"])
            decision = json.loads(item["decision"]).get("decision")
            if frame["requires_approval"]:
                assert item["requires_approval"]
            elif item["requires_approval"]:
                assert decision in ("approve", "edit"), "sent for execution without a yes"
            if item["tool"] == "run_command" and not item["requires_approval"]:
                self._check_command(world, frame)
            if item["state"] in ("rejected", "expired"):
                assert frame["requires_approval"], "executed after a no"

    def _check_command(self, world: World, frame: dict[str, Any]) -> None:
        """A human has let it run again, and since then nothing else was let go that may have changed a file."""
        assert world.settings.remember_commands, "a command that nobody was asked about"
        let_go = [it for it in world.of_type("tool_call") if not it["requires_approval"] and it["risk"] != "read"]
        let_go = let_go[: let_go.index(frame) + 1]
        decisions = [json.loads(world.call_item(it["call_id"])["decision"]) for it in let_go]
        rule = decisions[-1]["command_rule"]
        first = next(n for n, it in enumerate(decisions) if it.get("command_rule") == rule)
        assert decisions[first]["remember"], "a command that no human has let run again"
        rules = {it.get("command_rule") for it in decisions[first:]}
        assert rules == {rule}, "a command that may do something else now"
        assert len({dumps(it["arguments"]) for it in let_go[first:]}) == 1, "another command"

    def finish(self) -> None:
        """Let everything run its course: then every message was answered or withdrawn, and nothing is outstanding."""
        world = self.world
        for _ in range(400):
            register = world.register
            if register.phase is Phase.IDLE:
                break
            if register.phase is Phase.DISPATCHED:
                self.acquire()
            elif register.phase is Phase.RUNNING:
                lease, text = self.leases[-1]
                text.append("end")
                world.stream(lease, "end")
                world.answer("".join(text), lease=lease)
            elif world.children:
                self._finish_children()
            else:
                world.pass_time(61)
            self.check()
        assert world.register.phase is Phase.IDLE, "stuck"
        assert not world.children
        for _ in range(2):
            world.pass_time(61)
            self.check()
        for _ in range(requested_compaction.MAX_TRIES + 1):  # whoever begins it dies
            world.begin_compaction()
            world.pass_time(66)
            self.check()
        assert not world.register.compact_at, "a compaction is wanted for ever"
        assert not world.register.out_of_turn_calls, "a call of no turn is open for ever"
        asked = Counter(content for role, content in world.history() if role == "user")
        expected = Counter(f"says {input_id}" for input_id in self.said - self._withdrawn())
        assert asked == expected, "a message was lost or doubled"
        begun = {frame["turn_id"] for frame in world.of_type("user_message")}  # a message that steers begins none
        ended = [frame["turn_id"] for frame in world.of_type("turn_end")]
        assert sorted(ended) == sorted(begun), "a turn did not end, or ended twice"
        finals = Counter(frame["message_id"] for frame in world.of_type("assistant_message") if frame["is_final"])
        assert all(count == 1 for count in finals.values()), "a message was ended twice"
        streamed = {frame["message_id"] for frame in world.of_type("assistant_message")}
        assert streamed == set(finals), "a message was not ended"
        self._check_context()

    def _finish_children(self) -> None:
        for child in self.world.children:
            if child.register.phase is Phase.DISPATCHED:
                child.answer("answer")
            self.check()
        self.world.pass_time(61)

    def _check_context(self) -> None:
        """No model refuses what it is sent of this history, whichever part of it fits."""
        found = [MessageItem.of(item) for sk, item in sorted(self.world.table.items()) if sk.startswith("MESSAGE#")]
        start = self.choose.randrange(len(found)) if found else 0
        open_calls: list[str] = []
        last = "system"
        read = Conversation(found[start:])
        for message in assemble(read, "Be brief.", budget=self.choose.choice((2_000, 4_000, 8_000)))[1:]:
            if message["role"] == "tool":
                assert open_calls.pop(0) == message["tool_call_id"], "a result out of place"
            else:
                assert not open_calls, "a call without its result"
                assert (last, message["role"]) != ("user", "user"), "two questions in a row"
                assert (last, message["role"]) != ("system", "assistant"), "it begins with an answer"
                open_calls = [call["id"] for call in message.get("tool_calls", ())]
            last = message["role"]
        assert not open_calls, "a call without its result"


def walk(seed: int) -> None:
    """One whole walk of up to 60 events. Raises AssertionError that names the seed."""
    choose = random.Random(seed)
    course = Walk(choose)
    try:
        for _ in range(choose.randrange(10, 60)):
            course.step()
        course.finish()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
