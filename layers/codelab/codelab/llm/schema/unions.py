"""What can be told about a union from its branches."""

from __future__ import annotations

from typing import Any

from codelab.llm.schema.facts import Branch as Raws
from codelab.llm.schema.facts import Raw, constrains
from codelab.llm.schema.keywords import CONSTRAINTS


def says_more(raw: dict[str, Any]) -> bool:
    """Whether a schema constrains its value beyond what its unions and references say."""
    return any(key in CONSTRAINTS and key not in ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf")
               and not (key == "if" and "then" not in raw and "else" not in raw) for key in raw)  # fmt: skip


def trivial(branch: Raws) -> bool:
    """A branch that allows everything: the union says nothing but hints."""
    return all(raw is not False and not constrains(raw) for raw in branch)


def only_required(raw: Raw) -> bool:
    return isinstance(raw, dict) and all(key in ("required", "not", "description", "title", "type") for key in raw)


def is_null(branch: Raws) -> bool:
    return len(branch) == 1 and isinstance(branch[0], dict) and branch[0].get("type") == "null"


def discriminated(group: list[Raws]) -> bool:
    """Whether a property with constant values tells the branches apart."""
    common: set[str] | None = None
    for branch in group:
        names = {
            name
            for raw in branch
            if isinstance(raw, dict) and isinstance(raw.get("properties"), dict)
            for name, child in raw["properties"].items()
            if isinstance(child, dict) and ("const" in child or "enum" in child)
        }
        common = names if common is None else common & names
    return bool(common)
