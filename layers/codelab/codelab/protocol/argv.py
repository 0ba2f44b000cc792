"""Reject values that a program could take for a command-line option.

`git diff --output=FILE` writes a file and ripgrep's `--pre=FILE` runs a program, so an option in place of a path makes
a read-only tool dangerous. An IDE that puts `--` before paths is safe, but the server cannot rely on that. Tools that
only open files are not checked: a file may be called `-x`.
"""

import re
import unicodedata

from codelab.protocol.errors import ErrorCode, ProtocolError

#: What git-check-ref-format(1) forbids in a name.
_NOT_IN_REF = re.compile(
    r"[\0-\x20\x7f~^:?*\[\\\ud800-\udfff]"
    r"|\.\.|@\{|//|\A/|/\Z|\.\Z"
    r"|(?:\A|/)\.|\.lock(?:/|\Z)"
)
_MINUS = "\N{MINUS SIGN}"


def check_operand(path: str) -> None:
    """Raise ProtocolError INVALID_PATH for a path that a program may take for an option."""
    if _is_option(path):
        message = "The path must not begin with '-', because a program would take it for an option; name its directory"
        raise ProtocolError(ErrorCode.INVALID_PATH, message, details={"field": "path"})


def check_ref(name: str) -> None:
    """Raise ProtocolError INVALID_ARGUMENTS unless git accepts `name` as the name of a branch or a remote.

    The URL of a remote is refused too: `ext::sh -c ...` would run a program.
    """
    if not name or name in ("@", "HEAD") or _NOT_IN_REF.search(name) or _is_option(name):
        message = "Not a valid name of a branch or a remote (see git check-ref-format)"
        raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, message, details={"field": "name"})


def _is_option(value: str) -> bool:
    """Does it begin with a dash, even after an IDE turns `./-x` into `-x` or Windows maps a Unicode dash to ASCII?"""
    names = (name.strip() for name in re.split(r"[/\\]", unicodedata.normalize("NFKC", value)))
    first_name = next((name for name in names if name not in ("", ".")), "")
    return bool(first_name) and (unicodedata.category(first_name[0]) == "Pd" or first_name[0] == _MINUS)
