"""Text of a model, a tool or a server as a person may see it.

Escape sequences could move the cursor, change the window or the clipboard; other characters could show another command
than the one that runs. `safe` is for prose, `exact` for what somebody decides about: paths, commands, rules, changes.
"""

import json
import re

from codelab_client.characters import HIDDEN_IN_PROSE, INVISIBLE, JOINERS, in_class

_HIDDEN = re.compile(f"[{in_class(INVISIBLE)}]")
#: In prose, a joiner is hidden only behind ASCII, which has nothing to join. A keycap (1️⃣) is a digit with a joiner.
_HIDDEN_IN_PROSE = re.compile(f"[{in_class(HIDDEN_IN_PROSE)}]|(?<=[\0-\x7f])(?<![0-9#*])[{in_class(JOINERS)}]")
#: Bytes that are not UTF-8, as `surrogateescape` decodes them.
_BYTES = range(0xDC80, 0xDD00)


def safe(text: object) -> str:
    """Prose with every character made visible that a terminal would obey or hide; newlines and tabs stay."""
    return _HIDDEN_IN_PROSE.sub(_visible, str(text).replace("\r\n", "\n"))


def safe_line(text: object, limit: int = 200) -> str:
    """Prose in one line of at most `limit` characters."""
    return shortened(" ".join(safe(text).split()), limit)


def exact(text: object) -> str:
    """A text with every character visible that looks like nothing or like a space; newlines, tabs and spaces stay."""
    return _HIDDEN.sub(_visible, str(text))


def exact_line(text: object) -> str:
    """The same in one line, however long: newlines, tabs, and spaces at either end are visible too."""
    line = exact(text).replace("\n", "␊").replace("\t", "␉")
    inner = line.strip(" ")
    before = len(line) - len(line.lstrip(" "))
    return f"{'␠' * before}{inner}{'␠' * (len(line) - before - len(inner))}"


def exact_json(value: object) -> str:
    """A value as JSON in which every such character is an escape, for somebody who reads or edits it."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def shortened(line: str, limit: int) -> str:
    """A line of at most `limit` characters: not for what somebody decides about."""
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _visible(match: "re.Match[str]") -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # ␛ for ESC
    if code in _BYTES:
        return f"<0x{code - 0xDC00:02X}>"
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
