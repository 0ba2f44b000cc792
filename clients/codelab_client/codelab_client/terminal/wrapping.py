"""Lines that are too long for the screen. Nothing of them is left out, runs of spaces neither."""

from collections.abc import Iterator

from rich.cells import get_character_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_TAB = 4


def wrapped(line: str, width: int) -> list[str]:
    """A line as pieces of at most `width` columns, which are cut between words if possible. Tabs become spaces."""
    line = line.expandtabs(_TAB)
    if line.isascii() and len(line) <= width:
        return [line]
    pieces: list[str] = []
    piece_start, columns, space = 0, 0, 0  # where the piece begins, how wide it is, and what follows its last space
    for place, character in enumerate(line):
        size = get_character_cell_size(character)
        if columns + size > max(2, width):
            end = space if character != " " and line[piece_start:space].strip() else place
            pieces.append(line[piece_start:end])
            piece_start, columns = end, sum(map(get_character_cell_size, line[end:place]))
        columns += size
        if character == " ":
            space = place + 1
    return [*pieces, line[piece_start:]]


def cut(line: str, width: int) -> str:
    """The beginning of a line, in at most `width` columns."""
    pieces = wrapped(line, width)
    return pieces[0] if len(pieces) == 1 else f"{wrapped(line, width - 1)[0].rstrip()}…"


class Whole:
    """A text of any length, all of which is printed; Rich itself drops spaces where it ends a line.

    mark: begins what goes on with a line, so that nobody takes it for a line of its own.
    """

    def __init__(self, text: Text, mark: str = "") -> None:
        self._text, self._mark = text, mark

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in self._text.split("\n", allow_blank=True):
            line.expand_tabs(_TAB)
            place, places = 0, []
            pieces = wrapped(line.plain, options.max_width)
            if len(pieces) > 1 and self._mark:
                pieces = wrapped(line.plain, options.max_width - len(self._mark))
            for piece in pieces[:-1]:
                place += len(piece)
                places.append(place)
            for number, row in enumerate(line.divide(places)):
                part = Text(self._mark, style="quiet").append_text(row) if number and self._mark else row
                part.no_wrap, part.overflow = True, "ignore"
                yield part


class Indented:
    """A renderable behind `left` columns, with blank lines around it. Unlike Rich's Padding, it ends no line in spaces.

    Spaces would be copied with the text, and broken into rows of their own where the terminal becomes narrower.
    """

    def __init__(self, renderable: RenderableType, left: int = 0, *, above: int = 0, below: int = 0) -> None:
        self._renderable, self._left, self._above, self._below = renderable, left, above, below

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        inner = options.update_width(max(1, options.max_width - self._left))
        yield from [Segment.line()] * self._above
        for line in console.render_lines(self._renderable, inner, pad=False):
            yield from (Segment(" " * self._left), *line, Segment.line())
        yield from [Segment.line()] * self._below
