"""The strict forms of a place without unions: which types it may have, and a branch for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codelab.llm.schema.arrays import array
from codelab.llm.schema.facts import Facts, Raw
from codelab.llm.schema.nodes import Plain
from codelab.llm.schema.objects import object_
from codelab.llm.schema.scalars import enumeration, number, string
from codelab.llm.schema.strict import Branch, Unsatisfiable, worded

if TYPE_CHECKING:
    from codelab.llm.schema.encoder import Encoder


def branches(
    encoder: Encoder, facts: Facts, depth: int, loose: Sequence[Raw], unresolved: bool = False
) -> tuple[list[Branch], bool]:
    """The branches of a place, and whether null is one of its values."""
    values = facts.allowed()
    encoder.work.do(sum(map(len, facts.raws)) + 2 * len(values or ()))
    if values is not None:
        return enumeration(encoder, facts, values)
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
        _collect(out, object_, encoder, facts, depth, loose)
    if "array" in types:
        _collect(out, array, encoder, facts, depth, loose)
    if "string" in types:
        out.append(string(encoder, facts))
    if "number" in types:
        out.append(number(encoder, facts, "number"))
    elif "integer" in types:
        out.append(number(encoder, facts, "integer"))
    if "boolean" in types:
        out.append(Branch(worded({"type": "boolean"}, facts.words("boolean")), Plain("boolean"), "boolean"))
    if facts.types is None and encoder.keep:
        # Nothing says that it must be of the types that its keywords speak about.
        out += encoder.text("untyped", depth).branches
    return out, "null" in types


def _collect(out: list[Branch], shape: Any, encoder: Encoder, facts: Facts, depth: int, loose: Sequence[Raw]) -> None:
    try:
        out.append(shape(encoder, facts, depth, loose))
    except Unsatisfiable:
        return
