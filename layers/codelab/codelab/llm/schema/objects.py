"""The strict forms of objects: known keys, further keys, and maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codelab.llm.schema.containers import ENTRIES, Boxed, Entries, Entry, Field, Object, ObjectText
from codelab.llm.schema.conversion import Conversion
from codelab.llm.schema.facts import Facts, Raw, constrains
from codelab.llm.schema.nodes import JsonText, Plain, matcher
from codelab.llm.schema.scalars import null_as_text
from codelab.llm.schema.strict import EXTRA, JSON_TEXT, Branch, Place, Schema, Unsatisfiable, closed_object, combine

# The kinds of further keys: a pattern (None for any key) and the schemas of the values.
Kinds = list[tuple[str | None, tuple[Raw, ...]]]


def object_(conversion: Conversion, facts: Facts, depth: int, hints: Sequence[Raw]) -> Branch:
    """The strict form of an object: an object, or a list of keys and values if no keys are known."""
    children, is_closed, kinds, is_implicit = _members(conversion, facts, hints)
    if not children and not is_closed and (kinds or is_implicit):
        return _map(conversion, facts, kinds or [(None, (True,))], depth)
    if depth + 1 > conversion.settings.levels and (children or kinds):
        return conversion.too_deep(facts)
    left_out = False
    if len(children) > conversion.settings.width:
        children, left_out = _narrowed(children, facts.required, conversion.settings.width), True
    properties: Schema = {}
    fields: list[Field] = []
    height = size = 0
    for name, raws in children.items():
        optional = name not in facts.required
        try:
            place = conversion.child(raws, depth + 1, hint=name)
        except Unsatisfiable:
            if not optional:
                raise
            continue
        if optional and conversion.keep and place.null and depth + 2 <= conversion.settings.levels:
            # Null means absent here, so null itself is written as a string.
            place = Place([null_as_text(), *place.branches], False, place.description, place.title, place.is_cut)
        properties[name] = conversion.written(place, depth + 1, null=optional)
        fields.append(Field(name, place.node, optional))
        child_height = place.height
        if place.description and optional and place.branches and place.branches[0].definition is not None:
            child_height += 1
        height, size = max(height, child_height), size + place.size + 1
    extra_name, extra = "", None
    if left_out:
        kinds = [(None, (True,))]
    if kinds:
        extra_name = EXTRA
        while extra_name in children:
            extra_name += "_"
        schema, extra, extra_height, extra_size = _extra(conversion, kinds, facts, depth + 1)
        if extra is not None:
            properties[extra_name] = schema
            height, size = max(height, extra_height), size + extra_size + 1
    words = facts.description("object")
    node = Object(fields, extra_name, extra)
    return Branch(closed_object(properties, words), node, "object", height + 1 if properties else 0, size)


def _members(
    conversion: Conversion, facts: Facts, hints: Sequence[Raw]
) -> tuple[dict[str, tuple[Raw, ...]], bool, Kinds, bool]:
    """The keys of an object: (children, is_closed, kinds, is_implicit).

    children: the known keys with their schemas. is_closed: there are no others. kinds: those of further keys.
    is_implicit: the schema does not mention further keys.
    """
    parts = facts.parts
    matchers = [[(matcher(pattern), raw) for pattern, raw in part.patterns.items()] for part in parts]
    children: dict[str, tuple[Raw, ...]] = {}
    names = dict.fromkeys(name for part in parts for name in part.properties)
    names.update(facts.required)
    conversion.steps.spend(len(names) * (len(parts) + 4 * sum(map(len, matchers))))
    for name in names:
        raws: list[Raw] = []
        for part, patterns in zip(parts, matchers, strict=True):
            is_known = name in part.properties
            if is_known:
                raws.append(part.properties[name])
            for matches, raw in patterns:
                if matches(name):
                    is_known = True
                    raws.append(raw)
            if not is_known and part.additional is not None and part.additional is not True:
                raws.append(part.additional)
        if False in raws and name not in facts.required:
            continue
        children[name] = tuple(raw for raw in raws if raw is False or constrains(raw)) or tuple(raws) or (True,)
    closed_parts = [part for part in parts if part.additional is False]
    has_names = any(part.properties for part in parts)
    kinds: Kinds = []
    if closed_parts:
        kinds = [(pattern, (raw,)) for pattern, raw in closed_parts[0].patterns.items() if raw is not False]
        return children, not kinds, kinds, False
    kinds = [(pattern, (raw,)) for part in parts for pattern, raw in part.patterns.items() if raw is not False]
    additional_schemas = [part.additional for part in parts if part.additional is not None]
    if facts.unevaluated_schema is not None and not additional_schemas:
        if facts.unevaluated_schema is False:
            return children, not kinds and not any(_declares(raw) for raw in facts.raws), kinds, False
        additional_schemas = [facts.unevaluated_schema]
    if additional_schemas:
        kinds.append((None, tuple(raw for raw in additional_schemas if isinstance(raw, dict)) or (True,)))
        return children, False, kinds, False
    for raw in hints:
        hinted_properties = conversion.properties_of(raw)
        conversion.steps.spend(len(hinted_properties))
        if len(children) + len(hinted_properties) <= 60:
            for name, child in hinted_properties.items():
                children.setdefault(name, (child,))
    is_declared = any(_declares(raw) for raw in facts.raws)
    if conversion.keep:
        kinds.append((None, (True,)))
    return children, is_declared and not has_names and not children and not kinds, kinds, True


def _declares(raw: dict[str, Any]) -> bool:
    """Whether a schema has `properties`, even if they are empty."""
    return isinstance(raw.get("properties"), dict)


def _narrowed(
    children: dict[str, tuple[Raw, ...]], required: dict[str, None], width: int
) -> dict[str, tuple[Raw, ...]]:
    """The required keys first, then as many others as fit."""
    names = {name for name in children if name in required}
    for name in children:
        if len(names) >= width:
            break
        names.add(name)
    return {name: raws for name, raws in children.items() if name in names}


def _map(conversion: Conversion, facts: Facts, kinds: Kinds, depth: int) -> Branch:
    if depth + 3 > conversion.settings.levels:
        return conversion.too_deep(facts)
    schema, node, height, size = _entries(conversion, kinds, facts, depth)
    node.min_count, node.max_count = facts.key_min, facts.key_max
    if facts.key_min and "minItems" not in conversion.excluded_keywords:
        schema["minItems"] = facts.key_min
    if facts.key_max is not None and "maxItems" not in conversion.excluded_keywords:
        schema["maxItems"] = facts.key_max
    words = facts.description("object")
    schema["description"] = (
        f"{words} (as a list of keys and values)" if words else "An object as a list of keys and values"
    )
    return Branch(schema, node, "array", height, size)


def _entries(conversion: Conversion, kinds: Kinds, facts: Facts, depth: int) -> tuple[Schema, Entries, int, int]:
    """A list of keys and values. Raises Unsatisfiable if no kind of key is left."""
    is_union = len(kinds) > 1
    item_depth = depth + 1 + is_union
    entries: list[Entry] = []
    schemas: list[Schema] = []
    height = size = 0
    key_schema = _key(conversion, facts, item_depth + 1)
    for pattern, raws in kinds:
        try:
            place = conversion.child(raws, item_depth + 1)
        except Unsatisfiable:
            continue
        key = dict(key_schema)
        if pattern is not None and "pattern" not in key and "enum" not in key and "const" not in key:
            probe = Facts([{"pattern": pattern}])
            if probe.pattern is not None and "pattern" not in conversion.excluded_keywords:
                key["pattern"] = pattern
            else:
                key["description"] = f"matches {pattern}"[:200]
        value = conversion.written(place, item_depth + 1)
        schemas.append(closed_object({"key": key, "value": value}))
        entries.append(Entry(place.node, matcher(pattern) if pattern is not None else None))
        height, size = max(height, place.height), size + place.size + 2
    if not schemas:
        raise Unsatisfiable
    items = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"type": "array", "items": items}, Entries(entries), height + 2 + is_union, size


def _key(conversion: Conversion, facts: Facts, depth: int) -> Schema:
    """The form of keys: what `propertyNames` says if that is a plain string, else any string."""
    fallback = {"type": "string"}
    if not facts.keys:
        return fallback
    place = conversion.child((*facts.keys, {"type": "string"}), depth)
    branch = place.branches[0] if len(place.branches) == 1 and not place.null else None
    if branch is None or branch.definition is not None or not isinstance(branch.node, Plain) or branch.kind != "string":
        return fallback
    return combine(place, False)


def _extra(conversion: Conversion, kinds: Kinds, facts: Facts, depth: int) -> tuple[Schema, Any, int, int]:
    """The property with the further keys."""
    if depth + 3 <= conversion.settings.levels:
        if len(kinds) == 1 and kinds[0] == (None, (True,)) and not facts.keys:
            return conversion.extra_entries(), Entries([Entry(JsonText())]), 2, 0
        try:
            schema, entries, height, size = _entries(conversion, kinds, facts, depth)
        except Unsatisfiable:
            return {}, None, 0, 0
        if depth + height <= conversion.settings.levels:
            schema["description"] = "Further keys and their values"
            return schema, entries, height, size
    return {"type": "string", "description": f"{JSON_TEXT} of an object with further keys"}, ObjectText(), 0, 0


def any_entries() -> Schema:
    """A list of any keys with any values."""
    value = {"type": "string", "description": "Any value, as JSON text"}
    return {
        "type": "array",
        "items": closed_object({"key": {"type": "string"}, "value": value}),
        "description": "Further keys and their values",
    }


def boxed(branch: Branch) -> Branch:
    """A map in an object, so that decoding can distinguish it from an array in the same union."""
    schema = closed_object({ENTRIES: branch.schema})
    return Branch(schema, Boxed(branch.node), "object", branch.height + 1, branch.size + 1)
