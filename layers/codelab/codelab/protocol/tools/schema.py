"""Building blocks for the catalogue's JSON Schemas."""

from typing import Any

from codelab.protocol.tools.results import ResultForm


def arguments(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a tool's arguments. Additional arguments are not allowed."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def reply(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a result or of an entry of one. Additional properties are allowed."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def string(description: str, **keywords: Any) -> dict[str, Any]:
    """The schema of a string. keywords: further ones."""
    return {"type": "string", "description": description, **keywords}


def integer(description: str, **keywords: Any) -> dict[str, Any]:
    """The schema of an integer. keywords: further ones."""
    return {"type": "integer", "description": description, **keywords}


def boolean(description: str) -> dict[str, Any]:
    """The schema of a boolean."""
    return {"type": "boolean", "description": description}


def array(items: dict[str, Any], description: str, **keywords: Any) -> dict[str, Any]:
    """The schema of an array. keywords: further ones."""
    return {"type": "array", "items": items, "description": description, **keywords}


PATH = string("Path relative to the workspace")
DIFF = string("A unified diff as git writes it, '--- a/path' and '+++ b/path', without any other text", minLength=1)


def done(**optional: dict[str, Any]) -> ResultForm:
    """The result of a tool that only succeeds or fails."""
    schema = reply({"success": boolean("Whether it succeeded")}, {"message": string("The IDE's message"), **optional})
    return ResultForm(schema, names={"success": ("ok",), "message": ("output",)}, acknowledges=True)
