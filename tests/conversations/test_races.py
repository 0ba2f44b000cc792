"""Races on the running system: results, decisions, cancels, disconnects at once; owners that die or are stopped."""

import contextlib
import json
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from codelab_local import LocalCloud
from websockets.exceptions import ConnectionClosed

from tests.conftest import Open
from tests.conversations.table import Table
from tests.fakes.ide.ide import Ide, once
from tests.fakes.ide.received import messages
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until

CALLS = [
    call("read_file", path="a.py"),
    call("write_file", path="b.py", content="1"),
    call("read_file", path="c.py"),
    call("run_command", command="make", cwd=None),
]


@pytest.fixture
def table(cloud: LocalCloud) -> Any:
    return Table(cloud)


def all_at_once(*actions: Any) -> None:
    """Run each action in its own thread, all at the same time."""
    start = threading.Barrier(len(actions))

    def run(action: Any) -> None:
        start.wait()
        with contextlib.suppress(OSError, ConnectionClosed):
            action()

    with ThreadPoolExecutor(len(actions)) as pool:
        list(pool.map(run, actions))


def until_idle(table: Table, session: str) -> None:
    until(lambda: table.register(session)["phase"] == "idle")


def check_history(table: Table, session: str) -> None:
    """Every call has one result, and they follow the answer that made the calls."""
    messages = table.messages(session)
    assert [int(message["sk"][8:]) for message in messages] == list(range(1, len(messages) + 1))
    made = [made[0] for message in messages for made in json.loads(message.get("calls", "[]"))]
    settled = [message["call_id"] for message in messages if message["role"] == "tool"]
    assert sorted(made) == sorted(settled)
    assert len(settled) == len(set(settled))
    numbers = sorted(int(item["sk"][6:]) for item in table.items(session) if item["sk"].startswith("EVENT#"))
    assert numbers == list(range(1, len(numbers) + 1))


def race(ide: Any, model: Any, table: Table, seed: int) -> None:
    """One seeded race of everything that two connections can do about four calls."""
    choose = random.Random(seed)
    session = f"race-{seed}"
    connections: list[Ide] = [ide(session, extensions=True), ide(session, extensions=choose.random() < 0.5)]
    connections[0].say(model.script(session, Says("Working", CALLS), Says("All done")), client_msg_id="m1")
    asked = [connections[0].expect("tool_call") for _ in CALLS]
    actions = []
    for frame in asked:
        for _ in range(choose.randrange(1, 4)):
            connection = choose.choice(connections)
            if frame["requires_approval"] and choose.random() < 0.6:
                decision = choose.choice(("approve", "reject"))
                actions.append(lambda w=connection, f=frame, d=decision: w.decide(f, d))
            else:
                content = str(choose.randrange(2))
                actions.append(lambda w=connection, f=frame, c=content: w.result(f, {"content": c}))
    if choose.random() < 0.3:
        actions.append(lambda: connections[1].send("cancel"))
    if choose.random() < 0.3:
        actions.append(lambda: connections[1].socket.close())
    if choose.random() < 0.3:
        actions.append(lambda: connections[0].say("[[none]] and also", client_msg_id="m2"))
    choose.shuffle(actions)
    all_at_once(*actions)
    # Answer what is still open, as a client that reconnects would.
    late = ide(session, extensions=True)

    def is_settled() -> bool:
        open_calls = late.request("resume", last_seq=0)["open_calls"]
        for pending in open_calls:
            if pending["state"] == "awaiting_approval":
                late.decide(pending, "approve")
            else:
                late.result(pending, {"content": "late"})
        return not open_calls

    until(is_settled)
    until_idle(table, session)
    check_history(table, session)


@pytest.mark.parametrize("seed", range(2))
def test_results_decisions_and_cancels_race(ide: Open, model: ScriptedModel, table: Any, seed: int) -> None:
    race(ide, model, table, seed)


@pytest.mark.deep
def test_two_hundred_seeded_races(ide: Open, model: ScriptedModel, table: Any) -> None:
    for seed in range(1_000, 1_200):
        race(ide, model, table, seed)


def test_concurrent_messages_are_answered_once_each_in_sequence(ide: Open, model: ScriptedModel, table: Any) -> None:
    connections = [ide("crowd", extensions=True) for _ in range(4)]
    for n in range(8):
        model.script(f"crowd {n}", Says(f"answer {n}"))
    says = [
        lambda w=connections[n % 4], n=n: w.say(f"[[crowd {n % 8}]]", client_msg_id=f"crowd-{n % 8}") for n in range(16)
    ]
    all_at_once(*says)
    for _ in range(8):
        connections[0].expect("turn_end")
    until_idle(table, "crowd")
    messages = table.messages("crowd")
    assert [message["role"] for message in messages] == ["user", "assistant"] * 8
    assert sorted(message["content"] for message in messages[1::2]) == [f"answer {n}" for n in range(8)]


def kill_in_mid_stream(ide: Any, model: Any, cloud: Any, table: Table, seed: int) -> None:
    """Kill the worker at a random moment of its stream. The answer comes again, and nothing is doubled."""
    choose = random.Random(seed)
    session, text = f"killed-{seed}", "word " * 60
    connection = ide(session, extensions=True)
    before = set(cloud.workers("llm_request"))
    connection.say(model.script(session, Says(text, delay=0.01)))
    connection.expect("assistant_message")
    time.sleep(choose.random() * 0.7)
    for pid in set(cloud.workers("llm_request")) | before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    connection.expect("turn_end", reason="completed")
    connection.idle()
    assert list(messages(once(connection.frames)).values()) == [text]
    until_idle(table, session)
    check_history(table, session)
    assert [message["content"] for message in table.messages(session)][1:] == [text]


@pytest.mark.parametrize("seed", range(2))
def test_another_owner_continues_when_one_is_killed_mid_stream(
    ide: Open, model: ScriptedModel, cloud: LocalCloud, table: Any, seed: int
) -> None:
    kill_in_mid_stream(ide, model, cloud, table, seed)


@pytest.mark.deep
def test_twenty_kills_at_random_moments(ide: Open, model: ScriptedModel, cloud: LocalCloud, table: Any) -> None:
    for seed in range(100, 120):
        kill_in_mid_stream(ide, model, cloud, table, seed)


def stop_in_mid_stream(ide: Any, model: Any, cloud: Any, table: Table, seed: int) -> None:
    """The sweep gives the step to another attempt; then the first owner goes on, and then another message is said."""
    choose = random.Random(seed)
    session, text, go = f"stopped-{seed}", "word " * 60, threading.Event()
    connection = ide(session, extensions=True)
    cloud.kill("llm_request")  # a stopped worker that is idle would be given the next attempt
    connection.say(model.script(session, Says(text, delay=0.01, halfway=go)))
    connection.expect("assistant_message")
    time.sleep(choose.random() * 0.5)
    stopped = cloud.workers("llm_request")
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    go.set()
    try:
        table.end_lease(session)
        connection.expect("turn_end", reason="completed")
        if choose.random() < 0.5:
            connection.say(model.script(f"{session}-next", Says("Next")))
            connection.expect("turn_end", reason="completed")
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    connection.idle()
    until_idle(table, session)
    time.sleep(0.3)  # what the first owner still does
    check_history(table, session)
    assert set(messages(once(connection.frames)).values()) <= {text, "Next"}
    frames = table.frames(session)
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    for message_id in {frame["message_id"] for frame in frames if frame["type"] == "assistant_message"}:
        pieces = [frame["is_final"] for frame in frames if frame.get("message_id") == message_id and "token" in frame]
        assert pieces.count(True) == 1
        assert pieces[-1], "text was appended behind the end of its message"


@pytest.mark.parametrize("seed", range(2))
def test_an_owner_that_was_stopped_and_goes_on_mixes_nothing_in(
    ide: Open, model: ScriptedModel, cloud: LocalCloud, table: Any, seed: int
) -> None:
    stop_in_mid_stream(ide, model, cloud, table, seed)


@pytest.mark.deep
def test_forty_stops_at_random_moments(ide: Open, model: ScriptedModel, cloud: LocalCloud, table: Any) -> None:
    for seed in range(100, 140):
        stop_in_mid_stream(ide, model, cloud, table, seed)
