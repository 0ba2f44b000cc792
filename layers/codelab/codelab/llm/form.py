"""The form of an answer as text, for models that their provider does not show the schema.

Many servers of open weights (llama.cpp, Ollama, vLLM) use a schema only as a grammar: the model never reads it, so it
does not know which fields and tools there are. This text tells it.

The union of the things that an array may contain, such as the calls of tools, is a `catalogue` of its own. It is the
long part and the same in every step of a conversation, so it goes to the beginning of the prompt, where providers cache
it; the form of the rest is short.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from codelab.llm.tokens import estimate_tokens

#: Keywords that the notation has no words for. A schema with one of them is shown as JSON Schema.
_INEXPRESSIBLE = frozenset(
    {"allOf", "not", "if", "patternProperties", "prefixItems", "dependentSchemas", "dependentRequired", "contains"}
)
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matching {}",
    "format": "in the format {}",
}
_DEFINITIONS = ("$defs", "definitions")
_LEGEND = "where ? marks what may be missing and null stands for what is left out"
#: What stands for any text in an example.
_TEXT = "…"
#: The deepest nesting that is written as a type; what lies deeper is JSON Schema.
_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Form:
    """The text about an answer. catalogue: the alternatives of its arrays, empty without any. answer: all the rest."""

    catalogue: str
    answer: str

    @property
    def tokens(self) -> int:
        """Estimated."""
        return _tokens(self)

    def added_to(self, prompt: str) -> str:
        """The system prompt with the form: the catalogue before it, the rest behind it."""
        return "\n\n".join(part for part in (self.catalogue, prompt, self.answer) if part)


@lru_cache(64)
def _tokens(form: Form) -> int:
    return estimate_tokens(form.catalogue) + estimate_tokens(form.answer)


def form_of(schema: Mapping[str, Any]) -> Form:
    """The form of answers that are valid for `schema`."""
    writer = _Writer()
    answer = writer.type_of(schema)
    lines = [
        f"Answer with one JSON {_kind(schema)} and nothing else: no introduction, no code fence. Its form, {_LEGEND}:",
        answer,
        *(f"- {path}: {note}" for path, note in writer.notes_of(schema)),
        *writer.definitions(schema),
        *_examples(schema),
    ]
    return Form(writer.catalogue(), "\n".join(lines))


def _examples(schema: Mapping[str, Any]) -> list[str]:
    """A small valid value, more or less: it only shows the form. Where tools can be called, also one without a call.

    Small models write what an example has, so no text stands beside the call.
    """
    sample = _sample(schema, schema)
    call_fields = [name for name, part in _properties(schema) if _alternatives(_items(part))]
    if not call_fields:
        return [f"Example: {_dumps(sample)}"]
    texts = {name: "" for name, value in sample.items() if value == _TEXT}
    empty_sample = sample | {name: [] for name in call_fields}
    return [f"Example with a call: {_dumps(sample | texts)}", f"Example without: {_dumps(empty_sample)}"]


def _items(node: Any) -> Any:
    return node.get("items") if isinstance(node, Mapping) and node.get("type") == "array" else None


def _kind(schema: Mapping[str, Any]) -> str:
    return "object" if schema.get("type") == "object" or "properties" in schema else "value"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class _Writer:
    """Writes types, and collects the catalogues and definitions that they refer to."""

    def __init__(self) -> None:
        self._catalogues: dict[str, list[Mapping[str, Any]]] = {}
        self._references: list[str] = []

    def type_of(self, node: Any, name: str = "", depth: int = _DEPTH) -> str:
        """A schema as a type. `name` is that of the property it describes."""
        if node is True or node == {}:
            return "any"
        if not isinstance(node, Mapping) or depth == 0 or not _INEXPRESSIBLE.isdisjoint(node):
            return f"a value for the JSON Schema {_dumps(node)}"
        if "$ref" in node:
            return self._reference(str(node["$ref"]))
        if "const" in node:
            return _dumps(node["const"])
        if isinstance(node.get("enum"), list):
            return " | ".join(map(_dumps, node["enum"]))
        union = node.get("anyOf") or node.get("oneOf")
        if isinstance(union, list):
            return " | ".join(dict.fromkeys(self.type_of(part, name, depth - 1) for part in union))
        kinds = node.get("type", "any")
        types = [self._plain(kind, node, name, depth) for kind in (kinds if isinstance(kinds, list) else [kinds])]
        return " | ".join(types)

    def _plain(self, kind: str, node: Mapping[str, Any], name: str, depth: int) -> str:
        if kind == "array":
            items = node.get("items", True)
            branches = _alternatives(items)
            if branches:
                title = (name or "item").capitalize().removesuffix("s")
                self._catalogues[title] = branches
                return f"{title}[]"
            item_type = self.type_of(items, name, depth - 1)
            return f"({item_type})[]" if " | " in item_type else f"{item_type}[]"
        if kind == "object":
            return self._object(node, depth)
        return kind

    def _object(self, node: Mapping[str, Any], depth: int) -> str:
        required = node.get("required", ())
        members = [
            f"{_dumps(name)}{'' if name in required else '?'}: {self.type_of(part, name, depth - 1)}"
            for name, part in _properties(node)
        ]
        additional = node.get("additionalProperties")
        if isinstance(additional, Mapping) or (additional is not False and not members):
            members.append(
                f"[any key]: {self.type_of(additional if isinstance(additional, Mapping) else True, '', depth - 1)}"
            )
        return "{" + ", ".join(members) + "}"

    def _reference(self, pointer: str) -> str:
        if pointer not in self._references:
            self._references.append(pointer)
        return _name_of(pointer)

    def notes_of(self, node: Any, path: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, str]]:
        """What is said about the properties of an object, by their paths."""
        for name, part in _properties(node) if depth else ():
            place = f"{path}.{name}" if path else name
            property_schema = _without_null(part)
            note = _note(
                property_schema if property_schema.get("description") else {**property_schema, **_description(part)}
            )
            if note:
                yield place, note
            if property_schema.get("type") == "array" and not _alternatives(property_schema.get("items")):
                place, property_schema = f"{place}[]", _without_null(property_schema.get("items"))
            yield from self.notes_of(property_schema, place, depth - 1)

    def catalogue(self) -> str:
        """The alternatives of the arrays that were written, each with its form and what is said about it."""
        parts: list[str] = []
        for title, branches in self._catalogues.items():
            parts.append(f"# {title}\nEach {title} is one of these, {_LEGEND}:")
            parts.extend(map(self._alternative, branches))
        return "\n\n".join(parts)

    def _alternative(self, branch: Mapping[str, Any]) -> str:
        description = " ".join(str(branch.get("description") or "").split())
        head = f"## {next(iter(_properties(branch)))[1]['const']}"
        notes = [f"- {path}: {note}" for path, note in self.notes_of(branch)]
        return "\n".join([head, *([description] if description else []), self.type_of(branch), *notes])

    def definitions(self, root: Mapping[str, Any]) -> Iterator[str]:
        """The types that were referred to. Writing one may refer to others."""
        index = 0
        while index < len(self._references):
            pointer = self._references[index]
            node = root if pointer == "#" else _resolved(root, pointer)
            yield f"{_name_of(pointer)} is {self.type_of(node)}"
            yield from (f"- {path}: {note}" for path, note in self.notes_of(node))
            index += 1


def _name_of(pointer: str) -> str:
    return pointer.rpartition("/")[2] if pointer != "#" else "Answer"


def _resolved(root: Mapping[str, Any], pointer: str) -> Any:
    for keyword in _DEFINITIONS:
        prefix = f"#/{keyword}/"
        if pointer.startswith(prefix):
            return root.get(keyword, {}).get(pointer.removeprefix(prefix), True)
    return True


def _properties(node: Any) -> list[tuple[str, Any]]:
    properties = node.get("properties") if isinstance(node, Mapping) else None
    return list(properties.items()) if isinstance(properties, Mapping) else []


def _alternatives(items: Any) -> list[Mapping[str, Any]]:
    """The branches of a union that tell themselves apart by the constant in their first property; else empty."""
    branches = items.get("anyOf") if isinstance(items, Mapping) else None
    if not isinstance(branches, list) or not branches:
        return []
    first_properties = [_properties(branch)[:1] for branch in branches]
    are_tagged = all(
        properties and isinstance(properties[0][1], Mapping) and "const" in properties[0][1]
        for properties in first_properties
    )
    return branches if are_tagged else []


def _without_null(node: Any) -> Mapping[str, Any]:
    """The schema of a property that may be null, if it is another one."""
    if not isinstance(node, Mapping):
        return {}
    parts = node.get("anyOf")
    if isinstance(parts, list):
        alternatives = [part for part in parts if isinstance(part, Mapping) and part.get("type") != "null"]
        return alternatives[0] if len(alternatives) == 1 else node
    kinds = node.get("type")
    if isinstance(kinds, list):
        types = [kind for kind in kinds if kind != "null"]
        return {**node, "type": types[0]} if len(types) == 1 else node
    return node


def _description(node: Any) -> dict[str, Any]:
    return {"description": node["description"]} if isinstance(node, Mapping) and node.get("description") else {}


def _note(node: Mapping[str, Any]) -> str:
    """The description of a property, and its bounds."""
    description = " ".join(str(node.get("description") or "").split())
    bounds = ", ".join(words.format(node[keyword]) for keyword, words in _BOUNDS.items() if keyword in node)
    return f"{description} ({bounds})" if description and bounds else description or bounds


def _sample(node: Any, root: Mapping[str, Any], depth: int = _DEPTH) -> Any:
    """A small valid value, more or less: it only shows the form."""
    if not isinstance(node, Mapping) or depth == 0:
        return None
    if "$ref" in node:
        return _sample(root if node["$ref"] == "#" else _resolved(root, str(node["$ref"])), root, depth - 1)
    if "const" in node:
        return node["const"]
    for keyword in ("examples", "enum"):
        if isinstance(node.get(keyword), list) and node[keyword]:
            return node[keyword][0]
    union = node.get("anyOf") or node.get("oneOf")
    if isinstance(union, list) and union:
        is_nullable = any(isinstance(part, Mapping) and part.get("type") == "null" for part in union)
        return None if is_nullable else _sample(union[0], root, depth - 1)
    kinds = node.get("type")
    if isinstance(kinds, list):
        return None if "null" in kinds else _sample({**node, "type": kinds[0]}, root, depth - 1)
    return _sample_of(kinds, node, root, depth)


def _sample_of(kind: Any, node: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if kind == "object" or (kind is None and "properties" in node):
        required = node.get("required", ())
        return {name: _sample(part, root, depth - 1) for name, part in _properties(node) if name in required}
    if kind == "array":
        branches = _alternatives(node.get("items"))
        if branches:
            return [_sample(branches[0], root, depth - 1)]
        return [_sample(node.get("items"), root, depth - 1)]
    if kind in ("integer", "number"):
        return node.get("minimum", 1)
    return {"string": _TEXT, "boolean": True}.get(str(kind))
