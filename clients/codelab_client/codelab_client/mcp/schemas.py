"""The schema of a tool's arguments as a session takes it: what it does not take is left open, and nothing else.

A session's model is held to a schema of finite depth with patterns that match in linear time (docs/protocol.md, "An
IDE's own tools"). The place of a server's schema that has something else may have any value, which the server checks
itself; without this the agent would not get the tool at all.
"""

import re
from collections.abc import Mapping
from typing import Any

#: Look-around, back references and atomic groups.
_NOT_LINEAR = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:<?[=!]|>|P=)|\\[1-9]|\\k)")
#: What says where a reference leads, other than a path in the schema.
_ELSEWHERE = ("$dynamicRef", "$recursiveRef")
_PLACES = ("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
#: Keywords whose values are no schemas.
_VALUES = frozenset({"const", "default", "enum", "example", "examples"})
#: Keywords that hold schemas by names, which are not keywords.
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


def usable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with places that may have any value, where it is recursive, leads elsewhere or cannot be matched."""
    search = _OpenPlaces(schema)
    try:
        search.visit(schema)
        open_schema: dict[str, Any] = search.without(schema)
    except RecursionError:  # It is deeper than a session takes, too.
        return dict(schema)
    return open_schema


class _OpenPlaces:
    """Finds the references that lead back, depth first along schemas and references, or to another document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._entered_ids: set[int] = set()
        self._left_ids: set[int] = set()
        self._open_ids: set[int] = set()

    def visit(self, node: Any, *, is_map: bool = False) -> None:
        """is_map: the keys of the node are names, not keywords."""
        if isinstance(node, list):
            for part in node:
                self.visit(part)
        if not isinstance(node, Mapping) or id(node) in self._entered_ids:
            return
        self._entered_ids.add(id(node))
        if not is_map and any(keyword in node for keyword in ("$ref", *_ELSEWHERE)):
            target = self._target(node.get("$ref"))
            if target is None or any(keyword in node for keyword in _ELSEWHERE):
                self._open_ids.add(id(node))
            else:
                self.visit(target)
                if id(target) not in self._left_ids:  # it is on the way to here
                    self._open_ids.add(id(node))
        for key, value in node.items():
            if is_map or key not in _VALUES:
                self.visit(value, is_map=not is_map and key in _BY_NAME)
        self._left_ids.add(id(node))

    def _target(self, reference: Any) -> Mapping[str, Any] | None:
        """What a path leads to in this schema; None if to no schema."""
        if not isinstance(reference, str) or not re.fullmatch(r"#(/[^#]*)?", reference):
            return None
        node: Any = self._root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                return None
        return node if isinstance(node, Mapping) else None

    def without(self, node: Any, *, is_map: bool = False) -> Any:
        """A copy of a schema, open where it must be."""
        if isinstance(node, list):
            return [self.without(part) for part in node]
        if not isinstance(node, Mapping):
            return node
        if id(node) in self._open_ids:
            return {key: node[key] for key in ("title", "description") if key in node}
        copy: dict[str, Any] = {}
        for key, value in node.items():
            if not is_map and (key in _PLACES or (key == "pattern" and _is_not_linear(value))):
                continue
            if not is_map and key in _VALUES:
                copy[key] = value
            else:
                copy[key] = self.without(value, is_map=not is_map and key in _BY_NAME)
        patterns = copy.get("patternProperties") if not is_map else None
        if isinstance(patterns, dict) and any(map(_is_not_linear, patterns)):
            copy["patternProperties"] = {key: value for key, value in patterns.items() if not _is_not_linear(key)}
            copy.pop("additionalProperties", None)  # which would refuse what these have named
        return copy


def _is_not_linear(pattern: Any) -> bool:
    return isinstance(pattern, str) and _NOT_LINEAR.search(pattern) is not None
