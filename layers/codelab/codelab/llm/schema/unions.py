"""Predicates on unions and their branches."""

from __future__ import annotations

from typing import Any

from codelab.llm.schema.facts import Raw, Raws, constrains
from codelab.llm.schema.keywords import CONSTRAINTS

_OWN_CONSTRAINTS = CONSTRAINTS - {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf"}


def says_more(raw: dict[str, Any]) -> bool:
    """Whether a schema constrains its value beyond what its unions and references say."""
    return any(key in _OWN_CONSTRAINTS and not (key == "if" and "then" not in raw and "else" not in raw) for key in raw)


def trivial(branch: Raws) -> bool:
    """Whether a branch allows everything; then the whole union only gives hints."""
    return all(raw is not False and not constrains(raw) for raw in branch)


def only_required(raw: Raw) -> bool:
    """Whether a schema only says which properties are required."""
    return isinstance(raw, dict) and all(key in ("required", "not", "description", "title", "type") for key in raw)


def is_null(branch: Raws) -> bool:
    """Whether a branch allows nothing but null."""
    return len(branch) == 1 and isinstance(branch[0], dict) and branch[0].get("type") == "null"


def discriminated(group: list[Raws]) -> bool:
    """Whether a property with constant values tells the branches apart."""
    names = [
        {
            name
            for raw in branch
            if isinstance(raw, dict) and isinstance(raw.get("properties"), dict)
            for name, child in raw["properties"].items()
            if isinstance(child, dict) and ("const" in child or "enum" in child)
        }
        for branch in group
    ]
    return bool(names and set.intersection(*names))
