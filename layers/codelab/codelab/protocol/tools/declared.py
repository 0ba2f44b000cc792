"""A client's own tools, declared in `hello` for its connection.

The client's schema is compiled, sent to the model and validated against in every step, so its size, references and
patterns are limited.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

import jsonschema_rs
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from codelab.protocol import limits
from codelab.protocol.tools import ALIASES, KNOWN_TOOLS
from codelab.protocol.tools.tool import Tool
from codelab.protocol.tools.words import visible, without_words, words_of

#: The characters that providers allow in function names, and the dot of the catalogue's names.
NAME = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"
#: Limits of one tool's schema: its places, before and after references are resolved, and their nesting depth.
_PLACES = 2_000
_DEPTH = 40
#: Keywords that let a reference point to something other than a place in this schema.
_ELSEWHERE = frozenset({"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"})
#: The catalogue's names, which are reserved in upper and lower case.
_RESERVED_NAMES = frozenset(name.casefold() for name in (*KNOWN_TOOLS, *ALIASES))
#: The description of a tool whose own description is not trusted.
_DESCRIBED_AS_DATA = "The user's first message has its description."
_POINTER = re.compile(r"#(/[^#]*)?")


def _free_name(name: str) -> str:
    if name.casefold() in _RESERVED_NAMES:
        raise PydanticCustomError("name", "{name} is a tool of the catalogue", {"name": name})
    return name


def _usable_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        check_schema(schema)
    except ValueError as error:
        raise PydanticCustomError("schema", "{why}", {"why": str(error)}) from None
    return schema


class ToolDeclaration(BaseModel):
    """A client's own tool. It runs in the IDE like the catalogue's, and needs approval unless it is read-only."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    name: Annotated[str, StringConstraints(pattern=NAME), AfterValidator(_free_name)] = Field(
        description="A name that is neither a name nor an alias in the catalogue."
    )
    description: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] = Field(
        description="What the tool does and when to use it. The model reads this."
    )
    parameters: Annotated[dict[str, Any], AfterValidator(_usable_schema)] = Field(
        default_factory=lambda: {"type": "object", "properties": {}},
        description="The JSON Schema (2020-12) of the arguments: an object, not recursive, no external references.",
    )
    read_only: bool = Field(default=False, description="True: changes nothing, so it needs no approval by default.")
    trusted: bool = Field(
        default=False,
        description="True: the user trusts who wrote these words, so they may stand in the schema of the model's "
        "answers. Otherwise only the names and rules do, and the model gets the words as data.",
    )

    @model_validator(mode="before")
    @classmethod
    def null_is_absent(cls, raw: Any) -> Any:
        return {name: value for name, value in raw.items() if value is not None} if isinstance(raw, dict) else raw


Declarations = Annotated[list[ToolDeclaration], Field(max_length=limits.DECLARED_TOOLS)]


#: A name in `tools_supported`; those that the catalogue does not have are ignored.
ToolName = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class Capabilities(BaseModel):
    """What a client can do beyond the basics."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    tools: Declarations | None = Field(
        default=None,
        description="The client's own tools. Replaces those that this connection declared before; absent: keeps them.",
    )
    tools_supported: Annotated[list[ToolName], Field(max_length=limits.TOOLS_SUPPORTED)] | None = Field(
        default=None,
        description="The tools of the catalogue that this client executes; the agent is offered no others. Absent: "
        "those of the seed documents, or what this connection said before.",
    )
    drafts: bool | None = Field(
        default=None,
        description="True: send `tool_call_draft` frames while the model writes a call. Absent: as this connection "
        "said before, at first false.",
    )

    @model_validator(mode="after")
    def bounded(self) -> Self:
        names = [tool.name.casefold() for tool in self.tools or ()]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            details = {"name": duplicate, "field": "capabilities.tools"}
            raise PydanticCustomError("names", "{name} is declared twice", details)
        size = len(json.dumps([tool.model_dump() for tool in self.tools or ()], ensure_ascii=False).encode())
        if size > limits.DECLARED_BYTES:
            raise PydanticCustomError(
                "size",
                "the declarations have {size} bytes; at most {most} are allowed",
                {"size": size, "most": limits.DECLARED_BYTES, "field": "capabilities.tools"},
            )
        return self


def declared_tool(declaration: Mapping[str, Any]) -> Tool:
    """Build a tool from a checked declaration in JSON."""
    is_read_only = declaration["read_only"]
    parameters = _without_dialect({"type": "object", **declaration["parameters"]})
    texts: dict[str, Any] = {"description": visible(declaration["description"])}
    if not declaration.get("trusted", False):
        words = words_of(declaration["description"], parameters)
        texts = {
            "description": _DESCRIBED_AS_DATA,
            "untrusted_description": words,
            "parameters_without_words": _without_untrusted_words(parameters),
        }
    return Tool(
        name=declaration["name"],
        **texts,
        parameters=parameters,
        risk="read" if is_read_only else "execute",
        approval=not is_read_only,
        declaration=dict(declaration),
    )


def _without_untrusted_words(parameters: dict[str, Any]) -> dict[str, Any]:
    """The names and rules of the arguments; any arguments if a reference leads to something that is left out."""
    shape: dict[str, Any] = without_words(parameters)
    try:
        _check_references(shape)
    except ValueError:
        return {"type": "object", "additionalProperties": True}
    return shape


def check_result_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError if the schema of a subagent's result is invalid, too expensive, or has references."""
    check_schema(schema, limits.RESULT_SCHEMA_BYTES, limits.RESULT_SCHEMA_PLACES, limits.RESULT_SCHEMA_DEPTH)
    if any(isinstance(part.get("$ref"), str) for part in _objects(schema)):
        raise ValueError("$ref is not supported: write each part where it belongs")


def check_schema(
    schema: Mapping[str, Any], nbytes: int = limits.DECLARED_BYTES, places: int = _PLACES, depth: int = _DEPTH
) -> None:
    """Raise ValueError if a schema of an object, such as a tool's arguments, is invalid or too expensive.

    Patterns must match in linear time: no look-around, no back references.
    """
    if schema.get("type", "object") != "object":
        raise ValueError("the type must be object")
    properties = schema.get("properties", {})
    if isinstance(properties, dict) and "_tool" in properties:
        raise ValueError("the name _tool is reserved")
    # Imported here, because few frames declare tools.
    from codelab.llm.errors import InvalidRequest
    from codelab.llm.schema.budget import SchemaBudget, linear_patterns
    from codelab.llm.schema.budget import check_schema as check_budget

    budget = SchemaBudget(nbytes, places=places, depth=depth, expanded_places=places)
    try:
        check_budget(schema, budget, "")
    except InvalidRequest as error:
        raise ValueError(error.message) from None
    _check_references(schema)
    try:
        jsonschema_rs.Draft202012Validator(
            _without_dialect(schema), pattern_options=linear_patterns(1), retriever=_refuse_external
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise ValueError(f"invalid schema: {getattr(error, 'message', None) or error}"[:300]) from None


def _without_dialect(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without `$schema`: it becomes a part of the answer's schema, which has a dialect of its own."""
    return {name: value for name, value in schema.items() if name != "$schema"}


def _check_references(schema: Any) -> None:
    """Raise ValueError for a reference to anything but a place in this schema."""
    for part in _objects(schema):
        if isinstance(part.get("$ref"), str):
            _target(part["$ref"], schema)
        for name, value in part.items():
            if name in _ELSEWHERE and isinstance(value, (str, bool)):
                raise ValueError(f"{name} is not supported")


def _objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """All objects in a schema, itself included."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, Mapping):
            yield node
            stack.extend(node.values())


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    if not _POINTER.fullmatch(reference):
        raise ValueError(f"$ref {reference[:64]!r} must point into this schema")
    node: Any = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            raise ValueError(f"$ref {reference[:64]!r} points nowhere")
    return node


def _refuse_external(uri: str) -> Any:
    raise ValueError(f"{uri} is another document; external references are not supported")
