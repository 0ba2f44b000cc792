"""One sweep over a thousand sessions whose tool did not answer in time: each call fails, each turn goes on."""

import json
import time
from typing import Any

from codelab.sessions.items import CallItem, to_dynamodb
from codelab.sessions.register import CallEntry, CallState, Phase, Register
from codelab_local import LocalCloud

from benchmarks.rig import instant_model, system

SESSIONS = 1_000


def due_session(n: int) -> list[dict[str, Any]]:
    """The items of a session that waits for a call whose deadline has passed."""
    call = CallItem(f"call_{n}", "turn", "read_file", {"path": "a.py"}, False, CallState.EXECUTING.value, 1)
    register = Register(
        "local", f"due-{n}", 1, "universal", phase=Phase.WAITING, turn_id="turn", step=1, history_n=2, version=1
    )
    register.calls[call.call_id] = CallEntry("read_file", CallState.EXECUTING, due=1, seq=1)
    question = {"role": "user", "content": "pieces=1", "at": 1, "turn_id": "turn"}
    answer = {"role": "assistant", "content": "", "at": 1, "turn_id": "turn"}
    calls = json.dumps([[call.call_id, call.tool, call.arguments]])
    index = {"version": 1, "due_at": 1, "due_shard": f"due{n % 8}"}
    return [
        {"pk": register.pk, "sk": "REGISTER", **register.attributes(), **index},
        {"pk": register.pk, "sk": call.key(), **call.attributes()},
        {"pk": register.pk, "sk": "MESSAGE#000000001", **question},
        {"pk": register.pk, "sk": "MESSAGE#000000002", **answer, "calls": calls},
    ]


def prepare(cloud: LocalCloud) -> Any:
    dynamodb = cloud.client("dynamodb")
    table = next(name for name in dynamodb.list_tables()["TableNames"] if "Table" in name)
    items = [to_dynamodb(item) for n in range(SESSIONS) for item in due_session(n)]
    for start in range(0, len(items), 25):
        puts = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        dynamodb.batch_write_item(RequestItems={table: puts})
    return lambda: dynamodb.scan(
        TableName=table,
        FilterExpression="sk = :sk AND phase = :phase",
        ExpressionAttributeValues={":sk": {"S": "REGISTER"}, ":phase": {"S": "waiting"}},
        Select="COUNT",
    )["Count"]


def main() -> None:
    with instant_model() as url, system(url, LOCAL_SCHEDULE_MINUTE_S="3600") as cloud:
        waiting = prepare(cloud)
        before, began = waiting(), time.perf_counter()
        cloud.invoke("sweep", {"source": "aws.events"})
        took = time.perf_counter() - began
        print(f"one sweep: {before - waiting()} of {before} due sessions in {took:.1f} s")


if __name__ == "__main__":
    main()
