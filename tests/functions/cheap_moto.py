"""moto's DynamoDB with the same answers for a fraction of the work, which grows with the table as it stands.

To be able to undo a transaction it copies the whole table, item by item; of every attribute it sends it tries each
type under a handful of names; and it copies an update's expression and walks it ten times, with work at each node that
grows with it.
"""

import copy
from collections import defaultdict
from typing import Any

import pytest
from botocore.hooks import EventAliaser
from moto.core.model import StructureShape
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing.ast_nodes import DepthFirstTraverser, Node  # type: ignore[attr-defined]
from moto.dynamodb.parsing.validators import ActionCountValidator

_COPY_ALIASER = EventAliaser.__copy__
_UPDATE_ITEM = DynamoDBBackend.update_item
_SERIALIZE_STRUCTURE = BaseJSONSerializer._serialize_type_structure


def cheapen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "__deepcopy__", _with_the_same_items, raising=False)
    monkeypatch.setattr(DynamoDBBackend, "update_item", _update_a_copy)
    monkeypatch.setattr(BaseJSONSerializer, "_serialize_type_structure", _serialize_structure)
    # For `requests`, which nobody uses here, it registers a thousand addresses in each test.
    monkeypatch.setattr("moto.core.models.RESPONSES_METHODS", ())
    monkeypatch.setattr(EventAliaser, "__copy__", _with_the_same_names)
    monkeypatch.setattr(Node, "__deepcopy__", _copy_node, raising=False)
    monkeypatch.setattr(DepthFirstTraverser, "traverse", _traverse)
    monkeypatch.setattr(ActionCountValidator, "traverse", ActionCountValidator.verify_action_counts)


def _with_the_same_names(aliaser: Any) -> Any:
    """Every client has a copy, and would work out anew what each event is called."""
    made: Any = _COPY_ALIASER(aliaser)
    made._alias_name_cache = aliaser._alias_name_cache
    return made


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


def _copy_node(node: Any, memo: dict[int, Any]) -> Any:
    """A parsed expression, without the general search for parts that are used twice: it is a tree."""
    made = object.__new__(type(node))
    made.__dict__.update(node.__dict__, parent=None)
    if node.children is not None:
        made.children = [copy.deepcopy(child, memo) for child in node.children]
        for child in made.children:
            if isinstance(child, Node):
                child.set_parent(made)
    return made


def _traverse(traverser: DepthFirstTraverser, root: Node) -> Node:
    """What a kind of node is processed by, which moto finds out at every node, is the same in the whole tree.

    (Clauses are counted from the root alone: a part of the tree has no more of them.)
    """
    processing = traverser._processing_map().items()
    by_kind: dict[type, Any] = {}

    def visit(node: Any, place: int) -> Any:
        if not isinstance(node, Node):
            return node
        parent = node.parent
        for n, child in enumerate(node.children or ()):
            traverser.pre_processing_of_child(node, n)
            visit(child, n)
        kind = type(node)
        if kind not in by_kind:
            by_kind[kind] = next((process for known, process in processing if issubclass(kind, known)), None)
        if (process := by_kind[kind]) is not None:
            node = process(node)
            node.parent = parent
            if parent:
                parent.children[place] = node
        return node

    return visit(root, -1)
