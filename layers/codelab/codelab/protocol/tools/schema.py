"""The few JSON Schemas that the catalogue is written in."""

from typing import Any

from codelab.protocol.tools.results import ResultForm


def arguments(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a tool: these and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def reply(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """A result or an entry of one: at least these, perhaps more."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def integer(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "description": description, **more}


def boolean(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


def array(items: dict[str, Any], description: str, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "description": description, **more}


PATH = string("Path relative to the workspace")
DIFF = string("A unified diff as git writes it, '--- a/path' and '+++ b/path', without any other text", minLength=1)


def done(**optional: dict[str, Any]) -> ResultForm:
    """The result of what only succeeds or fails."""
    schema = reply({"success": boolean("Whether it was done")}, {"message": string("What the IDE says"), **optional})
    return ResultForm(schema, names={"success": ("ok",), "message": ("output",)}, acknowledges=True)
