"""Which paths a tool call may name (Tools Specification, "Пути файлов")."""

import re
import unicodedata

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError

_DRIVE, _POSIX_DRIVE = re.compile(r"[A-Za-z]:"), re.compile(r"[A-Za-z]:[/\\]")
#: Categories of characters that control a terminal or end a line.
_CONTROL = frozenset({"Cc", "Zl", "Zp"})
#: Default_Ignorable_Code_Point of Unicode 16: invisible, and some file systems drop them from names.
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


#: Characters that join others: emoji of several parts, and letters of Arabic and Indic scripts.
_JOINERS = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
_NON_JOINER, _JOINER = "\u200c", "\u200d"
#: Categories of the characters that a joiner joins, and of those that a selector of emoji follows. Not those of Latin,
#: Greek and Cyrillic letters: some file systems drop joiners, and `.g\u200cit` must not be another name of `.git`.
_JOINABLE, _SELECTABLE = frozenset({"Lo", "Mn", "Mc", "So", "Sk"}), frozenset({"So", "Sm", "Po", "Pd", "Sk"})
_KEYCAP = re.compile("[0-9#*]\ufe0f\u20e3")
#: Bytes of a name on Linux and macOS.
_NAME_BYTES = 255


def workspace_path(path: str, *, lenient: bool = True, posix: bool = False) -> str:
    """Check `path` and return it as the client gets it: relative, inside the workspace, without empty names and `.`.

    A slash at the end stays: it marks a directory. Lenient mode strips one leading slash, because two of the seed
    documents show `/src/main.dart`. posix: the client runs on Linux or macOS, where names may have colons, tabs and
    joined characters, and paths may be longer than 255 characters. Raises ProtocolError: INVALID_PATH or
    PATH_OUTSIDE_WORKSPACE.
    """
    path = checked_path(path, lenient=lenient, posix=posix)
    normal = "/".join(name for name in path.split("/") if name not in ("", ".")) or "."
    if normal != path:
        checked_path(normal, lenient=False, posix=posix)  # `./~/x` would become a path of a home directory
    return f"{normal}/" if path.endswith(("/", "/.")) and normal != "." else normal


def checked_path(path: str, *, lenient: bool, posix: bool = False) -> str:
    """Check `path` and return it as it is, but for the leading slash: for patterns of rules and names in diffs.

    Raises ProtocolError: INVALID_PATH or PATH_OUTSIDE_WORKSPACE.
    """
    if lenient and path.startswith("/") and not path.startswith("//"):
        path = path[1:] or "."
    if not path or "\0" in path:
        raise _error(ErrorCode.INVALID_PATH, "A path must not be empty or contain NUL")
    if any("\ud800" <= character <= "\udfff" for character in path):
        raise _error(ErrorCode.INVALID_PATH, "A path must be valid UTF-8")
    max_chars = limits.LONG_PATH_CHARS if posix else limits.PATH_CHARS
    if len(path) > max_chars or (posix and any(len(name.encode()) > _NAME_BYTES for name in path.split("/"))):
        raise _error(ErrorCode.INVALID_PATH, f"A path must have at most {max_chars} characters, and a name 255 bytes")
    if path.startswith(("/", "\\", "~")) or (_POSIX_DRIVE if posix else _DRIVE).match(path):
        raise _error(ErrorCode.PATH_OUTSIDE_WORKSPACE, "A path must be relative to the workspace")
    if any(map(_leads_up, re.split(r"[/\\]", path))):
        raise _error(ErrorCode.PATH_OUTSIDE_WORKSPACE, "A path must not contain '..'")
    visible_path = _without_joiners(path.replace("\t", " ")) if posix else path
    if INVISIBLE.search(visible_path) or any(unicodedata.category(character) in _CONTROL for character in visible_path):
        raise _error(ErrorCode.INVALID_PATH, "A path must not contain control or invisible characters")
    # On Windows `a:b` is a stream of the file `a`, and `.git::$INDEX_ALLOCATION` the directory.
    if ":" in path and not posix:
        raise _error(ErrorCode.INVALID_PATH, "A path must not contain ':'")
    return path


def _without_joiners(path: str) -> str:
    """The path without the joiners that are where a script or an emoji needs them; the others stay."""
    path = _KEYCAP.sub("0", path)
    return _JOINERS.sub(lambda joiner: "" if _belongs(path, joiner.start()) else joiner[0], path)


def _belongs(path: str, index: int) -> bool:
    previous_char, next_char = path[index - 1 : index], path[index + 1 : index + 2]
    if path[index] not in (_NON_JOINER, _JOINER):
        return previous_char > "\x7f" and unicodedata.category(previous_char) in _SELECTABLE
    if previous_char in ("\ufe0e", "\ufe0f"):
        return _belongs(path, index - 1) and _is_joined(next_char)
    return _is_joined(previous_char) and _is_joined(next_char)


def _is_joined(character: str) -> bool:
    return character > "\x7f" and unicodedata.category(character) in _JOINABLE


def _leads_up(name: str) -> bool:
    """Is this `..`? Windows ignores dots and spaces at the end of a name."""
    return name.count(".") > 1 and not name.strip(". ")


def _error(code: ErrorCode, message: str) -> ProtocolError:
    return ProtocolError(code, message, details={"field": "path"})
