"""What the system adds to a model's stream: time to the first token, time per piece, smoothness, posts and their cost.

It calls the same model through the system and directly, with the same SDK call, alternately in one run. The floor of
the first token is the time of the system's AWS calls if one warm process makes them one after another, with the same
thin clients: read, transaction, invoke, read; then the append and the post of the first piece. The session's history
is as long as the part that a step reads.
"""

import json
import math
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from codelab import aws
from codelab.delivery.management_api import ManagementApi
from codelab_local import LocalCloud
from openai import OpenAI
from websockets.sync.client import ClientConnection, connect

from benchmarks.rig import instant_model, summary, system

ROUNDS = 100
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


class Floor:
    """The AWS calls until the first token, one after another, prepared as far as possible."""

    def __init__(self, cloud: LocalCloud, session: str) -> None:
        sdk = {name: cloud.client(name) for name in ("dynamodb", "lambda", "apigatewaymanagementapi")}
        key = sdk["dynamodb"]._request_signer._credentials
        os.environ |= {
            "AWS_ACCESS_KEY_ID": key.access_key,
            "AWS_SECRET_ACCESS_KEY": key.secret_key,
            "AWS_REGION": sdk["dynamodb"].meta.region_name,
            "AWS_DEFAULT_REGION": sdk["dynamodb"].meta.region_name,
            "AWS_ENDPOINT_URL_DYNAMODB": sdk["dynamodb"].meta.endpoint_url,
            "AWS_ENDPOINT_URL_LAMBDA": sdk["lambda"].meta.endpoint_url,
        }
        self._dynamodb = aws.dynamodb_client()
        self._invoker = aws.lambda_client()
        self._connections = ManagementApi(sdk["apigatewaymanagementapi"].meta.endpoint_url)
        self._table = table_of(cloud)
        self._register = next(items_of(cloud, session, "REGISTER"))
        self._connection_id = next(name for name in self._register if name.startswith("conn#")).removeprefix("conn#")
        self._pk = "SESSION#floor#s"
        self._n = 0
        for n in range(HISTORY):
            self._put(f"MESSAGE#{n:09d}", {"role": {"S": "user"}, "content": {"S": "hello"}})

    def _put(self, sk: str, more: dict[str, Any]) -> None:
        self._dynamodb.put_item(TableName=self._table, Item={"pk": {"S": self._pk}, "sk": {"S": sk}, **more})

    def _transaction(self, *items: str) -> None:
        self._n += 1
        body = {"content": {"S": "hello"}, "role": {"S": "user"}, "at": {"N": "1"}, "turn_id": {"S": "t" * 24}}
        writes: list[Any] = [{"Put": {"TableName": self._table, "Item": {**self._register, "pk": {"S": self._pk}}}}]
        for item in items:
            key = {"pk": {"S": self._pk}, "sk": {"S": f"{item}#{self._n}"}}
            condition = "attribute_not_exists(pk)"
            put = {"TableName": self._table, "Item": {**key, **body}, "ConditionExpression": condition}
            writes.append({"Put": put})
        self._dynamodb.transact_write_items(TransactItems=writes)

    def run(self) -> float:
        key = {"pk": {"S": self._pk}, "sk": {"S": "REGISTER"}}
        began = time.perf_counter()
        self._dynamodb.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        self._transaction("INPUT", "MSG", "STATUS")
        event = {"kind": "step", "user": "floor", "session_id": "none", "turn_id": "t", "step": 1}
        extent = {"history_n": 0, "summary_n": 0, "turn_n": 0, "files": []}
        self._invoker.start("llm_request", {**event, "attempt": 0, "extent": extent})
        keys = [key, *({"pk": {"S": self._pk}, "sk": {"S": f"MESSAGE#{n:09d}"}} for n in range(HISTORY))]
        self._dynamodb.batch_get_item(RequestItems={self._table: {"Keys": keys, "ConsistentRead": True}})
        self._put(f"EVENT#{self._n}", {"frame": {"S": "x" * 200}})
        self._connections.post(self._connection_id, b'{"type":"floor"}')
        return time.perf_counter() - began


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


def first_token(cloud: LocalCloud, model: OpenAI) -> None:
    with connect(cloud.url("first")) as socket, connect(cloud.url("floor")) as other:
        floor = Floor(cloud, "floor")
        for _ in range(HISTORY // 2 + 5):
            through_the_system(socket, "pieces=1")
        ours, direct, least = [], [], []
        for _ in range(ROUNDS):
            ours.append(through_the_system(socket, "pieces=1").first)
            time.sleep(0.01)
            direct.append(directly(model, "pieces=1").first)
            least.append(floor.run())
            other.recv()
            time.sleep(0.01)
    added = statistics.median(ours) - statistics.median(direct)
    print(f"first token: {summary(ours)}; directly {summary(direct)}; the AWS calls alone {summary(least)}")
    print(f"  added {added * 1000:.1f} ms, {added / statistics.median(least):.2f} times the AWS calls alone")


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
        first_token(cloud, model)
        pieces(cloud, model)
        smoothness(cloud)
        cost(cloud)


if __name__ == "__main__":
    main()
