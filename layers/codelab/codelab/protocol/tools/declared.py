"""A client's own tools: what it may declare in its `hello`, for its connection.

The schema of the arguments comes from outside and is compiled, sent to the model and validated with in every step:
neither its size, nor its references, nor its patterns may cost more than those of the catalogue's tools do.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

import jsonschema_rs
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from codelab.protocol import limits
from codelab.protocol.tools import ALIASES, KNOWN
from codelab.protocol.tools.tool import Tool

#: Names a model can be asked to write, in the charset that providers take for functions, with the catalogue's dot.
NAME = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"
#: Of one tool's schema: its places, also with its references followed, and how deep they are nested.
_PLACES = 2_000
_DEPTH = 40
#: Keywords that make a reference mean something else than a place in this very schema.
_ELSEWHERE = frozenset({"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"})
#: Names of the catalogue; another case makes no other name.
_TAKEN = frozenset(name.casefold() for name in (*KNOWN, *ALIASES))
_POINTER = re.compile(r"#(/[^#]*)?")


def _free_name(name: str) -> str:
    if name.casefold() in _TAKEN:
        raise PydanticCustomError("name", "{name} is a tool of the catalogue", {"name": name})
    return name


def _usable_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        check_schema(schema)
    except ValueError as error:
        raise PydanticCustomError("schema", "{why}", {"why": str(error)}) from None
    return schema


class ToolDeclaration(BaseModel):
    """A tool of the client's own. It runs in the IDE as the catalogue's do, and asks unless it only reads."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    name: Annotated[str, StringConstraints(pattern=NAME), AfterValidator(_free_name)] = Field(
        description="A name that no tool of the catalogue has, as a name or an alias."
    )
    description: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] = Field(
        description="What it does and when to use it: the model chooses by it."
    )
    parameters: Annotated[dict[str, Any], AfterValidator(_usable_schema)] = Field(
        default_factory=lambda: {"type": "object", "properties": {}},
        description="The JSON Schema (2020-12) of its arguments: an object, not recursive, without outside references.",
    )
    read_only: bool = Field(default=False, description="It changes nothing, and so needs no approval by default.")

    @model_validator(mode="before")
    @classmethod
    def null_is_absent(cls, given: Any) -> Any:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


Declarations = Annotated[list[ToolDeclaration], Field(max_length=limits.DECLARED_TOOLS)]


class Capabilities(BaseModel):
    """What a client can do beyond the basics."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    tools: Declarations | None = Field(
        default=None,
        description="The client's own tools, in place of those that this connection has declared; absent: they stay.",
    )

    @model_validator(mode="after")
    def bounded(self) -> Self:
        names = [tool.name.casefold() for tool in self.tools or ()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            where = {"name": twice, "field": "capabilities.tools"}
            raise PydanticCustomError("names", "{name} is declared twice", where)
        size = len(json.dumps([tool.model_dump() for tool in self.tools or ()], ensure_ascii=False).encode())
        if size > limits.DECLARED_BYTES:
            raise PydanticCustomError(
                "size",
                "the declarations have {size} bytes, {most} are allowed",
                {"size": size, "most": limits.DECLARED_BYTES, "field": "capabilities.tools"},
            )
        return self


def declared_tool(declaration: Mapping[str, Any]) -> Tool:
    """The tool that a checked declaration, as JSON, makes."""
    reads = declaration["read_only"]
    return Tool(
        name=declaration["name"],
        description=declaration["description"],
        parameters=_without_dialect({"type": "object", **declaration["parameters"]}),
        risk="read" if reads else "execute",
        approval=not reads,
        declaration=dict(declaration),
    )


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError, saying why, for a schema of arguments that is not valid or would cost too much.

    Patterns are those that can be matched in linear time: no look-around, no back references.
    """
    if schema.get("type", "object") != "object":
        raise ValueError("the arguments of a tool are an object")
    properties = schema.get("properties", {})
    if isinstance(properties, dict) and "_tool" in properties:
        raise ValueError("_tool is not free")
    # Imported here: of all frames that are parsed, few declare tools.
    from codelab.llm.errors import InvalidRequest
    from codelab.llm.schema.budget import SchemaBudget, linear_patterns
    from codelab.llm.schema.budget import check_schema as check_budget

    budget = SchemaBudget(limits.DECLARED_BYTES, places=_PLACES, depth=_DEPTH, followed=_PLACES)
    try:
        check_budget(schema, budget, "")
    except InvalidRequest as error:
        raise ValueError(error.message) from None
    _check_references(schema)
    try:
        jsonschema_rs.Draft202012Validator(
            _without_dialect(schema), pattern_options=linear_patterns(1), retriever=_nothing
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise ValueError(f"the schema is not valid: {getattr(error, 'message', None) or error}"[:300]) from None


def _without_dialect(schema: Mapping[str, Any]) -> dict[str, Any]:
    """It becomes a part of the schema of the model's answer, which has one dialect."""
    return {name: value for name, value in schema.items() if name != "$schema"}


def _check_references(schema: Any) -> None:
    """Raise ValueError for a reference to anything but a place of this very schema."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, Mapping):
            if isinstance(node.get("$ref"), str):
                _target(node["$ref"], schema)
            for name, value in node.items():
                if name in _ELSEWHERE and isinstance(value, (str, bool)):
                    raise ValueError(f"{name} is not taken")
                stack.append(value)


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    if not _POINTER.fullmatch(reference):
        raise ValueError(f"{reference[:64]!r} is not a place in this schema")
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise ValueError(f"{reference[:64]!r} is not there")
    return found


def _nothing(uri: str) -> Any:
    raise ValueError(f"{uri} is another document, and nothing is fetched")
