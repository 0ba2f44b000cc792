"""Which paths a tool call may name (Tools Specification, "Пути файлов")."""

import re
import unicodedata

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError

_DRIVE = re.compile(r"^[A-Za-z]:")
#: Categories of characters that control a terminal or end a line.
_CONTROL = frozenset({"Cc", "Zl", "Zp"})
#: Default_Ignorable_Code_Point of Unicode 16: invisible, and some file systems drop them from names.
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def workspace_path(path: str, *, lenient: bool = True) -> str:
    """Check `path` and return it as the client gets it: relative and inside the workspace.

    Lenient mode strips one leading slash, because two of the seed documents show `/src/main.dart`.
    Raises ProtocolError: INVALID_PATH or PATH_OUTSIDE_WORKSPACE.
    """
    if lenient and path.startswith("/") and not path.startswith("//"):
        path = path[1:] or "."
    if not path or "\0" in path:
        raise _error(ErrorCode.INVALID_PATH, "A path must not be empty or contain NUL")
    if any("\ud800" <= character <= "\udfff" for character in path):
        raise _error(ErrorCode.INVALID_PATH, "A path must be valid UTF-8")
    if len(path) > limits.PATH_CHARS:
        raise _error(ErrorCode.INVALID_PATH, f"A path must have at most {limits.PATH_CHARS} characters")
    if path.startswith(("/", "\\", "~")) or _DRIVE.match(path):
        raise _error(ErrorCode.PATH_OUTSIDE_WORKSPACE, "A path must be relative to the workspace")
    if any(map(_leads_up, re.split(r"[/\\]", path))):
        raise _error(ErrorCode.PATH_OUTSIDE_WORKSPACE, "A path must not contain '..'")
    if INVISIBLE.search(path) or any(unicodedata.category(character) in _CONTROL for character in path):
        raise _error(ErrorCode.INVALID_PATH, "A path must not contain control or invisible characters")
    if ":" in path:  # On Windows `a:b` is a stream of the file `a`, and `.git::$INDEX_ALLOCATION` the directory.
        raise _error(ErrorCode.INVALID_PATH, "A path must not contain ':'")
    return path


def _leads_up(name: str) -> bool:
    """Is this `..`? Windows ignores dots and spaces at the end of a name."""
    return name.count(".") > 1 and not name.strip(". ")


def _error(code: ErrorCode, message: str) -> ProtocolError:
    return ProtocolError(code, message, details={"field": "path"})
