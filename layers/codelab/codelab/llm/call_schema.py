"""Tools as part of the solution: an array `calls` whose items name a tool and contain its arguments.

One schema for text and calls lets the text come first and be streamed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

CALLS = "calls"
TOOL = "_tool"


def with_tool(base_schema: Any, name: str, parameters: dict[str, Any] | bool, description: str = "") -> dict[str, Any]:
    """The schema with a tool added or redefined. Raises ValueError if it is not the schema of an object."""
    if base_schema is True or base_schema == {}:
        base_schema = {"type": "object", "properties": {}}
    if not isinstance(base_schema, dict) or base_schema.get("type", "object") != "object" or "$ref" in base_schema:
        raise ValueError("a tool needs a schema of an object")
    schema: dict[str, Any] = dict(base_schema)
    branch = _branch(schema, name, parameters if isinstance(parameters, dict) else {}, description)
    properties = dict(schema.get("properties") or {})
    calls_schema = properties.get(CALLS)
    items = calls_schema.get("items") if isinstance(calls_schema, dict) else None
    branches: list[Any] = []
    if isinstance(items, dict):
        branches = list(items["anyOf"]) if isinstance(items.get("anyOf"), list) else [items]
    place = next((index for index, candidate in enumerate(branches) if _name(candidate) == name), len(branches))
    branches[place : place + 1] = [branch]
    properties[CALLS] = {
        **(calls_schema if isinstance(calls_schema, dict) else {}),
        "type": "array",
        "items": {"anyOf": branches},
    }
    schema["properties"] = properties
    schema["type"] = "object"
    required = list(schema.get("required") or ())
    schema["required"] = required if CALLS in required else [*required, CALLS]
    return schema


def _name(branch: Any) -> Any:
    try:
        return branch["properties"][TOOL]["const"]
    except (KeyError, TypeError):
        return None


def _branch(schema: dict[str, Any], name: str, parameters: dict[str, Any], description: str) -> dict[str, Any]:
    """The schema of a call of the tool: the constant first, then the parameters."""
    parameters = {key: value for key, value in parameters.items() if key not in ("$schema", "$id", "id")}
    if "$ref" in repr(parameters) and _refers(parameters):
        # Its references are relative to its root: make that root a definition and refer to it.
        key = _definition(schema, name)
        parameters = _rebased(parameters, f"#/$defs/{key}")
        schema["$defs"] = {**schema.get("$defs", {}), key: parameters}
    properties = parameters.get("properties")
    branch: dict[str, Any] = {"type": "object"}
    words = description or parameters.get("description")
    if words:
        branch["description"] = words
    branch["properties"] = {
        TOOL: {"type": "string", "const": name},
        **(properties if isinstance(properties, dict) else {}),
    }
    branch["required"] = [TOOL, *(n for n in parameters.get("required") or () if n != TOOL)]
    branch["additionalProperties"] = parameters.get("additionalProperties", False)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(parameters.get(keyword), list):
            branch[keyword] = [_admitting(part) for part in parameters[keyword]]
            branch.pop("additionalProperties", None)
    for keyword in ("patternProperties", "dependentRequired", "dependentSchemas", "dependencies", "if", "then", "else",
                    "not", "minProperties", "maxProperties"):  # fmt: skip
        if keyword in parameters:
            counts_properties = keyword in ("minProperties", "maxProperties") and isinstance(parameters[keyword], int)
            branch[keyword] = parameters[keyword] + 1 if counts_properties else parameters[keyword]
    if "$ref" in parameters:
        branch["allOf"] = [*branch.get("allOf", []), {"$ref": parameters["$ref"]}]
        branch.pop("additionalProperties", None)
    return branch


def parameters_of(branch: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the tool that a branch calls: the branch without the constant, and without its description."""
    parameters: dict[str, Any] = {"type": "object"}
    for keyword, value in branch.items():
        if keyword == "description":
            continue
        if keyword == "properties":
            parameters[keyword] = {name: part for name, part in value.items() if name != TOOL}
        elif keyword == "required":
            parameters[keyword] = [name for name in value if name != TOOL]
        elif keyword in ("minProperties", "maxProperties") and isinstance(value, int) and value > 0:
            parameters[keyword] = value - 1
        elif keyword in ("anyOf", "oneOf", "allOf") and isinstance(value, list):
            parameters[keyword] = list(map(_without_tool, value))
        else:
            parameters[keyword] = value
    return parameters


def _without_tool(part: Any) -> Any:
    """A part of a combination, without what `_admitting` added to it."""
    properties = part.get("properties") if isinstance(part, dict) else None
    if not isinstance(properties, dict) or properties.get(TOOL) != {}:
        return part
    return {**part, "properties": {name: value for name, value in properties.items() if name != TOOL}}


def _admitting(part: Any) -> Any:
    """A part of a combination, extended to allow `_tool`."""
    if isinstance(part, dict) and part.get("additionalProperties") is False:
        return {**part, "properties": {**(part.get("properties") or {}), TOOL: {}}}
    return part


def _refers(node: Any) -> bool:
    if isinstance(node, dict):
        return isinstance(node.get("$ref"), str) or any(map(_refers, node.values()))
    return isinstance(node, list) and any(map(_refers, node))


def _rebased(node: Any, root: str) -> Any:
    if isinstance(node, dict):
        schema = {key: _rebased(value, root) for key, value in node.items()}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#") and (reference == "#" or reference[1] == "/"):
            schema["$ref"] = root + reference[1:]
        return schema
    return [_rebased(item, root) for item in node] if isinstance(node, list) else node


def _definition(schema: dict[str, Any], name: str) -> str:
    return "tool_" + re.sub(r"[^A-Za-z0-9_-]", "_", name)
