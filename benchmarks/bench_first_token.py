"""From the user's message to the first token, beside the floor: the same AWS and model calls in one warm process.

Both are measured in turn, message by message, in one run. The session's history is MAX_CONTEXT_MESSAGES long.
"""

import json
import statistics
import time
from typing import Any

from codelab_local import LocalCloud
from openai import OpenAI
from websockets.sync.client import ClientConnection, connect

from benchmarks.rig import instant_model, summary, system

ROUNDS = 150
HISTORY = 50


def first_token(socket: ClientConnection) -> float:
    """Send a message, time the first token, read on to the end of the turn."""
    began = time.perf_counter()
    socket.send(json.dumps({"type": "user_message", "content": "hello pieces=1"}))
    first = 0.0
    while True:
        frame = json.loads(socket.recv(timeout=30))
        if frame["type"] == "assistant_message" and not first:
            first = time.perf_counter() - began
        if frame["type"] == "agent_status" and frame["status"] == "idle":
            return first


class Floor:
    """The calls of the path, one after another, prepared as far as they can be."""

    def __init__(self, cloud: LocalCloud, model_url: str, connection_id: str) -> None:
        self.dynamodb = cloud.client("dynamodb")
        self.invoker = cloud.client("lambda")
        self.connections = cloud.client("apigatewaymanagementapi")
        self.model = OpenAI(base_url=model_url, api_key="bench")
        self.connection_id = connection_id
        self.table = next(name for name in self.dynamodb.list_tables()["TableNames"] if "Table" in name)
        self.register = self._register()
        self.pk = "SESSION#floor#s"
        self.n = 0
        self.messages = [{"role": "user", "content": "hello pieces=1"}] * HISTORY
        for n in range(HISTORY):
            self._put(f"MESSAGE#{n:09d}", {"role": {"S": "user"}, "content": {"S": "hello"}})

    def _register(self) -> dict[str, Any]:
        items = self.dynamodb.scan(TableName=self.table)["Items"]
        return next(item for item in items if item["sk"]["S"] == "REGISTER")

    def _put(self, sk: str, more: dict[str, Any]) -> None:
        self.dynamodb.put_item(TableName=self.table, Item={"pk": {"S": self.pk}, "sk": {"S": sk}, **more})

    def _transaction(self, *items: str) -> None:
        self.n += 1
        body = {"content": {"S": "hello"}, "role": {"S": "user"}, "at": {"N": "1"}, "turn_id": {"S": "t" * 24}}
        writes: list[Any] = [{"Put": {"TableName": self.table, "Item": {**self.register, "pk": {"S": self.pk}}}}]
        for item in items:
            key = {"pk": {"S": self.pk}, "sk": {"S": f"{item}#{self.n}"}}
            condition = "attribute_not_exists(pk)"
            put = {"TableName": self.table, "Item": {**key, **body}, "ConditionExpression": condition}
            writes.append({"Put": put})
        self.dynamodb.transact_write_items(TransactItems=writes)

    def run(self) -> float:
        key = {"pk": {"S": self.pk}, "sk": {"S": "REGISTER"}}
        began = time.perf_counter()
        self.dynamodb.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        self._transaction("INPUT", "MSG")
        event = {"kind": "step", "user": "floor", "session_id": "none", "turn_id": "t", "step": 1}
        payload = json.dumps({**event, "attempt": 0, "history_n": 0}).encode()
        self.invoker.invoke(FunctionName="llm_request", InvocationType="Event", Payload=payload)
        self.dynamodb.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        keys = [{"pk": {"S": self.pk}, "sk": {"S": f"MESSAGE#{n:09d}"}} for n in range(HISTORY)]
        self.dynamodb.batch_get_item(RequestItems={self.table: {"Keys": keys, "ConsistentRead": True}})
        self._transaction("EVT")
        stream = self.model.chat.completions.create(
            model="instant", messages=[], stream=True, extra_body={"messages": self.messages}
        )
        next(iter(stream))
        self._put(f"EVENT#{self.n}", {"frame": {"S": "x" * 200}})
        self.connections.post_to_connection(ConnectionId=self.connection_id, Data=b'{"type":"floor"}')
        took = time.perf_counter() - began
        stream.close()
        return took


def main() -> None:
    with instant_model() as model_url, system(model_url) as cloud, connect(cloud.url("bench")) as socket:
        for _ in range(HISTORY // 2 + 5):
            first_token(socket)
        with connect(cloud.url("other")) as other:
            # The floor posts to a connection of its own, which is found by the session it joined.
            connection_id = _connection_of(cloud, "other")
            floor = Floor(cloud, model_url, connection_id)
            for _ in range(10):
                floor.run()
                other.recv()
            system_times, floor_times = [], []
            for _ in range(ROUNDS):
                system_times.append(first_token(socket))
                time.sleep(0.01)
                floor_times.append(floor.run())
                other.recv()
                time.sleep(0.01)
    ratio = statistics.median(system_times) / statistics.median(floor_times)
    print(f"first token: {summary(system_times)}; floor {summary(floor_times)}; ratio of p50 {ratio:.2f}")


def _connection_of(cloud: LocalCloud, session: str) -> str:
    dynamodb = cloud.client("dynamodb")
    table = next(name for name in dynamodb.list_tables()["TableNames"] if "Table" in name)
    item = dynamodb.get_item(
        TableName=table, Key={"pk": {"S": f"SESSION#local#{session}"}, "sk": {"S": "REGISTER"}}, ConsistentRead=True
    )["Item"]
    return next(name for name in item if name.startswith("conn#")).removeprefix("conn#")


if __name__ == "__main__":
    main()
