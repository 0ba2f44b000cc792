"""What the terminal prints, as Rich renderables. All text of others passes through `safe` here."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from codelab_client.differences import Difference, spelled_out
from codelab_client.execution import ToolOutcome
from codelab_client.protected import is_protected
from codelab_client.safe_text import exact, exact_line, safe, safe_line, shortened
from codelab_client.terminal.changes import edited, written
from codelab_client.terminal.counts import counted
from codelab_client.terminal.palette import DARK, Palette, rich_theme
from codelab_client.terminal.wrapping import Indented, Whole
from codelab_client.tools.risks import normal_path

#: Lines of a diff or of arguments that are printed before an approval; the rest is folded.
_MOST_LINES = 2_000
#: Begins what goes on with a line of a diff.
_GOES_ON = "↪ "
#: Lines of a command's output that stay on the screen, and characters of them.
_OUTPUT_LINES, _OUTPUT_CHARS = 12, 3_000
#: What a command's result says besides its exit code, in the order in which it is printed.
_OUTPUTS = ("stdout", "stderr", "note")
#: Characters of why a call has failed that are printed as one line.
_REASON_CHARS = 500
#: Lines of a message that are printed; of a longer one, half of them.
_MESSAGE_LINES = 20
#: Lines of a new file that are printed; of a longer one, the first of them, unless its path is protected.
_NEW_FILE_LINES, _NEW_FILE_BEGINNING = 60, 40
#: Ends the note on what is folded, where a key unfolds it.
UNFOLDS = " (Ctrl-O shows them)"
_PLAN_MARKS = {"completed": ("✔", "success"), "in_progress": ("▸", "warning"), "pending": ("·", "quiet")}


def answer(text: str) -> RenderableType:
    """Blocks of the agent's answer."""
    from codelab_client.terminal.answers import Answer  # late, because it imports highlighters for all languages

    return Group(Text(), Answer(safe(text)), Text())


class Folded:
    """A card of which a part is printed. whole: what is printed when the user unfolds it.

    is_question: the user decides about it, so a screen that cannot unfold it prints the whole.
    """

    def __init__(self, part: RenderableType, whole: RenderableType, *, is_question: bool = False) -> None:
        self._part, self.whole, self.is_question = part, whole, is_question

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._part


def user_message(text: str) -> RenderableType:
    """What the user typed."""
    whole = _typed(text)
    lines = text.split("\n")
    if len(lines) <= _MESSAGE_LINES:
        return whole
    beginning = "\n".join(lines[: _MESSAGE_LINES // 2])
    return Folded(_typed(f"{beginning}\n… {counted(len(lines) - _MESSAGE_LINES // 2, 'more line')}{UNFOLDS}"), whole)


def _typed(text: str) -> RenderableType:
    return Indented(Text(f"› {safe(text)}", style="bold"), above=1, below=1)


def notice(text: str, style: str = "quiet") -> RenderableType:
    """A line of the client itself."""
    return Whole(Text(safe(text), style=style))


def unbroken(text: str) -> RenderableType:
    """A text of the agent as it is; the terminal, not we, goes on with a long line in the next one."""
    return Text(safe(text), no_wrap=True, overflow="ignore")


def table(rows: Sequence[Sequence[str]]) -> RenderableType:
    """Rows of texts, the last of which may take several lines."""
    grid = Table.grid(padding=(0, 2))
    for number in range(len(rows[0])):
        grid.add_column(no_wrap=number < len(rows[0]) - 1, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(safe(cell)) for cell in row))
    return grid


def plan(items: list[dict[str, Any]]) -> RenderableType:
    """The agent's plan."""
    lines = Text()
    for item in items:
        mark, style = _PLAN_MARKS.get(str(item.get("status")), ("·", "quiet"))
        lines.append(f" {mark} ", style=style).append(f"{safe_line(item.get('text', ''))}\n", style=style)
    lines.rstrip()
    return Indented(lines, below=1)


def call(tool: str, arguments: Mapping[str, Any] | None, workspace: Path, maker: str = "") -> RenderableType:
    """A call that waits for approval, in full: the command, the diff, or all arguments.

    maker: whose it is, in front of the tool's name; empty if it is the agent's.
    """
    if arguments is None:
        return Group(
            _title(tool, maker), Text("  Its arguments could not be fetched; it can only be rejected.", style="error")
        )
    return _card(_title(tool, maker), tool, arguments, _listing(tool, arguments, workspace), workspace)


def asked_call(tool: str, arguments: Mapping[str, Any] | None, workspace: Path, maker: str = "") -> RenderableType:
    """The same; of what is very long, or of a long new file, only the beginning, until the user unfolds it."""
    if arguments is None:
        return call(tool, arguments, workspace, maker)
    listing = _listing(tool, arguments, workspace)
    whole = _card(_title(tool, maker), tool, arguments, listing, workspace)
    most_lines = _NEW_FILE_BEGINNING if _is_long_new_file(tool, arguments, workspace) else _MOST_LINES
    if len(listing.lines) <= most_lines:
        return whole
    part = _card(_title(tool, maker), tool, arguments, _beginning(listing, most_lines), workspace)
    return Folded(part, whole, is_question=True)


def _card(title: Text, tool: str, arguments: Mapping[str, Any], listing: Difference, workspace: Path) -> RenderableType:
    path = arguments.get("path")
    if isinstance(path, str):
        title.append(f" {exact_line(path)}")
    return Group(Whole(title), Indented(_body(tool, arguments, listing, workspace), 2))


def _title(tool: str, maker: str) -> Text:
    return Text("? ", style="question").append(maker).append(exact_line(tool), style="bold")


def _is_long_new_file(tool: str, arguments: Mapping[str, Any], workspace: Path) -> bool:
    """Whether a call writes a long file where there is none, and where nothing obeys it or runs it unasked."""
    if tool != "write_file" or not arguments.keys() <= _SHOWN[tool]:
        return False
    try:
        path = normal_path(str(arguments.get("path", "")))
        if is_protected(path) or os.path.lexists(workspace / path):
            return False
    except ValueError:
        return False
    return str(arguments.get("content", "")).count("\n") >= _NEW_FILE_LINES


def _body(tool: str, arguments: Mapping[str, Any], listing: Difference, workspace: Path) -> RenderableType:
    names = _SHOWN.get(tool)
    if names is None:
        return Whole(Text("\n".join([*listing.lines, *listing.notes])))
    other_arguments = {name: value for name, value in arguments.items() if name not in names}
    renderable = _coloured(listing) if tool in _DIFFS else _known(tool, arguments, workspace)
    lines = [
        f"{exact_line(name)}: {exact(json.dumps(value, ensure_ascii=False))}" for name, value in other_arguments.items()
    ]
    # First, so that nothing in a command or a text can look like them.
    return renderable if not lines else Group(Whole(Text("\n".join(lines), style="quiet")), renderable)


#: The arguments that a card shows in a form of its own, by tool.
_SHOWN: Mapping[str, frozenset[str]] = {
    "run_command": frozenset({"command", "cwd"}),
    "run_persistent": frozenset({"command", "cwd"}),
    "write_file": frozenset({"path", "content"}),
    "edit_file": frozenset({"path", "edits"}),
    "fetch_url": frozenset({"url"}),
    "apply_patch": frozenset({"diff"}),
    "apply_patch_review": frozenset({"diff"}),
    "move_file": frozenset({"from", "to"}),
    "delete_file": frozenset({"path"}),
    "propose_plan": frozenset({"steps", "explanation"}),
}

#: The tools whose listing is a diff.
_DIFFS = frozenset({"write_file", "edit_file", "apply_patch", "apply_patch_review"})


def _listing(tool: str, arguments: Mapping[str, Any], workspace: Path) -> Difference:
    """What may be long of a call: its diff, or the arguments of a tool without a form of its own; else nothing."""
    path = str(arguments.get("path", ""))
    match tool:
        case "write_file":
            return written(workspace, path, str(arguments.get("content", "")))
        case "edit_file":
            return edited(workspace, path, arguments.get("edits"))
        case "apply_patch" | "apply_patch_review":
            return spelled_out(str(arguments.get("diff", "")).removesuffix("\n").split("\n"))
    if tool in _SHOWN:
        return Difference([], ())
    return Difference(exact(json.dumps(arguments, indent=2, ensure_ascii=False)).split("\n"), ())


def _beginning(listing: Difference, most_lines: int) -> Difference:
    note = f"… {counted(len(listing.lines) - most_lines, 'more line')}{UNFOLDS}"
    return Difference(listing.lines[:most_lines], (note, *listing.notes))


def _known(tool: str, arguments: Mapping[str, Any], workspace: Path) -> RenderableType:
    path = str(arguments.get("path", ""))
    match tool:
        case "fetch_url":
            return Whole(Text(exact_line(arguments.get("url", "")), style="bold"))
        case "move_file":
            return Whole(Text(f"{exact_line(arguments.get('from', ''))} → {exact_line(arguments.get('to', ''))}"))
        case "propose_plan":
            return Whole(_proposal(arguments))
        case "delete_file":
            return Whole(Text(_what_is_deleted(workspace, path), style="error"))
    cwd = arguments.get("cwd", ".")
    place = "" if cwd in (".", "") else f"in {exact_line(cwd)}\n"
    command = Text(f"{place}$ ", style="quiet").append(exact(arguments.get("command", "")), style="bold")
    return Whole(command)


def _proposal(arguments: Mapping[str, Any]) -> Text:
    """A plan that the user is to decide about."""
    explanation, steps = arguments.get("explanation"), arguments.get("steps")
    text = Text(f"{exact(explanation)}\n" if isinstance(explanation, str) and explanation else "")
    for number, step in enumerate(steps if isinstance(steps, list) else [], 1):
        text.append(f"{number}. ", style="quiet").append(f"{exact_line(step)}\n", style="bold")
    return text[:-1]


def diff(difference: Difference) -> RenderableType:
    """A difference in colour, with its notes below it; of a very long one the beginning, until the user unfolds it."""
    whole = _coloured(difference)
    if len(difference.lines) <= _MOST_LINES:
        return whole
    return Folded(_coloured(_beginning(difference, _MOST_LINES)), whole)


def _coloured(difference: Difference) -> RenderableType:
    styles = {"+": "success", "-": "error", "@": "accent"}
    text = Text()
    for line in difference.lines:
        text.append(f"{line}\n", style="bold" if line.startswith(("+++", "---")) else styles.get(line[:1], ""))
    for note in difference.notes:
        text.append(f"{note}\n", style="warning")
    return Whole(text[:-1], _GOES_ON)


def _what_is_deleted(workspace: Path, path: str) -> str:
    try:
        folder = (workspace / normal_path(path)).resolve()
        if folder.is_relative_to(workspace) and folder.is_dir():
            return f"deletes the folder {exact_line(path)} with everything in it"
    except (OSError, ValueError):
        pass
    return f"deletes {exact_line(path)}"


def summary(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in one line."""
    for name in ("command", "path", "from", "query", "glob", "url", "action", "message", "task"):
        if isinstance(arguments.get(name), str):
            return f"{safe_line(tool)} {safe_line(arguments[name], 100)}"
    return safe_line(tool)


def finished(tool: str, arguments: Mapping[str, Any], outcome: ToolOutcome, maker: str = "") -> RenderableType:
    """A call that has ended, with the end of its output, which is the one that the agent reads."""
    told = f"{maker}{summary(tool, arguments)}"
    if outcome.error is not None:
        reason, _, output = safe(outcome.error.message).rstrip().partition("\n")
        if len(reason) > _REASON_CHARS:
            reason, output = shortened(reason, _REASON_CHARS), outcome.error.message
        text = f"\n  {safe_line(outcome.error.code)}: {reason}"
        line = Text("✗ ", style="error").append(told).append(text, style="error")
        return _with_output(line, output)
    line = Text("● ", style="success").append(told).append(f"  {_gist(outcome.result)}", style="quiet")
    parts = [outcome.result.get(name) for name in _OUTPUTS] if isinstance(outcome.result, dict) else []
    return _with_output(line, "\n".join(part.rstrip("\n") for part in parts if isinstance(part, str) and part))


def ended_subagent(line: str, state: str) -> RenderableType:
    """The end of a subagent, in a line that may be shown as it is."""
    mark, style = ("● ", "success") if state == "completed" else ("✗ ", "error" if state == "failed" else "warning")
    return Whole(Text(mark, style=style).append(line))


def _with_output(line: Text, output: str) -> RenderableType:
    """A line and the output below it; of a long one the end, until the user unfolds it."""
    text = safe(output).rstrip()
    if not text:
        return line
    whole = Group(line, _output(text))
    end = "\n".join(text.split("\n")[-_OUTPUT_LINES:])[-_OUTPUT_CHARS:]
    if end == text:
        return whole
    hidden_count = text.count("\n") - end.count("\n")
    note = counted(hidden_count, "more line") if hidden_count else counted(len(text) - len(end), "more character")
    return Folded(Group(line, _output(f"… {note}{UNFOLDS}\n{end}")), whole)


def _output(text: str) -> RenderableType:
    return Indented(Whole(Text(text, style="quiet")), 2)


def _gist(result: Any) -> str:
    """A result in a few words."""
    if not isinstance(result, dict):
        return ""
    if isinstance(result.get("content"), str):
        return counted(len(result["content"].splitlines()), "line")
    for plural, noun in (("files", "file"), ("matches", "match"), ("commits", "commit"), ("branches", "branch")):
        if isinstance(result.get(plural), list):
            return counted(len(result[plural]), noun, plural)
    if isinstance(result.get("exit_code"), int):
        return f"exit code {result['exit_code']}" if result["exit_code"] else ""
    return ""


def console(width: int, *, colour: bool, palette: Palette = DARK) -> Console:
    """A Rich console that writes text to a buffer, without control of the cursor."""
    import io

    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system=_color_system() if colour else None,
        no_color=not colour,
        theme=rich_theme(palette),
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


def _color_system() -> Literal["256", "standard"]:
    """The colours that the terminal has."""
    is_rich = "256" in os.environ.get("TERM", "") or bool(os.environ.get("COLORTERM"))
    return "256" if is_rich else "standard"


def rendered(renderable: RenderableType, width: int, *, colour: bool, palette: Palette = DARK) -> str:
    """A renderable as text for the terminal."""
    printer = console(width, colour=colour, palette=palette)
    printer.print(renderable, crop=False)
    return printer.file.getvalue()  # type: ignore[attr-defined, no-any-return]
