"""Plays one conversation: API Gateway, Lambda, the IDE and the time, in one thread and without any of their clocks."""

import copy
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from codelab.sessions.register import RENEW_MS
from codelab_local.functions.schedules import scheduled
from codelab_local.gateway.events import Caller, EventBuilder
from codelab_local.template.deployment import Api

from tests.fakes.ide.received import Contradiction, Frame, Received
from tests.fakes.model.in_process import Script
from tests.faults.fault import Fault, Kind
from tests.faults.functions import Order
from tests.faults.stage import BUCKET, REGION, Objects, Stage, Stored
from tests.frames import check_received
from tests.functions.events import authorizer_context, failed_invocation

USER, SESSION = "ann", "s1"
PK = f"SESSION#{USER}#{SESSION}"
ACCOUNT = "123456789012"
START = 1_700_000_000_000
MINUTE = 60_000

#: Milliseconds that things take.
EVENT_MS, INVOKE_MS, GAP_MS, RETRY_MS, REACTION_MS = 10, 20, 2_000, 3_000, 200
#: Bytes of JSON that a client does not send as one WebSocket frame.
LARGE = 30_000
#: More events or sweeps than that, and the conversation is stuck.
MOST_EVENTS, MOST_SWEEPS = 150, 30

_plays = itertools.count(1)
_API = EventBuilder(Api("a1b2c3d4e5", "v1", "$request.body.type", {}, {}), ACCOUNT, REGION)

#: A client's frame, and how long after what it reacts to it is sent (ms).
Reaction = tuple[int, Frame]


@dataclass(frozen=True)
class Conversation:
    """What the user, the human in the loop and the model do.

    `says` are the user's frames: the first one at once, each further one when the agent is idle again. `decide` and
    `execute` answer calls, once a call; `refused` answers an error that names a call; `during` are sent once, when the
    model pauses for `pause_ms` (`pauses_once`: and does so for one attempt alone); at the first frame for which
    `leaves_at` holds the client loses its connection. `accident` befalls every run. `loose`: how much of a stopped
    answer was said, and which calls of children were made before it, is a matter of chance. `side_by_side`: so is the
    order in which children go on.
    """

    name: str
    script: Script
    says: Sequence[Frame]
    decide: Callable[[Frame], Sequence[Reaction]] = lambda _: ()
    execute: Callable[[Frame], Sequence[Reaction]] = lambda _: ()
    refused: Callable[[Frame], Sequence[Reaction]] = lambda _: ()
    during: Sequence[Reaction] = ()
    leaves_at: Callable[[Frame], bool] = lambda _: False
    pause_ms: int = 8_000
    pauses_once: bool = False
    watch_s: float | None = None
    viewers: int = 0
    before: Sequence[Frame] = ()
    accident: Fault | None = None
    loose: bool = False
    side_by_side: bool = False
    #: The faults that it is played with; empty for all.
    only: frozenset[Kind] = frozenset()


@dataclass(frozen=True, slots=True)
class Recovery:
    """What follows on a death. Of a step: is its failure recorded, or does only time pass? Of a frame: does the client
    connect anew before it sends the frame again, and after how many ms does the old connection's `$disconnect` come,
    for which API Gateway makes an effort and no promise?
    """

    recorded: bool = False
    reconnects: bool = False
    disconnect_ms: int | None = 100


@dataclass(slots=True)
class Item:
    """What is to happen. `frame` is a client's; it goes over the connection that the client has then."""

    what: str
    ide: int = 0
    frame: Frame = field(default_factory=dict)
    connection: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    #: Of an invocation: Lambda's name for it.
    request_id: str = ""


@dataclass(slots=True)
class Device(Received):
    """An IDE with extensions."""

    viewer: bool = False
    connection: str | None = None
    comes_back: bool = False
    executed: set[str] = field(default_factory=set)
    decided: set[str] = field(default_factory=set)


@dataclass(slots=True)
class World:
    """All that the driver knows; copied to begin anew from here."""

    now: int = START
    order: int = 0
    queue: list[tuple[int, int, Item]] = field(default_factory=list)
    events: int = 0
    sweeps: int = 0
    connections: int = 0
    ides: list[Device] = field(default_factory=list)
    alive: dict[str, int] = field(default_factory=dict)
    callers: dict[str, Caller] = field(default_factory=dict)
    said: int = 0
    paused: bool = False
    left: bool = False
    posted: dict[int, list[Frame]] = field(default_factory=dict)
    refusals: list[Frame] = field(default_factory=list)
    #: Frames that wait for a ticket, by their size.
    uploads: dict[int, Frame] = field(default_factory=dict)


class Seen(NamedTuple):
    """An event of a run: which function, what it was, the calls it made as (operation, nth)."""

    folder: str
    label: str
    calls: list[tuple[str, int]]


class Snapshot(NamedTuple):
    """Everything just before event `world.events`."""

    world: World
    items: list[Stored]
    objects: Objects


class Stuck(Exception):
    """The conversation does not come to its end."""


class Player:
    """One run of `conversation`, from its beginning or from a snapshot of an undisturbed one."""

    def __init__(
        self,
        stage: Stage,
        conversation: Conversation,
        fault: Fault | None = None,
        recovery: Recovery | None = None,
        start: Snapshot | None = None,
    ) -> None:
        self._stage = stage
        self._play = next(_plays)
        self._conversation = conversation
        self._faults = [found for found in (conversation.accident, fault) if found is not None]
        self._fault = fault
        self._recovery = recovery or Recovery()
        self._depth = 0
        self._again: list[Item] = []
        self.hit = False
        self.seen: dict[int, Seen] = {}
        self.snapshots: list[Snapshot] = []
        if start is None:
            self.world = World(ides=[Device(viewer=n > 0) for n in range(1 + conversation.viewers)])
            self._snapshots = True
            stage.fill([], {})
            for n in range(len(self.world.ides)):
                self.connect(n, 0)
            for frame in conversation.before:
                self._later(100, Item("frame", frame=frame))
            self._say(10_000 if conversation.before else REACTION_MS)
        else:
            self.world = copy.deepcopy(start.world)
            self._snapshots = False
            stage.fill(start.items, start.objects)

    # -- time ----------------------------------------------------------------------------------------------------

    def play(self) -> tuple[list[Stored], Objects]:
        """Let everything happen until nothing is outstanding. Returns the table and the bucket.

        Raises Stuck, Contradiction.
        """
        self._until(None)
        while self._again:
            self._happen(self._again.pop())
            self._until(None)
        return self._stage.items(), self._stage.objects()

    def _until(self, end: int | None) -> None:
        """Let happen what happens until `end`, or until nothing is left to happen."""
        world = self.world
        while True:
            due = self._stage.due_at(PK)
            sweep_at = None if due is None else (max(due, world.now) // MINUTE + 1) * MINUTE
            next_at = min((item[:2] for item in world.queue), default=(None, 0))[0]
            if sweep_at is not None and (next_at is None or sweep_at < next_at):
                if end is not None and sweep_at > end:
                    break
                world.sweeps += 1
                if world.sweeps > MOST_SWEEPS:
                    raise Stuck(f"still due after {MOST_SWEEPS} sweeps")
                world.now = sweep_at
                self._happen(Item("sweep"))
            elif next_at is not None:
                if end is not None and next_at > end:
                    break
                first = min(world.queue, key=lambda item: item[:2])
                world.queue.remove(first)
                world.now = max(world.now, next_at)
                self._happen(first[2])
            else:
                break
        if end is not None:
            world.now = max(world.now, end)

    def _later(self, delay: int, item: Item) -> None:
        self.world.order += 1
        self.world.queue.append((self.world.now + delay, self.world.order, item))

    # -- what happens --------------------------------------------------------------------------------------------

    def _happen(self, item: Item) -> None:
        world = self.world
        ide = world.ides[item.ide]
        if item.what == "gap":
            if ide.is_behind and ide.connection is not None:
                self._send(item.ide, _resume(ide), 0)
            return
        if item.what == "frame" and ide.connection is None:
            self._later(1_000, item)
            return
        if world.events > MOST_EVENTS:
            raise Stuck(f"more than {MOST_EVENTS} events")
        if self._snapshots and self._depth == 0:
            snapshot = copy.deepcopy(world)
            snapshot.queue.append((world.now, 0, copy.deepcopy(item)))
            self.snapshots.append(Snapshot(snapshot, self._stage.items(), self._stage.objects()))
        index, world.events = world.events, world.events + 1
        self._run(index, item)
        fault = self._fault
        if fault is None or fault.event != index or fault.operation or item.what == "connect":
            return
        self.hit = True
        if fault.kind is Kind.TWICE:
            self._run(-1, item)
        else:
            self._again.append(item)

    def _run(self, index: int, item: Item) -> None:
        """Have the function handle the event, and do what its end entails."""
        world = self.world
        ide = world.ides[item.ide]
        folder, label, event = self._event(item)
        seen = self.seen[index] = Seen(folder, label, [])
        fault = next((found for found in self._faults if found.event == index and found.operation), None)
        script, watch_s = self._conversation.script, self._conversation.watch_s
        order = Order(folder, event, world.now, fault, script, watch_s, item.request_id, self._play)
        refusals = len(world.refusals)
        if item.frame.get("type") == "resume":
            ide.resuming = True
            self._later(GAP_MS, Item("gap", ide=item.ide))
        try:
            with self._stage.worker() as worker:
                worker.send(order)
                while True:
                    message = worker.recv()
                    match message:
                        case ("call", operation, nth):
                            seen.calls.append((operation, nth))
                            if fault is not None and fault is self._fault:
                                self.hit = self.hit or (fault.operation, fault.nth) == (operation, nth)
                        case ("post", connection_id, frame):
                            worker.send(self._post(connection_id, frame))
                        case ("invoke", payload):
                            name = f"{world.events}-{payload['step']}-{payload['attempt']}"
                            self._later(INVOKE_MS, Item("step", payload=payload, request_id=name))
                            worker.send(None)
                        case ("pause", rested):
                            worker.send(self._pause(rested))
                        case ("done" | "failed" as end, _):
                            break
        except (EOFError, ConnectionResetError, BrokenPipeError):
            end = "died"
        world.now += EVENT_MS
        answered = world.refusals[refusals:]
        again = any(reply["retryable"] for reply in answered)
        if end != "done" or again:
            self._failed(item, died=end != "done")
        elif item.what == "connect":
            self._connected(item)
        elif item.frame.get("type") == "upload_request" and item.frame["bytes"] in world.uploads:
            self._later(RETRY_MS, item)  # no ticket has come

    def _event(self, item: Item) -> tuple[str, str, dict[str, Any]]:
        """The function, a name for what happens, and the event."""
        world = self.world
        if item.what == "step":
            is_step = item.payload["kind"] == "step"
            return "llm_request", f"step {item.payload['step']}" if is_step else "compact", item.payload
        if item.what == "record":
            return "sweep", "record", failed_invocation(item.payload, item.request_id)
        if item.what == "sweep":
            arn = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/sweep"
            return "sweep", "schedule", scheduled(arn, ACCOUNT, REGION, "aws.events")
        if item.what == "connect":
            return "connect", "connect", _API.connect(world.callers[item.connection])
        if item.what == "disconnect":
            return "disconnect", "disconnect", _API.disconnect(world.callers[item.connection], 1001, "Going away")
        connection = world.ides[item.ide].connection
        assert connection is not None
        frame_type = item.frame["type"]
        folder = "control" if frame_type in _CONTROL else frame_type
        return folder, frame_type, _API.message(world.callers[connection], frame_type, json.dumps(item.frame))

    def _failed(self, item: Item, *, died: bool) -> None:
        """The function has died or failed, or asks for the frame once more."""
        if item.what == "step":
            if self._recovery.recorded:
                self._later(1_000, Item("record", payload=item.payload, request_id=item.request_id))
        elif item.what == "connect":
            self.connect(item.ide, 1_000)
        elif item.what == "frame":
            if item.frame["type"] == "resume":
                item.frame = _resume(self.world.ides[item.ide])
            if died and self._recovery.reconnects:
                self._reconnect(item.ide)
            self._later(RETRY_MS, item)

    def _pause(self, rested: int) -> tuple[int, bool]:
        """The model rests; other events happen. Gives the time, and whether it still rests.

        A process that watches meanwhile is given the time in pieces.
        """
        world, conversation = self.world, self._conversation
        if world.paused and not rested and conversation.pauses_once:
            return world.now, False
        if not world.paused:
            world.paused = True
            for delay, frame in conversation.during:
                self._send(0, frame, delay)
        self._depth += 1
        left = conversation.pause_ms - rested
        piece = left if conversation.watch_s is None else min(left, RENEW_MS)
        self._until(world.now + piece)
        self._depth -= 1
        return world.now, piece < left

    # -- connections ---------------------------------------------------------------------------------------------

    def connect(self, ide: int, delay: int) -> None:
        """Have a client connect, after `delay` ms."""
        world = self.world
        world.connections += 1
        connection_id = f"conn-{world.connections}="
        context = authorizer_context(SESSION, user=USER, extensions=True, viewer=world.ides[ide].viewer)
        headers = {"Host": [_API.domain_name], "Sec-WebSocket-Version": ["13"]}
        query = {"session_id": [SESSION], "extensions": ["1"]}
        world.callers[connection_id] = Caller(connection_id, "203.0.113.7", "", START, headers, query, context)
        self._later(delay, Item("connect", ide=ide, connection=connection_id))

    def _connected(self, item: Item) -> None:
        ide = self.world.ides[item.ide]
        ide.connection = item.connection
        self.world.alive[item.connection] = item.ide
        if ide.comes_back:
            for frame in self._conversation.before:
                if frame["type"] == "hello":  # holds for one connection
                    self._send(item.ide, frame, 20)
            self._send(item.ide, _resume(ide), 50)
        ide.comes_back = True

    def _reconnect(self, ide: int) -> None:
        """The client loses its connection and comes back."""
        world = self.world
        old = world.ides[ide].connection
        if old is None:
            return
        world.ides[ide].connection = None
        world.ides[ide].held.clear()
        del world.alive[old]
        if self._recovery.disconnect_ms is not None:
            self._later(self._recovery.disconnect_ms, Item("disconnect", connection=old))
        self.connect(ide, 500)

    def _post(self, connection_id: str, frame: Frame) -> int:
        world = self.world
        position = world.alive.get(connection_id)
        if position is None:
            return 410
        ide = world.ides[position]
        if "seq" in frame:
            world.posted.setdefault(frame["seq"], []).append(frame)
        elif frame["type"] == "error":
            reactions = self._conversation.refused(frame)
            for delay, answer in reactions:
                self._send(position, answer, delay)
            if not reactions:
                world.refusals.append(frame)
        elif frame["type"] == "upload_ticket":
            self._upload(position, frame)
        had_gap = bool(ide.held)
        check_received(frame)
        for new in ide.take(frame):
            if not ide.viewer:
                self._react(new)
        if ide.held and not had_gap:
            self._later(GAP_MS, Item("gap", ide=position))
        return 200

    # -- the user ------------------------------------------------------------------------------------------------

    def _send(self, ide: int, frame: Frame, delay: int) -> None:
        """What is too large for a WebSocket frame is uploaded first."""
        size = len(json.dumps(frame).encode())
        if size > LARGE:
            self.world.uploads[size] = frame
            frame = {"type": "upload_request", "bytes": size}
        self._later(delay, Item("frame", ide=ide, frame=frame))

    def _upload(self, ide: int, ticket: Frame) -> None:
        """Use a ticket, unless it is a second one for the same frame."""
        frame = self.world.uploads.pop(int(ticket["headers"]["Content-Length"]), None)
        if frame is not None:
            key = unquote(urlsplit(ticket["url"]).path.partition(f"/{BUCKET}/")[2])
            self._stage.upload(key, json.dumps(frame).encode())
            named: Frame = {name: frame[name] for name in ("type", "call_id") if name in frame}
            self._send(ide, {**named, "payload_ref": ticket["payload_ref"]}, REACTION_MS)

    def _say(self, delay: int) -> None:
        world = self.world
        if world.said < len(self._conversation.says):
            self._send(0, self._conversation.says[world.said], delay)
            world.said += 1

    def _react(self, frame: Frame) -> None:
        conversation, world = self._conversation, self.world
        ide = world.ides[0]
        reactions: Sequence[Reaction] = ()
        if frame["type"] == "tool_call":
            call_id = frame["call_id"]
            if frame["requires_approval"] and call_id not in ide.decided:
                ide.decided.add(call_id)
                reactions = conversation.decide(frame)
            elif not frame["requires_approval"] and frame.get("execute", True) and call_id not in ide.executed:
                ide.executed.add(call_id)
                reactions = conversation.execute(frame)
        elif (frame["type"], frame.get("status", "idle")) in (("agent_status", "idle"), ("compacted", "idle")):
            self._say(REACTION_MS)
        for delay, answer in reactions:
            self._send(0, answer, delay)
        if conversation.leaves_at(frame) and not world.left:
            world.left = True
            self._reconnect(0)


_CONTROL = ("hello", "resume", "cancel", "withdraw", "compact", "ping", "session_config", "upload_request")


def _resume(ide: Device) -> Frame:
    return {"type": "resume", "last_seq": ide.last_seq}


def counted(seen: Mapping[int, Seen]) -> list[tuple[str, str, dict[str, int]]]:
    """For each event of a run in order: the function, what it was, and how many calls of each operation it made."""
    found = []
    for index in sorted(index for index in seen if index >= 0):
        event = seen[index]
        operations = itertools.groupby(sorted(operation for operation, _ in event.calls))
        found.append((event.folder, event.label, {operation: len(list(many)) for operation, many in operations}))
    return found


__all__ = ["Contradiction", "Conversation", "Player", "Recovery", "Seen", "Snapshot", "Stuck", "World", "counted"]
