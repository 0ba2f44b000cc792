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
from tests.faults.player import START, Player
from tests.faults.stage import Stage
from tests.golden.names import lines
from tests.quotas import USUAL

#: Attributes whose values have fixed names in them. The names in others are ids and what users and models say.
_WITH_NAMES = frozenset({"decision", "settings", "usage"})


def names() -> str:
    """All names, sorted, one a line."""
    items: list[Mapping[str, Any]] = []
    objects: set[str] = set()
    with Stage(**USUAL, METRICS="true", LOG_LEVEL="INFO") as stage:
        for conversation in CONVERSATIONS:
            player = Player(stage, conversation)
            player.play()
            moments = [*((it.items, it.objects) for it in player.snapshots), (stage.items(), stage.objects())]
            items += [item for stored, _ in moments for item in stored]
            objects.update(key for _, kept in moments for key in kept)
        _revoke(stage)
        items += stage.items()
        log = stage.log()
    return lines(of_items(items), of_objects(objects), of_log(log))


def _revoke(stage: Stage) -> None:
    """Revoke the tokens of a user without connections: this stage cannot close any."""
    with stage.worker() as worker:
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
