"""The names that whole conversations put into the table, the bucket and the log, as they are found there.

They cannot be right by the same mistake as those that are derived from the code (`tests.golden.names`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codelab.sessions.dynamodb.values import from_dynamodb

from infra.observability.queries import QUERIES
from tests.faults.conversations import CONVERSATIONS
from tests.faults.functions import Order
from tests.faults.player import START, Player, Snapshot
from tests.faults.stage import Stage
from tests.golden.names import lines
from tests.quotas import USUAL

#: Attributes whose values have fixed names in them. The names in others are ids and what users and models say.
_WITH_NAMES = frozenset({"decision", "settings", "usage"})


def names() -> str:
    """All names, sorted, one a line."""
    with stage() as played_on:
        moments = Moments()
        for conversation in CONVERSATIONS:
            player = Player(played_on, conversation)
            player.play()
            moments.add(player.snapshots, played_on)
        return moments.names(played_on)


def stage() -> Stage:
    """One whose functions store and log all that they can."""
    return Stage(**USUAL, METRICS="true", LOG_LEVEL="INFO")


class Moments:
    """What is stored at each moment of the conversations that are played one after the other."""

    def __init__(self) -> None:
        self._items: list[Mapping[str, Any]] = []
        self._objects: set[str] = set()

    def add(self, snapshots: Iterable[Snapshot], played_on: Stage) -> None:
        """Those of a conversation that has just come to its end."""
        moments = [*((it.items, it.objects) for it in snapshots), (played_on.items(), played_on.objects())]
        self._items += [item for stored, _ in moments for item in stored]
        self._objects.update(key for _, kept in moments for key in kept)

    def names(self, played_on: Stage) -> str:
        """Of all of them and what was logged, sorted, one a line. A user's tokens are revoked at last."""
        _revoke(played_on)
        self._items += played_on.items()
        return lines(of_items(self._items), of_objects(self._objects), of_log(played_on.log()))


def _revoke(played_on: Stage) -> None:
    """Revoke the tokens of a user without connections: this stage cannot close any."""
    with played_on.worker() as worker:
        worker.send(Order("sweep", {"kind": "revoke", "user": "bob"}, START, None, {}))
        while (message := worker.recv())[0] not in ("done", "failed"):
            pass
    assert message[0] == "done", message


def of_items(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The attributes of items as DynamoDB writes them, with their types."""
    for stored in items:
        item = from_dynamodb(dict(stored))
        where = f"{_form(item['pk'])} {_form(item['sk'])}"
        for name, value in stored.items():
            attribute = re.sub(r"([#@]).+", r"\1*", name)
            (kind,) = value
            yield f"played {where} {attribute} {kind}"
            if name in _WITH_NAMES:
                within = json.loads(item[name]) if isinstance(item[name], str) else item[name]
                yield from (f"played {where} {attribute}.{inner}" for inner in within)


def _form(key: str) -> str:
    """The form of a key: its first part, and 0 for each digit of a number with zeros before it, * for anything else."""
    kind, *parts = key.split("#")
    return "#".join([kind, *("0" * len(it) if re.fullmatch(r"0\d{5,}", it) else "*" for it in parts)])


def of_objects(object_keys: Iterable[str]) -> Iterator[str]:
    """The forms of the keys of objects in the bucket."""
    for key in object_keys:
        kind, *parts = key.split("/")
        yield f"played object {'/'.join([kind, *('*' for _ in parts)])}"


def of_log(log: str) -> Iterator[str]:
    """The messages that saved queries select with their fields, and the metrics of all lines with their dimensions."""
    selected = "".join(query.text for query in QUERIES)
    for line in [json.loads(text) for text in log.splitlines() if text.startswith("{")]:
        if f'"{line["message"]}"' in selected:
            yield from (f"played log {line['message']}: {name}" for name in line)
        for declared in line.get("_aws", {}).get("CloudWatchMetrics", ()):
            for metric in declared["Metrics"]:
                dimensions = " ".join(",".join(one) for one in declared["Dimensions"])
                yield f"played metric {declared['Namespace']} {metric['Name']} {metric['Unit']} {dimensions}"
