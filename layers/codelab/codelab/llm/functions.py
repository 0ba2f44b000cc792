"""The calls of an answer as functions of the chat completions API, for the strategy `calls`.

It fits schemas of one shape: an object of one text and the array `calls`, whose items tell themselves apart by the
constant `_tool`. Each branch becomes a function, and the text is what the model writes beside its calls. A schema with
further fields does not fit: there is nowhere to write them. Such are a session's first steps, whose answers have a
title or choose an agent. A function for these fields alone would have to be forced, and `tool_choice` cannot force one
function and leave the others to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codelab.llm.call_schema import CALLS, TOOL, parameters_of
from codelab.llm.encoding import Fixed
from codelab.llm.modes import Mode
from codelab.llm.native_calls import NativeCall
from codelab.llm.parsing import parse
from codelab.llm.schema.codec import Codec, make_codec, new_step_counter

#: As many as OpenAI takes.
_MAX_FUNCTIONS = 128
#: How much longer all parameters may be than the schema, whose definitions each function repeats: who may send a schema
#: of some length must not make the model read a hundred times as much.
_MOST_GROWTH = 2
_NAME_CHARS = 64
_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{_NAME_CHARS}}}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
#: What the root of a schema of this shape may say.
_ROOT_KEYWORDS = frozenset(
    {"$schema", "$defs", "definitions", "type", "title", "description", "properties", "required",
     "additionalProperties"}
)  # fmt: skip
_DEFINITIONS = ("$defs", "definitions")
_REFERENCE = re.compile(r"#/(\$defs|definitions)/([^/]+)")
#: Keywords that change what references mean, or are references that cannot be moved with a part of the document.
_MOORINGS = ("$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef")


def function_names(tools: Iterable[str]) -> dict[str, str]:
    """The name of each tool's function: at most 64 letters, digits, `_` and `-`, and no two tools have the same.

    A tool whose name is such a name keeps it. The names depend on the tools and their order only.
    """
    ordered_tools = list(dict.fromkeys(tools))
    names = {tool: tool for tool in ordered_tools if _NAME.fullmatch(tool)}
    taken_names = set(names)
    for tool in ordered_tools:
        if tool in names:
            continue
        base = _NOT_IN_NAMES.sub("_", tool)[:_NAME_CHARS] or "_"
        name, number = base, 1
        while name in taken_names:
            number += 1
            suffix = f"_{number}"
            name = base[: _NAME_CHARS - len(suffix)] + suffix
        names[tool] = name
        taken_names.add(name)
    return names


class InvalidCall(ValueError):
    """A call that cannot be an item of `calls`. The message says why, to the model."""


@dataclass(frozen=True, slots=True)
class _Function:
    tool: str
    name: str
    description: str
    parameters: Mapping[str, Any]


class Functions:
    """The functions of one schema.

    text_field: the field of the answer that is the model's text. names: the function of each tool. open_objects: see
    `RequestConfig`.
    """

    def __init__(self, text_field: str, functions: Iterable[_Function], open_objects: str) -> None:
        self.text_field = text_field
        self._functions = {function.name: function for function in functions}
        self.names = {function.tool: function.name for function in self._functions.values()}
        self._open_objects = open_objects
        self._codecs: dict[frozenset[str], dict[str, Codec]] = {}
        self._definitions: dict[tuple[bool, frozenset[str]], list[Fixed]] = {}

    def definitions(self, mode: Mode, excluded_keywords: frozenset[str]) -> list[Fixed]:
        """The body's `tools`. excluded_keywords: those of strict schemas that the provider does not support."""
        key = (mode.strict, excluded_keywords)
        if key not in self._definitions:
            self._definitions[key] = [
                _definition(function, self._codec(function, mode, excluded_keywords), strict=mode.strict)
                for function in self._functions.values()
            ]
        return self._definitions[key]

    def tool_of(self, name: str) -> str | None:
        """The tool of a function; None if there is no such function."""
        function = self._functions.get(name)
        return None if function is None else function.tool

    def item_of(self, call: NativeCall, mode: Mode, excluded_keywords: frozenset[str]) -> dict[str, Any]:
        """The item of `calls` that a call means, not validated yet. Raises InvalidCall."""
        function = self._functions.get(call.name)
        if function is None:
            raise InvalidCall(
                f"there is no function {call.name[:_NAME_CHARS]!r}; call one of {', '.join(self._functions)}"
            )
        codec = self._codec(function, mode, excluded_keywords)
        arguments = arguments_of(call)
        if codec is not None:
            arguments = codec.decode(arguments)
        if not isinstance(arguments, dict):
            raise InvalidCall("the arguments are not a JSON object")
        return {TOOL: function.tool, **{name: value for name, value in arguments.items() if name != TOOL}}

    def _codec(self, function: _Function, mode: Mode, excluded_keywords: frozenset[str]) -> Codec | None:
        """The codec of what is sent for a function, None if its parameters are sent as they are."""
        codecs = self._codecs.get(excluded_keywords)
        if codecs is None:
            steps = new_step_counter()  # one for all, so that many functions cannot cost more than one large schema
            codecs = self._codecs[excluded_keywords] = {
                name: make_codec(
                    candidate.parameters,
                    open_objects=self._open_objects,
                    excluded_keywords=excluded_keywords,
                    steps=steps,
                )
                for name, candidate in self._functions.items()
            }
        codec = codecs[function.name]
        return codec if codec.strict and (mode.strict or codec.is_wrapped) else None


def arguments_of(call: NativeCall) -> Any:
    """The arguments of a call, parsed. Some models write nothing where there are none. Raises InvalidCall."""
    try:
        value = parse(call.arguments) if call.arguments.strip() else {}
        if isinstance(value, str):  # some servers encode the arguments twice
            value = parse(value)
    except ValueError as error:
        raise InvalidCall(f"the arguments are not valid JSON: {error}") from None
    return {} if value is None else value


def _definition(function: _Function, codec: Codec | None, *, strict: bool) -> Fixed:
    definition: dict[str, Any] = {"name": function.name}
    if function.description:
        definition["description"] = function.description
    definition["parameters"] = function.parameters if codec is None else codec.schema
    if strict and codec is not None:
        definition["strict"] = True
    return Fixed({"type": "function", "function": definition})


def functions_of(schema: Any, open_objects: str) -> Functions | None:
    """The functions of a schema; None if it does not have the shape."""
    text_field = _text_field(schema)
    branches = None if text_field is None else _branches(schema)
    if text_field is None or branches is None:
        return None
    names = function_names(branches)
    functions = [
        _Function(tool, names[tool], str(branch.get("description") or ""), _with_definitions(branch, schema))
        for tool, branch in branches.items()
    ]
    if sum(_length(function.parameters) for function in functions) > _MOST_GROWTH * _length(schema):
        return None
    return Functions(text_field, functions, open_objects)


def _length(schema: Any) -> int:
    return len(json.dumps(schema, default=str))


def _text_field(schema: Any) -> str | None:
    """The only property beside `calls`, if it is a string."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object" or not schema.keys() <= _ROOT_KEYWORDS:
        return None
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or CALLS not in properties or len(properties) != 2:
        return None
    [name] = properties.keys() - {CALLS}
    field = properties[name]
    return str(name) if isinstance(field, Mapping) and field.get("type") == "string" else None


def _branches(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]] | None:
    """The branches of `calls` by their tools; None if one of them cannot be a function."""
    if not _is_movable(schema):
        return None
    calls_schema = schema["properties"][CALLS]
    if not isinstance(calls_schema, Mapping) or calls_schema.get("type") != "array":
        return None
    items = calls_schema.get("items")
    if not isinstance(items, Mapping) or not items.keys() <= {"anyOf", "description", "title"}:
        return None
    branches = items.get("anyOf")
    if not isinstance(branches, list) or not branches or len(branches) > _MAX_FUNCTIONS:
        return None
    by_tool: dict[str, Mapping[str, Any]] = {}
    for branch in branches:
        tool = _tool_of(branch)
        if tool is None or tool in by_tool:
            return None
        by_tool[tool] = branch
    return by_tool


def _tool_of(branch: Any) -> str | None:
    """The constant in a branch that is a plain object."""
    if not isinstance(branch, Mapping) or branch.get("type", "object") != "object" or "$ref" in branch:
        return None
    properties = branch.get("properties")
    constant = properties.get(TOOL) if isinstance(properties, Mapping) else None
    tool = constant.get("const") if isinstance(constant, Mapping) else None
    return tool if isinstance(tool, str) and TOOL in (branch.get("required") or ()) else None


def _with_definitions(branch: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a branch, with the definitions of the schema that they need."""
    parameters = parameters_of(branch)
    pending, needed = list(_references(parameters)), dict[tuple[str, str], Any]()
    while pending:
        place = pending.pop()
        if place not in needed:
            needed[place] = schema[place[0]][place[1]]
            pending.extend(_references(needed[place]))
    for keyword in _DEFINITIONS:
        definitions = {name: needed[keyword, name] for kind, name in needed if kind == keyword}
        if definitions:
            parameters[keyword] = definitions
    return parameters


def _references(node: Any) -> Iterator[tuple[str, str]]:
    for part in _objects(node):
        match = _REFERENCE.match(part["$ref"]) if isinstance(part.get("$ref"), str) else None
        if match is not None:
            yield match.group(1), _unescaped(match.group(2))


def _unescaped(name: str) -> str:
    """A part of a JSON Pointer (RFC 6901) as a key."""
    return name.replace("~1", "/").replace("~0", "~")


def _is_movable(schema: Mapping[str, Any]) -> bool:
    """Whether the parts of the schema refer to its definitions only, so that each can be moved with those it needs."""
    for part in _objects(schema):
        if any(isinstance(part.get(keyword), str) for keyword in _MOORINGS):
            return False
        reference = part.get("$ref")
        if isinstance(reference, str):
            match = _REFERENCE.match(reference)
            if match is None or _unescaped(match.group(2)) not in (schema.get(match.group(1)) or {}):
                return False
    return True


def _objects(node: Any) -> Iterator[Mapping[str, Any]]:
    """All objects in a JSON value, itself included."""
    stack: list[Any] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            yield part
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)


def excluded_keywords_of(unsupported: Collection[str]) -> frozenset[str]:
    """The keywords of strict schemas among the unsupported features."""
    return frozenset(feature[8:] for feature in unsupported if feature.startswith("keyword:"))
