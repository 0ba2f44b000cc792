"""docs/tools.md and docs/schemas/tools.json: the tool catalogue."""

import json
from typing import Any

from codelab.protocol.protected import PROTECTED, PROTECTED_FILES
from codelab.protocol.tools import ALIASES, CATALOGUE, KNOWN, Tool

from infra.docs.markdown import anchor, fields, note, table

_ABOUT = """\
What an agent may ask the IDE to do, by a `tool_call`. For programs there are [schemas/tools.json](schemas/tools.json)
and, in [codelab.d.ts](codelab.d.ts), `ToolArguments` and `ToolResults`.

Arguments are checked before a call leaves the server: an IDE sees none that do not fit. Paths are relative and stay
inside the workspace; text is UTF-8. A path that an IDE may give to a program (of a tool `git.*`, and of
`search_in_project`) does not begin with `-`, where it would be an option, and names of branches and remotes are those
that `git check-ref-format` takes. Results are read loosely: more fields than listed are kept, the other names that
are given for a field are understood, and what fits nothing is given to the model as it is. Beside the errors listed,
any tool may answer with `INVALID_ARGUMENTS`, `EXECUTION_FAILED` or `TIMEOUT`.
"""

_DIFFS = """\
## Diffs

A diff must be in the one form in which git and `patch` find the same files; any other is refused with its line, and the
model is told. For each file: `diff --git a/NAME b/NAME` and what git says after it (modes 100644 and 100755, a new or
deleted file, a rename or copy, `index`), or nothing of that; `--- a/NAME` and `+++ b/NAME`, adjacent and the same, or
one of them `/dev/null`; hunks of exactly the lines that they announce. No times, no text around it, no binary patch, no
link. A name with a space is followed by a tab, and in a `diff --git` line it is quoted. A single line is no diff: it
names no file, and the IDE refuses it.
"""

_PROTECTED = """\
## Paths that are always asked about

What is written to these makes a tool run code, though nobody runs a command. A call that changes one of them (also by a
diff) waits for a human in every session, whatever `HITL_ENABLED`, `autonomy` and remembered rules say. Case, accents,
wide letters, and dots and spaces at a name's end are overlooked, and a short name of Windows (`GIT~1`) may be any of
them. `delete_file` and `move_file` ask likewise for what may be a directory, in which one of them may be: for a name
without an ending (`src`, but not `a.py`), one with a slash at its end, and the workspace itself. `*` is any part of a
name.
"""


def page() -> str:
    """The page."""
    own = [tool for tool in CATALOGUE.values() if tool.server_side]
    others = [tool for tool in KNOWN.values() if tool.name not in CATALOGUE]
    parts = [
        note("layers/codelab/codelab/protocol/tools"),
        "# Tools\n",
        _ABOUT,
        "## Tools of the IDE\n",
        *_overview(_of_the_ide()),
        "Other names that are understood: "
        + ", ".join(f"`{alias}` for `{name}`" for alias, name in ALIASES.items())
        + ".",
        "",
        *map(_tool, _of_the_ide()),
        _DIFFS,
        _PROTECTED,
        *_protected(),
        "## Tools of the server\n",
        "Their calls never reach an IDE: the server answers them at once. They are here for who reads a history.\n",
        *_overview(own),
        *map(_tool, own),
        "## Tools that the policy knows and no agent is offered\n",
        *map(_tool, others),
    ]
    return "\n".join(parts)


def schemas() -> dict[str, Any]:
    """The JSON Schemas of arguments and results, by tool of the IDE."""
    return {
        tool.name: {
            "description": tool.description,
            "risk": tool.risk,
            "approval": tool.approval,
            "parameters": tool.parameters,
            "result": tool.result.schema,
            "errors": [code.value for code in tool.errors],
        }
        for tool in _of_the_ide()
    }


def _protected() -> list[str]:
    rows = [(f"`{name}`, with all in it", who) for name, who in PROTECTED.items()]
    rows += [(f"a file `{name}`", who) for name, who in PROTECTED_FILES.items()]
    return [*table(("anywhere in the workspace", "who runs it"), rows), ""]


def _of_the_ide() -> list[Tool]:
    return [tool for tool in CATALOGUE.values() if not tool.server_side]


def _overview(tools: list[Tool]) -> list[str]:
    rows = ((f"[`{tool.name}`]({anchor(tool.name)})", tool.risk, _asks(tool), tool.description) for tool in tools)
    return [*table(("tool", "risk", "asks for approval", ""), rows), ""]


def _asks(tool: Tool) -> str:
    if tool.always_approval:
        return "always"
    if not tool.approval:
        return "no"
    for name, values in tool.harmless.items():
        return f"by default, unless `{name}` is " + " or ".join(f"`{value}`" for value in sorted(values))
    return "by default"


def _tool(tool: Tool) -> str:
    lines = [f"### `{tool.name}`", "", tool.description, *_remarks(tool), ""]
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
