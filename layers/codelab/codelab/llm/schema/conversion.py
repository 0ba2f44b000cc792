"""What the parts of a conversion share: its settings, its counters, and how to convert what lies inside a place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from codelab.llm.schema.facts import Facts, Raw, Raws
from codelab.llm.schema.keywords import short_json
from codelab.llm.schema.nodes import JsonText
from codelab.llm.schema.strict import EXTRA, JSON_TEXT, Branch, Place, Schema, Settings, StepCounter


class Conversion(ABC):
    """One attempt to convert a schema. `Converter` implements it; the modules for each type use it.

    keep: whether objects that say nothing about further keys keep them. excluded_keywords: those to leave out.
    """

    def __init__(
        self, *, keep: bool, settings: Settings, excluded_keywords: frozenset[str], steps: StepCounter
    ) -> None:
        self.keep = keep
        self.settings = settings
        self.excluded_keywords = excluded_keywords
        self.steps = steps
        self.values_left = settings.values
        self.characters_left = settings.characters
        self.names: set[str] = set()
        self.uses_extra_entries = False

    @abstractmethod
    def child(self, raws: Raws, depth: int, hint: str = "") -> Place:
        """Convert what applies to a property or an item. Raises Unsatisfiable if no value fits."""

    @abstractmethod
    def written(self, place: Place, depth: int, *, null: bool = False) -> Schema:
        """The schema of a place as it stands in its parent. `null` adds null, which then means absent."""

    @abstractmethod
    def properties_of(self, raw: Raw) -> dict[str, Raw]:
        """The properties that a schema mentions, through references and allOf."""

    def text(self, schemas: Sequence[dict[str, Any]] = ()) -> Place:
        """A string with JSON text. schemas: those that exceed a limit."""
        words = f"{JSON_TEXT} of a value for {short_json(schemas[0])}" if schemas else "Any value, as JSON text"
        return Place([Branch({"type": "string", "description": words}, JsonText(), "string")], is_cut=bool(schemas))

    def too_deep(self, facts: Facts) -> Branch:
        """JSON text where the schema would be nested too deeply."""
        [branch] = self.text(facts.raws).branches
        return branch

    def extra_entries(self) -> Schema:
        """The list of further keys with any values: all objects that need it share one definition."""
        self.uses_extra_entries = True
        self.names.add(EXTRA)
        return {"$ref": f"#/$defs/{EXTRA}"}
