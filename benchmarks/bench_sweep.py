"""One sweep over a thousand sessions in which a tool did not answer in time.

First with another call still open, so that the sweep works alone; then with turns that continue, so that a thousand
steps run beside it on the same machine.
"""

import json
import time
from typing import Any

from codelab.sessions.dynamodb.values import to_dynamodb
from codelab.sessions.items import CallItem
from codelab.sessions.register import CallEntry, CallState, Phase, Register
from codelab_local import LocalCloud

from benchmarks.rig import instant_model, system

SESSIONS = 1_000


def due_session(n: int, *, goes_on: bool) -> list[dict[str, Any]]:
    """The items of a session with a call whose deadline has passed, and perhaps another open one."""
    call = CallItem(
        call_id=f"call_{n}",
        turn_id="turn",
        agent="universal",
        tool="read_file",
        arguments={"path": "a.py"},
        requires_approval=False,
        state=CallState.EXECUTING.value,
        at=1,
    )
    register = Register(
        "local",
        f"due-{goes_on}-{n}",
        1,
        "universal",
        phase=Phase.WAITING,
        turn_id="turn",
        step=1,
        history_n=2,
        version=1,
    )
    register.calls[call.call_id] = CallEntry("read_file", CallState.EXECUTING, due=1, seq=1)
    if not goes_on:
        register.calls["other"] = CallEntry("read_file", CallState.EXECUTING, due=2**45, seq=2)
    question = {"role": "user", "content": "pieces=1", "at": 1, "turn_id": "turn"}
    answer = {"role": "assistant", "content": "", "at": 1, "turn_id": "turn"}
    calls = json.dumps([[call.call_id, call.tool, call.arguments]])
    index = {"version": 1, "due_at": 1, "due_shard": f"due{n % 8}"}
    return [
        {"pk": register.pk, "sk": "REGISTER", **register.attributes(), **index},
        {"pk": register.pk, **call.row()},
        {"pk": register.pk, "sk": "MESSAGE#000000001", **question},
        {"pk": register.pk, "sk": "MESSAGE#000000002", **answer, "calls": calls},
    ]


def prepare(cloud: LocalCloud, *, goes_on: bool) -> Any:
    """Put the sessions into the table. Returns a function that counts those that are still due."""
    dynamodb = cloud.client("dynamodb")
    table = next(name for name in dynamodb.list_tables()["TableNames"] if "Table" in name)
    items = [to_dynamodb(item) for n in range(SESSIONS) for item in due_session(n, goes_on=goes_on)]
    for start in range(0, len(items), 25):
        puts = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        dynamodb.batch_write_item(RequestItems={table: puts})
    pages = dynamodb.get_paginator("scan")
    query = {
        "TableName": table,
        "FilterExpression": "sk = :sk AND due_at = :due",
        "ExpressionAttributeValues": {":sk": {"S": "REGISTER"}, ":due": {"N": "1"}},
        "Select": "COUNT",
    }
    return lambda: sum(page["Count"] for page in pages.paginate(**query))


def main() -> None:
    with instant_model() as url, system(url, LOCAL_SCHEDULE_MINUTE_S="3600") as cloud:
        for goes_on in (False, True):
            due = prepare(cloud, goes_on=goes_on)
            before, began = due(), time.perf_counter()
            cloud.invoke("sweep", {"source": "aws.events"})
            took = time.perf_counter() - began
            beside = "a turn that goes on in each" if goes_on else "nothing beside it"
            print(f"one sweep, {beside}: {before - due()} of {before} due sessions in {took:.1f} s")


if __name__ == "__main__":
    main()
