"""The strict forms of arrays."""

from __future__ import annotations

from codelab.llm.schema.containers import Array, Tuple
from codelab.llm.schema.conversion import Conversion
from codelab.llm.schema.facts import Facts, Raw
from codelab.llm.schema.nodes import Plain
from codelab.llm.schema.strict import Branch, Place, Schema, Unsatisfiable, closed_object, describe


def array(conversion: Conversion, facts: Facts, depth: int) -> Branch:
    """The strict form of an array: an array, or an object by position if the positions differ."""
    prefix = _prefix(facts)
    if prefix:
        is_uniform = all(items == prefix[0] for items in prefix[1:]) and (
            facts.closed_items or facts.items == prefix[0] or facts.item_max == len(prefix)
        )
        if not is_uniform:
            return _tuple(conversion, facts, prefix, depth)
        facts.items = prefix[0]
        if facts.closed_items:
            facts.item_max = min(len(prefix), facts.item_max if facts.item_max is not None else len(prefix))
            facts.closed_items = False
    if depth + 1 > conversion.settings.levels:
        return conversion.too_deep(facts)
    max_count = facts.item_max
    try:
        if facts.closed_items:
            raise Unsatisfiable
        item = conversion.child(tuple(facts.items) or (True,), depth + 1)
    except Unsatisfiable:
        if facts.item_min:
            raise
        item, max_count = Place([Branch({"type": "string"}, Plain("string"), "string")]), 0
    schema: Schema = {"type": "array", "items": conversion.written(item, depth + 1)}
    if facts.item_min and "minItems" not in conversion.excluded_keywords:
        schema["minItems"] = facts.item_min
    if max_count is not None and "maxItems" not in conversion.excluded_keywords:
        schema["maxItems"] = max_count
    describe(schema, facts.description("array"))
    return Branch(schema, Array(item.node, facts.item_min, max_count), "array", item.height + 1, item.size)


def _prefix(facts: Facts) -> list[list[Raw]]:
    """The schemas of each position, up to the maximum length of the array."""
    length = max(map(len, facts.prefix), default=0)
    if facts.item_max is not None:
        length = min(length, facts.item_max)
    return [[part[index] for part in facts.prefix if index < len(part)] for index in range(length)]


def _tuple(conversion: Conversion, facts: Facts, prefix: list[list[Raw]], depth: int) -> Branch:
    if depth + 1 > conversion.settings.levels:
        return conversion.too_deep(facts)
    properties: Schema = {}
    nodes = []
    height = size = 0
    open_ended = not facts.closed_items and (facts.item_max is None or facts.item_max > len(prefix))
    for index, raws in enumerate(prefix):
        try:
            place = conversion.child(tuple(raws), depth + 1)
        except Unsatisfiable:
            if index < facts.item_min:
                raise
            open_ended = False
            break
        properties[str(index)] = conversion.written(place, depth + 1, null=index >= facts.item_min)
        nodes.append(place.node)
        height, size = max(height, place.height), size + place.size + 1
    rest_node = None
    if open_ended:
        try:
            item = conversion.child(tuple(facts.items) or (True,), depth + 2)
        except Unsatisfiable:
            pass
        else:
            if depth + 2 + item.height <= conversion.settings.levels:
                properties["rest"] = {
                    "type": "array",
                    "items": conversion.written(item, depth + 2),
                    "description": "The items after these",
                }
                rest_node, height, size = Array(item.node), max(height, item.height + 1), size + item.size + 1
    schema = closed_object(properties, facts.description("array") or "An array, by position")
    return Branch(schema, Tuple(nodes, facts.item_min, rest_node), "object", height + 1, size)
