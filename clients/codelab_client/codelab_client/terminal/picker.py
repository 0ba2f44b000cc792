"""A list to choose from: arrows move, letters search, and below it is a preview of what is chosen."""

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output
from prompt_toolkit.styles import BaseStyle
from rich.cells import cell_len, set_cell_size

from codelab_client.safe_text import safe_line

#: Rows of the list and of the preview.
_ROWS, _PREVIEW = 10, 8
#: Between a move and the preview (seconds), so that a row that is passed over costs nothing.
_PAUSE_S = 0.15

#: The lines that tell more of a choice.
Preview = Callable[[str], Awaitable[Sequence[str]]]


@dataclass(frozen=True)
class Choice:
    """value: what is returned. label, detail: what the row says; any text."""

    value: str
    label: str
    detail: str = ""

    @property
    def line(self) -> str:
        """The row."""
        return "  ".join(filter(None, (safe_line(self.label, 120), safe_line(self.detail, 120))))


class Picker:
    """The state of a list, without a terminal."""

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        self.title, self._choices = title, choices
        self.search, self._place = "", 0

    @property
    def matches(self) -> list[Choice]:
        """The choices that have all words of the search."""
        words = self.search.lower().split()
        return [choice for choice in self._choices if all(word in choice.line.lower() for word in words)]

    @property
    def chosen(self) -> Choice | None:
        """The row with the mark; None if nothing matches."""
        matches = self.matches
        return matches[min(self._place, len(matches) - 1)] if matches else None

    def move(self, rows: int) -> None:
        """Move the mark down, or up; not beyond the ends."""
        self._place = max(0, min(self._place + rows, len(self.matches) - 1))

    def type(self, text: str) -> None:
        """Add to the search."""
        self.search, self._place = self.search + safe_line(text, 100) if text.strip() else self.search + " ", 0

    def erase(self) -> None:
        """Take the last letter of the search back."""
        self.search, self._place = self.search[:-1], 0

    def lines(self, columns: int, preview: Sequence[str]) -> StyleAndTextTuples:
        """What is drawn."""
        matches, chosen = self.matches, self.chosen
        first = max(0, min(self._place - _ROWS // 2, len(matches) - _ROWS))
        fragments: StyleAndTextTuples = [
            ("class:ask", f"{_cut(safe_line(self.title), columns)}\n"),
            ("class:live", f"{_cut(f'search: {self.search}' if self.search else 'type to search', columns)}\n"),
        ]
        for choice in matches[first : first + _ROWS]:
            mark, style = ("▸ ", "class:prompt") if choice is chosen else ("  ", "")
            fragments.append((style, f"{_cut(mark + choice.line, columns)}\n"))
        if not matches:
            fragments.append(("", "  nothing matches\n"))
        if hidden_count := len(matches) - _ROWS:
            fragments += [("class:live", f"  {hidden_count} more\n")] if hidden_count > 0 else []
        fragments += [("class:live", f"{_cut(f'│ {safe_line(line, 300)}', columns)}\n") for line in preview[:_PREVIEW]]
        fragments.append(("class:live", _cut("↑ ↓ move · Enter chooses · Esc closes", columns)))
        return fragments


async def pick(
    title: str,
    choices: Sequence[Choice],
    preview: Preview | None = None,
    *,
    keyboard: Input | None = None,
    output: Output | None = None,
    style: BaseStyle | None = None,
) -> str | None:
    """Let the user choose. Returns the value; None if the user closed the list."""
    picker, previews = Picker(title, choices), dict[str, Sequence[str]]()

    def draw() -> StyleAndTextTuples:
        chosen = picker.chosen
        return picker.lines(shutil.get_terminal_size().columns, previews.get(chosen.value, ()) if chosen else ())

    app: Application[str | None] = Application(
        Layout(Window(FormattedTextControl(draw, show_cursor=False))),
        key_bindings=_keys(picker),
        input=keyboard,
        output=output,
        style=style,
        erase_when_done=True,
    )
    app.ttimeoutlen = app.timeoutlen = 0.05
    fetching = asyncio.ensure_future(_fetch(app, picker, preview, previews)) if preview is not None else None
    try:
        return await app.run_async(handle_sigint=False)
    finally:
        if fetching is not None:
            fetching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await fetching


async def _fetch(
    app: "Application[str | None]", picker: Picker, preview: Preview, previews: dict[str, Sequence[str]]
) -> None:
    """Fetch the preview of each row at which the mark rests."""
    while True:
        before = picker.chosen
        await asyncio.sleep(_PAUSE_S)
        if before is not None and before is picker.chosen and before.value not in previews:
            previews[before.value] = await preview(before.value)
            app.invalidate()


def _keys(picker: Picker) -> KeyBindings:
    keys = KeyBindings()
    for key, rows in (("up", -1), ("c-p", -1), ("down", 1), ("c-n", 1), ("pageup", -_ROWS), ("pagedown", _ROWS)):

        @keys.add(key)
        def _(event: KeyPressEvent, rows: int = rows) -> None:
            picker.move(rows)

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if (chosen := picker.chosen) is not None:
            event.app.exit(result=chosen.value)

    @keys.add("escape")
    @keys.add("c-c")
    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    @keys.add("backspace")
    def _(event: KeyPressEvent) -> None:
        picker.erase()

    @keys.add(Keys.Any)
    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        if event.data.isprintable() or len(event.data) > 1:
            picker.type(event.data)

    return keys


def _cut(line: str, columns: int) -> str:
    return line if cell_len(line) < columns else f"{set_cell_size(line, columns - 2)}…"
