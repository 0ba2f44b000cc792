"""Text of a model, a tool or a server as a terminal may show it.

Escape sequences could move the cursor, change the window or the clipboard, and characters that change the direction of
text could show another command than the one that runs. All of them become visible characters here.
"""

import re

#: Controls except newline and tab, C1 controls, direction and other invisible format characters, lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def safe(text: object) -> str:
    """The text with every character made visible that a terminal would obey or hide; newlines and tabs stay."""
    return _UNSAFE.sub(_visible, str(text).replace("\r\n", "\n"))


def safe_line(text: object, most: int = 200) -> str:
    """The text in one line of at most `most` characters."""
    line = " ".join(safe(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _visible(found: "re.Match[str]") -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # ␛ for ESC
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
