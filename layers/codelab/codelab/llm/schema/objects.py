"""The strict forms of objects: known keys, further keys, and maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codelab.llm.schema.containers import Entries, Entry, Field, Held, Object, ObjectText
from codelab.llm.schema.facts import Facts, Raw, constrains
from codelab.llm.schema.nodes import Plain, Text, matcher
from codelab.llm.schema.scalars import spelled_null
from codelab.llm.schema.strict import CUT, EXTRA, Branch, Made, Schema, Unsatisfiable, closed, combine

if TYPE_CHECKING:
    from codelab.llm.schema.encoder import Encoder

_GIVEN_UP = "given up: the object does not say that it is open"
# The further keys of an object: a pattern (None for any key) and the schemas of their values.
Kinds = list[tuple[str | None, tuple[Raw, ...]]]


def object_(encoder: Encoder, facts: Facts, depth: int, loose: Sequence[Raw]) -> Branch:
    children, shut, kinds, implicit = _members(encoder, facts, loose)
    if not children and not shut and (kinds or implicit):
        return _map(encoder, facts, kinds or [(None, (True,))], depth)
    if depth + 1 > encoder.settings.levels and (children or kinds):
        return encoder.cut(facts, depth)
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
            made = Made([spelled_null(), *made.branches], False, made.described, made.title, made.cut)
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
    return Branch(closed(properties, words), node, "object", height + 1 if properties else 0, size)


def _members(
    encoder: Encoder, facts: Facts, loose: Sequence[Raw]
) -> tuple[dict[str, tuple[Raw, ...]], bool, Kinds, bool]:
    """The known keys with their schemas; whether the set of keys is closed; the kinds of further keys (a pattern, or
    None for any, with their schemas); and whether further keys are allowed only because nothing is said about them."""
    parts = facts.parts
    matchers = [[(matcher(pattern), raw) for pattern, raw in part.patterns.items()] for part in parts]
    children: dict[str, tuple[Raw, ...]] = {}
    names = dict.fromkeys(name for part in parts for name in part.properties)
    names.update(facts.required)
    encoder.work.do(len(names) * (len(parts) + 4 * sum(map(len, matchers))))
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
    kinds: Kinds = []
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
        encoder.work.do(len(found))
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


def _map(encoder: Encoder, facts: Facts, kinds: Kinds, depth: int) -> Branch:
    if depth + 3 > encoder.settings.levels:
        return encoder.cut(facts, depth)
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


def _entries(encoder: Encoder, kinds: Kinds, facts: Facts, depth: int) -> tuple[Schema, Entries, int, int]:
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
        schemas.append(closed({"key": key, "value": value}))
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


def _extra(encoder: Encoder, kinds: Kinds, facts: Facts, depth: int) -> tuple[Schema, Any, int, int]:
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


def free_entries() -> Schema:
    """A list of any keys with any values."""
    value = {"type": "string", "description": "Any value, as JSON text"}
    return {
        "type": "array",
        "items": closed({"key": {"type": "string"}, "value": value}),
        "description": "Further keys and their values",
    }


def held(branch: Branch) -> Branch:
    """A map in an object, where an array stands beside it."""
    schema = closed({"entries": branch.schema})
    return Branch(schema, Held(branch.node), "object", branch.height + 1, branch.size + 1)
