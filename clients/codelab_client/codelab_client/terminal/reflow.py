"""What a terminal that becomes narrower makes of our lines: most break those that are too long, and so add rows.

prompt_toolkit erases the rows that it has drawn, so what was broken would stay on the screen.
"""

import os
from collections.abc import Mapping
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.renderer import Renderer

#: Terminals that cut lines instead, by their variables.
_CUTTING = ("XTERM_VERSION", "STY")


def breaks_lines(environment: Mapping[str, str]) -> bool:
    """Whether the terminal breaks lines that are too long after a change of its size."""
    is_cutting = any(environment.get(name) for name in _CUTTING) or environment.get("TERM", "").startswith("rxvt")
    return bool(environment.get("TMUX")) or not is_cutting


def rows_added(screen: Screen, cursor: Point, columns: int) -> int:
    """The rows above the cursor, and those in its own line, that breaking what was drawn at `columns` has added."""
    above = sum(max(0, _width(screen, row) - 1) // columns for row in range(cursor.y))
    return above + cursor.x // columns


def erase_what_was_broken(renderer: Renderer) -> None:
    """Have a renderer erase the added rows too, when it erases what it has drawn, and before it draws anew."""
    erase, render = renderer.erase, renderer.render
    if not breaks_lines(os.environ):
        return

    def erase_all(leave_alternate_screen: bool = True) -> None:
        screen, size, columns = renderer.last_rendered_screen, renderer._last_size, renderer.output.get_size().columns
        if screen is not None and size is not None and columns < size.columns:
            renderer.output.cursor_up(rows_added(screen, renderer._cursor_pos, columns))
        erase(leave_alternate_screen)

    def render_anew(app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        if (size := renderer._last_size) is not None and renderer.output.get_size().columns < size.columns:
            erase_all(leave_alternate_screen=False)
        render(app, layout, is_done)

    renderer.erase, renderer.render = erase_all, render_anew  # type: ignore[method-assign]


def _width(screen: Screen, row: int) -> int:
    """The columns up to the last one with a text."""
    cells = screen.data_buffer[row]
    return max((column + cell.width for column, cell in cells.items() if cell.char.strip(" ")), default=0)
