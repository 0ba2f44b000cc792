"""What the calls of an event use of what AWS charges for: request units of DynamoDB, messages, objects, bytes.

The units follow "Read and write operations" of the DynamoDB Developer Guide, from the items as they are before and
after each call. moto reports none that depend on the items.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import pytest
from codelab.aws.connections import Answer
from codelab.aws.signing import Request
from codelab.observability import logger
from moto.core import DEFAULT_ACCOUNT_ID  # type: ignore[attr-defined]
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType

from tests.fakes.aws import recorder
from tests.fakes.aws.calls import operation_of
from tests.functions.system import System
from tests.functions.template import REGION

#: Bytes of an item that one unit reads or writes, and of a message that counts as one.
READ_BYTES, WRITE_BYTES, MESSAGE_BYTES = 4096, 1024, 32 * 1024
#: What AWS adds to an item when it charges for its storage.
STORED_OVERHEAD = 100

Item = Mapping[str, Any]


@dataclass(slots=True)
class Usage:
    """`messages` are the posts in units of 32 KB, `sent` and `logged` bytes; `kept` bytes of items for good, `passing`
    of items with a time to live."""

    reads: float = 0
    writes: float = 0
    messages: int = 0
    sent: int = 0
    logged: int = 0
    kept: int = 0
    passing: int = 0
    objects_read: int = 0
    objects_written: int = 0
    calls: dict[str, int] = field(default_factory=dict)


class Capacity:
    """Sees what the functions of `system` use."""

    def __init__(
        self, system: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, indexes: list[Any]
    ) -> None:
        """`indexes` are those of the table, as CreateTable takes them."""
        self._system = system
        self._caplog = caplog
        self._indexes = [_projection(index) for index in indexes]
        self._usage = Usage()
        self._answer, self._post = recorder.moto, system.aws.post
        monkeypatch.setattr(recorder, "moto", self._answered)
        monkeypatch.setattr(system.aws, "post", self._posted)

    @contextmanager
    def counted(self) -> Iterator[Usage]:
        """What one event uses; complete when the block has ended."""
        self._caplog.clear()
        self._usage = Usage()
        yield self._usage
        self._system.aws.settle()
        usage, calls = self._usage, self._system.aws.calls
        written = logger().registered_formatter.format
        usage.logged = sum(len(written(line).encode()) + 1 for line in self._caplog.records)
        usage.objects_read, usage.objects_written = calls.count("GetObject"), calls.count("PutObject")
        usage.calls = {name: calls.count(name) for name in sorted(set(calls))}

    def _posted(self, connection_id: str, data: bytes) -> int:
        self._usage.messages += ceil(len(data) / MESSAGE_BYTES)
        self._usage.sent += len(data)
        return self._post(connection_id, data)

    def _answered(self, request: Request) -> Answer:
        """moto's answer, counted."""
        operation, body = operation_of(request), json.loads(request.body)
        match operation:
            case "GetItem":
                answer = self._answer(request)
                self._read([json.loads(answer.body).get("Item", {})], body)
            case "BatchGetItem":
                answer = self._answer(request)
                ((table, wanted),) = body["RequestItems"].items()
                found = json.loads(answer.body)["Responses"].get(table, [])
                self._read([*found, *[{}] * (len(wanted["Keys"]) - len(found))], wanted)
            case "Query":
                answer = self._answer(request)
                size = sum(map(size_of, json.loads(answer.body)["Items"]))
                self._usage.reads += _units(size, READ_BYTES) * (1 if body.get("ConsistentRead") else 0.5)
            case "TransactWriteItems":
                written = [(kind, part[kind]) for part in body["TransactItems"] for kind in part]
                answer = self._writing(request, written, twice=True)
            case "GetSecretValue":
                answer = self._answer(request)
            case _:
                answer = self._writing(request, [(operation, body)], twice=False)
        return answer

    def _read(self, items: list[Item], asked: Mapping[str, Any]) -> None:
        share = 1 if asked.get("ConsistentRead") else 0.5
        self._usage.reads += sum(_units(size_of(item), READ_BYTES) for item in items) * share

    def _writing(self, request: Request, written: list[tuple[str, Item]], *, twice: bool) -> Answer:
        keys = [_key(kind, part) for kind, part in written]
        before = [self._item(key) for key in keys]
        answer = self._answer(request)
        for key, old in zip(keys, before, strict=True):
            new = self._item(key)
            largest = max(size_of(old), size_of(new))
            self._usage.writes += _units(largest, WRITE_BYTES) * (2 if twice else 1)
            self._usage.writes += sum(_index_writes(old, new, projected) for projected in self._indexes)
            self._store(old, -1)
            self._store(new, 1)
        return answer

    def _store(self, item: Item, sign: int) -> None:
        if not item:
            return
        size = sign * (size_of(item) + STORED_OVERHEAD)
        if "ttl" in item:
            self._usage.passing += size
        else:
            self._usage.kept += size

    def _item(self, key: Item) -> Item:
        """From moto's own tables: a call for each item took half of the time."""
        found = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].get_item("Table", dict(key))
        return {} if found is None else {name: _plain(value) for name, value in found.attrs.items()}


def _plain(value: DynamoType) -> dict[str, Any]:
    """The value as DynamoDB's JSON has it, and as it is now."""
    given = value.value
    if value.type == "M":
        given = {name: _plain(one) for name, one in given.items()}
    elif value.type == "L":
        given = [_plain(one) for one in given]
    return {value.type: given}


def size_of(item: Item) -> int:
    """The bytes of an item, by "Item sizes and formats"; a number is taken to have no zeros at its ends."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, Any]) -> int:
    ((kind, given),) = value.items()
    match kind:
        case "S":
            return len(given.encode())
        case "N":
            return ceil(len(given) / 2) + 1
        case "M":
            return 3 + sum(len(name.encode()) + 1 + _value_size(one) for name, one in given.items())
        case "L":
            return 3 + sum(1 + _value_size(one) for one in given)
        case "SS":
            return sum(len(one.encode()) for one in given)
        case "BOOL" | "NULL":
            return 1
    raise ValueError(f"an attribute of the type {kind}")


def _units(size: int, unit: int) -> int:
    return max(1, ceil(size / unit))


def _key(kind: str, part: Item) -> dict[str, Any]:
    whole = part["Item"] if kind in ("Put", "PutItem") else part["Key"]
    return {"pk": whole["pk"], "sk": whole["sk"]}


def _projection(index: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The key of an index, and all that it projects of an item."""
    key = [part["AttributeName"] for part in index["KeySchema"]]
    return key, ["pk", "sk", *key, *index["Projection"].get("NonKeyAttributes", [])]


def _index_writes(old: Item, new: Item, projected: tuple[list[str], list[str]]) -> int:
    """An entry that comes, goes or changes is one write, one that moves to another key two."""
    key, names = projected
    was, stays = (all(name in item for name in key) for item in (old, new))
    if not (was or stays):
        return 0
    if was and stays:
        if all(old.get(name) == new.get(name) for name in names):
            return 0
        return 1 if all(old[name] == new[name] for name in key) else 2
    return 1
