"""TypeScript declarations of frames and tools, from their JSON Schemas."""

import json
import textwrap
from typing import Any

Schema = dict[str, Any]

_HEADER = """\
// Every frame of the CodeLab WebSocket protocol. Written by `make docs` from the server's models; do not edit.
// A `switch` over `type` narrows a ServerFrame to its interface.
"""
_FOOTER = """\
/** The server frame of a type. */
export type ServerFrameOf<Type extends ServerFrame["type"]> = Extract<ServerFrame, { type: Type }>;

/** The client frame of a type. */
export type ClientFrameOf<Type extends ClientFrame["type"]> = Extract<ClientFrame, { type: Type }>;

/** A call of one of the tools that the server knows. Clients know the arguments of their own. */
export type ToolCallFrameOf<Name extends keyof CallArguments> = {
  [Tool in Name]: ToolCallFrame & { tool_name: Tool; arguments?: CallArguments[Tool] };
}[Name];

/** Such a call of any of them: a `switch` over `tool_name` narrows it to the tool's arguments. */
export type KnownCallFrame = ToolCallFrameOf<keyof CallArguments>;
"""
_OF_TOOLS = (
    ("ToolArguments", "parameters", "The `arguments` of a `tool_call`, by its `tool_name`."),
    ("ToolResults", "result", "The `result` of a `tool_result`, by tool. Extra fields are kept."),
)
_WIDTH = 116
_NAMES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def declarations(document: Schema, tools: Schema, asked: Schema) -> str:
    """The `.d.ts` text for all definitions of a `schemas.bundle`, and for the tools of `tools.schemas`.

    `asked`: the server's tools about whose calls a human decides, in the same form.
    """
    parts = [_declaration(name, schema) for name, schema in document["$defs"].items()]
    for name, part, comment in _OF_TOOLS:
        parts.append(_declaration(name, {"description": comment, **_by_tool(tools, part)}))
    members = _members(_by_tool(asked, "parameters"), "  ")
    comment = _comment({"description": "The `arguments` of each call that a client may see, by its `tool_name`."}, "")
    parts.append(f"{comment}export interface CallArguments extends ToolArguments {members}\n")
    return "\n".join([_HEADER, *parts, _FOOTER])


def _by_tool(tools: Schema, part: str) -> Schema:
    properties = {tool: {"description": found["description"], **found[part]} for tool, found in tools.items()}
    return {"properties": properties, "required": list(properties)}


def _declaration(name: str, schema: Schema) -> str:
    comment = _comment(schema, "")
    if "oneOf" in schema:
        return f"{comment}export type {name} =\n  | " + "\n  | ".join(map(type_of, schema["oneOf"])) + ";\n"
    if "properties" not in schema:
        return f"{comment}export type {name} = {type_of(schema)};\n"
    return f"{comment}export interface {name} {_members(schema, '  ')}\n"


def type_of(schema: Schema) -> str:
    """The TypeScript type of a schema, without what TypeScript cannot express (lengths, patterns)."""
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema and "properties" not in schema:
        return " | ".join(dict.fromkeys(type_of(branch) for branch in schema["anyOf"]))
    match schema.get("type"):
        case "object":
            return _object(schema)
        case "array":
            item = type_of(schema.get("items", {}))
            return f"({item})[]" if " | " in item else f"{item}[]"
        case list(names):
            return " | ".join(type_of({**schema, "type": name}) for name in names)
        case str(name):
            return _NAMES[name]
    return "unknown"


def _object(schema: Schema) -> str:
    if "properties" in schema:
        return _members(schema, "")
    values = schema.get("additionalProperties", True)
    return f"Record<string, {'unknown' if values is True else type_of(values)}>"


def _members(schema: Schema, indent: str) -> str:
    """The properties in braces: one per line, or all on one line without an indent."""
    members = []
    for name, field in schema["properties"].items():
        optional = "" if name in schema.get("required", []) else "?"
        comment = _comment(field, indent) if indent else ""
        members.append(f"{comment}{indent}{_key(name)}{optional}: {type_of(field)};")
    if schema.get("additionalProperties") is True:
        members.append(f"{indent}[field: string]: unknown;")
    return "{\n" + "\n".join(members) + "\n}" if indent else "{ " + " ".join(members) + " }"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _comment(schema: Schema, indent: str) -> str:
    text = schema.get("description", "")
    if schema.get("x-extension"):
        text += " An extension frame."
    if not text:
        return ""
    lines = textwrap.wrap(" ".join(text.split()).replace("*/", "* /"), _WIDTH - len(indent))
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return "".join([f"{indent}/**\n", *(f"{indent} * {line}\n" for line in lines), f"{indent} */\n"])
