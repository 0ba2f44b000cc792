"""The strict forms of a place without unions, type by type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .facts import Facts, Part, Raw, constrains
from .keywords import IMPLIED
from .limits import LONG_ENUM, MAX_LONG_ENUM_CHARACTERS
from .nodes import (
    Array,
    Entries,
    Entry,
    Field,
    Held,
    Labels,
    NullText,
    Object,
    ObjectText,
    Plain,
    Text,
    Tuple,
    json_type,
    label,
    matcher,
)
from .strict import Branch, Made, Schema, Unsatisfiable, combine

if TYPE_CHECKING:
    from .encoder import Encoder

CUT = "JSON text"
EXTRA = "_extra"
_PLAIN_TYPES = ("string", "integer", "number", "boolean")
_BOUNDS = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_GIVEN_UP = "given up: the object does not say that it is open"


_SIMPLE = frozenset({"type", "description", "title"})
_PLAIN = {kind: Plain(kind) for kind in _PLAIN_TYPES}


def simple(raw: dict[str, Any], kind: str) -> Made | None:
    """A scalar of which nothing but its type is said: most places are that."""
    node = _PLAIN.get(kind)
    if node is None or not raw.keys() <= _SIMPLE:
        return None
    described, title = raw.get("description"), raw.get("title")
    schema: Schema = {"type": kind}
    if isinstance(title, str):
        schema["title"] = title
    if isinstance(described, str):
        schema["description"] = described
    else:
        described = ""
    return Made([Branch(schema, node, "number" if kind == "integer" else kind)], described=described)


def branches(
    encoder: Encoder, facts: Facts, depth: int, loose: Sequence[Raw], unresolved: bool = False
) -> tuple[list[Branch], bool]:
    """The branches of a place, and whether null is one of its values."""
    values = facts.allowed()
    if values is not None:
        return _values(encoder, facts, values)
    types = facts.types
    if types is None:
        if not facts.implied:
            made = encoder.text("unresolved" if unresolved else "untyped", depth)
            words = facts.words("any")
            if words:
                made.branches[0].schema["description"] += f": {words}"
            return made.branches, False
        types = set(facts.implied)
        if "number" in types:
            types.add("integer")
    out: list[Branch] = []
    if "object" in types:
        _collect(out, _object, encoder, facts, depth, loose)
    if "array" in types:
        _collect(out, _array, encoder, facts, depth, loose)
    if "string" in types:
        out.append(_string(encoder, facts))
    if "number" in types:
        out.append(_number(encoder, facts, "number"))
    elif "integer" in types:
        out.append(_number(encoder, facts, "integer"))
    if "boolean" in types:
        out.append(Branch(_worded({"type": "boolean"}, facts.words("boolean")), Plain("boolean"), "boolean"))
    if facts.types is None and encoder.keep:
        # Nothing says that it must be of the types that its keywords speak about.
        out += encoder.text("untyped", depth).branches
    return out, "null" in types


def _collect(out: list[Branch], shape: Any, encoder: Encoder, facts: Facts, depth: int, loose: Sequence[Raw]) -> None:
    try:
        out.append(shape(encoder, facts, depth, loose))
    except Unsatisfiable:
        return


def _worded(schema: Schema, words: str) -> Schema:
    if words:
        schema["description"] = words
    return schema


# Scalars.


def _string(encoder: Encoder, facts: Facts) -> Branch:
    schema: Schema = {"type": "string"}
    if facts.pattern is not None and "pattern" not in encoder.without:
        schema["pattern"] = facts.pattern
    elif facts.format is not None and "format" not in encoder.without:
        schema["format"] = facts.format
    keywords = dict(schema) if len(schema) > 1 else None
    return Branch(_worded(schema, facts.words("string")), Plain("string", keywords=keywords), "string")


def _number(encoder: Encoder, facts: Facts, kind: str) -> Branch:
    schema: Schema = {"type": kind}
    for keyword in _BOUNDS:
        if keyword in facts.bounds and keyword not in encoder.without:
            schema[keyword] = facts.bounds[keyword]
    keywords = dict(schema) if len(schema) > 1 else None
    return Branch(_worded(schema, facts.words(kind)), Plain(kind, keywords=keywords), "number")


def _values(encoder: Encoder, facts: Facts, values: list[Any]) -> tuple[list[Branch], bool]:
    """The branches of an enumeration: a type each, objects and arrays under labels."""
    groups: dict[str, list[Any]] = {}
    for value in values:
        kind = json_type(value)
        groups.setdefault("compound" if kind in ("object", "array") else kind, []).append(value)
    null = groups.pop("null", None) is not None
    if "integer" in groups and "number" in groups:
        groups["number"] = [value for value in values if json_type(value) in ("integer", "number")]
        del groups["integer"]
    out = []
    for kind, members in groups.items():
        node: Plain | Labels | Text
        if kind == "compound":
            node, kind = Labels(members), "string"
            members = [label(member) for member in members]
        else:
            node = Plain(kind, members)
        schema: Schema = {"type": kind}
        words = facts.words(kind)
        if kind == "boolean" and len(members) == 2:
            pass
        elif not _affordable(encoder, members):
            # Too many to list: any value of the type, and the original schema decides.
            words = (
                (f"{words} " if words else "") + "One of many values, for example " + ", ".join(map(str, members[:5]))
            )
            if isinstance(node, Labels):
                node = Text()
                encoder.texts["enum values"] += 1
            else:
                node = Plain(kind)
        elif len(members) == 1 and "const" not in encoder.without:
            schema["const"] = members[0]
        else:
            schema["enum"] = members
        out.append(Branch(_worded(schema, words), node, "number" if kind == "integer" else kind))
    return out, null


def _affordable(encoder: Encoder, members: list[Any]) -> bool:
    characters = sum(len(str(member)) for member in members)
    if len(members) >= encoder.values_left or characters >= encoder.characters_left:
        return False
    if len(members) >= LONG_ENUM and characters > MAX_LONG_ENUM_CHARACTERS:
        return False
    encoder.values_left -= len(members) + 1
    encoder.characters_left -= characters + 4
    return True


# Arrays.


def _array(encoder: Encoder, facts: Facts, depth: int, loose: Sequence[Raw]) -> Branch:
    prefix = _prefix(facts)
    if prefix:
        same = all(items == prefix[0] for items in prefix[1:]) and (
            facts.closed_items or facts.items == prefix[0] or facts.item_max == len(prefix)
        )
        if not same:
            return _tuple(encoder, facts, prefix, depth)
        facts.items = prefix[0]
        if facts.closed_items:
            facts.item_max = min(len(prefix), facts.item_max if facts.item_max is not None else len(prefix))
            facts.closed_items = False
    if depth + 1 > encoder.settings.levels:
        return _cut(encoder, facts, depth)
    most = facts.item_max
    try:
        if facts.closed_items:
            raise Unsatisfiable
        item = encoder.child(tuple(facts.items) or (True,), depth + 1)
    except Unsatisfiable:
        if facts.item_min:
            raise
        item, most = Made([Branch({"type": "string"}, Plain("string"), "string")]), 0
    schema: Schema = {"type": "array", "items": encoder.written(item, depth + 1)}
    if facts.item_min and "minItems" not in encoder.without:
        schema["minItems"] = facts.item_min
    if most is not None and "maxItems" not in encoder.without:
        schema["maxItems"] = most
    _worded(schema, facts.words("array"))
    return Branch(schema, Array(item.node, facts.item_min, most), "array", item.height + 1, item.size)


def _prefix(facts: Facts) -> list[list[Raw]]:
    """What applies at each position, as long as the array may be that long."""
    length = max(map(len, facts.prefix), default=0)
    if facts.item_max is not None:
        length = min(length, facts.item_max)
    return [[part[index] for part in facts.prefix if index < len(part)] for index in range(length)]


def _tuple(encoder: Encoder, facts: Facts, prefix: list[list[Raw]], depth: int) -> Branch:
    if depth + 1 > encoder.settings.levels:
        return _cut(encoder, facts, depth)
    properties: Schema = {}
    nodes = []
    height = size = 0
    open_ended = not facts.closed_items and (facts.item_max is None or facts.item_max > len(prefix))
    for index, raws in enumerate(prefix):
        try:
            made = encoder.child(tuple(raws), depth + 1)
        except Unsatisfiable:
            if index < facts.item_min:
                raise
            open_ended = False
            break
        properties[str(index)] = encoder.written(made, depth + 1, null=index >= facts.item_min)
        nodes.append(made.node)
        height, size = max(height, made.height), size + made.size + 1
    rest = None
    if open_ended:
        try:
            item = encoder.child(tuple(facts.items) or (True,), depth + 2)
        except Unsatisfiable:
            pass
        else:
            if depth + 2 + item.height <= encoder.settings.levels:
                properties["rest"] = {
                    "type": "array",
                    "items": encoder.written(item, depth + 2),
                    "description": "The items after these",
                }
                rest, height, size = Array(item.node), max(height, item.height + 1), size + item.size + 1
    schema = _closed(properties, facts.words("array") or "An array, by position")
    return Branch(schema, Tuple(nodes, facts.item_min, rest), "object", height + 1, size)


# Objects.


def _object(encoder: Encoder, facts: Facts, depth: int, loose: Sequence[Raw]) -> Branch:
    children, closed, kinds, implicit = _members(encoder, facts, loose)
    if not children and not closed and (kinds or implicit):
        return _map(encoder, facts, kinds or [(None, (True,))], depth)
    if depth + 1 > encoder.settings.levels and (children or kinds):
        return _cut(encoder, facts, depth)
    left_out = False
    if len(children) > encoder.settings.width:
        children, left_out = _narrowed(children, facts.required, encoder.settings.width), True
        encoder.texts["properties"] += 1
    properties: Schema = {}
    fields: list[Field] = []
    height = size = 0
    for name, raws in children.items():
        optional = name not in facts.required
        try:
            made = encoder.child(raws, depth + 1, hint=name)
        except Unsatisfiable:
            if not optional:
                raise
            continue
        if optional and encoder.keep and made.null and depth + 2 <= encoder.settings.levels:
            # Null means absent; what was null needs another word.
            made = Made([_spelled_null(), *made.branches], False, made.described, made.title, made.cut)
        properties[name] = encoder.written(made, depth + 1, null=optional)
        fields.append(Field(name, made.node, optional))
        above = made.height
        if made.described and optional and made.branches and made.branches[0].slot is not None:
            above += 1
        height, size = max(height, above), size + made.size + 1
    extra_name, extra = "", None
    if left_out:
        kinds = [(None, (True,))]
    if kinds:
        extra_name = EXTRA
        while extra_name in children:
            extra_name += "_"
        schema, extra, deep, wide = _extra(encoder, kinds, facts, depth + 1)
        if extra is not None:
            properties[extra_name] = schema
            height, size = max(height, deep), size + wide + 1
    words = facts.words("object")
    node = Object(fields, extra_name, extra, _GIVEN_UP if implicit and not kinds else "")
    return Branch(_closed(properties, words), node, "object", height + 1 if properties else 0, size)


def _members(
    encoder: Encoder, facts: Facts, loose: Sequence[Raw]
) -> tuple[dict[str, tuple[Raw, ...]], bool, list[tuple[str | None, tuple[Raw, ...]]], bool]:
    """The known keys with their schemas; whether the set of keys is closed; the kinds of further keys (a pattern, or
    None for any, with their schemas); and whether further keys are allowed only because nothing is said about them."""
    parts = facts.parts
    matchers = [[(matcher(pattern), raw) for pattern, raw in part.patterns.items()] for part in parts]
    children: dict[str, tuple[Raw, ...]] = {}
    names = dict.fromkeys(name for part in parts for name in part.properties)
    names.update(facts.required)
    for name in names:
        raws: list[Raw] = []
        for part, patterns in zip(parts, matchers, strict=True):
            known = name in part.properties
            if known:
                raws.append(part.properties[name])
            for matches, raw in patterns:
                if matches(name):
                    known = True
                    raws.append(raw)
            if not known and part.additional is not None and part.additional is not True:
                raws.append(part.additional)
        if False in raws and name not in facts.required:
            continue
        children[name] = tuple(raw for raw in raws if raw is False or constrains(raw)) or tuple(raws) or (True,)
    shut = [part for part in parts if part.additional is False]
    named = any(part.properties for part in parts)
    kinds: list[tuple[str | None, tuple[Raw, ...]]] = []
    implicit = False
    if shut:
        kinds = [(pattern, (raw,)) for pattern, raw in shut[0].patterns.items() if raw is not False]
        return children, not kinds, kinds, False
    kinds = [(pattern, (raw,)) for part in parts for pattern, raw in part.patterns.items() if raw is not False]
    explicit = [part.additional for part in parts if part.additional is not None]
    if facts.unevaluated is not None and not explicit:
        if facts.unevaluated is False:
            return children, not kinds and not any(_declares(raw) for raw in facts.raws), kinds, False
        explicit = [facts.unevaluated]
    if explicit:
        kinds.append((None, tuple(raw for raw in explicit if isinstance(raw, dict)) or (True,)))
        return children, False, kinds, False
    implicit = True
    for raw in loose:
        found = encoder.properties_of(raw)
        if len(children) + len(found) <= 60:
            for name, child in found.items():
                children.setdefault(name, (child,))
    declared = any(_declares(raw) for raw in facts.raws)
    if encoder.keep:
        kinds.append((None, (True,)))
    return children, bool(declared and not named and not children and not encoder.keep and not kinds), kinds, implicit


def _declares(raw: dict[str, Any]) -> bool:
    """Whether a schema lists its keys, be it none of them."""
    return isinstance(raw.get("properties"), dict)


def _narrowed(
    children: dict[str, tuple[Raw, ...]], required: dict[str, None], width: int
) -> dict[str, tuple[Raw, ...]]:
    """The required keys first, then as many others as fit."""
    chosen = {name for name in children if name in required}
    for name in children:
        if len(chosen) >= width:
            break
        chosen.add(name)
    return {name: raws for name, raws in children.items() if name in chosen}


def _map(encoder: Encoder, facts: Facts, kinds: list[tuple[str | None, tuple[Raw, ...]]], depth: int) -> Branch:
    if depth + 3 > encoder.settings.levels:
        return _cut(encoder, facts, depth)
    schema, node, height, size = _entries(encoder, kinds, facts, depth)
    node.least, node.most = facts.key_min, facts.key_max
    if not schema["items"].get("properties") and "anyOf" not in schema["items"]:
        schema = dict(schema)
    if facts.key_min and "minItems" not in encoder.without:
        schema["minItems"] = facts.key_min
    if facts.key_max is not None and "maxItems" not in encoder.without:
        schema["maxItems"] = facts.key_max
    words = facts.words("object")
    schema["description"] = (
        f"{words} (as a list of keys and values)" if words else "An object as a list of keys and values"
    )
    return Branch(schema, node, "array", height, size)


def _entries(
    encoder: Encoder, kinds: list[tuple[str | None, tuple[Raw, ...]]], facts: Facts, depth: int
) -> tuple[Schema, Entries, int, int]:
    """The list form of keys and values. Raises Unsatisfiable when no kind of key is left."""
    several = len(kinds) > 1
    item_depth = depth + 1 + several
    entries: list[Entry] = []
    schemas: list[Schema] = []
    height = size = 0
    key_node, key_schema = _key(encoder, facts, item_depth + 1)
    for pattern, raws in kinds:
        try:
            made = encoder.child(raws, item_depth + 1)
        except Unsatisfiable:
            continue
        key = dict(key_schema)
        if pattern is not None and "pattern" not in key and "enum" not in key and "const" not in key:
            probe = Facts([{"pattern": pattern}])
            if probe.pattern is not None and "pattern" not in encoder.without:
                key["pattern"] = pattern
            else:
                key["description"] = f"matches {pattern}"[:200]
        value = encoder.written(made, item_depth + 1)
        schemas.append(_closed({"key": key, "value": value}))
        entries.append(Entry(key_node, made.node, matcher(pattern) if pattern is not None else None))
        height, size = max(height, made.height), size + made.size + 2
    if not schemas:
        raise Unsatisfiable
    items = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"type": "array", "items": items}, Entries(entries), height + 2 + several, size


def _key(encoder: Encoder, facts: Facts, depth: int) -> tuple[Plain, Schema]:
    """What keys may be: a string, or what `propertyNames` says where that is a plain string."""
    fallback = Plain("string"), {"type": "string"}
    if not facts.keys:
        return fallback
    made = encoder.child((*facts.keys, {"type": "string"}), depth)
    branch = made.branches[0] if len(made.branches) == 1 and not made.null else None
    if branch is None or branch.slot is not None or not isinstance(branch.node, Plain) or branch.kind != "string":
        return fallback
    return branch.node, combine(made, False)


def _extra(
    encoder: Encoder, kinds: list[tuple[str | None, tuple[Raw, ...]]], facts: Facts, depth: int
) -> tuple[Schema, Any, int, int]:
    """The property that holds further keys."""
    if depth + 3 <= encoder.settings.levels:
        if len(kinds) == 1 and kinds[0] == (None, (True,)) and not facts.keys:
            encoder.texts["untyped"] += 1
            node = Entries([Entry(Plain("string"), Text())])
            return encoder.extra_entries(), node, 2, 0
        try:
            schema, entries, height, size = _entries(encoder, kinds, facts, depth)
        except Unsatisfiable:
            return {}, None, 0, 0
        if depth + height <= encoder.settings.levels:
            schema["description"] = "Further keys and their values"
            return schema, entries, height, size
    encoder.texts["levels"] += 1
    return {"type": "string", "description": f"{CUT} of an object with further keys"}, ObjectText(), 0, 0


def free_entries(encoder: Encoder) -> Schema:
    """A list of any keys with any values."""
    value = {"type": "string", "description": "Any value, as JSON text"}
    return {
        "type": "array",
        "items": _closed({"key": {"type": "string"}, "value": value}),
        "description": "Further keys and their values",
    }


def _spelled_null() -> Branch:
    return Branch({"type": "string", "const": "null", "description": "null itself"}, NullText(), "string")


def held(branch: Branch) -> Branch:
    """A map in an object, where an array stands beside it."""
    schema = _closed({"entries": branch.schema})
    return Branch(schema, Held(branch.node), "object", branch.height + 1, branch.size + 1)


def _closed(properties: Schema, words: str = "") -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return _worded(schema, words)


def _cut(encoder: Encoder, facts: Facts, depth: int) -> Branch:
    """JSON text where the schema would be nested too deeply."""
    [branch] = encoder.text("levels", depth, facts.raws).branches
    return branch


__all__ = ["CUT", "EXTRA", "IMPLIED", "Part", "branches", "free_entries", "held"]
