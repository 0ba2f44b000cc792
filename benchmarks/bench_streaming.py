"""What the system adds to a model's stream: time per piece, smoothness, posts and their cost.

It calls the same model through the system and directly, with the same SDK call, alternately in one run. For the first
token see `bench_first_token.py`.
"""

import json
import math
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from codelab_local import LocalCloud
from openai import OpenAI
from websockets.sync.client import ClientConnection, connect

from benchmarks.rig import instant_model, summary, system

STREAMS = 5
HISTORY = 50

#: US dollars per million in us-east-1, on demand: https://aws.amazon.com/dynamodb/pricing/on-demand/ and
#: https://aws.amazon.com/api-gateway/pricing/ (WebSocket messages of 32 KB), November 2026.
WRITE_UNITS, READ_UNITS, MESSAGES = 0.625, 0.125, 1.00


class Stream(NamedTuple):
    """Seconds from the request to the first text and to the end of the text, and the number of frames it came in."""

    first: float
    end: float
    frames: int


def through_the_system(socket: ClientConnection, content: str) -> Stream:
    """One turn, read to its end."""
    began = time.perf_counter()
    socket.send(json.dumps({"type": "user_message", "content": content}))
    first = end = 0.0
    frames = 0
    while True:
        frame = json.loads(socket.recv(timeout=60))
        now = time.perf_counter() - began
        if frame["type"] == "assistant_message":
            first, frames = first or now, frames + bool(frame["token"])
            if frame["is_final"]:
                end = now
        if frame["type"] == "agent_status" and frame["status"] == "idle":
            return Stream(first, end, frames)


def directly(model: OpenAI, content: str) -> Stream:
    """The SDK call that `llm_request` makes, with a history of the same length."""
    messages = [{"role": "user", "content": content}] * HISTORY
    began = time.perf_counter()
    stream = model.chat.completions.create(
        model="instant",
        messages=[],
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"messages": messages},
    )
    first = end = 0.0
    frames = 0
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            end = time.perf_counter() - began
            first, frames = first or end, frames + 1
    return Stream(first, end, frames)


def table_of(cloud: LocalCloud) -> str:
    """The name of the system's table."""
    names = cloud.client("dynamodb").list_tables()["TableNames"]
    return next(str(name) for name in names if "Table" in name)


def items_of(cloud: LocalCloud, session: str, prefix: str) -> Iterator[dict[str, Any]]:
    """The session's items whose sort key has the prefix, in DynamoDB's form."""
    pages = cloud.client("dynamodb").get_paginator("query")
    for page in pages.paginate(
        TableName=table_of(cloud),
        KeyConditionExpression="pk = :pk AND begins_with(sk, :prefix)",
        ExpressionAttributeValues={":pk": {"S": f"SESSION#local#{session}"}, ":prefix": {"S": prefix}},
    ):
        yield from page["Items"]


def write_units(item: dict[str, Any]) -> int:
    """The cost of writing an item of plain values: one unit per KB of names and values."""
    size = sum(len(name) + len(str(next(iter(value.values()))).encode()) for name, value in item.items())
    return math.ceil(size / 1024)


def pieces(cloud: LocalCloud, model: OpenAI) -> None:
    content = "pieces=600 rate=200"
    with connect(cloud.url("pieces")) as socket:
        through_the_system(socket, "pieces=1")
        later = []
        for _ in range(STREAMS):
            direct = directly(model, content)
            later.append((through_the_system(socket, content).end - direct.end) / direct.frames)
    print(f"200 pieces/s: the end comes {statistics.median(later) * 1000:.3f} ms a piece later than directly")


def smoothness(cloud: LocalCloud) -> None:
    """How long a token waits for its frame. Both processes read the machine's monotonic clock."""
    waits: list[float] = []
    frames = 0
    with connect(cloud.url("smooth")) as socket:
        through_the_system(socket, "pieces=1")
        socket.send(json.dumps({"type": "user_message", "content": "pieces=300 rate=50 stamps=1"}))
        while (frame := json.loads(socket.recv(timeout=60))).get("status") != "idle":
            now = time.monotonic()
            if frame["type"] == "assistant_message" and frame["token"]:
                waits += [now - float(sent) for sent in frame["token"].split()]
                frames += 1
    print(f"300 tokens over 6 s: from a token to its frame {summary(waits)}; {frames} frames")


def cost(cloud: LocalCloud) -> None:
    tokens = 1_000
    with connect(cloud.url("cost")) as socket:
        through_the_system(socket, "pieces=1")
        before = len(list(items_of(cloud, "cost", "EVENT#")))
        stream = through_the_system(socket, f"pieces={tokens} rate=100")
    text = list(items_of(cloud, "cost", "EVENT#"))[before:][1 : stream.frames + 1]
    writes = sum(write_units(item) for item in text)
    # With every post the register is read consistently: one unit per 4 KB.
    dollars = (writes * WRITE_UNITS + stream.frames * (READ_UNITS + MESSAGES)) / 1e6
    rate = stream.frames / (stream.end - stream.first)
    print(
        f"{tokens} tokens at 100/s: {rate:.1f} posts/s; {len(text)} appends of {writes} write units, {stream.frames} "
        f"reads, {stream.frames} posts a connection: ${dollars:.6f}"
    )


def main() -> None:
    with instant_model() as url, system(url) as cloud:
        model = OpenAI(base_url=url, api_key="bench")
        pieces(cloud, model)
        smoothness(cloud)
        cost(cloud)


if __name__ == "__main__":
    main()
