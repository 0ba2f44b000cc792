"""The branches of a place without unions: one for each type that its values may have."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from codelab.llm.schema.arrays import array
from codelab.llm.schema.context import Context
from codelab.llm.schema.facts import Facts, Raw
from codelab.llm.schema.nodes import Plain
from codelab.llm.schema.objects import object_
from codelab.llm.schema.scalars import enumeration, number, string
from codelab.llm.schema.strict import Branch, Place, Unsatisfiable, describe


def branches_of(context: Context, facts: Facts, depth: int, hints: Sequence[Raw] = ()) -> Place:
    """Convert a place without unions."""
    values = facts.allowed_values()
    context.steps.spend(sum(map(len, facts.raws)) + 2 * len(values or ()))
    if values is not None:
        return enumeration(context, facts, values)
    types = facts.types
    if types is None:
        if not facts.implied:
            [branch] = context.text().branches
            words = facts.description("any")
            if words:
                branch.schema["description"] += f": {words}"
            return Place([branch])
        types = set(facts.implied)
        if "number" in types:
            types.add("integer")
    branches: list[Branch] = []
    if "object" in types:
        with contextlib.suppress(Unsatisfiable):
            branches.append(object_(context, facts, depth, hints))
    if "array" in types:
        with contextlib.suppress(Unsatisfiable):
            branches.append(array(context, facts, depth))
    if "string" in types:
        branches.append(string(context, facts))
    if "number" in types:
        branches.append(number(context, facts, "number"))
    elif "integer" in types:
        branches.append(number(context, facts, "integer"))
    if "boolean" in types:
        schema = describe({"type": "boolean"}, facts.description("boolean"))
        branches.append(Branch(schema, Plain("boolean"), "boolean"))
    if facts.types is None and context.keep:
        # The keywords only imply these types: a value of another type is valid too.
        branches += context.text().branches
    return Place(branches, "null" in types)
