"""The inverse of the codec, for tests and benchmarks: the strict form of an original instance.

The encoder only builds forms. Whether a form is right is for the codec to say: `decode` must restore the instance from
it, and the strict schema must accept it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from codelab.llm.schema.codec import Codec
from codelab.llm.schema.containers import ENTRIES, Array, Boxed, Entries, Object, Tuple
from codelab.llm.schema.nodes import (
    JsonText,
    Labels,
    Link,
    Mismatch,
    Node,
    Null,
    NullText,
    Plain,
    Union,
    identity,
    label,
    strict_validator,
)


class NotEncodable(Exception):
    """An original instance has no strict form."""


def encode(codec: Codec, instance: Any, original: Any = None) -> Any:
    """The strict form that decodes to an instance, with keys in the order of the schema. Raises NotEncodable.

    The decoded form may lack the nulls of optional properties, unless `original`, the validator of the original schema,
    accepts the instance only with them.
    """
    if codec._node is None:
        return instance
    strict = _form(codec._node, instance)
    if codec.is_wrapped:
        strict = {"value": strict}
    if not strict_validator(codec.schema).is_valid(strict):
        raise NotEncodable
    restored = codec.decode(strict)
    if identity(restored) != identity(instance) and (
        not same_but_for_nulls(restored, instance)
        or (original is not None and original.is_valid(instance) and not original.is_valid(restored))
    ):
        raise NotEncodable
    return strict


def same_but_for_nulls(one: Any, other: Any) -> bool:
    """Whether two values are equal if null and absent properties count as the same."""
    return bool(identity(_without_nulls(one)) == identity(_without_nulls(other)))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(found) for name, found in value.items() if found is not None}
    return [_without_nulls(found) for found in value] if isinstance(value, list) else value


def _form(node: Node | None, value: Any) -> Any:
    match node:
        case Link():
            return _form(node.node, value)
        case Union():
            return _first((branch for _, branch in node.branches), value, node)
        case Plain() | Null():
            return value
        case NullText() if value is None:
            return "null"
        case JsonText():
            return label(value)
        case Labels() if any(same := [text for text in node.labels if identity(json.loads(text)) == identity(value)]):
            return same[0]
        case Boxed():
            return {ENTRIES: _form(node.inner, value)}
        case Array() if isinstance(value, list):
            return [_form(node.item, item) for item in value]
        case Tuple() if isinstance(value, list):
            size = len(node.items)
            pairs = zip(node.items, value, strict=False)
            out: dict[str, Any] = {str(index): None for index in range(size)}
            out |= {str(index): _form(item, part) for index, (item, part) in enumerate(pairs)}
            if node.rest_node is not None:
                out["rest"] = _form(node.rest_node, value[size:])
            return out
        case Entries() if isinstance(value, dict):
            return [_entry(node, key, item) for key, item in value.items()]
        case Object() if isinstance(value, dict):
            return _properties(node, value)
    raise NotEncodable


def _properties(node: Object, value: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for field in node.fields:
        if field.name not in value and not field.optional:
            raise NotEncodable
        out[field.name] = _form(field.node, value[field.name]) if field.name in value else None
    more = {key: item for key, item in value.items() if key not in node.names}
    if node.extra is not None:
        out[node.extra_name] = _form(node.extra, more)
    elif more:
        raise NotEncodable
    return out


def _entry(node: Entries, key: str, value: Any) -> dict[str, Any]:
    kinds = (kind.node for kind in node.kinds if kind.matches is None or kind.matches(key))
    return {"key": key, "value": _first(kinds, value)}


def _first(nodes: Iterable[Node], value: Any, union: Node | None = None) -> Any:
    """The first node's form from which it (or the union) restores the value: exactly, or else but for nulls."""
    nearly = []
    for node in nodes:
        try:
            strict = _form(node, value)
            restored = (union or node).decode(strict, True, {})
        except (NotEncodable, Mismatch):
            continue
        if identity(restored) == identity(value):
            return strict
        if same_but_for_nulls(restored, value):
            nearly.append(strict)
    if not nearly:
        raise NotEncodable
    return nearly[0]
