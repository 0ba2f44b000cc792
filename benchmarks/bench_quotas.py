"""The cost of quotas: a message with and without them, side by side; and fifty sessions of one user at once.

The first is the function's processor time with canned answers: until the step is invoked, which the user waits for, and
to the end. The second runs on a table in memory with the latencies and conflicts of a real one: of two transactions on
the same item at the same time, one is refused.
"""

import json
import os
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

from codelab.aws.connections import Answer, Connections
from codelab.aws.dynamodb import DynamoDB
from codelab.aws.errors import AwsRefused
from codelab.aws.sdk import s3_client
from codelab.aws.signing import Request
from codelab.config import USUAL_LIMITS, read_settings
from codelab.delivery.payloads import Payloads
from codelab.delivery.post import Poster
from codelab.engine.engine import Engine
from codelab.protocol.incoming import Cancel, UserMessage
from codelab.sessions.dynamodb.store import DynamoDBStore
from codelab.sessions.dynamodb.values import to_dynamodb
from codelab.sessions.register import Register
from codelab.sessions.store import SlotTaken
from codelab.turns import cancel, lifecycle, messages
from codelab.turns.caller import Caller
from codelab.turns.lifecycle import CreateSession

from benchmarks.rig import summary

MESSAGES, SESSIONS, ROUNDS = 400, 50, 4
#: The time of a call within a region, in seconds.
READ_S, WRITE_S, INVOKE_S = 0.003, 0.008, 0.010
#: Fifty functions share one processor here, so everything runs slower by this factor, and figures are divided by it.
SLOWLY = 20
REGION = "eu-central-1"
OFF = {name.upper(): "0" for name in asdict(USUAL_LIMITS)}
ON = {name: str(10**9) for name in OFF} | {"OPEN_TURNS": "60"}


def engine(table: Any, limits: dict[str, str], invoke: Callable[..., None]) -> Engine:
    payloads = Payloads(s3_client, "payloads")
    poster = Poster(lambda: None, payloads)  # type: ignore[arg-type,return-value]
    store = DynamoDBStore(table, "Table")
    settings, pause = read_settings(limits), lambda s: time.sleep(SLOWLY * s)
    return Engine(store, poster, payloads, settings, lambda *step: partial(invoke, *step), pause=pause)


# -- one message ----------------------------------------------------------------------------------------------------


def canned() -> None:
    """Answer all calls as a table with one idle session would, without leaving the process."""
    register = Register("ann", "s1", 1, "universal", version=1, title="A talk")
    stored = {"pk": register.pk, "sk": "REGISTER", "version": 1, **register.attributes()}
    item = to_dynamodb(stored)
    bodies = {"GetItem": {"Item": item}, "BatchGetItem": {"Responses": {"Table": [item]}, "UnprocessedKeys": {}}}

    def send(_connections: Connections, request: Request, _on_wait: object = None) -> Answer:
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        return Answer(200, {}, json.dumps(bodies.get(operation, {})).encode())

    Connections.send = send  # type: ignore[assignment,method-assign]


def one_message() -> None:
    canned()
    began = 0.0
    until_invoke: dict[str, list[float]] = {"off": [], "on": []}
    whole: dict[str, list[float]] = {"off": [], "on": []}
    engines = {}
    for name, limits in (("off", OFF), ("on", ON)):

        def invoke(*_: Any, times: list[float] = until_invoke[name]) -> None:
            times.append(time.thread_time() - began)

        engines[name] = engine(DynamoDB(), limits, invoke)
    caller = Caller("ann", "s1", "c1")
    for n in range(MESSAGES):
        for name, running in engines.items():
            message = said(n)
            began = time.thread_time()
            say(running, caller, message)
            whole[name].append(time.thread_time() - began)
    for what, times in (("until the invoke", until_invoke), ("to the end", whole)):
        off, on = (statistics.median(times[name]) * 1000 for name in ("off", "on"))
        print(f"user_message {what}: p50 {off:.2f} ms without quotas, {on:.2f} ms with them: {on - off:+.2f} ms")


def said(n: int) -> UserMessage:
    return UserMessage(type="user_message", content="hello", client_msg_id=f"m{n}")


def say(running: Engine, caller: Caller, message: UserMessage) -> None:
    running.handle(messages.user_message, message, caller)


# -- fifty sessions -------------------------------------------------------------------------------------------------


class Table:
    """A table in memory with what sessions need, with latencies, and with DynamoDB's conflicts."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, Any]] = {}
        self._one = threading.Lock()
        self._writing: set[str] = set()
        self.counts: Counter[str] = Counter()

    def get_item(self, **given: Any) -> Any:
        return self._read("get_item", lambda: {"Item": found} if (found := self._items.get(_key(given))) else {})

    def batch_get_item(self, *, RequestItems: Any) -> Any:  # noqa: N803
        keys = [_key({"Key": key}) for key in RequestItems["Table"]["Keys"]]
        found = self._read("batch_get_item", lambda: [self._items[key] for key in keys if key in self._items])
        return {"Responses": {"Table": found}}

    def _read(self, name: str, look: Callable[[], Any]) -> Any:
        time.sleep(SLOWLY * READ_S)
        with self._one:
            self.counts[name] += 1
            return look()

    def update_item(self, **given: Any) -> Any:
        self._write("update_item", [{"Update": given}])

    def transact_write_items(self, *, TransactItems: Any, **_: Any) -> Any:  # noqa: N803
        self._write("transact_write_items", TransactItems)

    def _write(self, name: str, writes: list[dict[str, Any]]) -> None:
        parts = [(kind, part) for write in writes for kind, part in write.items()]
        keys = {_key(part) for _, part in parts}
        with self._one:
            self.counts[name] += 1
            if keys & self._writing:
                self.counts["conflicts"] += 1
                raise _cancelled(
                    ["TransactionConflict" if _key(part) in self._writing else "None" for _, part in parts]
                )
            transacted = keys if name == "transact_write_items" else set()
            self._writing |= transacted  # single writes wait for each other and are never refused
        time.sleep(SLOWLY * WRITE_S)
        with self._one:
            self._writing -= transacted
            holds = [_holds(part, self._items.get(_key(part))) for _, part in parts]
            if not all(holds):
                raise _cancelled(["None" if held else "ConditionalCheckFailed" for held in holds])
            for kind, part in parts:
                self._apply(kind, part)

    def _apply(self, kind: str, part: dict[str, Any]) -> None:
        if kind == "Put":
            self._items[_key(part)] = part["Item"]
        elif kind == "Delete":
            self._items.pop(_key(part), None)
        elif kind == "Update":
            item = self._items.setdefault(_key(part), dict(part["Key"]))
            names, values = part.get("ExpressionAttributeNames", {}), part["ExpressionAttributeValues"]
            for clause, body in re.findall(
                r"(SET|REMOVE|ADD) (.*?)(?= SET | REMOVE | ADD |$)", part["UpdateExpression"]
            ):
                for words in (change.replace("=", " ").split() for change in body.split(",")):
                    name = names.get(words[0], words[0])
                    if clause == "REMOVE":
                        item.pop(name, None)
                    elif clause == "SET":
                        item[name] = values[words[1]]
                    else:
                        item[name] = {"N": str(int(item.get(name, {"N": 0})["N"]) + int(values[words[1]]["N"]))}


def _key(part: dict[str, Any]) -> str:
    """The key that a part of a transaction writes."""
    at = part["Item"] if "Item" in part else part["Key"]
    return f"{at['pk']['S']} {at['sk']['S']}"


def _holds(part: dict[str, Any], item: dict[str, Any] | None) -> bool:
    """Whether one of the alternatives of the condition is true."""
    names, values = part.get("ExpressionAttributeNames", {}), part.get("ExpressionAttributeValues", {})
    for term in part.get("ConditionExpression", "attribute_exists(any)").strip("()").split(" OR "):
        if term.startswith("attribute_not_exists"):
            name = term.partition("(")[2].rstrip(")")
            if item is None or names.get(name, name) not in item:
                return True
        elif term.startswith("attribute_exists"):
            return True
        elif item is not None:
            name, operator, value = term.split()
            ((mine,), (theirs,)) = item[names.get(name, name)].values(), values[value].values()
            if {"=": mine == theirs, "<>": mine != theirs}.get(operator) or (
                operator == "<=" and int(mine) <= int(theirs)
            ):
                return True
    return False


def _cancelled(codes: list[str]) -> AwsRefused:
    return AwsRefused("TransactWriteItems", "TransactionCanceledException", reasons=codes)


def fifty_sessions(name: str, limits: dict[str, str]) -> None:
    table = Table()
    running = engine(table, limits, lambda *_: time.sleep(SLOWLY * INVOKE_S))
    taken = 0
    commit = running.store.commit

    def counted(transition: Any, on_wait: Any = None) -> None:
        nonlocal taken
        try:
            commit(transition, on_wait)
        except SlotTaken:
            taken += 1
            raise

    running.store.commit = counted  # type: ignore[method-assign]
    callers = [Caller("ann", f"s{n}", "") for n in range(SESSIONS)]
    for caller in callers:
        running.handle(lifecycle.create, CreateSession("ann", {}), caller)
    begins: list[float] = []
    ends: list[float] = []
    table.counts.clear()
    gate = threading.Barrier(SESSIONS)

    def talk(caller: Caller) -> None:
        for n in range(ROUNDS):
            gate.wait()
            began = time.perf_counter()
            say(running, caller, said(n))
            begins.append((time.perf_counter() - began) / SLOWLY)
            gate.wait()
            began = time.perf_counter()
            running.handle(cancel.cancel, Cancel(type="cancel"), caller)
            ends.append((time.perf_counter() - began) / SLOWLY)

    with ThreadPoolExecutor(SESSIONS) as pool:
        list(pool.map(talk, callers))
    print(f"{SESSIONS * ROUNDS} turns of {SESSIONS} sessions of one user, {name}:")
    print(f"  begin {summary(begins)}; end {summary(ends)}")
    print(f"  {table.counts['conflicts']} conflicts, {taken} slots that were taken meanwhile; {_told(table.counts)}")


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if name != "conflicts")


def main() -> None:
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_DEFAULT_REGION=REGION)
    one_message()
    for name, limits in (("without quotas", OFF), ("with quotas", ON)):
        fifty_sessions(name, limits)


if __name__ == "__main__":
    main()
