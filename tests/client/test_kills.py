"""Client, connection and server are killed at random moments: no call is executed twice, no result is lost."""

import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from codelab_local import LocalCloud

from tests.client.breakable_proxy import BreakableProxy
from tests.conftest import TEMPLATE
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.processes import kill_everything

SESSION = "kills"
#: Calls of one step, and steps of one turn: few enough for the model to see all of them.
CALLS, STEPS = 5, 5


@dataclass(frozen=True)
class Load:
    """How many turns, and how many kills of each kind."""

    turns: int
    clients: int
    sockets: int
    servers: int


#: `conversations/kills` kills the server in every run.
FAST, DEEP = Load(turns=1, clients=2, sockets=3, servers=0), Load(turns=20, clients=90, sockets=100, servers=10)


class Rig:
    """A server with a durable state, a proxy in front of it, and a client that executes."""

    def __init__(self, folder: Path, model: ScriptedModel, opened: ExitStack) -> None:
        self._environment = {**model.environment, "STATE_DIR": str(folder / "server")}
        self._opened, self._folder = opened, folder
        self.log = folder / "executed"
        self.log.touch()
        self._start_server()
        self.proxy = opened.enter_context(BreakableProxy(self.cloud.info["port"]))
        self._start_client()
        opened.callback(lambda: self.client.kill())

    def _start_server(self) -> None:
        for last in (False, False, True):  # a busy machine may need longer than LocalCloud waits
            try:
                self.cloud = self._opened.enter_context(LocalCloud(TEMPLATE, environment=self._environment))
            except RuntimeError:
                if last:
                    raise
            else:
                return

    def _start_client(self) -> None:
        url = f"ws://127.0.0.1:{self.proxy.port}"
        arguments = (url, SESSION, str(self._folder / "state"), str(self.log))
        with (self._folder / "client.err").open("ab") as errors:
            self.client = subprocess.Popen(
                [sys.executable, "-m", "tests.client.working_client", *arguments], stderr=errors
            )

    def kill(self, what: str) -> None:
        if what == "client":
            self.client.kill()
            self.client.wait()
            self._start_client()
        elif what == "socket":
            self.proxy.break_all()
        else:
            kill_everything(self.cloud)
            self.proxy.break_all()
            self._start_server()
            self.proxy.target = self.cloud.info["port"]

    def keep_client(self) -> None:
        """Start the client again if it could not reach a server that was just killed."""
        if self.client.poll() is not None:
            self._start_client()

    def newest(self, cursor: str = "") -> dict[str, Any]:
        """A page of the history: the newest, or the one before a cursor."""
        query = {"limit": "100", **({"cursor": cursor} if cursor else {})}
        answer = httpx.get(f"{self.cloud.http}/api/v1/chat/history/{SESSION}", params=query, timeout=30)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def history(self) -> list[dict[str, Any]]:
        page = self.newest()
        messages = page["messages"]
        while page["next_cursor"]:
            page = self.newest(page["next_cursor"])
            messages = page["messages"] + messages
        return list(messages)

    def say(self, content: str) -> None:
        body = {"session_id": SESSION, "message": content, "client_msg_id": content}
        assert httpx.post(f"{self.cloud.http}/api/v1/chat/message", json=body, timeout=30).status_code == 202


@pytest.mark.parametrize("load", [FAST, pytest.param(DEEP, marks=pytest.mark.deep)], ids=["fast", "deep"])
def test_no_call_is_executed_twice_and_no_result_is_lost(tmp_path: Path, model: ScriptedModel, load: Load) -> None:
    with ExitStack() as opened:
        kill_while_working(Rig(tmp_path, model, opened), model, load)


def kill_while_working(rig: Rig, model: ScriptedModel, load: Load) -> None:
    choose = random.Random(4711)
    kills = ["client"] * load.clients + ["socket"] * load.sockets + ["server"] * load.servers
    choose.shuffle(kills)
    httpx.post(f"{rig.cloud.http}/api/v1/sessions", json={"session_id": SESSION}, timeout=30).raise_for_status()
    turns = 0
    while turns < load.turns or kills:  # what a turn leaves is for the next one
        steps = [
            Says(f"step {step}", [call("read_file", path=f"{turns}/{step}/{n}") for n in range(CALLS)], piece=40)
            for step in range(STEPS)
        ]
        rig.say(model.script(f"kills-{turns}", *steps, Says(f"End {turns}")))
        play(rig, f"End {turns}", kills, len(kills) // max(1, load.turns - turns), choose)
        turns += 1
    check(rig, load, turns)


def play(rig: Rig, end: str, kills: list[str], most: int, choose: random.Random) -> None:
    """Kill while a turn runs, at most so many times, until it has ended."""
    deadline = time.monotonic() + 300
    while not any(message["role"] == "assistant" and message["content"] == end for message in rig.newest()["messages"]):
        assert time.monotonic() < deadline, rig.newest()["messages"][-3:]
        time.sleep(choose.uniform(0.02, 0.3))
        if kills and most:
            most -= 1
            rig.kill(kills.pop())
        rig.keep_client()


def check(rig: Rig, load: Load, turns: int) -> None:
    history = rig.history()
    made = {one["call_id"]: one for message in history for one in message["calls"]}
    results = Counter(message["call_id"] for message in history if message["role"] == "tool")
    assert len(made) == turns * STEPS * CALLS
    assert results == dict.fromkeys(made, 1), "every call has one result"
    log = [line.split() for line in rig.log.read_text().splitlines()]
    begun = Counter(call_id for what, call_id in log if what == "begin")
    assert max(begun.values()) == 1, f"executed twice: {[one for one, times in begun.items() if times > 1]}"
    interrupted = 0
    for message in history:
        if message["role"] == "tool":
            path = made[message["call_id"]]["arguments"]["path"]
            if f"content of {path}" in message["content"]:
                assert begun[message["call_id"]] == 1
            else:
                interrupted += 1
                assert "not executed again" in message["content"]
    # Only the calls that a killed client was executing have no result; it executes as many as one step has.
    assert interrupted <= load.clients * CALLS
