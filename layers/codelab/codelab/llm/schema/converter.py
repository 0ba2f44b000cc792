"""Converts any JSON Schema to a strict one that is a relaxation of it.

Each place of the schema becomes a list of branches, one for each way to write a value there. A place that others refer
to, or that contains itself, becomes a definition. What exceeds the limits becomes JSON text.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

from codelab.llm.schema.containers import Boxed, Entries
from codelab.llm.schema.conversion import Conversion
from codelab.llm.schema.facts import Conjunction, Facts, Raw, Raws, gather
from codelab.llm.schema.keywords import APPLICATORS, CONSTRAINTS
from codelab.llm.schema.nodes import JsonText, Labels, Node, NullText, Plain
from codelab.llm.schema.objects import any_entries, boxed
from codelab.llm.schema.references import References, is_legacy
from codelab.llm.schema.scalars import plain_scalar
from codelab.llm.schema.shapes import branches_of
from codelab.llm.schema.strict import (
    EXTRA,
    JSON_TEXT,
    NULL,
    Branch,
    Definition,
    NeedsWrapping,
    Place,
    Schema,
    Settings,
    StepCounter,
    TooLarge,
    Unsatisfiable,
    annotated,
    closed_object,
    combine,
    nullable,
)
from codelab.llm.schema.unions import discriminated, is_null, only_required, says_more, trivial

_COMBINING = frozenset(APPLICATORS)
_OWN_CONSTRAINTS = CONSTRAINTS - {"$ref", "$dynamicRef", "$recursiveRef", "allOf"}
_STEPS_PER_PLACE, _MAX_BRANCHES = 8, 2_000
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


class Converter(Conversion):
    """One attempt to convert a document, with given settings."""

    def __init__(
        self, document: Any, *, keep: bool, settings: Settings, excluded_keywords: frozenset[str], steps: StepCounter
    ) -> None:
        super().__init__(keep=keep, settings=settings, excluded_keywords=excluded_keywords, steps=steps)
        self._document = document
        self._references = References(document)
        self._legacy = is_legacy(document)
        self._active: dict[tuple[int, ...], Definition] = {}
        self._finished_definitions: dict[tuple[int, ...], list[Definition]] = {}
        self._definitions: list[Definition] = []
        self._numbers: Counter[str] = Counter()  # how often each name was requested
        self._same_value: list[Definition] = []  # the places being converted that hold the same value
        # By the id of a schema: the schema, kept alive so that no other gets its id, and a number that is equal for
        # equal schemas.
        self._value_numbers: dict[int, tuple[int, Any]] = {}
        self._numbers_by_content: dict[Any, int] = {}
        self._places = 0

    # Places.

    def root(self, depth: int = 0) -> tuple[Schema, Node, bool]:
        """The strict schema, the node of the document, and whether it had to be wrapped in an object.

        depth: 1 if the schema will be wrapped, else 0.
        """
        place = self.convert((self._document,), depth, root=True)
        root = next((definition for definition in self._definitions if definition.is_root), None)
        object_branch = place.branches[0] if len(place.branches) == 1 and not place.null else None
        if (
            object_branch is not None
            and object_branch.kind == "object"
            and object_branch.definition is None
            and "properties" in object_branch.schema
        ):
            schema, is_wrapped = annotated(object_branch.schema, place), False
        else:
            if place.is_empty:
                raise Unsatisfiable
            if place.height + 1 > self.settings.levels:
                raise NeedsWrapping
            if root is not None and root.references:
                root.name = self._new_name("root")
                for reference in root.references:
                    reference["$ref"] = f"#/$defs/{root.name}"
            schema, is_wrapped = closed_object({"value": self.written(place, 1)}), True
        definitions = self._named_definitions()
        if definitions:
            schema = {**schema, "$defs": definitions}
        return schema, place.node, is_wrapped

    def child(self, raws: Raws, depth: int, hint: str = "") -> Place:
        outer_places, self._same_value = self._same_value, []
        try:
            return self.convert(raws, depth, hint=hint)
        finally:
            self._same_value = outer_places

    def convert(self, raws: Raws, depth: int, *, root: bool = False, hint: str = "") -> Place:
        """Convert what applies to one value. Raises Unsatisfiable if no value fits."""
        self._count_place()
        if len(raws) == 1 and isinstance(raws[0], dict) and _COMBINING.isdisjoint(raws[0]):
            raw = raws[0]
            kind = raw.get("type")
            if isinstance(kind, str) and kind not in ("object", "array") and not root:
                return plain_scalar(raw, kind) or self._described(branches_of(self, Facts([raw]), depth), [raw])
            conjunction = Conjunction()
            conjunction.plain.append(raw)
            key: tuple[int, ...] = (id(raw),)
        else:
            conjunction = gather(raws, self._references, self._legacy, self.steps)
            if conjunction.false:
                raise Unsatisfiable
            key = tuple(sorted(id(raw) for raw in conjunction.plain if not _OWN_CONSTRAINTS.isdisjoint(raw)))
        if not key:
            return self._described(self.text(), conjunction.plain)
        open_definition = self._active.get(key)
        if open_definition is not None:
            if open_definition in self._same_value:
                # A union that contains itself: this branch adds nothing to the others.
                for definition in self._same_value[self._same_value.index(open_definition) + 1 :]:
                    definition.is_partial = True
                raise Unsatisfiable
            return self._refer(open_definition)
        for definition in self._finished_definitions.get(key, ()):
            if depth == definition.depth or (
                not definition.is_cut and depth + definition.height <= self.settings.levels
            ):
                return self._reuse(definition, raws)
        definition = Definition(depth, hint or _hint(raws), is_root=root)
        self._definitions.append(definition)
        self._active[key] = definition
        self._same_value.append(definition)
        try:
            place = self._convert_gathered(conjunction, depth)
        except Unsatisfiable:
            # A place inside may still refer to it.
            definition.link.node, definition.schema = JsonText(), {"type": "string", "description": "Never used"}
            raise
        finally:
            del self._active[key]
            self._same_value.pop()
        definition.link.node = place.node
        definition.height = place.height
        definition.is_cut = place.is_cut
        definition.size = place.size
        definition.is_done = True
        definition.schema = combine(place, place.null)
        if not definition.is_partial:
            self._finished_definitions.setdefault(key, []).append(definition)
        if root:
            return place
        is_reference = len(raws) == 1 and isinstance(raws[0], dict) and "$ref" in raws[0]
        if definition.name or definition.null_name or (is_reference and place.size > 1):
            return self._refer(definition, raws)
        return place

    def _convert_gathered(self, conjunction: Conjunction, depth: int) -> Place:
        place = self._described(self._union(conjunction, depth), conjunction.plain)
        if len(place.branches) > 1:
            place.branches = self._distinct(place.branches, depth)
        if depth + place.height > self.settings.levels:
            place = self._described(self.text(conjunction.plain), conjunction.plain)
            place.is_cut = True
        return place

    def _described(self, place: Place, schemas: list[dict[str, Any]]) -> Place:
        """The place with the description and the title of its schemas."""
        if place.is_empty:
            raise Unsatisfiable
        place.is_cut = place.is_cut or any(
            branch.schema.get("description", "").startswith(JSON_TEXT) for branch in place.branches
        )
        for raw in schemas:
            if not place.description and isinstance(raw.get("description"), str):
                place.description = raw["description"]
            if not place.title and isinstance(raw.get("title"), str):
                place.title = raw["title"]
        return place

    def _count_place(self) -> None:
        """Count a place. Raises TooLarge if there are too many: a small schema may expand to any number of places."""
        self._places += 1
        self.steps.spend(_STEPS_PER_PLACE)
        if self._places > self.settings.places:
            raise TooLarge

    # Unions.

    def _union(self, conjunction: Conjunction, depth: int) -> Place:
        """All branches of a place. Raises Unsatisfiable if there are none."""
        if len(conjunction.groups) == 1 and not any(says_more(raw) for raw in conjunction.plain):
            place = self._alternatives(conjunction.groups[0][1], depth)
        else:
            hints = [*conjunction.hints]
            groups = []
            for kind, group in conjunction.groups:
                if any(trivial(branch) for branch in group):
                    hints += [raw for branch in group for raw in branch]
                else:
                    groups.append((kind, group))
            if groups:
                place = self._combinations(conjunction, groups, hints, depth)
            else:
                place = branches_of(self, Facts(conjunction.plain), depth, hints)
        if place.is_empty:
            raise Unsatisfiable
        return place

    def _alternatives(self, group: list[Raws], depth: int) -> Place:
        """A union that stands alone: each branch is a place of its own."""
        place = Place([])
        branch_depth = depth + 1 if sum(not is_null(branch) for branch in group) > 1 else depth
        for branch in group:
            try:
                branch_place = self.convert(branch, branch_depth)
            except Unsatisfiable:
                continue
            branch_place.branches = [
                replace(option, schema=annotated(option.schema, branch_place)) for option in branch_place.branches
            ]
            self._add(place, branch_place)
        return place

    def _combinations(
        self, conjunction: Conjunction, groups: list[tuple[str, list[Raws]]], hints: list[Raw], depth: int
    ) -> Place:
        """Unions beside other keywords: each combination of branches becomes a branch, if there are few."""
        width = sum(len(raw["properties"]) for raw in conjunction.plain if isinstance(raw.get("properties"), dict))
        expanded_groups: list[tuple[str, list[Raws]]] = []
        count = 1
        for kind, group in sorted(groups, key=lambda g: len(g[1])):
            only_requires = all(only_required(raw) for branch in group for raw in branch)
            combination_count = count * len(group)
            is_affordable = combination_count <= self.settings.branches or (
                count == 1 and width <= 8 and len(group) <= 64
            )
            if (
                not is_affordable
                or combination_count * width > 400
                or (only_requires and combination_count * width > 24)
            ):
                hints = hints + [raw for branch in group for raw in branch]
            else:
                expanded_groups.append((kind, group))
                count = combination_count
        place = Place([])
        for choice in product(*(group for _, group in expanded_groups)):
            self._count_place()
            # The base comes first: keys keep its order.
            combination = Conjunction()
            combination.plain = [*conjunction.plain]
            raws = [raw for branch in choice for raw in branch]
            combination = gather(raws, self._references, self._legacy, self.steps, combination)
            if combination.false:
                continue
            combination.hints += hints
            for (kind, group), chosen_branch in zip(expanded_groups, choice, strict=True):
                if kind == "anyOf" and not discriminated(group):
                    combination.hints += [raw for branch in group if branch is not chosen_branch for raw in branch]
            try:
                branch_place = self._union(combination, depth + 1 if count > 1 else depth)
            except Unsatisfiable:
                continue
            self._add(place, branch_place)
        return place

    def _add(self, place: Place, addition: Place) -> None:
        """Add branches to a place. Each will be written out wherever the place is."""
        count = len(place.branches) + len(addition.branches)
        self.steps.spend(count)
        if count > _MAX_BRANCHES:
            raise TooLarge
        place.branches += addition.branches
        place.null = place.null or addition.null
        place.is_cut = place.is_cut or addition.is_cut

    def _distinct(self, branches: list[Branch], depth: int) -> list[Branch]:
        """The branches without duplicates, and without those that decoding could not tell apart."""
        text = next((branch for branch in branches if isinstance(branch.node, JsonText)), None)
        if text is not None:  # JSON text is a string and stands for every string
            branches = [branch for branch in branches if branch.kind != "string"] + [text]
        distinct_branches: list[Branch] = []
        contents: set[Any] = set()
        complete_kinds: set[str | None] = set()  # the kinds with a branch for all of their values
        arrays = sum(branch.kind == "array" for branch in branches)
        for branch in branches:
            if arrays > 1 and isinstance(branch.node, Entries) and depth + branch.height + 2 <= self.settings.levels:
                branch = boxed(branch)
            if branch.kind in ("number", "boolean") and branch.kind in complete_kinds:
                continue
            content = self._number(
                {key: value for key, value in branch.schema.items() if key not in ("description", "title")}
            )
            if content in contents:
                continue
            contents.add(content)
            distinct_branches.append(branch)
            if isinstance(branch.node, Plain) and branch.node.allowed_values is None:
                complete_kinds.add(branch.kind)
        # These accept only special forms of a value, so they must be tried first.
        distinct_branches.sort(key=lambda branch: not isinstance(branch.node, (Labels, Boxed, NullText)))
        return distinct_branches

    def _number(self, value: Any) -> Any:
        """Something hashable that is equal for equal schemas. Looks at each part once, however often it occurs."""
        if not isinstance(value, (dict, list)):
            return type(value).__name__, value
        entry = self._value_numbers.get(id(value))
        if entry is None:
            self.steps.spend(1 + len(value))
            content: Any = (
                frozenset((key, self._number(item)) for key, item in value.items())
                if isinstance(value, dict)
                else tuple(map(self._number, value))
            )
            entry = self._numbers_by_content.setdefault(content, len(self._numbers_by_content)), value
            self._value_numbers[id(value)] = entry
        return entry[0]

    # Definitions.

    def _refer(self, definition: Definition, raws: Raws = ()) -> Place:
        """A reference to a definition."""
        reference: Schema = {"$ref": "#"}
        if definition.is_root:
            definition.references.append(reference)
        else:
            definition.name = definition.name or self._new_name(definition.hint)
            reference["$ref"] = f"#/$defs/{definition.name}"
        node: Any = definition.link.node if definition.is_done else definition.link
        kind = definition.schema.get("type") if definition.schema is not None else None
        height = definition.height if definition.is_done else 0
        branch = Branch(reference, node, kind if isinstance(kind, str) else None, height, 1, definition)
        place = Place([branch], is_cut=definition.is_cut)
        description = raws[0].get("description") if raws and isinstance(raws[0], dict) and "$ref" in raws[0] else None
        if isinstance(description, str):
            place.description = description
        return place

    def _reuse(self, definition: Definition, raws: Raws) -> Place:
        """A place that has been converted before."""
        if definition.size > 1 or definition.is_root:
            return self._refer(definition, raws)
        node = definition.link.node
        assert definition.schema is not None
        assert node is not None
        schema = {key: value for key, value in definition.schema.items() if key not in ("description", "title")}
        kind = schema.get("type")  # a list if null is one of the types
        branch = Branch(schema, node, kind if isinstance(kind, str) else None, definition.height, definition.size)
        place = Place([branch], is_cut=definition.is_cut)
        for raw in (*raws, definition.schema):
            if isinstance(raw, dict):
                place.description = place.description or _text(raw, "description")
                place.title = place.title or _text(raw, "title")
        return place

    def written(self, place: Place, depth: int, *, null: bool = False) -> Schema:
        null = null or place.null
        branch = place.branches[0] if len(place.branches) == 1 else None
        if branch is None or branch.definition is None:
            return combine(place, null)
        definition = branch.definition
        if place.description:
            # A reference cannot have a description of its own.
            if null and depth + 1 + branch.height <= self.settings.levels:
                return {"anyOf": [branch.schema, dict(NULL)], "description": place.description}
            if definition.is_done and definition.schema is not None and definition.size <= 12:
                schema = nullable(definition.schema) if null else definition.schema
                return {**schema, "description": place.description}
        if not null:
            return branch.schema
        if definition.is_root and depth + 1 <= self.settings.levels:
            return {"anyOf": [branch.schema, dict(NULL)]}
        if not definition.null_name:
            definition.null_name = self._new_name((definition.name or definition.hint or "root") + "_or_null")
        return {"$ref": f"#/$defs/{definition.null_name}"}

    def _new_name(self, hint: str) -> str:
        name = base = _NOT_IN_NAMES.sub("_", hint[:200]).strip("_")[:40] or "shared"
        while name in self.names:
            self._numbers[base] += 1
            name = f"{base}_{self._numbers[base] + 1}"
        self.names.add(name)
        return name

    def _named_definitions(self) -> Schema:
        definitions: Schema = {}
        for definition in self._definitions:
            if definition.schema is None:
                continue
            if definition.name:
                definitions[definition.name] = definition.schema
            if definition.null_name:
                definitions[definition.null_name] = nullable(definition.schema)
        if self.uses_extra_entries:
            definitions[EXTRA] = any_entries()
        return definitions

    def properties_of(self, raw: Raw) -> dict[str, Raw]:
        conjunction = gather((raw,), self._references, self._legacy, self.steps)
        branches = [member for _, group in conjunction.groups for branch in group for member in branch]
        properties: dict[str, Raw] = {}
        for schema in (*conjunction.plain, *branches):
            if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
                for name, child in schema["properties"].items():
                    properties.setdefault(name, child)
        return properties


def _hint(raws: Raws) -> str:
    """A name for a definition: the end of the reference or the title, empty without either."""
    for raw in raws:
        if isinstance(raw, dict):
            reference = raw.get("$ref")
            if isinstance(reference, str):
                return re.split(r"[/#]", reference.rstrip("/#"))[-1].removesuffix(".json")
            if isinstance(raw.get("title"), str):
                return str(raw["title"])
    return ""


def _text(raw: dict[str, Any], keyword: str) -> str:
    value = raw.get(keyword)
    return value if isinstance(value, str) else ""
