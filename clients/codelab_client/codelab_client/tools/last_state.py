"""The output of a command as a terminal would show it at the end: progress bars in their last state, no colours.

Carriage returns, backspaces and cursor movements overwrite what was written before, so a progress bar of a thousand
steps is one line. Nothing else is lost: a cleared screen keeps what was above it, and a file with CRLF keeps its CR.
"""

import re
import unicodedata
from collections.abc import Callable

_CONTROL = re.compile(
    r"\r\n|[\r\n\b]"
    r"|\x1b\[(?P<parameters>[0-?]{0,32})[ -/]{0,4}(?P<final>[@-~])"  # CSI
    r"|\x1b[\]P^_X][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # OSC and other strings
    r"|\x1b[ -/]{0,4}[0-~]"
    r"|\x1b"
)
_MOVED = re.compile(r"[\r\b\x1b]")
#: Spaces that cursor movements may add beyond the ends of lines, in one output.
_MOST_PADDING = 100_000


def last_state(output: str) -> str:
    """The text of an output with its control sequences obeyed. It is at most `_MOST_PADDING` characters longer."""
    if _MOVED.search(output) is None:
        return output
    screen = _Screen()
    place = 0
    for match in _CONTROL.finditer(output):
        screen.write(output[place : match.start()])
        place = match.end()
        if match["final"]:
            screen.move(match["final"], match["parameters"])
        else:
            screen.obey(match[0])
    screen.write(output[place:])
    return screen.text()


def _cells(text: str) -> list[str]:
    """The cells that a text fills: a wide character has two, the second of them empty; an accent is in that before."""
    if text.isascii():
        return list(text)
    cells: list[str] = []
    for character in text:
        if unicodedata.category(character) in ("Mn", "Me", "Cf") and cells:
            place = -1 if cells[-1] else -2
            cells[place] += character
        elif unicodedata.east_asian_width(character) in ("W", "F"):
            cells += (character, "")
        else:
            cells.append(character)
    return cells


class _Screen:
    """Lines of cells, and a cursor in them. Each operation takes time for what it writes only."""

    def __init__(self) -> None:
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._saved_position = (0, 0)
        self._padding_left = _MOST_PADDING

    def write(self, text: str) -> None:
        """Write characters over those at the cursor."""
        if not text:
            return
        line = self._lines[self._row]
        if self._column > len(line):
            missing = min(self._column - len(line), self._padding_left)
            self._padding_left -= missing
            line.extend(" " * missing)
            self._column = len(line)
        cells = _cells(text)
        end = self._column + len(cells)
        self._part_at(self._column)
        self._part_at(end)
        line[self._column : end] = cells
        self._column = end

    def _part_at(self, column: int) -> None:
        """Half of a wide character is none: where one half is overwritten, a space is left of the other."""
        line = self._lines[self._row]
        if 0 < column < len(line) and not line[column]:
            line[column - 1 : column + 1] = "  "

    def obey(self, control: str) -> None:
        """A line end, a carriage return, a backspace, or the cursor saved and restored; others do nothing to it."""
        if control == "\r":
            self._column = 0
        elif control == "\b":
            self._column = max(0, self._column - 1)
        elif control in ("\n", "\r\n"):
            line = self._lines[self._row]
            if control == "\r\n" and self._column == len(line) and line[-1:] != ["\r"]:
                line.append("\r")
            self._row, self._column = self._row + 1, 0
            if self._row == len(self._lines):
                self._lines.append([])
        elif control == "\x1b7":
            self._save(None)
        elif control == "\x1b8":
            self._restore(None)

    def move(self, final: str, parameters: str) -> None:
        """A CSI sequence: cursor movements and erasing; colours are left out."""
        first = parameters.partition(";")[0]
        number = int(first) if first.isdecimal() else None
        if (method := _MOVES.get(final)) is not None:
            method(self, number)

    def text(self) -> str:
        """All lines."""
        return "\n".join(map("".join, self._lines))

    def _up(self, rows: int | None) -> None:
        self._row = max(0, self._row - max(1, rows or 1))

    def _down(self, rows: int | None) -> None:
        self._row = min(len(self._lines) - 1, self._row + max(1, rows or 1))

    def _right(self, columns: int | None) -> None:
        self._to_column(self._column + 1 + max(1, columns or 1))

    def _left(self, columns: int | None) -> None:
        self._column = max(0, self._column - max(1, columns or 1))

    def _to_column(self, column: int | None) -> None:
        self._column = max(1, column or 1) - 1

    def _first_of_row_above(self, rows: int | None) -> None:
        self._up(rows)
        self._column = 0

    def _first_of_row_below(self, rows: int | None) -> None:
        self._down(rows)
        self._column = 0

    def _save(self, _: int | None) -> None:
        self._saved_position = self._row, self._column

    def _restore(self, _: int | None) -> None:
        row, self._column = self._saved_position
        self._row = min(row, len(self._lines) - 1)  # what was below may have been erased

    def _erase_in_line(self, extent: int | None) -> None:
        """To the end, from the beginning, the cursor's cell included, or all of it."""
        line = self._lines[self._row]
        if extent in (None, 0):
            self._part_at(self._column)
            del line[self._column :]
        elif extent == 1:
            self._part_at(self._column + 1)
            end = min(self._column + 1, len(line))
            line[:end] = " " * end
        elif extent == 2:
            line.clear()

    def _erase_in_screen(self, extent: int | None) -> None:
        """To its end, or in the cursor's line from the beginning. Lines above stay: they would be lost to who reads."""
        if extent in (None, 0):
            del self._lines[self._row + 1 :]
            self._erase_in_line(None)
        elif extent == 1:
            self._erase_in_line(1)

    def _home(self, _: int | None) -> None:
        """The top of a screen whose height nobody knows: a new line."""
        self._row, self._column = len(self._lines) - 1, 0
        if self._lines[self._row]:
            self.obey("\n")


_MOVES: dict[str, Callable[[_Screen, int | None], None]] = {
    "A": _Screen._up,
    "B": _Screen._down,
    "C": _Screen._right,
    "D": _Screen._left,
    "E": _Screen._first_of_row_below,
    "F": _Screen._first_of_row_above,
    "G": _Screen._to_column,
    "H": _Screen._home,
    "J": _Screen._erase_in_screen,
    "K": _Screen._erase_in_line,
    "s": _Screen._save,
    "u": _Screen._restore,
}
