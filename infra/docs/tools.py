"""docs/tools.md and docs/schemas/tools.json: the tool catalogue."""

import json
from typing import Any

from codelab.protocol.tools import ALIASES, CATALOGUE, KNOWN, Tool

from infra.docs.markdown import anchor, fields, note, table

_ABOUT = """\
What an agent may ask the IDE to do, by a `tool_call`. For programs there is [schemas/tools.json](schemas/tools.json).

Arguments are checked before a call leaves the server: an IDE sees none that do not fit. Paths are relative and stay
inside the workspace; text is UTF-8. Results are read loosely: more fields than listed are kept, the other names that
are given for a field are understood, and what fits nothing is given to the model as it is. Beside the errors listed,
any tool may answer with `INVALID_ARGUMENTS`, `EXECUTION_FAILED` or `TIMEOUT`.
"""


def page() -> str:
    """The page."""
    rows = ((f"[`{name}`]({anchor(name)})", tool.risk, _asks(tool), tool.description) for name, tool in KNOWN.items())
    parts = [
        note("layers/codelab/codelab/protocol/tools"),
        "# Tools\n",
        _ABOUT,
        *table(("tool", "risk", "asks for approval", ""), rows),
        "",
        "Other names that are understood: "
        + ", ".join(f"`{alias}` for `{name}`" for alias, name in ALIASES.items())
        + ".",
        "",
        *map(_tool, KNOWN.values()),
    ]
    return "\n".join(parts)


def schemas() -> dict[str, Any]:
    """The JSON Schemas of arguments and results, by tool."""
    return {
        name: {
            "description": tool.description,
            "risk": tool.risk,
            "approval": tool.approval,
            "parameters": tool.parameters,
            "result": tool.result.schema,
            "errors": [code.value for code in tool.errors],
        }
        for name, tool in CATALOGUE.items()
    }


def _asks(tool: Tool) -> str:
    if tool.always_approval:
        return "always"
    if not tool.approval:
        return "no"
    for name, values in tool.harmless.items():
        return f"by default, unless `{name}` is " + " or ".join(f"`{value}`" for value in sorted(values))
    return "by default"


def _tool(tool: Tool) -> str:
    lines = [f"## `{tool.name}`", "", tool.description, *_remarks(tool), ""]
    if tool.name not in CATALOGUE:
        lines += ["The policy knows it; no agent is offered it.", ""]
    lines += _table("argument", tool.parameters, tool.byte_limits)
    if "properties" in tool.result.schema:
        lines += _table("result", tool.result.schema, tool.result_byte_limits, tool.result.names)
    if tool.errors:
        lines += ["Errors: " + ", ".join(f"`{code.value}`" for code in tool.errors) + ".", ""]
    for example in tool.examples:
        if example.note:
            lines += [example.note, ""]
        shown = {"tool_name": tool.name, "arguments": example.arguments}
        lines += ["```json", json.dumps(shown, ensure_ascii=False)]
        lines += [json.dumps({"result": example.result}, ensure_ascii=False)] if example.result is not None else []
        lines += ["```", ""]
    return "\n".join(lines)


def _remarks(tool: Tool) -> list[str]:
    remarks = [tool.platforms] if tool.platforms else []
    if tool.waits_for_human:
        remarks.append("It waits for the user, as long as an approval may.")
    return ["", " ".join(remarks)] if remarks else []


def _table(kind: str, schema: dict[str, Any], limits: Any, names: Any = None) -> list[str]:
    rows = []
    for name, (shown, form, meaning) in zip(schema["properties"], fields(schema, {}), strict=True):
        if name in limits:
            meaning += f" At most {limits[name]:,} bytes."
        if name in (names or {}):
            meaning += " Also read as " + ", ".join(f"`{other}`" for other in names[name]) + "."
        rows.append((shown, form, meaning))
    return [*table((kind, "type", ""), rows), ""] if rows else [f"No {kind}s.", ""]
