"""Whether the terminal's background is light: what the user says, else what the terminal answers, else a variable."""

import os
import re
import select
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from codelab_client.terminal.early_keys import keys_in

#: How long the terminal may take to answer (seconds).
_PATIENCE_S = 0.2
#: OSC 11 asks for the background; every terminal answers the question after it, for its kind (DA1).
_QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
_COLOUR = re.compile(
    r"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)"
)
_KIND = re.compile(r"\x1b\[\?[0-9;]*c")
#: Terminals that do not know the question.
_MUTE = ("", "dumb", "linux")
#: Of COLORFGBG: white, and the light grey that is the first eight colours' white.
_LIGHT_NUMBERS = ("7", "15")


@dataclass(frozen=True)
class Background:
    """is_light: text must be dark. typed: the keys that the user pressed before the terminal had answered."""

    is_light: bool = False
    typed: str = ""


def background(setting: str, environment: Mapping[str, str], ask: Callable[[], bytes]) -> Background:
    """The terminal's background. setting: `light`, `dark`, or empty. ask: asks the terminal, and returns what it reads.

    The terminal is not asked if the setting says it, or if it would print the question.
    """
    if setting:
        return Background(setting == "light")
    answer = "" if environment.get("TERM", "") in _MUTE else ask().decode("utf-8", "ignore")
    typed = keys_in(without_answers(answer))
    if (match := _COLOUR.search(answer)) is not None:
        red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in match.groups())
        return Background(luminance(red, green, blue) > 0.18, typed)  # the middle, as eyes see it
    return Background(environment.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_NUMBERS, typed)


def without_answers(text: str) -> str:
    """What was read from the keyboard without the terminal's answers, which may come late."""
    return _KIND.sub("", _COLOUR.sub("", text)) if "\x1b" in text else text


def luminance(red: float, green: float, blue: float) -> float:
    """The relative luminance (WCAG 2.2) of a colour whose parts are between 0 and 1."""
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue))
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def terminal_answer() -> bytes:
    """What the terminal answers within a moment, and what was typed until then."""
    import termios
    import tty

    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    try:
        before = termios.tcgetattr(keyboard)
    except termios.error:
        return b""
    try:
        tty.setcbreak(keyboard, termios.TCSANOW)
        os.write(screen, _QUESTION)
        return _read(keyboard)
    except OSError:
        return b""
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


def _read(keyboard: int) -> bytes:
    answer, end = b"", time.monotonic() + _PATIENCE_S
    while (
        _KIND.search(answer.decode("utf-8", "ignore")) is None
        and (left := end - time.monotonic()) > 0
        and len(answer) < 1_000
    ):
        if select.select([keyboard], [], [], left)[0]:
            answer += os.read(keyboard, 1_000)
    return answer
