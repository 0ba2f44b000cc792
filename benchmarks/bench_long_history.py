"""Turns late in a long session beside early ones: they should take the same calls, bytes and time.

Two sessions, one of 50 and one of 5,000 messages, take turns in one run. Then one with
200 real turns, and the summaries made of them, takes turns with sessions at their 20th turn.
"""

import json
import statistics
import time
from typing import Any

from codelab.sessions.dynamodb.store import DynamoDBStore
from codelab.sessions.keys import partition, summary_key
from codelab_local import LocalCloud
from websockets.sync.client import connect

from benchmarks.bench_streaming import through_the_system
from benchmarks.rig import instant_model, summary, system

ROUNDS = 100
SHORT, LONG = 50, 5_000
CONTENT = "pieces=1"
EARLY, LATE = 20, 200
#: Measured turns of an early session, half of them before the 20th; and the number of early sessions.
SPAN, SESSIONS = 6, 8
TALK = "why is that so, and what would be another way to do it? " * 12 + CONTENT
#: Messages of a grown session that its newest summary does not cover.
_UNSUMMARISED = 20


def grow(cloud: LocalCloud, session: str, messages: int) -> None:
    """Write a session's history, as if its turns had run."""
    dynamodb = cloud.client("dynamodb")
    table = next(name for name in dynamodb.list_tables()["TableNames"] if "Table" in name)
    pk = {"S": f"SESSION#local#{session}"}
    items: list[dict[str, Any]] = []
    for n in range(1, messages + 1):
        role, content = ("user", "hello pieces=1") if n % 2 else ("assistant", "abc ")
        body = {"role": {"S": role}, "content": {"S": content}, "at": {"N": "1"}, "turn_id": {"S": "t" * 24}}
        items.append({"pk": pk, "sk": {"S": f"MESSAGE#{n:09d}"}, **body})
        items.append({"pk": pk, "sk": {"S": f"EVENT#{n:012d}"}, "frame": {"S": "{}"}, "ttl": {"N": "1"}})
    for start in range(0, len(items), 25):
        puts = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        dynamodb.batch_write_item(RequestItems={table: puts})
    summarised = messages - _UNSUMMARISED
    summary = {"content": {"S": "A talk."}, "at": {"N": "1"}}
    dynamodb.put_item(TableName=table, Item={"pk": pk, "sk": {"S": summary_key(summarised)}, **summary})
    dynamodb.update_item(
        TableName=table,
        Key={"pk": pk, "sk": {"S": "REGISTER"}},
        UpdateExpression="SET history_n = :n, last_seq = :n, summary_n = :s",
        ExpressionAttributeValues={":n": {"N": str(messages)}, ":s": {"N": str(summarised)}},
    )


def bytes_read(cloud: LocalCloud, session: str) -> int:
    """The bytes that a step reads before it calls the model: the register and the newest messages."""
    dynamodb, read = cloud.client("dynamodb"), [0]

    def add(http_response: Any, **_: Any) -> None:
        read[0] += len(http_response.content)

    dynamodb.meta.events.register("after-call.dynamodb", add)
    table = next(name for name in dynamodb.list_tables()["TableNames"] if "Table" in name)
    store, pk = DynamoDBStore(dynamodb, table), partition("local", session)
    read[0] = 0
    register = store.read(pk)
    assert register is not None
    store.conversation(pk, register.extent, 50)
    return read[0]


def early_and_late(cloud: LocalCloud) -> tuple[list[float], list[float]]:
    """Times to the first text: of turns around the 20th of several sessions, and around the 200th of one."""
    early: list[float] = []
    late: list[float] = []
    with connect(cloud.url("late")) as old:
        for _ in range(LATE - SPAN * SESSIONS // 2):
            through_the_system(old, TALK)
        for n in range(SESSIONS):
            with connect(cloud.url(f"early{n}")) as young:
                for _ in range(EARLY - SPAN // 2):
                    through_the_system(young, TALK)
                for _ in range(SPAN):
                    early.append(through_the_system(young, TALK).first)
                    late.append(through_the_system(old, TALK).first)
    return early, late


def main() -> None:
    with (
        instant_model() as url,
        system(url) as cloud,
        connect(cloud.url("short")) as short,
        connect(cloud.url("long")) as long,
    ):
        grow(cloud, "short", SHORT)
        grow(cloud, "long", LONG)
        for _ in range(5):
            through_the_system(short, CONTENT)
            through_the_system(long, CONTENT)
        times: dict[str, list[float]] = {"short": [], "long": []}
        for _ in range(ROUNDS):
            for name, socket in (("short", short), ("long", long)):
                times[name].append(through_the_system(socket, CONTENT).first)
                time.sleep(0.01)
        sizes = {name: bytes_read(cloud, name) for name in ("short", "long")}
        early, late = early_and_late(cloud)
    ratio = statistics.median(times["long"]) / statistics.median(times["short"])
    print(json.dumps({"messages": [SHORT, LONG], "rounds": ROUNDS}))
    read = f"{sizes['short']} and {sizes['long']} bytes read, {sizes['long'] / sizes['short']:.2f} times as many"
    print(read)
    print(f"at {SHORT}: {summary(times['short'])}; at {LONG}: {summary(times['long'])}; ratio of p50 {ratio:.2f}")
    ratio = statistics.median(late) / statistics.median(early)
    print(f"turn {EARLY}: {summary(early)}; turn {LATE}: {summary(late)}; {len(late)} each; ratio of p50 {ratio:.2f}")


if __name__ == "__main__":
    main()
