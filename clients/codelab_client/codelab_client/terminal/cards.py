"""What the terminal prints, as Rich renderables. All text of others passes through `safe` here."""

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from codelab_client.execution import ToolOutcome
from codelab_client.safe_text import safe, safe_line

if TYPE_CHECKING:
    from codelab_client.tools.edits import Edit

#: Lines of a diff or of arguments that are printed before an approval.
_MOST_LINES = 2_000
#: Lines of a command's output that stay on the screen.
_OUTPUT_LINES = 12
_FILE_BYTES = 1_000_000
_PLAN_MARKS = {"completed": ("✔", "green"), "in_progress": ("▸", "yellow"), "pending": ("·", "dim")}


def answer(text: str) -> RenderableType:
    """Blocks of the agent's answer."""
    from rich.markdown import Markdown  # late, because it imports highlighters for all languages

    return Padding(Markdown(safe(text), hyperlinks=False, code_theme="ansi_dark"), (0, 0, 1, 0))


def user_message(text: str) -> RenderableType:
    """What the user typed."""
    return Padding(Text(f"› {safe(text)}", style="bold"), (1, 0, 1, 0))


def notice(text: str, style: str = "dim") -> RenderableType:
    """A line of the client itself."""
    return Text(safe(text), style=style)


def table(rows: Sequence[Sequence[str]]) -> RenderableType:
    """Rows of texts, the last of which may take several lines."""
    grid = Table.grid(padding=(0, 2))
    for number in range(len(rows[0])):
        grid.add_column(no_wrap=number < len(rows[0]) - 1)
    for row in rows:
        grid.add_row(*(Text(safe(cell)) for cell in row))
    return grid


def plan(items: list[dict[str, Any]]) -> RenderableType:
    """The agent's plan."""
    lines = Text()
    for item in items:
        mark, style = _PLAN_MARKS.get(str(item.get("status")), ("·", "dim"))
        lines.append(f" {mark} ", style=style).append(f"{safe_line(item.get('text', ''))}\n", style=style)
    lines.rstrip()
    return Padding(lines, (0, 0, 1, 0))


def call(tool: str, arguments: Mapping[str, Any] | None, workspace: Path) -> RenderableType:
    """A call that waits for approval, in full: the command, the diff, or all arguments."""
    title = Text("? ", style="yellow bold").append(safe_line(tool), style="bold")
    if arguments is None:
        return Group(title, Text("  Its arguments could not be fetched; it can only be rejected.", style="red"))
    path = arguments.get("path")
    if isinstance(path, str):
        title.append(f" {safe_line(path)}")
    return Group(title, Padding(_body(tool, arguments, workspace), (0, 0, 0, 2)))


def _body(tool: str, arguments: Mapping[str, Any], workspace: Path) -> RenderableType:
    match tool:
        case "run_command" | "run_persistent":
            body = Text("$ ", style="dim").append(safe(arguments.get("command", "")), style="bold")
            if (cwd := arguments.get("cwd", ".")) not in (".", ""):
                body.append(f"\nin {safe_line(cwd)}", style="dim")
            return body
        case "write_file":
            return diff(_changes(workspace, str(arguments.get("path", "")), str(arguments.get("content", ""))))
        case "edit_file":
            return diff(_edited(workspace, str(arguments.get("path", "")), arguments.get("edits")))
        case "fetch_url":
            return Text(safe(arguments.get("url", "")), style="bold")
        case "apply_patch" | "apply_patch_review":
            return diff(str(arguments.get("diff", "")))
        case "move_file":
            return Text(f"{safe_line(arguments.get('from', ''))} → {safe_line(arguments.get('to', ''))}")
        case "delete_file":
            return Text(_what_is_deleted(workspace, str(arguments.get("path", ""))), style="red")
        case _:
            return Text(_shortened(safe(json.dumps(arguments, indent=2, ensure_ascii=False))))


def diff(text: str) -> RenderableType:
    """A unified diff in colour."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    shown = Text()
    for line in _shortened(safe(text)).splitlines():
        shown.append(f"{line}\n", style="bold" if line.startswith(("+++", "---")) else styles.get(line[:1], ""))
    shown.rstrip()
    return shown


def _changes(workspace: Path, path: str, content: str) -> str:
    """The diff between a file and its new content."""
    before = _read(workspace, path)
    if before is None:
        return "".join(f"+{line}\n" for line in content.splitlines()) or "(an empty file)"
    changed = difflib.unified_diff(
        before.splitlines(), content.splitlines(), f"a/{path}", f"b/{path}", lineterm="", n=3
    )
    return "\n".join(changed) or "(no changes)"


def _edited(workspace: Path, path: str, given: Any) -> str:
    """The diff that edits make of a file; the edits themselves if they do not fit it."""
    from codelab_client.tools.edits import Edit, apply
    from codelab_client.tools.failure import ToolFailure

    edits = [
        Edit(str(one.get("old", "")), str(one.get("new", "")), one.get("replace_all") is True)
        for one in (given if isinstance(given, list) else ())
        if isinstance(one, dict) and one.get("old")
    ]
    before = _read(workspace, path)
    if before is not None and edits:
        try:
            return _changes(workspace, path, apply(before, edits, path)[0])
        except ToolFailure as failure:
            return f"@ {failure.message}\n{_texts(edits)}"
    return _texts(edits)


def _texts(edits: "Sequence[Edit]") -> str:
    lines = []
    for edit in edits:
        lines += ["@@ everywhere @@" if edit.replace_all else "@@", *(f"-{line}" for line in edit.old.split("\n"))]
        lines += [f"+{line}" for line in edit.new.split("\n")]
    return "\n".join(lines)


def _read(workspace: Path, path: str) -> str | None:
    """The text of a file of the workspace; None if there is none."""
    try:
        file = (workspace / path).resolve()
        if not file.is_relative_to(workspace) or not file.is_file() or file.stat().st_size > _FILE_BYTES:
            return None
        return file.read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def _what_is_deleted(workspace: Path, path: str) -> str:
    try:
        folder = (workspace / path).resolve()
        if folder.is_relative_to(workspace) and folder.is_dir():
            return f"deletes the folder {safe_line(path)} with everything in it"
    except (OSError, ValueError):
        pass
    return f"deletes {safe_line(path)}"


def _shortened(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= _MOST_LINES:
        return text
    return "\n".join([*lines[:_MOST_LINES], f"… {len(lines) - _MOST_LINES} more lines; e shows all of them"])


def summary(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in one line."""
    for name in ("command", "path", "from", "query", "glob", "url", "action", "message"):
        if isinstance(arguments.get(name), str):
            return f"{safe_line(tool)} {safe_line(arguments[name], 100)}"
    return safe_line(tool)


def finished(tool: str, arguments: Mapping[str, Any], outcome: ToolOutcome, output: str) -> RenderableType:
    """A call that this client has executed, with the end of its output."""
    if outcome.error is not None:
        told = f"{safe_line(outcome.error.code)}: {safe_line(outcome.error.message, 500)}"
        return Text("✗ ", style="red").append(summary(tool, arguments)).append(f"\n  {told}", style="red")
    line = Text("● ", style="green").append(summary(tool, arguments)).append(f"  {_gist(outcome.result)}", style="dim")
    lines = safe(output).rstrip().splitlines()
    if not lines:
        return line
    hidden = len(lines) - _OUTPUT_LINES
    shown = [f"… {hidden} more lines", *lines[-_OUTPUT_LINES:]] if hidden > 0 else lines
    return Group(line, Padding(Text("\n".join(shown), style="dim"), (0, 0, 0, 2)))


def _gist(result: Any) -> str:
    """A result in a few words."""
    if not isinstance(result, dict):
        return ""
    if isinstance(result.get("content"), str):
        return f"{len(result['content'].splitlines())} lines"
    for name in ("files", "matches", "commits", "branches"):
        if isinstance(result.get(name), list):
            return f"{len(result[name])} {name}"
    if isinstance(result.get("exit_code"), int):
        return f"exit code {result['exit_code']}" if result["exit_code"] else ""
    return ""


def console(width: int, *, colour: bool) -> Console:
    """A Rich console that writes text to a buffer, without control of the cursor."""
    import io

    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


def rendered(renderable: RenderableType, width: int, *, colour: bool) -> str:
    """A renderable as text for the terminal."""
    made = console(width, colour=colour)
    made.print(renderable)
    return made.file.getvalue()  # type: ignore[attr-defined, no-any-return]
