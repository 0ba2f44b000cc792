"""The nodes of arrays and objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codelab.llm.schema.nodes import JsonText, Memo, Mismatch, Node


class Array(Node):
    """An array whose items have one form."""

    __slots__ = ("item", "max_count", "min_count")

    def __init__(self, item: Node, min_count: int = 0, max_count: int | None = None) -> None:
        self.item = item
        self.min_count = min_count
        self.max_count = max_count

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if not isinstance(value, list):
            if exact:
                raise Mismatch
            return value
        if exact and _wrong_count(len(value), self.min_count, self.max_count):
            raise Mismatch
        decode = self.item.decode
        return [decode(item, exact, memo) for item in value]


def _wrong_count(count: int, min_count: int, max_count: int | None) -> bool:
    return count < min_count or (max_count is not None and count > max_count)


class Tuple(Node):
    """An array whose positions differ, as an object with the positions as keys. rest_node: of the items after them."""

    __slots__ = ("items", "min_count", "rest_node")

    def __init__(self, items: list[Node], min_count: int, rest_node: Node | None) -> None:
        self.items = items
        self.min_count = min_count
        self.rest_node = rest_node

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        size = len(self.items)
        if not isinstance(value, dict) or (exact and len(value) != size + (self.rest_node is not None)):
            if exact:
                raise Mismatch
            return value
        if not exact and not any(str(index) in value for index in range(size)) and "rest" not in value:
            return value
        items: list[Any] = []
        omitted_count = 0
        for index, node in enumerate(self.items):
            if exact and str(index) not in value:
                raise Mismatch
            item = value.get(str(index))
            if item is None and index >= self.min_count:
                omitted_count += 1
                continue
            items += [None] * omitted_count
            omitted_count = 0
            items.append(node.decode(item, exact, memo))
        if self.rest_node is not None:
            rest_items = self.rest_node.decode(value.get("rest", []), exact, memo)
            if rest_items:
                items += [None] * omitted_count
                items += rest_items
        return items


class Entry:
    """One kind of entry of a map. node: of the values. matches: whether a key is of this kind; None for any key."""

    __slots__ = ("matches", "node")

    def __init__(self, node: Node, matches: Callable[[str], bool] | None = None) -> None:
        self.node = node
        self.matches = matches


class Entries(Node):
    """An object with any keys, as a list of {"key": …, "value": …}."""

    __slots__ = ("kinds", "max_count", "min_count")
    lenient = True

    def __init__(self, kinds: list[Entry], min_count: int = 0, max_count: int | None = None) -> None:
        self.kinds = kinds
        self.min_count = min_count
        self.max_count = max_count

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if isinstance(value, dict) and not exact:
            # The model answered in the original form.
            return {key: self._value(key, item, exact, memo) for key, item in value.items()}
        if not isinstance(value, list):
            if exact:
                raise Mismatch
            return value
        if exact and _wrong_count(len(value), self.min_count, self.max_count):
            raise Mismatch
        mapping: dict[str, Any] = {}
        for entry in value:
            if not isinstance(entry, dict) or len(entry) != 2 or "key" not in entry or "value" not in entry:
                if exact:
                    raise Mismatch
                return value
            key = entry["key"]
            if not isinstance(key, str):
                if exact:
                    raise Mismatch
                return value
            mapping[key] = self._value(key, entry["value"], exact, memo)
        return mapping

    def _value(self, key: str, value: Any, exact: bool, memo: Memo) -> Any:
        kinds = [kind for kind in self.kinds if kind.matches is None or kind.matches(key)] or self.kinds
        for kind in kinds:
            try:
                return kind.node.decode(value, True, memo)
            except Mismatch:
                continue
        if exact:
            raise Mismatch
        return kinds[0].node.decode(value, False, memo)


class Field:
    """A property of an object. An optional one is null when it is absent."""

    __slots__ = ("name", "node", "optional")

    def __init__(self, name: str, node: Node, optional: bool) -> None:
        self.name = name
        self.node = node
        self.optional = optional


class Object(Node):
    """An object with known keys. extra: the node of further keys, in the property `extra_name`."""

    __slots__ = ("extra", "extra_name", "fields", "names")

    def __init__(self, fields: list[Field], extra_name: str = "", extra: Node | None = None) -> None:
        self.fields = fields
        self.names = {field.name for field in fields}
        self.extra_name = extra_name
        self.extra = extra

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if not isinstance(value, dict):
            if exact:
                raise Mismatch
            return value
        if exact and len(value) != len(self.fields) + (self.extra is not None):
            raise Mismatch
        mapping: dict[str, Any] = {}
        for field in self.fields:
            name = field.name
            if name not in value:
                if exact:
                    raise Mismatch
                continue
            item = value[name]
            if item is None and field.optional:
                continue
            mapping[name] = field.node.decode(item, exact, memo)
        if self.extra is not None:
            if self.extra_name in value:
                extra_values = self.extra.decode(value[self.extra_name], exact, memo)
                if isinstance(extra_values, dict):
                    for key, item in extra_values.items():
                        mapping.setdefault(key, item)
                elif exact:
                    raise Mismatch
            elif exact:
                raise Mismatch
        if not exact:
            for name, item in value.items():
                if name not in self.names and not (self.extra is not None and name == self.extra_name):
                    mapping[name] = item
        return mapping


class ObjectText(JsonText):
    """Further keys as the JSON text of an object, because a list of them would be nested too deeply."""

    __slots__ = ()

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        mapping = super().decode(value, exact, memo)
        return mapping if isinstance(mapping, dict) else {}


#: The property that holds a boxed map.
ENTRIES = "entries"


class Boxed(Node):
    """A map in an object of its own, so that its list of entries cannot be mistaken for an array."""

    __slots__ = ("inner",)

    def __init__(self, inner: Node) -> None:
        self.inner = inner

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if isinstance(value, dict) and ENTRIES in value and len(value) == 1:
            return self.inner.decode(value[ENTRIES], exact, memo)
        if exact:
            raise Mismatch
        return self.inner.decode(value, exact, memo)
