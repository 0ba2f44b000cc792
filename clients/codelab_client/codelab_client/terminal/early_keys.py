"""Keys that are pressed while the client starts: they wait for its input, Enter as Enter, and are not echoed."""

import contextlib
import os
import select
import sys
from collections.abc import Iterator

#: Keys that count although they write nothing: Enter, and the two that erase.
_KEYS = "\r\x7f\b"
#: Bytes of what was typed before that are read.
_MOST = 4_000


def keys_in(text: str) -> str:
    """The keys that wrote a text: of a line end, which the terminal makes of Enter, that is Enter."""
    return "".join(letter for letter in text.replace("\n", "\r") if letter.isprintable() or letter in _KEYS)


@contextlib.contextmanager
def kept_keys() -> Iterator[str]:
    """Let keys wait as they are. Gives those that were pressed before. At the end, the terminal's mode is what it was,
    whatever had the keyboard: an open list leaves it to the ended input."""
    import termios

    keyboard = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(keyboard)
        mode = termios.tcgetattr(keyboard)
        mode[0] &= ~termios.ICRNL
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(keyboard, termios.TCSANOW, mode)
    except termios.error:  # not a terminal
        yield ""
        return
    try:
        is_typed = bool(select.select([keyboard], [], [], 0)[0])
        yield keys_in(os.read(keyboard, _MOST).decode("utf-8", "ignore")) if is_typed else ""
    finally:
        with contextlib.suppress(termios.error):  # it was closed
            termios.tcsetattr(keyboard, termios.TCSANOW, before)
