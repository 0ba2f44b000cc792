"""Names for the schemas inside other schemas: a generator has to invent one for each that has none."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Schema = dict[str, Any]
#: Where a schema is: its component, then the names of fields.
Place = tuple[str, ...]

_REFERENCE = "#/components/schemas/"
_NULL = {"type": "null"}
#: What a field says beside its type.
_OF_FIELDS = ("description", "default", "title")
#: Fields whose name says too little about their values.
_VAGUE = {"Type", "State", "Status", "Role"}


def with_names(components: Mapping[str, Schema]) -> dict[str, Schema]:
    """The components, and one more for each of `anonymous`; equal ones share it. A component's title is its name."""
    places: defaultdict[str, list[Place]] = defaultdict(list)

    def note(schema: Schema, place: Place) -> Schema:
        places[json.dumps(schema, sort_keys=True)].append(place)
        return schema

    for name, schema in components.items():
        _replaced(schema, (name,), note)
    names = _names(places.values(), set(components))
    added: dict[str, Schema] = {}

    def move(schema: Schema, place: Place) -> Schema:
        name = names[place]
        added[name] = {"title": name, **schema}
        return {"$ref": f"{_REFERENCE}{name}"}

    kept = {name: {**_replaced(schema, (name,), move), "title": name} for name, schema in components.items()}
    return kept | dict(sorted(added.items()))


def anonymous(components: Mapping[str, Schema]) -> list[Place]:
    """The places of the schemas that have no name: enumerations, objects with fields, and unions of several types."""
    places: list[Place] = []

    def note(schema: Schema, place: Place) -> Schema:
        places.append(place)
        return schema

    for name, schema in components.items():
        _replaced(schema, (name,), note)
    return places


def _replaced(schema: Schema, place: Place, replace: Callable[[Schema, Place], Schema]) -> Schema:
    """A schema in which each anonymous one is replaced, the innermost first. Fields have no titles."""

    def inside(inner: Schema, place: Place) -> Schema:
        field = {key: inner[key] for key in _OF_FIELDS if key in inner and key != "title"}
        core = _replaced({key: value for key, value in inner.items() if key not in _OF_FIELDS}, place, replace)
        return {**(replace(core, place) if _is_anonymous(core) else core), **field}

    changed = dict(schema)
    if "properties" in schema:
        changed["properties"] = {name: inside(inner, (*place, name)) for name, inner in schema["properties"].items()}
    elif "anyOf" in schema:
        branch_place = (*place, "object") if _is_union(schema) else place
        changed["anyOf"] = [inside(branch, branch_place) for branch in schema["anyOf"]]
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            changed[name] = inside(schema[name], place)
    return changed


def _is_anonymous(schema: Schema) -> bool:
    return "enum" in schema or "properties" in schema or _is_union(schema)


def _is_union(schema: Schema) -> bool:
    return len([branch for branch in schema.get("anyOf", []) if branch != _NULL]) > 1


def _names(equal_schemas: Iterable[list[Place]], taken: set[str]) -> dict[Place, str]:
    """The field's name for a schema that several components share, else the component's and the field's."""
    names: dict[Place, str] = {}
    for shared in sorted(equal_schemas, key=len, reverse=True):
        field = _words(min(shared, key=lambda place: len(place[-1]))[-1])
        component, *fields = shared[0]
        name = component.removesuffix("Frame") + "".join(map(_words, fields))
        if len({place[0] for place in shared}) > 1 and field not in taken | _VAGUE:
            name = field
        assert name not in taken, f"{shared} needs another name than {name}"
        taken.add(name)
        names |= dict.fromkeys(shared, name)
    return names


def _words(field: str) -> str:
    return "".join(word.capitalize() for word in field.split("_"))
