"""The branches of a place without unions: one for each type that its values may have."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from codelab.llm.schema.arrays import array
from codelab.llm.schema.conversion import Conversion
from codelab.llm.schema.facts import Facts, Raw
from codelab.llm.schema.nodes import Plain
from codelab.llm.schema.objects import object_
from codelab.llm.schema.scalars import enumeration, number, string
from codelab.llm.schema.strict import Branch, Place, Unsatisfiable, describe


def branches_of(conversion: Conversion, facts: Facts, depth: int, hints: Sequence[Raw] = ()) -> Place:
    """Convert a place without unions."""
    values = facts.allowed_values()
    conversion.steps.spend(sum(map(len, facts.raws)) + 2 * len(values or ()))
    if values is not None:
        return enumeration(conversion, facts, values)
    types = facts.types
    if types is None:
        if not facts.implied_types:
            [branch] = conversion.text().branches
            words = facts.description("any")
            if words:
                branch.schema["description"] += f": {words}"
            return Place([branch])
        types = set(facts.implied_types)
        if "number" in types:
            types.add("integer")
    branches: list[Branch] = []
    if "object" in types:
        with contextlib.suppress(Unsatisfiable):
            branches.append(object_(conversion, facts, depth, hints))
    if "array" in types:
        with contextlib.suppress(Unsatisfiable):
            branches.append(array(conversion, facts, depth))
    if "string" in types:
        branches.append(string(conversion, facts))
    if "number" in types:
        branches.append(number(conversion, facts, "number"))
    elif "integer" in types:
        branches.append(number(conversion, facts, "integer"))
    if "boolean" in types:
        schema = describe({"type": "boolean"}, facts.description("boolean"))
        branches.append(Branch(schema, Plain("boolean"), "boolean"))
    if facts.types is None and conversion.keep:
        # The keywords only imply these types: a value of another type is valid too.
        branches += conversion.text().branches
    return Place(branches, "null" in types)
