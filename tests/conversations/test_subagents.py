"""Turns with subagents on the running system, while clients lose their connections and functions are killed."""

import contextlib
import json
import os
import random
import signal
import sys
from collections import Counter
from typing import Any

import pytest
from codelab_local import LocalCloud
from websockets.exceptions import ConnectionClosed

from tests.conftest import Open
from tests.conversations.table import Table
from tests.conversations.test_races import check_history, until_idle
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel

TOOLS = ["read_file", "write_file", "delegate"]
#: A step that dies three times is given up.
MOST_KILLS = 2


class Client:
    """An IDE that never executes a call twice, and comes back when its connection breaks."""

    def __init__(self, ide: Open, session: str) -> None:
        self._open, self._session = ide, session
        self.results: dict[str, dict[str, Any]] = {}
        self.executed: Counter[str] = Counter()
        self.frames: list[dict[str, Any]] = []
        self.ide = self._connect()

    def _connect(self) -> Ide:
        ide = self._open(self._session, extensions=True)
        ide.request("hello", capabilities={"tools_supported": TOOLS})
        return ide

    def come_back(self) -> None:
        """Lose the connection, and find all that is open on another one."""
        self.ide.socket.close()
        self.ide = self._connect()
        self.ide.send("resume", last_seq=self._last_seq())

    def _last_seq(self) -> int:
        """Up to which it has all frames: those of two subagents come from two processes, in any order."""
        seqs = {frame.get("seq", 0) for frame in self.frames} | {0}
        return next(seq for seq in sorted(seqs) if seq + 1 not in seqs)

    def react(self) -> str:
        """Take one frame and do what it asks for. Returns its type."""
        frame = self.ide.receive()
        if "type" not in frame:  # API Gateway says that the function has died; what it worked on is sent again
            self.come_back()
            return ""
        self.frames.append(frame)
        if frame["type"] == "tool_call" and frame["requires_approval"]:
            self.ide.decide(frame, "approve")
        elif frame["type"] == "tool_call" and frame.get("execute", True):
            self._execute(frame)
        elif frame["type"] == "resumed":
            for pending in frame["open_calls"]:
                if pending["state"] == "awaiting_approval":
                    self.ide.decide(pending, "approve")
                elif pending["call_id"] in self.results:
                    self.ide.result(pending, self.results[pending["call_id"]])
        kind: str = frame["type"]
        return kind

    def _execute(self, frame: dict[str, Any]) -> None:
        call_id = frame["call_id"]
        if call_id not in self.results:
            self.executed[call_id] += 1
            self.results[call_id] = {"content": f"of {frame['arguments']['path']}"}
        self.ide.result(frame, self.results[call_id])


def scripts(model: ScriptedModel, session: str, count: int) -> str:
    """A turn with so many subagents, of which each reads, writes and answers. Returns the user's message."""
    calls = []
    for n in range(count):
        read, write = call("read_file", path=f"{n}.py"), call("write_file", path=f"{n}.py", content="1")
        name = model.script(f"{session}-{n}", Says("Reading", [read]), Says("Writing", [write]), Says(f"answer {n}"))
        calls.append(call("delegate", agent="universal", task=name))
    return model.script(session, Says("Asking", calls), Says("All done"))


def kill_some(cloud: LocalCloud, choose: random.Random) -> None:
    for pid in cloud.workers(choose.choice(("llm_request", "llm_request", "tool_result", "hitl_decision"))):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def play(ide: Open, model: ScriptedModel, cloud: LocalCloud, table: Table, seed: int) -> int:
    """One turn with disturbances. Returns how many there were."""
    choose = random.Random(seed)
    session, count = f"subagents-{seed}", choose.randrange(1, 5)
    client = Client(ide, session)
    client.ide.say(scripts(model, session, count), client_msg_id="m1")
    disturbances = [choose.choice(("drop", "kill", "kill")) for _ in range(MOST_KILLS)]
    while True:
        try:
            kind = client.react()
        except (ConnectionClosed, TimeoutError):
            client.come_back()
            continue
        if kind == "turn_end":
            break
        if disturbances and choose.random() < 0.06:
            if disturbances.pop() == "drop":
                client.come_back()
            else:
                kill_some(cloud, choose)
    until_idle(table, session)
    check_history(table, session)
    assert client.frames[-1]["reason"] == "completed"
    answers = sorted(message["content"] for message in table.messages(session) if message["role"] == "tool")
    assert answers == [f"answer {n}" for n in range(count)]
    items = [item for item in table.items(session) if item["sk"].startswith("CALL#") and "delegation" in item]
    made = Counter(json.loads(item["arguments"])["path"] + " " + item["tool"] for item in items)
    expected = [f"{n}.py {tool}" for n in range(count) for tool in ("read_file", "write_file")]
    assert made == Counter(expected), "a call was lost or made twice"
    assert {item["state"] for item in items} == {"completed"}
    assert set(client.executed.values()) == {1}
    assert client.executed.keys() == {item["sk"].removeprefix("CALL#") for item in items}
    assert "child_calls" not in table.register(session)
    return MOST_KILLS - len(disturbances)


@pytest.fixture
def table(cloud: LocalCloud) -> Table:
    return Table(cloud)


@pytest.mark.parametrize("seed", range(2))
def test_a_turn_with_subagents_survives(
    ide: Open, model: ScriptedModel, cloud: LocalCloud, table: Table, seed: int
) -> None:
    play(ide, model, cloud, table, seed)


@pytest.mark.deep
def test_five_hundred_turns_with_subagents_survive(
    ide: Open, model: ScriptedModel, cloud: LocalCloud, table: Table
) -> None:
    disturbances = sum(play(ide, model, cloud, table, seed) for seed in range(1_000, 1_500))
    sys.stdout.write(f"500 turns with subagents, {disturbances} connections lost or functions killed\n")
    assert disturbances >= 200
