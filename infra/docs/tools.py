"""docs/tools.md and docs/schemas/tools.json: the tool catalogue."""

import json
from collections.abc import Collection
from typing import Any

from codelab.protocol.protected import PROTECTED, PROTECTED_FILES
from codelab.protocol.tools import ALIASES, CATALOGUE, KNOWN_TOOLS, Tool

from infra.docs.markdown import anchor, fields, note, page_heading, table

_ABOUT = """\
The tools that an agent can call in the IDE with `tool_call`. Machine-readable versions:
[schemas/tools.json](schemas/tools.json), and `ToolArguments` and `ToolResults` in
[protocol.ts](../clients/typescript/src/protocol.ts).

The server checks arguments before it sends a call. Paths are relative and stay inside the workspace, without empty
names and `.` (`.//src/./a.js` becomes `src/a.js`); text is UTF-8.
Paths that an IDE may pass to a program (in `git.*` and `search_in_project`) do not begin with `-`, so they cannot be
taken for options, and names of branches and remotes are valid for `git check-ref-format`.

The server reads results leniently: it keeps extra fields, accepts the aliases listed for a field, and passes a result
that does not match to the model unchanged. Besides the listed errors, any tool may answer with `INVALID_ARGUMENTS`,
`EXECUTION_FAILED` or `TIMEOUT`.

*ext* marks tools and arguments that are not in the seed documents. The agent is only offered them if the executor names
the tool in `tools_supported` (see [protocol.md](protocol.md#the-tools-that-an-ide-executes)).
"""

_DIFFS = """\
## Diffs

A diff must have a strict form, in which git and `patch` find the same files. The server rejects any other diff with the
number of the offending line, and the model sees the error. For each file:

- optionally `diff --git a/NAME b/NAME`, followed by git's lines (modes 100644 and 100755, a new or deleted file, a
  rename or copy, `index`);
- `--- a/NAME` and `+++ b/NAME`, adjacent and with the same name, or one of them `/dev/null`;
- hunks with exactly the announced number of lines.

Timestamps, text around the diff, binary patches and symbolic links are not allowed. A name with spaces must be followed
by a tab, and quoted in a `diff --git` line. The server does not check a single line, which cannot be a diff; the IDE
refuses it.
"""

_PROTECTED = """\
## Protected paths

Other programs execute or obey what is written to these files, and nobody asks them to: when a folder is opened, a file
saved, a commit made, or an agent started. A call that changes one of them, also with a diff, always needs approval,
whatever `HITL_ENABLED`, the mode and remembered rules say. Files that only say what a build or a test does, such as
`package.json`, `pyproject.toml` and `Makefile`, are not protected: they are edited every day, and every command asks.

Names are compared without case, accents, character width, and trailing dots and spaces; a Windows short name (`GIT~1`)
counts as protected. `delete_file` and `move_file` also need approval for anything that may be a directory with
protected files: a name without an extension (`src`, but not `a.py`), a path that ends with a slash, and the workspace
itself. `*` stands for any part of a name.
"""


def page() -> str:
    """The page."""
    own = [tool for tool in CATALOGUE.values() if tool.server_side]
    others = [tool for tool in KNOWN_TOOLS.values() if tool.name not in CATALOGUE]
    parts = [
        note("layers/codelab/codelab/protocol/tools"),
        page_heading("Tools"),
        _ABOUT,
        "## IDE tools\n",
        *_overview(_of_the_ide()),
        "Aliases: " + ", ".join(f"`{alias}` for `{name}`" for alias, name in ALIASES.items()) + ".",
        "",
        *map(_tool, _of_the_ide()),
        _DIFFS,
        _PROTECTED,
        *_protected(),
        "## Server tools\n",
        "The server executes these itself; they never reach an IDE, but appear in the history.\n",
        *_overview(own),
        *map(_tool, own),
        "## Tools that no agent gets\n",
        *map(_tool, others),
    ]
    return "\n".join(parts)


def schemas() -> dict[str, Any]:
    """The JSON Schemas of arguments and results, by IDE tool."""
    return {tool.name: _schemas(tool) for tool in _of_the_ide()}


def asked() -> dict[str, Any]:
    """The same of the server's tools about whose calls a human decides."""
    return {tool.name: _schemas(tool) for tool in CATALOGUE.values() if tool.server_side and tool.always_approval}


def _schemas(tool: Tool) -> dict[str, Any]:
    return {
        "description": tool.description,
        "risk": tool.risk,
        "approval": tool.approval,
        "extension": tool.extension,
        "extension_arguments": list(tool.extras),
        "parameters": tool.parameters,
        "result": tool.result.schema,
        "errors": [code.value for code in tool.errors],
    }


def _protected() -> list[str]:
    rows = [(f"`{name}` and everything in it", who) for name, who in PROTECTED.items()]
    rows += [(f"a file `{name}`", who) for name, who in PROTECTED_FILES.items()]
    return [*table(("anywhere in the workspace", "what runs it"), rows), ""]


def _of_the_ide() -> list[Tool]:
    return [tool for tool in CATALOGUE.values() if not tool.server_side]


def _overview(tools: list[Tool]) -> list[str]:
    rows = ((_linked(tool), tool.risk, _asks(tool), tool.description) for tool in tools)
    return [*table(("tool", "risk", "approval", ""), rows), ""]


def _linked(tool: Tool) -> str:
    heading = f"{tool.name} ext" if tool.extension else tool.name
    return f"[`{tool.name}`]({anchor(heading)})" + (" *ext*" if tool.extension else "")


def _asks(tool: Tool) -> str:
    if tool.host_of:
        return "always, unless its host is remembered"
    if tool.always_approval:
        return "always"
    if not tool.approval:
        return "no"
    for name, values in tool.harmless.items():
        return f"by default, unless `{name}` is " + " or ".join(f"`{value}`" for value in sorted(values))
    return "by default"


def _tool(tool: Tool) -> str:
    lines = [f"### `{tool.name}`" + (" *ext*" if tool.extension else ""), "", tool.description, *_remarks(tool), ""]
    lines += _table("argument", tool.parameters, tool.byte_limits, extras=tool.extras)
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
        remarks.append("Waits for the user, as long as an approval would.")
    return ["", " ".join(remarks)] if remarks else []


def _table(
    kind: str, schema: dict[str, Any], limits: Any, names: Any = None, extras: Collection[str] = ()
) -> list[str]:
    rows = []
    for name, (shown, form, meaning) in zip(schema["properties"], fields(schema, {}), strict=True):
        if name in limits:
            meaning += f" At most {limits[name]:,} bytes."
        if name in extras:
            meaning = f"*ext* {meaning}"
        if name in (names or {}):
            meaning += " Aliases: " + ", ".join(f"`{other}`" for other in names[name]) + "."
        rows.append((shown, form, meaning))
    return [*table((kind, "type", ""), rows), ""] if rows else [f"No {kind}s.", ""]
