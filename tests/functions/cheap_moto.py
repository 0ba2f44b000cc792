"""moto's DynamoDB with the same answers for a fraction of the work, which grows with the table as it stands.

To be able to undo a transaction it copies the whole table, item by item, and of every attribute it sends it tries each
type under a handful of names.
"""

import copy
from collections import defaultdict
from typing import Any

import pytest
from moto.core.model import StructureShape
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table

_UPDATE_ITEM = DynamoDBBackend.update_item
_SERIALIZE_STRUCTURE = BaseJSONSerializer._serialize_type_structure


def cheapen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "__deepcopy__", _with_the_same_items, raising=False)
    monkeypatch.setattr(DynamoDBBackend, "update_item", _update_a_copy)
    monkeypatch.setattr(BaseJSONSerializer, "_serialize_type_structure", _serialize_structure)


def _with_the_same_items(table: Table, memo: dict[int, Any]) -> Table:
    """What a transaction is undone with. Puts and deletes change the dictionaries alone; for updates see below."""
    kept = copy.copy(table)
    kept.items = defaultdict(dict, {pk: dict(items) for pk, items in table.items.items()})
    return kept


def _update_a_copy(backend: DynamoDBBackend, table_name: str, key: dict[str, Any], *rest: Any, **named: Any) -> Any:
    """moto updates items in place, which a table that shares them would show."""
    table = backend.get_table(table_name)
    pk, sk = (DynamoType(key[str(name)]) for name in (table.hash_key_attr, table.range_key_attr))
    if (item := table.get_item(pk, sk)) is not None:
        table.items[pk][sk] = copy.deepcopy(item)
    return _UPDATE_ITEM(backend, table_name, key, *rest, **named)


def _serialize_structure(
    serializer: BaseJSONSerializer, serialized: Any, value: Any, shape: StructureShape, key: str
) -> None:
    """Of an attribute's value, which is one of ten types, the one that it has: `{"S": "text"}`."""
    if shape.name != "AttributeValue" or not isinstance(value, dict):
        return _SERIALIZE_STRUCTURE(serializer, serialized, value, shape, key)
    wrapper: dict[str, Any] = {}
    for kind, given in value.items():
        serializer._serialize(wrapper, given, shape.members[kind], kind)
    return serializer._default_serialize(serialized, wrapper, shape, key)
