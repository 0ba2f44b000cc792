"""Connections that break mid-stream: the client gets the model's text, and no frame is missing or changed."""

import json
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from codelab.aws.dynamodb import DynamoDB
from codelab.aws.session import session
from codelab.sessions.dynamodb.store import DynamoDBStore
from codelab.sessions.items import Audience, EventItem
from codelab.sessions.store import Conflict
from codelab_local import LocalCloud

from tests.conftest import Open
from tests.conversations.table import Table
from tests.fakes.ide.follower import Follower
from tests.fakes.ide.ide import text_of
from tests.fakes.ide.received import messages
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel


def stream_through_breaks(cloud: Any, model: Any, seed: int, breaks: int) -> int:
    """Run turns and break their streams at random moments, at least `breaks` times. Returns the number of breaks."""
    choose = random.Random(seed)
    client = Follower(cloud.url(f"breaking-{breaks}-{seed}", extensions=1))
    said = ""
    for turn in range(1_000):
        if client.reconnects >= breaks:
            break
        text = "".join(f"{n} слово 😀 " for n in range(choose.randrange(30, 120)))
        client.send("user_message", content=model.script(f"breaking-{seed}-{turn}", Says(text, delay=0.004)))
        said += text
        while client.count("turn_end") == turn:
            streaming = client.frames and client.frames[-1]["type"] == "assistant_message"
            if streaming and choose.random() < 0.25:
                client.drop(clean=choose.random() < 0.5)
            client.receive()
    assert [frame["seq"] for frame in client.frames] == list(range(1, len(client.frames) + 1))
    assert text_of(client.frames) == said
    client.close()
    return client.reconnects


@pytest.mark.parametrize(("clients", "breaks"), [(2, 3), pytest.param(20, 100, marks=pytest.mark.deep)])
def test_breaks_in_mid_stream_lose_nothing(cloud: LocalCloud, model: ScriptedModel, clients: Any, breaks: Any) -> None:
    with ThreadPoolExecutor(5) as pool:  # each waits most of the time, for its model
        seen = pool.map(lambda seed: stream_through_breaks(cloud, model, seed, breaks), range(100, 100 + clients))
        assert sum(seen) >= clients * breaks


def test_a_client_that_joins_mid_stream_gets_everything(cloud: LocalCloud, model: ScriptedModel) -> None:
    first = Follower(cloud.url("joining", extensions=1))
    text = "word by word " * 100
    first.send("user_message", content=model.script("joining", Says(text, delay=0.003)))
    first.read_to("assistant_message")
    second = Follower(cloud.url("joining", extensions=1))
    second.send("resume", last_seq=0)
    for device in (first, second):
        device.read_to("turn_end")
        assert text_of(device.frames) == text
        device.close()


def test_a_client_that_joins_at_any_moment_gets_all_of_a_short_answer(
    cloud: LocalCloud, ide: Open, model: ScriptedModel
) -> None:
    """The client joins later in each round, in the last ones after the last frame."""
    for n in range(12):
        text = f"A short answer, number {n}"
        first = ide(f"short-{n}", extensions=True)
        first.say(model.script(f"short {n}", Says(text, delay=0.003)))
        time.sleep(n * 0.01)
        second = Follower(cloud.url(f"short-{n}", extensions=1, last_seq=0))
        second.read_to("turn_end", patience=0.5)
        assert text_of(second.frames) == text
        second.close()


def test_repeated_resumes_during_a_stream_show_every_frame_unchanged(
    cloud: LocalCloud, ide: Open, model: ScriptedModel
) -> None:
    reader = ide("resuming", extensions=True)
    device = Follower(cloud.url("resuming", extensions=1))
    text = "again and again " * 40
    reader.say(model.script("resuming", Says(text, delay=0.005)))
    asked, choose = 0, random.Random(1)
    while not device.count("turn_end"):
        if sum(frame["type"] == "resumed" for frame in device.replies) >= asked:
            device.send("resume", last_seq=choose.randrange(device.last_seq + 1))
            asked += 1
        device.receive(0.5)
    assert asked
    reader.idle()
    assert text_of(device.frames) == text
    assert device.frames == reader.frames[: len(device.frames)]
    device.close()


def test_a_stream_and_other_writers_share_the_log_without_gaps(
    cloud: LocalCloud, ide: Open, model: ScriptedModel
) -> None:
    """The handlers of queued messages log their frames between the pieces of the running turn's text."""
    writer, text = ide("shared-log", extensions=True), "one of many " * 100
    reader = Follower(cloud.url("shared-log", extensions=1))
    go = threading.Event()
    writer.say(model.script("shared log", Says(text, delay=0.01, halfway=go)))
    writer.expect("assistant_message")
    for n in range(15):
        writer.say(model.script(f"queued {n}", Says(f"<{n}>")), client_msg_id=f"q{n}")
        time.sleep(0.03)
    writer.expect("queued")
    go.set()
    reader.read_to("turn_end", 16)
    assert [frame["seq"] for frame in reader.frames] == list(range(1, len(reader.frames) + 1))
    assert any(frame["type"] == "queued" for frame in reader.frames)
    first, *others = messages(reader.frames).values()
    assert first == text
    assert sorted(others) == sorted(f"<{n}>" for n in range(15))
    reader.close()


@pytest.fixture
def store(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Any:
    variables = {"ENDPOINT_URL": "emulator", "DEFAULT_REGION": "region"}
    variables |= {"ACCESS_KEY_ID": "access_key_id", "SECRET_ACCESS_KEY": "secret_access_key"}
    for variable, name in variables.items():
        monkeypatch.setenv(f"AWS_{variable}", cloud.info[name])
    session.cache_clear()
    yield DynamoDBStore(DynamoDB(), Table(cloud).name)
    session.cache_clear()


def test_of_two_concurrent_appends_one_gets_the_seq_and_knows_it(store: Any) -> None:
    pk, rounds = "SESSION#local#appended", 50
    won: dict[str, set[int]] = {"a": set(), "b": set()}
    barrier = threading.Barrier(2)

    def write(name: str) -> None:
        for seq in range(1, rounds + 1):
            event = EventItem(seq, {"seq": seq, "by": name}, Audience.ALL, 2**40, write_id=f"{name}:{seq}")
            barrier.wait()
            while True:
                try:
                    if store.append(pk, event):
                        won[name].add(seq)
                        assert store.append(pk, event), "its own retry succeeds"
                    break
                except Conflict:
                    continue

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, won))
    assert won["a"] | won["b"] == set(range(1, rounds + 1))
    assert not won["a"] & won["b"]
    logged = store.events(pk, 1, rounds, 0)
    assert all(event.seq in won[event.frame["by"]] for event in logged)


def logged(seq: int) -> dict[str, Any]:
    """The item of a frame of text."""
    text = f"{seq} слово "
    frame = {"type": "assistant_message", "token": text, "content": text, "is_final": False, "seq": seq}
    frame |= {"message_id": "msg_long", "turn_id": "turn_long"}
    return {"sk": f"EVENT#{seq:012d}", "frame": json.dumps(frame), "audience": "all", "ttl": 2**40}


@pytest.mark.deep
def test_a_thousand_frames_are_replayed_in_order(
    cloud: LocalCloud, ide: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    ide("long-replay", extensions=True)
    Table(cloud).fill("long-replay", [logged(seq) for seq in range(1, 1_001)])
    device = ide("long-replay", extensions=True)
    began, pages = time.perf_counter(), 0
    while True:
        device.send("resume", last_seq=max((frame.get("seq", 0) for frame in device.frames), default=0))
        pages += 1
        if not device.expect("resumed").get("more"):
            break
    took = time.perf_counter() - began
    assert [frame["seq"] for frame in device.frames if "seq" in frame] == list(range(1, 1_001))
    assert pages == 2
    with capsys.disabled():
        sys.stdout.write(f"\n1,000 frames replayed in {took:.2f} s\n")
