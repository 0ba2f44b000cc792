"""Which paths a call may name.

The server checks paths too, but the client does not rely on it: it alone knows where links lead.
"""

import re
import unicodedata

from codelab_client.tools import limits
from codelab_client.tools.failure import ToolFailure

_DRIVE = re.compile(r"[A-Za-z]:")
#: Categories of characters that control a terminal or end a line, and of lone surrogates.
_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})
#: Characters that are invisible; some file systems drop them from names (Default_Ignorable_Code_Point).
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def components(path: str) -> tuple[str, ...]:
    """The names in a path of the workspace, without empty ones and `.`; empty for the workspace itself.

    Raises ToolFailure: INVALID_PATH or PATH_OUTSIDE_WORKSPACE.
    """
    if not path or len(path) > limits.PATH_CHARS:
        raise ToolFailure("INVALID_PATH", f"A path must have 1 to {limits.PATH_CHARS} characters")
    if any(unicodedata.category(character) in _CONTROL for character in path) or _INVISIBLE.search(path):
        raise ToolFailure("INVALID_PATH", "A path must be valid UTF-8 without control or invisible characters")
    if path.startswith(("/", "\\", "~")) or _DRIVE.match(path):
        raise ToolFailure("PATH_OUTSIDE_WORKSPACE", "A path must be relative to the workspace")
    if any(name.count(".") > 1 and not name.strip(". ") for name in re.split(r"[/\\]", path)):
        raise ToolFailure("PATH_OUTSIDE_WORKSPACE", "A path must not contain '..'")
    if ":" in path:
        raise ToolFailure("INVALID_PATH", "A path must not contain ':'")
    return tuple(name for name in path.split("/") if name not in ("", "."))


def joined(names: tuple[str, ...]) -> str:
    """The path of these names; `.` for the workspace itself."""
    return "/".join(names) or "."
