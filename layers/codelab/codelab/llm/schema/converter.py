"""From any JSON Schema to a strict one that is a relaxation of it.

Every place of the schema is encoded as a list of branches, one for each way to write a value there. A place that is
referred to, or that contains itself, becomes a definition. What does not fit under the limits is JSON text.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from typing import Any

from codelab.llm.schema.containers import Entries, Held
from codelab.llm.schema.facts import Branch as Raws
from codelab.llm.schema.facts import Facts, Gathered, Raw, gather
from codelab.llm.schema.keywords import APPLICATORS, CONSTRAINTS, brief
from codelab.llm.schema.nodes import Labels, NullText, Plain, Text
from codelab.llm.schema.objects import free_entries, held
from codelab.llm.schema.references import References, is_legacy
from codelab.llm.schema.scalars import simple
from codelab.llm.schema.shapes import branches
from codelab.llm.schema.strict import (
    CUT,
    EXTRA,
    NULL,
    Branch,
    Made,
    Schema,
    Settings,
    Slot,
    TooLarge,
    Unsatisfiable,
    Work,
    Wrapped,
    annotated,
    combine,
    nullable,
)
from codelab.llm.schema.unions import discriminated, is_null, only_required, says_more, trivial

_COMBINING = frozenset(APPLICATORS)
_OWN = CONSTRAINTS - {"$ref", "$dynamicRef", "$recursiveRef", "allOf"}
# Steps that a place costs at least, and the most branches of one.
_PLACE, _BRANCHES = 8, 2_000
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class Encoder:
    """One attempt at one document, with given settings."""

    def __init__(self, document: Any, *, keep: bool, settings: Settings, without: frozenset[str], work: Work) -> None:
        self.keep = keep
        self.settings = settings
        self.without = without
        self.work = work
        self.texts: Counter[str] = Counter()
        self.values_left = settings.values
        self.characters_left = settings.characters
        self._document = document
        self._references = References(document)
        self._legacy = is_legacy(document)
        self._active: dict[tuple[int, ...], Slot] = {}
        self._made: dict[tuple[int, ...], list[Slot]] = {}
        self._slots: list[Slot] = []
        self._names: set[str] = set()
        self._numbers: Counter[str] = Counter()  # how often a name was wanted
        self._forms: dict[int, tuple[int, Any]] = {}  # by identity: equal for equal schemas; the schema is kept alive
        self._known_forms: dict[Any, int] = {}
        self._synthesized: dict[tuple[int, ...], Schema] = {}
        self._extra_used = False
        self._nodes = 0
        self._here: list[Slot] = []  # the places that are being encoded for the same value

    # Places.

    def root(self, depth: int = 0) -> tuple[Schema, Any, bool]:
        """The strict schema, the node of the document, and whether it had to be wrapped in an object.

        depth: 1 when it is known that it will be wrapped.
        """
        made = self.place((self._document,), depth, root=True)
        slot = next((slot for slot in self._slots if slot.is_root), None)
        first = made.branches[0] if len(made.branches) == 1 and not made.null else None
        if first is not None and first.kind == "object" and first.slot is None and "properties" in first.schema:
            schema = annotated(first.schema, made)
            wrapped = False
        else:
            if not made.branches and not made.null:
                raise Unsatisfiable
            if made.height + 1 > self.settings.levels:
                raise Wrapped
            if slot is not None and slot.references:
                slot.name = self._new_name("root")
                for reference in slot.references:
                    reference["$ref"] = f"#/$defs/{slot.name}"
            schema = {
                "type": "object",
                "properties": {"value": self.written(made, 1)},
                "required": ["value"],
                "additionalProperties": False,
            }
            wrapped = True
        definitions = self._definitions()
        if definitions:
            schema = {**schema, "$defs": definitions}
        return schema, made.node, wrapped

    def child(self, raws: Raws, depth: int, hint: str = "") -> Made:
        """Encode what applies to a property or an item. Raises Unsatisfiable when nothing fits there."""
        here, self._here = self._here, []
        try:
            return self.place(raws, depth, hint=hint)
        finally:
            self._here = here

    def place(self, raws: Raws, depth: int, *, root: bool = False, hint: str = "") -> Made:
        """Encode what applies at one place. Raises Unsatisfiable when nothing fits there."""
        self._count()
        if len(raws) == 1 and isinstance(raws[0], dict) and _COMBINING.isdisjoint(raws[0]):
            raw = raws[0]
            kind = raw.get("type")
            if isinstance(kind, str) and kind not in ("object", "array") and not root:
                scalar = simple(raw, kind)
                if scalar is not None:
                    return scalar
                return self._made_of(branches(self, Facts([raw]), depth, ()), [raw])
            gathered = Gathered()
            gathered.plain.append(raw)
            key: tuple[int, ...] = (id(raw),)
        else:
            gathered = gather(raws, self._references, self._legacy, self.work)
            if gathered.false:
                raise Unsatisfiable
            key = tuple(sorted(id(raw) for raw in gathered.plain if not _OWN.isdisjoint(raw)))
        if not key:
            made = self.text("unresolved" if gathered.unresolved else "untyped", depth)
            return self._described(made, gathered.plain)
        active = self._active.get(key)
        if active is not None:
            if active in self._here:
                # A union that contains itself: the branch adds nothing to the others.
                for slot in self._here[self._here.index(active) + 1 :]:
                    slot.partial = True
                raise Unsatisfiable
            return self._refer(active)
        for slot in self._made.get(key, ()):
            if depth == slot.depth or (not slot.cut and depth + slot.height <= self.settings.levels):
                return self._reuse(slot, raws)
        slot = Slot(depth, hint or _hint(raws), is_root=root)
        self._slots.append(slot)
        self._active[key] = slot
        self._here.append(slot)
        try:
            made = self._encode(gathered, depth)
        except Unsatisfiable:
            # Somebody inside may refer to it all the same.
            slot.link.node, slot.schema = Text(), {"type": "string", "description": "Never used"}
            raise
        finally:
            del self._active[key]
            self._here.pop()
        slot.link.node = made.node
        slot.null = made.null
        slot.height = made.height
        slot.cut = made.cut
        slot.size = made.size
        slot.done = True
        slot.schema = combine(made, made.null)
        if not slot.partial:
            self._made.setdefault(key, []).append(slot)
        if root:
            return made
        named = _referring(raws)
        if slot.name or slot.null_name or (named and made.size > 1):
            return self._refer(slot, raws)
        return made

    def _encode(self, gathered: Gathered, depth: int) -> Made:
        branches, null, cut = self._union(gathered, depth)
        made = self._made_of((branches, null), gathered.plain)
        made.cut = cut or made.cut
        if len(made.branches) > 1:
            made.branches = self._distinct(made.branches, depth)
        if depth + made.height > self.settings.levels:
            made = self._described(self.text("levels", depth, gathered.plain), gathered.plain)
            made.cut = True
        return made

    def _made_of(self, found: tuple[list[Branch], bool], plain: list[dict[str, Any]]) -> Made:
        branches, null = found
        if not branches and not null:
            raise Unsatisfiable
        made = Made(branches, null)
        made.cut = any(branch.schema.get("description", "").startswith(CUT) for branch in branches)
        return self._described(made, plain)

    def _described(self, made: Made, plain: list[dict[str, Any]]) -> Made:
        for raw in plain:
            if not made.described and isinstance(raw.get("description"), str):
                made.described = raw["description"]
            if not made.title and isinstance(raw.get("title"), str):
                made.title = raw["title"]
        return made

    def _count(self) -> None:
        """One more thing to do: a small schema may ask for any number of them."""
        self._nodes += 1
        self.work.do(_PLACE)
        if self._nodes > self.settings.nodes:
            raise TooLarge

    # Unions.

    def _union(self, gathered: Gathered, depth: int) -> tuple[list[Branch], bool, bool]:
        """The branches of a place, whether null is one, and whether something had to be cut."""
        if len(gathered.groups) == 1 and not any(says_more(raw) for raw in gathered.plain):
            return self._alternatives(gathered.groups[0][1], depth)
        groups = [group for group in gathered.groups if not any(trivial(branch) for branch in group[1])]
        loose = [*gathered.loose]
        for _, group in gathered.groups:
            if any(trivial(branch) for branch in group):
                loose += [raw for branch in group for raw in branch]
        if not groups:
            found, null = branches(self, Facts(gathered.plain), depth, loose, gathered.unresolved)
            return found, null, False
        return self._multiplied(gathered, groups, loose, depth)

    def _alternatives(self, group: list[Raws], depth: int) -> tuple[list[Branch], bool, bool]:
        """A union that stands alone: each branch is a place of its own."""
        branches: list[Branch] = []
        null = cut = False
        inner = depth + 1 if sum(not is_null(branch) for branch in group) > 1 else depth
        for branch in group:
            try:
                made = self.place(branch, inner)
            except Unsatisfiable:
                continue
            null = null or made.null
            cut = cut or made.cut
            self._count_branches(len(branches) + len(made.branches))
            for found in made.branches:
                schema = annotated(found.schema, made)
                branches.append(Branch(schema, found.node, found.kind, found.height, found.size, found.slot))
        if not branches and not null:
            raise Unsatisfiable
        return branches, null, cut

    def _multiplied(
        self, gathered: Gathered, groups: list[tuple[str, list[Raws]]], loose: list[Raw], depth: int
    ) -> tuple[list[Branch], bool, bool]:
        """Unions beside other keywords: every combination of branches becomes a branch, while there are few."""
        width = sum(len(raw["properties"]) for raw in gathered.plain if isinstance(raw.get("properties"), dict))
        kept: list[tuple[str, list[Raws]]] = []
        count = 1
        for kind, group in sorted(groups, key=lambda g: len(g[1])):
            required_only = all(only_required(raw) for branch in group for raw in branch)
            more = count * len(group)
            few = more <= self.settings.branches or (count == 1 and width <= 8 and len(group) <= 64)
            if not few or more * width > 400 or (required_only and more * width > 24):
                loose = loose + [raw for branch in group for raw in branch]
            else:
                kept.append((kind, group))
                count = more
        branches: list[Branch] = []
        null = cut = False
        for choice in product(*(group for _, group in kept)):
            self._count()
            combined = Gathered()
            combined.plain = [*gathered.plain]
            combined.unresolved = gathered.unresolved
            raws = [raw for branch in choice for raw in branch]
            combined = gather(raws, self._references, self._legacy, self.work, combined)
            if combined.false:
                continue
            combined.loose += loose
            for (kind, group), chosen in zip(kept, choice, strict=True):
                if kind == "anyOf" and not discriminated(group):
                    combined.loose += [raw for branch in group if branch is not chosen for raw in branch]
            # The base comes last: names and descriptions of the branch win, keys keep the base's order.
            try:
                found, also_null, also_cut = self._union(combined, depth + 1 if count > 1 else depth)
            except Unsatisfiable:
                continue
            self._count_branches(len(branches) + len(found))
            branches += found
            null = null or also_null
            cut = cut or also_cut
        if not branches and not null:
            raise Unsatisfiable
        return branches, null, cut

    def _distinct(self, branches: list[Branch], depth: int) -> list[Branch]:
        """Without branches that say the same, or that could not be told apart when decoding."""
        if any(isinstance(branch.node, Text) for branch in branches):
            # JSON text is a string and stands for every string.
            text = next(branch for branch in branches if isinstance(branch.node, Text))
            branches = [branch for branch in branches if branch.kind != "string"] + [text]
        out: list[Branch] = []
        seen: set[Any] = set()
        whole: set[str | None] = set()  # the kinds of which every value is among the branches already
        arrays = sum(branch.kind == "array" for branch in branches)
        for branch in branches:
            if arrays > 1 and isinstance(branch.node, Entries) and depth + branch.height + 2 <= self.settings.levels:
                branch = held(branch)
            if branch.kind in ("number", "boolean") and branch.kind in whole:
                continue
            bare = self._form(
                {key: value for key, value in branch.schema.items() if key not in ("description", "title")}
            )
            if bare in seen:
                continue
            seen.add(bare)
            out.append(branch)
            if isinstance(branch.node, Plain) and branch.node.allowed is None:
                whole.add(branch.kind)
        # Labels are strings too, and must be tried before any string.
        out.sort(key=lambda branch: not isinstance(branch.node, (Labels, Held, NullText)))
        return out

    def _count_branches(self, count: int) -> None:
        """The branches of one place: each is written out wherever the place is."""
        self.work.do(count)
        if count > _BRANCHES:
            raise TooLarge

    def _form(self, value: Any) -> Any:
        """What is hashable, and equal for equal schemas. Each of its parts is looked at once, however often it is
        there."""
        if not isinstance(value, (dict, list)):
            return type(value).__name__, value
        known = self._forms.get(id(value))
        if known is None:
            self.work.do(1 + len(value))
            parts: Any = (
                frozenset((key, self._form(item)) for key, item in value.items())
                if isinstance(value, dict)
                else tuple(map(self._form, value))
            )
            known = self._known_forms.setdefault(parts, len(self._known_forms)), value
            self._forms[id(value)] = known
        return known[0]

    # Definitions.

    def _refer(self, slot: Slot, raws: Raws = ()) -> Made:
        """A reference to a place."""
        reference: Schema = {"$ref": ""}
        if slot.is_root:
            reference["$ref"] = "#"
            slot.references.append(reference)
        else:
            if not slot.name:
                slot.name = self._new_name(slot.hint)
            reference["$ref"] = f"#/$defs/{slot.name}"
        node: Any = slot.link.node if slot.done else slot.link
        kind = None
        if slot.schema is not None and isinstance(slot.schema.get("type"), str):
            kind = slot.schema["type"]
        height = slot.height if slot.done else 0
        made = Made([Branch(reference, node, kind, height, 1, slot)], cut=slot.cut)
        own = raws[0].get("description") if raws and isinstance(raws[0], dict) and "$ref" in raws[0] else None
        if isinstance(own, str):
            made.described = own
        return made

    def _reuse(self, slot: Slot, raws: Raws) -> Made:
        """A place that has been encoded before."""
        assert slot.schema is not None
        if slot.size > 1 or slot.is_root:
            return self._refer(slot, raws)
        schema = {key: value for key, value in slot.schema.items() if key not in ("description", "title")}
        kind = schema.get("type")
        made = Made(
            [Branch(schema, slot.link.node, kind if isinstance(kind, str) else None, slot.height, slot.size)],  # type: ignore[arg-type]
            cut=slot.cut,
        )
        own = [raw for raw in raws if isinstance(raw, dict)]
        made = self._described(made, own)
        made.described = made.described or slot.schema.get("description", "")
        made.title = made.title or slot.schema.get("title", "")
        if isinstance(kind, list):
            # Null is inside; the place keeps it.
            made.branches[0].kind = None
        return made

    def written(self, made: Made, depth: int, *, null: bool = False) -> Schema:
        """The schema of a place as it stands in its parent, with null beside it where that means absent."""
        null = null or made.null
        branch = made.branches[0] if len(made.branches) == 1 else None
        if branch is None or branch.slot is None:
            return combine(made, null)
        slot = branch.slot
        if made.described:
            # A reference has no place for a description of its own.
            if null and depth + 1 + branch.height <= self.settings.levels:
                return {"anyOf": [branch.schema, dict(NULL)], "description": made.described}
            if slot.done and slot.schema is not None and slot.size <= 12:
                return {**(nullable(slot.schema) if null else slot.schema), "description": made.described}
        if not null:
            return branch.schema
        if slot.is_root and depth + 1 <= self.settings.levels:
            return {"anyOf": [branch.schema, dict(NULL)]}
        if not slot.null_name:
            slot.null_name = self._new_name((slot.name or slot.hint or "root") + "_or_null")
        return {"$ref": f"#/$defs/{slot.null_name}"}

    def _new_name(self, hint: str) -> str:
        name = base = _NAME.sub("_", hint[:200]).strip("_")[:40] or "shared"
        while name in self._names:
            self._numbers[base] += 1
            name = f"{base}_{self._numbers[base] + 1}"
        self._names.add(name)
        return name

    def _definitions(self) -> Schema:
        out: Schema = {}
        for slot in self._slots:
            if slot.schema is None:
                continue
            if slot.name:
                out[slot.name] = slot.schema
            if slot.null_name:
                out[slot.null_name] = nullable(slot.schema)
        if self._extra_used:
            out[EXTRA] = free_entries()
        return out

    # What shapes need.

    def text(self, reason: str, depth: int, plain: list[dict[str, Any]] | None = None) -> Made:
        """JSON text in a string, and why: "untyped", or the name of the limit that forces it."""
        self.texts[reason] += 1
        words = "Any value, as JSON text" if not plain else f"{CUT} of a value for {brief(plain[0])}"
        return Made([Branch({"type": "string", "description": words}, Text(), "string")], cut=bool(plain))

    def cut(self, facts: Facts, depth: int) -> Branch:
        """JSON text where the schema would be nested too deeply."""
        [branch] = self.text("levels", depth, facts.raws).branches
        return branch

    def synthesized(self, branches: list[Raw]) -> Schema:
        """One schema for "any of these", the same object whenever the same is asked."""
        key = tuple(map(id, branches))
        made = self._synthesized.get(key)
        if made is None:
            made = self._synthesized[key] = {"anyOf": branches}
        return made

    def extra_entries(self) -> Schema:
        """The list of further keys with values of any kind: one definition for all objects that have it."""
        self._extra_used = True
        self._names.add(EXTRA)
        return {"$ref": f"#/$defs/{EXTRA}"}

    def properties_of(self, raw: Raw) -> dict[str, Raw]:
        """The properties that a schema mentions, through references and allOf."""
        out: dict[str, Raw] = {}
        gathered = gather((raw,), self._references, self._legacy, self.work)
        for plain in gathered.plain:
            properties = plain.get("properties")
            if isinstance(properties, dict):
                for name, child in properties.items():
                    out.setdefault(name, child)
        for _, group in gathered.groups:
            for branch in group:
                for inner in branch:
                    if isinstance(inner, dict) and isinstance(inner.get("properties"), dict):
                        for name, child in inner["properties"].items():
                            out.setdefault(name, child)
        return out


def _hint(raws: Raws) -> str:
    for raw in raws:
        if isinstance(raw, dict):
            reference = raw.get("$ref")
            if isinstance(reference, str):
                return re.split(r"[/#]", reference.rstrip("/#"))[-1].removesuffix(".json")
            if isinstance(raw.get("title"), str):
                return str(raw["title"])
    return ""


def _referring(raws: Raws) -> bool:
    return len(raws) == 1 and isinstance(raws[0], dict) and "$ref" in raws[0]
