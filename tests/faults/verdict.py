"""What came of a run: is anything lost, doubled or stuck?"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from codelab.protocol.outgoing import CallUpdate
from codelab.sessions.dynamodb.values import from_dynamodb

from tests.fakes.ide.received import Frame, bare, messages
from tests.faults.player import World
from tests.faults.stage import Objects, Stored

_CALL_ID = re.compile(r"call_[0-9a-f]{24}")
_RULE_ID = re.compile(r"rule_[0-9a-f]{24}")
#: The id of a message that came without one.
_OWN_ID = re.compile("[0-9a-f]{24}")

LOST, DOUBLED, STUCK = "lost", "doubled", "stuck"

#: What is wrong: one of the three words, and how it shows.
Complaint = tuple[str, str]


@dataclass(frozen=True)
class Outcome:
    """The end of a run: the table, the bucket, and what the client has seen."""

    items: dict[str, dict[str, Any]]
    objects: Objects
    world: World
    #: The keys of children that were not erased.
    left: Sequence[str] = ()

    @classmethod
    def of(cls, stored: list[Stored], objects: Objects, world: World) -> "Outcome":
        items = [from_dynamodb(item) for item in stored]
        own = {item["sk"]: item for item in items if "/" not in item["pk"]}
        return cls(own, objects, world, left=sorted({item["pk"] for item in items if "/" in item["pk"]}))

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [self.items[sk] for sk in sorted(self.items) if sk.startswith(kind + "#")]

    @property
    def events(self) -> list[Frame]:
        return [json.loads(item["frame"]) for item in self.of_kind("EVENT")]

    def history(self) -> list[tuple[str, str, list[Any]]]:
        """Roles, contents and calls; the ids of calls are random, and their results may come in any order."""
        messages = []
        for item in self.of_kind("MESSAGE"):
            made = json.loads(_CALL_ID.sub("call", item.get("calls", "[]")))
            messages.append((item["role"], _CALL_ID.sub("call", item["content"]), [call[1:] for call in made]))
        groups = itertools.groupby(messages, key=lambda message: message[0] == "tool")
        return [message for are_tools, group in groups for message in (sorted(group) if are_tools else group)]

    def calls(self) -> list[Any]:
        """What became of the calls, in the order in which the model made them."""
        made = [call[0] for item in self.of_kind("MESSAGE") for call in json.loads(item.get("calls", "[]"))]
        found = []
        for call_id in made:
            item = self.items.get(f"CALL#{call_id}", {})
            if item:
                decided = json.loads(item["decision"]).get("decision")
                found.append([item["tool"], item["state"], decided, item["edited_arguments"], item["outcome"]])
        return found

    def child_calls(self) -> list[Any]:
        """What became of the calls of children."""
        items = [item for item in self.of_kind("CALL") if item.get("delegation")]
        names = ("tool", "arguments", "state", "edited_arguments", "outcome")
        return sorted([str(item.get(name)) for name in names] for item in items)

    def messages(self) -> list[str]:
        """The assistant's messages as the client shows them in the end."""
        return list(messages(self.world.ides[0].frames).values())

    def ends(self) -> list[str]:
        return [frame["reason"] for frame in self.events if frame["type"] == "turn_end"]

    def agents(self) -> list[str]:
        """Who was to answer, in order."""
        return [frame["to_agent"] for frame in self.events if frame["type"] == "agent_switched"]

    def modes(self) -> list[str]:
        """The modes that the session was switched to, in order."""
        return [frame["to_mode"] for frame in self.events if frame["type"] == "mode_switched"]

    def plan(self) -> list[str]:
        """The steps that are shown in the end."""
        return [step["text"] for step in json.loads(self.items.get("PLAN", {}).get("items", "[]"))]

    def tokens(self) -> int:
        """What was counted for the user."""
        return sum(item.get("tokens", 0) for item in self.of_kind("USAGE"))

    def log(self) -> list[tuple[str, Any]]:
        """The frames without ids (a rule's too) and times. Progress says by its offset whether one has it already.

        Pieces of text are joined, in the final frame: how many a batch has depends on when the step was acquired and on
        whether the sender or the commit was faster.
        """
        named = ("token", "is_final", "status", "reason", "state", "tool_name", "error_code", "client_msg_id", "offset")
        events = [json.loads(_RULE_ID.sub("rule", json.dumps(frame))) for frame in self.events]
        found: list[tuple[str, dict[str, Any]]] = []
        for frame in events:
            told = {name: frame[name] for name in named if name in frame}
            if frame["type"] == "assistant_thought":
                told["thought"] = frame["content"]
            if _OWN_ID.fullmatch(told.get("client_msg_id", "")):
                told["client_msg_id"] = "the server's own"
            if found and "is_final" in told and found[-1][1].get("is_final") is False:
                found[-1][1]["token"] += frame["token"]
                found[-1][1]["is_final"] = frame["is_final"]
            else:
                found.append((frame["type"], told))
        return [it for place, it in enumerate(found) if it[0] != "tool_progress" or it not in found[:place]]


def complaints(
    found: Outcome,
    wanted: Outcome | None = None,
    *,
    loose: bool = False,
    exact: bool = False,
    side_by_side: bool = False,
) -> list[Complaint]:
    """What is wrong with the run by itself, and in comparison with an undisturbed one.

    `loose`: of a stopped answer any beginning will do, and any of the calls of children. `exact`: nobody has died, so
    the log must be the same; but in any order, and without statuses, if children work `side_by_side`.
    """
    wrong = [*_register(found), *_inputs(found), *_calls(found), *_finals(found), *_log(found), *_objects(found)]
    if wanted is not None:
        wrong += _differences(found, wanted, loose=loose, exact=exact, side_by_side=side_by_side)
    return wrong


def _register(found: Outcome) -> Iterator[Complaint]:
    register = found.items.get("REGISTER")
    if register is None:
        yield LOST, "there is no session"
        return
    if (register["phase"], register["status"]) != ("idle", "idle"):
        yield STUCK, f"phase {register['phase']}, status {register['status']}"
    left = {
        "due_at",
        "due_shard",
        "calls",
        "child_calls",
        "inbox",
        "steering",
        "lease",
        "lease_until",
        "alive_until",
        "cancelled_at",
    }
    left = (left | {"message_id", "compact_at", "compact_lease", "compact_until", "compact_tries"}) & set(register)
    left |= {"reasoning"} & set(register)
    left |= {name for name in register if name.startswith(("post#", "slot"))}
    if left:
        yield STUCK, f"the register keeps {sorted(left)}"
    for reasoning in found.of_kind("REASONING"):
        yield STUCK, f"the reasoning {reasoning} is left over"
    for slot in found.of_kind("SLOT"):
        yield STUCK, f"the slot {slot} is left over"
    for child in found.left:
        yield STUCK, f"the child {child} is left over"
    if register.get("last_seq", 0) != len(found.events):
        yield LOST, f"last_seq is {register['last_seq']} of {len(found.events)} frames"
    if register.get("history_n", 0) != len(found.of_kind("MESSAGE")):
        yield LOST, f"history_n is {register['history_n']} of {len(found.of_kind('MESSAGE'))} messages"


def _inputs(found: Outcome) -> Iterator[Complaint]:
    said = Counter(item["content"] for item in found.of_kind("MESSAGE") if item["role"] == "user")
    withdrawn = {each for frame in found.events if frame["type"] == "withdrawn" for each in frame["client_msg_ids"]}
    for item in found.of_kind("INPUT"):
        if item["sk"].removeprefix("INPUT#") in withdrawn or "ttl" in item:
            if item["content"] and said[item["content"]]:
                yield DOUBLED, f"input {item['content']!r} was withdrawn and is in the history"
            continue
        times = said.pop(item["content"], 0)
        if times != 1:
            yield DOUBLED if times else LOST, f"input {item['content']!r} is {times} times in the history"
    for content in said:
        yield DOUBLED, f"{content!r} is in the history and no input"
    turns = Counter(frame["turn_id"] for frame in found.events if frame["type"] == "turn_end")
    for turn_id in {item["turn_id"] for item in found.of_kind("MESSAGE")} | set(turns):
        if turns[turn_id] != 1:
            yield DOUBLED if turns[turn_id] else LOST, f"turn {turn_id} has ended {turns[turn_id]} times"


def _calls(found: Outcome) -> Iterator[Complaint]:
    made = Counter(call[0] for item in found.of_kind("MESSAGE") for call in json.loads(item.get("calls", "[]")))
    settled = Counter(item["call_id"] for item in found.of_kind("MESSAGE") if item["role"] == "tool")
    for call_id in set(made) | set(settled):
        if (made[call_id], settled[call_id]) != (1, 1):
            kind = DOUBLED if settled[call_id] > 1 or made[call_id] > 1 else LOST
            yield kind, f"call {call_id} was made {made[call_id]} and settled {settled[call_id]} times"
    for item in found.of_kind("CALL"):
        if item["state"] in ("awaiting_approval", "executing"):
            yield STUCK, f"{item['sk']} is {item['state']}"
        if item["sk"].removeprefix("CALL#") not in made and not item.get("delegation"):
            yield DOUBLED, f"{item['sk']} belongs to no answer"


def _finals(found: Outcome) -> Iterator[Complaint]:
    """Each message has exactly one final frame, and it is the last one."""
    texts: dict[str, list[Frame]] = {}
    for frame in found.events:
        if frame["type"] == "assistant_message":
            texts.setdefault(frame["message_id"], []).append(frame)
    for message_id, frames in texts.items():
        finals = [frame["is_final"] for frame in frames]
        if finals.count(True) != 1 or not finals[-1]:
            kind = DOUBLED if finals.count(True) > 1 else LOST
            yield kind, f"message {message_id} has {finals.count(True)} finals in {len(frames)} frames"


def _log(found: Outcome) -> Iterator[Complaint]:
    events = found.events
    if [frame["seq"] for frame in events] != list(range(1, len(events) + 1)):
        yield LOST, f"the log has holes: {[frame['seq'] for frame in events]}"
        return
    for seq, frames in sorted(found.world.posted.items()):
        if any(bare(frame) != bare(events[seq - 1]) for frame in frames):
            yield DOUBLED, f"under seq {seq} was posted {frames} and logged {events[seq - 1]}"
        for name in CallUpdate.of_the_call - {"payload_url"} if frames[0]["type"] == "call_update" else ():
            told = [frame[name] for frame in frames if name in frame]
            if any(value != told[0] for value in told):
                yield DOUBLED, f"under seq {seq} was posted {frames}, which do not agree"
    for number, ide in enumerate(found.world.ides):
        if ide.last_seq != len(events):
            missing = events[ide.last_seq]
            yield LOST, f"client {number} has {ide.last_seq} of {len(events)} frames, the next is {missing}"


def _objects(found: Outcome) -> Iterator[Complaint]:
    """Whatever an item refers to is there."""
    there = {key.rpartition("/")[2] for key in found.objects if key.startswith("items/")}
    for sk, item in found.items.items():
        for name, value in item.items():
            if isinstance(value, dict) and "digest" in value and value["digest"] not in there:
                yield LOST, f"{sk}: {name} is in no object"


def _differences(
    found: Outcome, wanted: Outcome, *, loose: bool, exact: bool, side_by_side: bool
) -> Iterator[Complaint]:
    def same(a: str, b: str) -> bool:
        return a == b or (loose and b.startswith(a))

    here, there = found.history(), wanted.history()
    if len(here) != len(there) or not all(
        (a[0], a[2]) == (b[0], b[2]) and same(a[1], b[1]) for a, b in zip(here, there, strict=True)
    ):
        yield DOUBLED if len(here) > len(there) else LOST, f"the history is {here}, not {there}"
    if found.calls() != wanted.calls():
        yield LOST, f"the calls are {found.calls()}, not {wanted.calls()}"
    made, to_make = found.child_calls(), wanted.child_calls()
    if made != to_make and not (loose and all(made.count(call) <= to_make.count(call) for call in made)):
        kind = DOUBLED if len(made) > len(to_make) else LOST
        yield kind, f"the calls of children are {made}, not {to_make}"
    texts, right = found.messages(), wanted.messages()
    if len(texts) != len(right) or not all(map(same, texts, right)):
        yield DOUBLED if len(texts) > len(right) else LOST, f"the client reads {texts}, not {right}"
    here_now, there_now = found.agents(), wanted.agents()
    if here_now != there_now:
        kind = DOUBLED if len(here_now) > len(there_now) else LOST
        yield kind, f"the agents were switched to {here_now}, not {there_now}"
    if found.modes() != wanted.modes():
        kind = DOUBLED if len(found.modes()) > len(wanted.modes()) else LOST
        yield kind, f"the modes were switched to {found.modes()}, not {wanted.modes()}"
    if found.plan() != wanted.plan():
        yield LOST, f"the plan is {found.plan()}, not {wanted.plan()}"
    if found.ends() != wanted.ends():
        yield LOST, f"the turns ended {found.ends()}, not {wanted.ends()}"
    refusals = [frame["error_code"] for frame in found.world.refusals if not frame["retryable"]]
    if refusals:
        yield LOST, f"the client was refused: {refusals}"
    if exact and found.tokens() > wanted.tokens():
        yield DOUBLED, f"{found.tokens()} tokens were counted, not {wanted.tokens()}"
    log, right_log = found.log(), wanted.log()
    if side_by_side:
        log, right_log = _in_any_order(log), _in_any_order(right_log)
    if exact and log != right_log:
        yield DOUBLED if len(log) > len(right_log) else LOST, f"the log is {log}, not {right_log}"


def _in_any_order(log: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return sorted((frame for frame in log if frame[0] != "agent_status"), key=str)
