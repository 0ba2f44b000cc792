"""Which paths a call may name.

The server checks paths too, but the client does not rely on it: it alone knows where links lead.
"""

import re
import unicodedata

from codelab_client.tools import limits
from codelab_client.tools.failure import ToolFailure

_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
#: Categories of characters that control a terminal or end a line, and of lone surrogates.
_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})
#: Characters that are invisible; some file systems drop them from names (Default_Ignorable_Code_Point).
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: Characters that join others: emoji of several parts, and letters of Arabic and Indic scripts.
_JOINERS = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
_NON_JOINER, _JOINER = "\u200c", "\u200d"
#: Categories of the characters that a joiner joins, and of those that a selector of emoji follows. Not those of Latin,
#: Greek and Cyrillic letters: some file systems drop joiners, and `.g\u200cit` must not be another name of `.git`.
_JOINED, _SELECTED = frozenset({"Lo", "Mn", "Mc", "So", "Sk"}), frozenset({"So", "Sm", "Po", "Pd", "Sk"})
_KEYCAP = re.compile("[0-9#*]\ufe0f\u20e3")


def components(path: str) -> tuple[str, ...]:
    """The names in a path of the workspace, without empty ones and `.`; empty for the workspace itself.

    Raises ToolFailure: INVALID_PATH or PATH_OUTSIDE_WORKSPACE.
    """
    if not path or len(path) > limits.PATH_CHARS:
        raise ToolFailure("INVALID_PATH", f"A path must have 1 to {limits.PATH_CHARS} characters")
    visible = _without_joiners(path.replace("\t", " "))
    if any(unicodedata.category(character) in _CONTROL for character in visible) or _INVISIBLE.search(visible):
        raise ToolFailure("INVALID_PATH", "A path must be valid UTF-8 without control or invisible characters")
    if path.startswith(("/", "\\", "~")) or _DRIVE.match(path):
        raise ToolFailure("PATH_OUTSIDE_WORKSPACE", "A path must be relative to the workspace")
    if any(name.count(".") > 1 and not name.strip(". ") for name in re.split(r"[/\\]", path)):
        raise ToolFailure("PATH_OUTSIDE_WORKSPACE", "A path must not contain '..'")
    return tuple(name for name in path.split("/") if name not in ("", "."))


def joined(names: tuple[str, ...]) -> str:
    """The path of these names; `.` for the workspace itself."""
    return "/".join(names) or "."


def _without_joiners(path: str) -> str:
    """The path without the joiners that are where a script or an emoji needs them; the others stay."""
    path = _KEYCAP.sub("0", path)
    return _JOINERS.sub(lambda match: "" if _belongs(path, match.start()) else match[0], path)


def _belongs(path: str, at: int) -> bool:
    before, after = path[at - 1 : at], path[at + 1 : at + 2]
    if path[at] not in (_NON_JOINER, _JOINER):
        return before > "\x7f" and unicodedata.category(before) in _SELECTED
    if before in ("\ufe0e", "\ufe0f"):
        return _belongs(path, at - 1) and _is_joined(after)
    return _is_joined(before) and _is_joined(after)


def _is_joined(character: str) -> bool:
    return character > "\x7f" and unicodedata.category(character) in _JOINED
