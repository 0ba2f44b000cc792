"""Everything on the machine is killed at once and started again with the same STATE_DIR: no session loses anything."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE
from tests.conversations.table import Table
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.processes import kill_everything
from tests.waiting import until

TEXT = "".join(f"{n} " for n in range(60))


class Machine:
    """A local cloud that keeps its state in `folder`, and the connections to it."""

    def __init__(self, folder: Path, model: ScriptedModel, opened: ExitStack) -> None:
        self._environment = {**model.environment, "STATE_DIR": str(folder)}
        self._opened = opened
        self.start()

    def start(self) -> None:
        self.cloud = self._opened.enter_context(LocalCloud(TEMPLATE, environment=self._environment))

    def kill(self) -> None:
        kill_everything(self.cloud)
        self.start()

    def ide(self, session: str) -> Ide:
        return self._opened.enter_context(Ide(self.cloud.url(session, extensions=1)))


@pytest.fixture
def machine(tmp_path: Path, model: ScriptedModel) -> Iterator[Machine]:
    with ExitStack() as opened:
        yield Machine(tmp_path / "state", model, opened)


def seqs(ide: Ide) -> list[int]:
    return [frame["seq"] for frame in ide.frames if "seq" in frame]


def test_sessions_go_on_after_everything_was_killed(machine: Machine, model: ScriptedModel) -> None:
    """One was streaming, and one waited for a human, who had been shown a call and had uploaded its large result."""
    streaming, waiting = machine.ide("streaming"), machine.ide("waiting")
    edit = model.script("edit", Says("I write", [call("write_file", path="a.py", content="1")]), Says("Done"))
    asked = waiting.call_for(edit)
    uploaded = waiting.upload("tool_result", call_id=asked["call_id"], result={"content": "x" * 50_000})
    streaming.say(model.script("stream", Says(TEXT, delay=0.05)), client_msg_id="m1")
    streaming.expect("assistant_message")
    frames = streaming.frames
    machine.kill()

    waiting = machine.ide("waiting")
    assert [one["call_id"] for one in waiting.request("resume", last_seq=0)["open_calls"]] == [asked["call_id"]]
    waiting.decide(asked, "approve")
    # The session learns that its executor is gone when it posts the call.
    while not waiting.expect("tool_call", call_id=asked["call_id"]).get("execute", True):
        pass
    waiting.send("tool_result", call_id=asked["call_id"], payload_ref=uploaded)
    assert waiting.idle().endswith("Done")

    streaming = machine.ide("streaming")
    streaming.frames += frames
    streaming.request("resume", last_seq=max(seqs(streaming)))
    until(lambda: Table(machine.cloud).register("streaming")["phase"] == "idle")
    history = [(message["role"], message["content"]) for message in Table(machine.cloud).messages("streaming")]
    assert history == [("user", "[[stream]]"), ("assistant", TEXT)]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_kills_at_random_moments_lose_and_double_nothing(machine: Machine, model: ScriptedModel, seed: int) -> None:
    """Two kills: a step that dies three times is given up."""
    choose = random.Random(seed)
    script = model.script("kill", Says(TEXT, [call("read_file", path="a.py")], delay=0.02), Says("Done"))
    ide = machine.ide("s1")
    for _ in range(2):
        ide.say(script, client_msg_id="m1")
        execute_calls(ide, choose.random() * 3)
        machine.kill()
        frames, ide = ide.frames, machine.ide("s1")
        ide.frames += frames
        for open_call in ide.request("resume", last_seq=max(seqs(ide), default=0))["open_calls"]:
            ide.result(open_call, {"content": "text"})
    ide.say(script, client_msg_id="m1")
    table = Table(machine.cloud)

    def finished() -> bool:
        execute_calls(ide, 0.2)
        return bool(table.messages("s1")) and table.register("s1")["phase"] == "idle"

    until(finished)
    assert [message["role"] for message in table.messages("s1")] == ["user", "assistant", "tool", "assistant"]
    assert sorted(set(seqs(ide))) == list(range(1, max(seqs(ide)) + 1))


def execute_calls(ide: Ide, seconds: float) -> None:
    """Give each call that comes within so many seconds a result."""
    deadline = time.monotonic() + seconds
    with suppress(TimeoutError):
        while True:
            frame = ide.receive(max(0, deadline - time.monotonic()))
            if frame["type"] == "tool_call":
                ide.result(frame, {"content": "text"})
