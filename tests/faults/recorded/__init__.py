"""Sessions that were under way when the code was replaced by a newer one: what stood in the table and the bucket.

They are written by `python -m tests.faults.recorded FOLDER` and kept: code that changes must go on with each of them,
however it would store them itself. What is recorded anew goes beside the old ones.
"""

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.fakes.model.in_process import says
from tests.faults.conversations import CONVERSATIONS, say
from tests.faults.player import Conversation, Device, Item, Player, Snapshot, World
from tests.faults.stage import Objects, Stage, Stored
from tests.faults.verdict import Outcome

FOLDER = Path(__file__).parent / "sessions"

#: How long the system was down, in milliseconds.
_DOWN_MS = 5_000


class Recorded(NamedTuple):
    """A session in the middle of a conversation, and what its user has read and the model been told in the end."""

    conversation: str
    state: str
    now: int
    said: int
    paused: bool
    items: list[Stored]
    objects: Objects
    texts: list[str]
    history: list[Any]

    @classmethod
    def read(cls, path: Path) -> Self:
        found = json.loads(path.read_text())
        objects = {key: zlib.decompress(base64.b64decode(body)) for key, body in found.pop("objects").items()}
        return cls(objects=objects, **found)

    def write(self, path: Path) -> None:
        objects = {key: base64.b64encode(zlib.compress(it)).decode() for key, it in self.objects.items()}
        body = self._asdict() | {"objects": objects}
        path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")

    def go_on(self, stage: Stage) -> Outcome:
        """Have a client come back that has lost everything, and then say one thing more."""
        (original,) = [it for it in CONVERSATIONS if it.name == self.conversation]
        script = {**original.script, "again": [says("I am still here.")]}
        conversation = replace(original, script=script, says=[*original.says, say("again", 99)], accident=None)
        world = World(
            now=self.now + _DOWN_MS,
            ides=[Device(comes_back=True, viewer=n > 0) for n in range(1 + conversation.viewers)],
            connections=100,
            said=self.said,
            paused=self.paused,
            left=True,
        )
        player = Player(stage, conversation, start=Snapshot(world, self.items, self.objects))
        for n in range(len(world.ides)):
            player.connect(n, 0)
        return Outcome.of(*player.play(), player.world)


class _Recorder(Player):
    """Keeps what stands in the table after each event, also while a step waits for its model."""

    def __init__(self, stage: Stage, conversation: Conversation) -> None:
        self.after: list[tuple[str, World, list[Stored], Objects]] = []
        super().__init__(stage, conversation)

    def _run(self, index: int, item: Item) -> None:
        super()._run(index, item)
        said = replace(self.world, ides=[], queue=[])
        said.said -= sum(it.frame in self._conversation.says for _, _, it in self.world.queue)
        self.after.append((self.seen[index].label, said, self._stage.items(), self._stage.objects()))


#: A state; the conversation that comes through it; and the event after which it is there: its name, and which one.
STATES: dict[str, tuple[str, str, int]] = {
    "a turn has ended": ("simple", "step 1", 1),
    "a step is invoked": ("one tool", "user_message", 1),
    "a step died while it streamed": ("a step that died", "step 1", 1),
    "a step was taken from an owner that was stopped": ("an owner that was stopped", "schedule", 1),
    "a call waits for a human": ("approve", "step 1", 1),
    "an approved call is executed": ("approve", "hitl_decision", 1),
    "two of three results are there": ("three tools", "tool_result", 2),
    "two messages wait for the running turn": ("queue", "user_message", 3),
    "a cancel waits for the running step": ("cancel while it streams", "cancel", 1),
    "a message waits to interrupt": ("interrupt", "user_message", 2),
    "a command is remembered": ("a command that may run again", "step 2", 1),
    "an agent was chosen": ("an agent is chosen", "step 1", 1),
    "a plan is followed": ("a plan, and then a tool", "step 1", 1),
    "a summary was made": ("a summary", "step 1", 3),
    "a summary failed": ("a summary that fails", "step 1", 3),
    "a large result was stored": ("a large result", "tool_result", 1),
    "a large call is open": ("a large call", "step 1", 1),
    "output comes in pieces": ("partial output", "tool_result", 1),
    "frames were committed and not posted": ("frames that nobody posted", "step 1", 1),
}


def record(stage: Stage) -> Iterator[tuple[str, Recorded]]:
    """Every state that `STATES` names, by its file's name."""
    for state, (name, label, nth) in STATES.items():
        (conversation,) = [it for it in CONVERSATIONS if it.name == name]
        player = _Recorder(stage, conversation)
        end = Outcome.of(*player.play(), player.world)
        world, items, objects = [it[1:] for it in player.after if it[0] == label][nth - 1]
        recorded = Recorded(
            name, state, world.now, world.said, world.paused, items, objects, end.messages(), end.history()
        )
        yield state.replace(" ", "_").replace(",", ""), recorded
