"""Connections that break in mid-stream: the client's text is the model's, no frame is missing, none has changed."""

import random

import pytest

from tests.follower import Follower
from tests.ide import text_of
from tests.scripted_model import Says


def stream_through_breaks(cloud, model, seed: int, breaks: int) -> int:
    """Lead turns whose streams are broken at random moments, until there were `breaks`. Returns how many there were."""
    choose = random.Random(seed)
    client = Follower(cloud.url(f"breaking-{seed}", extensions=1))
    said = ""
    for turn in range(1_000):
        if client.reconnects >= breaks:
            break
        text = "".join(f"{n} слово 😀 " for n in range(choose.randrange(30, 120)))
        client.send("user_message", content=model.script(f"breaking-{seed}-{turn}", Says(text, delay=0.004)))
        said += text
        ends = len([frame for frame in client.frames if frame["type"] == "turn_end"])
        while len([frame for frame in client.frames if frame["type"] == "turn_end"]) == ends:
            streaming = client.frames and client.frames[-1]["type"] == "assistant_message"
            if streaming and choose.random() < 0.25:
                client.drop(clean=choose.random() < 0.5)
            client.receive()
    assert [frame["seq"] for frame in client.frames] == list(range(1, len(client.frames) + 1))
    assert text_of(client.frames) == said
    client.close()
    return client.reconnects


def test_a_hundred_breaks_in_mid_stream_lose_nothing(cloud, model):
    assert sum(stream_through_breaks(cloud, model, seed, 25) for seed in range(4)) >= 100


@pytest.mark.deep
def test_two_thousand_breaks_in_mid_stream_lose_nothing(cloud, model):
    assert sum(stream_through_breaks(cloud, model, seed, 100) for seed in range(100, 120)) >= 2_000


def test_a_device_that_joins_in_mid_stream_gets_everything(cloud, model):
    first = Follower(cloud.url("joining", extensions=1))
    text = "word by word " * 100
    first.send("user_message", content=model.script("joining", Says(text, delay=0.003)))
    while not any(frame["type"] == "assistant_message" for frame in first.frames):
        first.receive()
    second = Follower(cloud.url("joining", extensions=1))
    second.send("resume", last_seq=0)
    for device in (first, second):
        while not any(frame["type"] == "turn_end" for frame in device.frames):
            device.receive()
        assert text_of(device.frames) == text
        device.close()
