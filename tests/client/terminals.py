"""A terminal for tests: runs a program on a pseudo-terminal, types into it, and reads the screen."""

import array
import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte
from rich.style import Style
from rich.text import Text

from tests.fork_server import CLIENTS
from tests.waiting import until


def _style(character: pyte.screens.Char) -> Style:
    """The style of a character. pyte's names of colours are Rich's, but for brown, which is yellow."""
    name = character.fg.replace("brown", "yellow").removeprefix("bright")
    if re.fullmatch("[0-9a-f]{6}", name):
        name = f"#{name}"
    colour = None if name == "default" else f"bright_{name}" if character.fg.startswith("bright") else name
    return Style(color=colour, bold=character.bold, italic=character.italics, reverse=character.reverse)


class _Screen(pyte.HistoryScreen):
    """A screen that answers where its cursor is."""

    answer: Callable[[str], None]

    def write_process_input(self, data: str) -> None:
        self.answer(data)


class Terminal:
    """`with Terminal(command, …) as terminal`. `raw` is all that it wrote, `first_mode` the mode before."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, *, columns: int = 80, rows: int = 60
    ) -> None:
        # Another size than the terminal's would be believed: test processes inherit one that readline has exported.
        inherited = {name: value for name, value in environment.items() if name not in {"COLUMNS", "LINES"}}
        self._command, self._environment, self._cwd = command, {**inherited, "TERM": "xterm-256color"}, cwd
        self._screen = _Screen(columns, rows, history=100_000)
        self._stream = pyte.ByteStream(self._screen)
        self._shown: str | None = None  # the screen as text, until more is written
        self._screen.answer = self.type
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        self._lock = threading.Lock()
        self._looks = threading.Event()
        self._looks.set()
        self.raw = b""

    def __enter__(self) -> Self:
        self._near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, self._size)
        self.first_mode = self.mode()
        self.process = CLIENTS.popen(self._command, self._environment, self._cwd, far)
        os.close(far)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join(5)
        os.close(self._near)

    def mode(self) -> list[object]:
        """How the terminal treats keys and output now (termios)."""
        return termios.tcgetattr(self._near)

    def type(self, text: str) -> None:
        """Type characters; "\\r" is Enter, "\\x03" Ctrl-C."""
        with contextlib.suppress(OSError):
            os.write(self._near, text.encode())

    @contextlib.contextmanager
    def looked_away(self) -> Iterator[None]:
        """Nothing is read from the program, which soon waits in the middle of its output."""
        self._looks.clear()
        try:
            yield
        finally:
            self._looks.set()

    def unread(self) -> int:
        """How much of the output has not been read, in bytes."""
        size = array.array("i", [0])
        fcntl.ioctl(self._near, termios.FIONREAD, size)
        return size[0]

    def shown(self) -> str:
        """The screen's lines."""
        with self._lock:
            if self._shown is None:
                self._shown = "\n".join(line.rstrip() for line in self._screen.display).rstrip()
            return self._shown

    def clear(self) -> None:
        """Have the program, which waits for input, draw the screen anew, and forget what it wrote."""
        self.type("\x15\x0c")  # Ctrl-U, Ctrl-L
        until(lambda: b"\x1b[2J" in self.raw)
        with self._lock:
            self.raw = b""

    def all_lines(self) -> str:
        """The screen's lines, and those that have scrolled away."""
        with self._lock:
            above = [
                "".join(line[column].data for column in range(self._screen.columns))
                for line in self._screen.history.top
            ]
            return "\n".join([*above, *self._screen.display])

    def styled_lines(self) -> list[Text]:
        """The screen's lines down to the last one with a text, with their colours."""
        with self._lock:
            rows = [self._screen.buffer[row] for row in range(self._screen.lines)]
            cells = [[row[column] for column in range(self._screen.columns)] for row in rows]
        lines = [
            Text.assemble(*(("".join(cell.data for cell in run), style) for style, run in groupby(row, _style)))
            for row in cells
        ]
        for line in lines:
            line.rstrip()
        while lines and not lines[-1].plain:
            lines.pop()
        return lines

    def expect(self, text: str) -> str:
        """Wait until the text is on the screen. Returns the screen."""
        found: list[str] = []  # the screen in which the text was: in the next one it may be gone

        def is_there() -> bool:
            has_ended = self.process.poll() is not None
            found[:] = [self.shown()]
            return text in found[0] or has_ended

        with contextlib.suppress(AssertionError):  # said below, with the screen
            until(is_there)
        assert text in found[0], f"{text!r} is not on the screen:\n{found[0]}"
        return found[0]

    def ended(self) -> int:
        """Wait for the program's end. Returns its exit code."""
        code: int = self.process.wait(30)
        return code

    def _take(self, piece: bytes) -> None:
        """The program has written this."""

    def _read(self) -> None:
        while self._looks.wait():
            try:
                piece = os.read(self._near, 65_536)
            except OSError:
                return
            if not piece:
                return
            self._take(piece)
            with self._lock:
                self.raw += piece
                self._stream.feed(piece)
                self._shown = None
