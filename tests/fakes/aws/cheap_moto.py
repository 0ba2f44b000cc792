"""moto's DynamoDB with the same answers for a fraction of the work, which grows with the table as it stands.

To be able to undo a transaction it copies the whole table, item by item; of every attribute it sends it tries each
type under a handful of names; it parses an update's expression twice, copies it and walks it ten times, with work at
each node that grows with it; it parses a condition anew for each item; with every attribute of an item it measures
all the others; and with every call it looks for the service that has the address, among all of AWS's, and for the
operations that it knows.
"""

import copy
import functools
from collections import defaultdict
from typing import Any, NamedTuple

import pytest
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.model import StructureShape
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.parse import BaseJSONParser
from moto.core.serialize import BaseJSONSerializer
from moto.core.utils import method_names_from_class
from moto.dynamodb.comparisons import ConditionExpressionParser, Operand
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing.ast_nodes import (  # type: ignore[attr-defined]
    DDBTypedValue,
    DepthFirstTraverser,
    ExpressionAttributeValue,
    Node,
    UpdateExpressionPath,
)
from moto.dynamodb.parsing.expressions import UpdateExpressionParser  # type: ignore[attr-defined]
from moto.dynamodb.parsing.validators import (
    ActionCountValidator,
    NoneExistingPathChecker,
    OverlappingPathsValidator,
)
from moto.dynamodb.responses import DynamoHandler

#: The types of an attribute whose values are JSON's own.
_AS_SENT = {"S", "N", "BOOL", "NULL", "SS", "NS"}

_PROCESS_REQUEST = BotocoreStubber.process_request
_PARSE_STRUCTURE: Any = BaseJSONParser._parse_structure
_UPDATE_ITEM = DynamoDBBackend.update_item
_SERIALIZE_STRUCTURE = BaseJSONSerializer._serialize_type_structure
_CHECK_SIZE = LimitedSizeDict.__setitem__
_PARSE_CONDITION = ConditionExpressionParser.parse
_MAKE_OPERAND = ConditionExpressionParser._make_operand
_PARSE_UPDATE = UpdateExpressionParser.make
_METHOD_NAMES = functools.cache(method_names_from_class)


def cheapen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BotocoreStubber, "process_request", _process_request)
    monkeypatch.setattr(BaseJSONParser, "_parse_structure", _parse_structure)
    monkeypatch.setattr(Table, "__deepcopy__", _with_the_same_items, raising=False)
    monkeypatch.setattr(DynamoDBBackend, "update_item", _update_a_copy)
    monkeypatch.setattr(BaseJSONSerializer, "_serialize_type_structure", _serialize_structure)
    # For `requests`, which nobody uses here, it registers a thousand addresses in each test.
    monkeypatch.setattr("moto.core.models.RESPONSES_METHODS", ())
    monkeypatch.setattr(Node, "__deepcopy__", _copy_node, raising=False)
    monkeypatch.setattr(DepthFirstTraverser, "traverse", _traverse)
    monkeypatch.setattr(ActionCountValidator, "traverse", ActionCountValidator.verify_action_counts)
    monkeypatch.setattr(OverlappingPathsValidator, "traverse", OverlappingPathsValidator.check_for_overlapping_paths)
    monkeypatch.setattr(UpdateExpressionParser, "make", staticmethod(_parse_update))
    monkeypatch.setattr(ConditionExpressionParser, "parse", _parse_condition)
    monkeypatch.setattr(ConditionExpressionParser, "_make_operand", _make_operand)
    monkeypatch.setattr("moto.core.responses.method_names_from_class", _METHOD_NAMES)
    monkeypatch.setattr(LimitedSizeDict, "__setitem__", _set_attribute)


@functools.lru_cache(maxsize=1000)
def _parse_update(expression: str) -> Node:
    """Nobody changes a parsed expression: a validator works on a copy."""
    tree = _PARSE_UPDATE(expression)
    _kinds_in(tree)
    return tree


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


class _Request(NamedTuple):
    """What moto asks of a request of DynamoDB."""

    method: str
    data: bytes
    headers: dict[str, str]
    values: tuple[()] = ()
    path: str = "/"
    content_type: str = "application/x-amz-json-1.0"


def _process_request(stubber: BotocoreStubber, request: Any) -> Any:
    """DynamoDB has one address, `https://dynamodb.REGION.amazonaws.com`, and requests with a body and headers only."""
    if not request.url.startswith("https://dynamodb."):
        return _PROCESS_REQUEST(stubber, request)
    handler: Any = DynamoHandler()
    handler.headers = {
        name.lower(): value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()
    }
    handler.querystring, handler.uri_match, handler.response_headers = {}, {}, {"server": "amazon.com"}
    handler.method, handler.path, handler.uri = request.method, "/", request.url
    handler.region = request.url.split(".")[1]
    handler.current_account = DEFAULT_ACCOUNT_ID
    handler.parse_parameters(_Request(request.method, request.body, handler.headers))
    return handler.call_action()


def _parse_structure(parser: BaseJSONParser, shape: StructureShape, value: Any) -> Any:
    if shape.name == "AttributeValue" and value.keys() <= _AS_SENT:
        return value
    return _PARSE_STRUCTURE(parser, shape, value)


def _serialize_structure(
    serializer: BaseJSONSerializer, serialized: Any, value: Any, shape: StructureShape, key: str
) -> None:
    """Of an attribute's value, which is one of ten types, the one that it has: `{"S": "text"}`."""
    if shape.name != "AttributeValue" or not isinstance(value, dict):
        return _SERIALIZE_STRUCTURE(serializer, serialized, value, shape, key)
    if value.keys() <= _AS_SENT:
        return serializer._default_serialize(serialized, value, shape, key)
    wrapper: dict[str, Any] = {}
    for kind, given in value.items():
        serializer._serialize(wrapper, given, shape.members[kind], kind)
    return serializer._default_serialize(serialized, wrapper, shape, key)


class _Tree(ConditionExpressionParser):
    """Parses a condition without the values of a call, as far as moto's tree of tokens."""

    def _lookup_expression_attribute_value(self, name: str) -> Any:
        return None

    def _make_op_condition(self, node: Any) -> Any:
        return node


@functools.lru_cache(maxsize=1000)
def _tree(expression: str, names: tuple[tuple[str, str], ...]) -> tuple[Any, _Tree]:
    """The tree, and the parser that knows which names and values it found. Nobody changes either."""
    parser = _Tree(expression, dict(names), None)
    return _PARSE_CONDITION(parser), parser


def _parse_condition(parser: ConditionExpressionParser) -> Any:
    """Conditions are few, the values that they compare with are many."""
    if not parser.condition_expression:
        return _PARSE_CONDITION(parser)
    node, parsed = _tree(parser.condition_expression, tuple((parser.expression_attribute_names or {}).items()))
    parser.expr_attr_names_found.extend(parsed.expr_attr_names_found)
    parser.expr_attr_values_found.extend(parsed.expr_attr_values_found)
    return parser._make_op_condition(node)


def _make_operand(parser: ConditionExpressionParser, node: Any) -> Operand:
    """With the value of this call, which the tree lacks."""
    if node.kind == parser.Kind.EXPRESSION_ATTRIBUTE_VALUE:
        node = node._replace(value=parser._lookup_expression_attribute_value(node.text))
    return _MAKE_OPERAND(parser, node)


def _set_attribute(attributes: LimitedSizeDict, name: str, value: Any) -> None:
    """Measures an item only at first, and when what was set since then may be too much."""
    kept = attributes.__dict__
    if "bound" not in kept:
        kept["bound"] = sum(_size(*pair) for pair in attributes.items())
    kept["bound"] += _size(name, value)
    if kept["bound"] < 400_000:
        return dict.__setitem__(attributes, name, value)
    del kept["bound"]
    return _CHECK_SIZE(attributes, name, value)


def _size(name: str, value: Any) -> int:
    return 4 * len(name) + (value.size() if type(value) is DynamoType else 4 * len(str(value)))


class _Kinds(dict[type, bool]):
    """Which classes are nodes: `isinstance` of an abstract class is slow."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, Node)
        return self[kind]


_is_node = _Kinds().__getitem__


#: A traverser processes them or leaves them, with all that is in them.
_WHOLE = {UpdateExpressionPath, ExpressionAttributeValue, DDBTypedValue}


def _kinds_in(node: Any) -> frozenset[type]:
    """The classes of a node as it was parsed, of all below it, and their bases. Copies of the node know them, too."""
    kept: dict[str, Any] = node.__dict__
    if "kinds" not in kept:
        below = [child for child in node.children or () if _is_node(type(child))] if type(node) not in _WHOLE else []
        kept["kinds"] = frozenset(type(node).__mro__).union(*map(_kinds_in, below))
    known: frozenset[type] = kept["kinds"]
    return known


def _copy_node(node: Any, memo: dict[int, Any]) -> Any:
    """A parsed expression, without the general search for parts that are used twice: it is a tree."""
    made = object.__new__(type(node))
    made.__dict__.update(node.__dict__, parent=None)
    if node.children is not None:
        made.children = children = []
        for child in node.children:
            if _is_node(type(child)):
                child = _copy_node(child, memo)
                child.parent = made
            elif type(child) is not str:
                child = copy.deepcopy(child, memo)
            children.append(child)
    return made


def _traverse(traverser: DepthFirstTraverser, root: Node) -> Node:
    """What a kind of node is processed by, which moto finds out at every node, is the same in the whole tree.

    Nothing that is processed is below a path or a value, and it goes nowhere else where it would process nothing.
    (Clauses are counted and compared from the root alone: a part of the tree has no more of them.)
    """
    processing = traverser._processing_map().items()
    by_kind: dict[type, Any] = {}
    is_prepared = type(traverser).pre_processing_of_child is not DepthFirstTraverser.pre_processing_of_child
    wanted = {kind for kind, _ in processing}
    if isinstance(traverser, NoneExistingPathChecker):
        wanted.add(UpdateExpressionPath)  # What it looks for stands where one was.

    def visit(node: Any, place: int) -> Any:
        parent = node.parent
        kind = type(node)
        if kind not in _WHOLE:
            for n, child in enumerate(node.children or ()):
                if is_prepared:
                    traverser.pre_processing_of_child(node, n)
                if _is_node(type(child)) and not wanted.isdisjoint(_kinds_in(child)):
                    visit(child, n)
        if kind not in by_kind:
            by_kind[kind] = next((process for known, process in processing if issubclass(kind, known)), None)
        if (process := by_kind[kind]) is not None:
            node = process(node)
            node.parent = parent
            if parent:
                parent.children[place] = node
        return node

    return visit(root, -1)
