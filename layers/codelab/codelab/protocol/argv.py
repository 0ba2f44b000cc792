"""Which values may stand in a program's command line, where what begins with a dash is an option.

`git diff --output=FILE` writes, and ripgrep's `--pre=FILE` runs: with an option in the place of a path, a tool that
reads does anything. An IDE that puts `--` before the paths is safe without this, but the server cannot know that it
does. A tool that opens files starts no program, and a file may be called `-x`: it is not concerned.
"""

import re
import unicodedata

from codelab.protocol.errors import ErrorCode, ProtocolError

#: What git-check-ref-format(1) says a name must not have in it.
_NO_REF = re.compile(
    r"[\0-\x20\x7f~^:?*\[\\\ud800-\udfff]"
    r"|\.\.|@\{|//|\A/|/\Z|\.\Z"
    r"|(?:\A|/)\.|\.lock(?:/|\Z)"
)
_MINUS = "\N{MINUS SIGN}"


def check_operand(path: str) -> None:
    """Raise ProtocolError INVALID_PATH for a path that a program may take for an option."""
    if _is_option(path):
        why = "This path is given to a program, and must not begin with '-'; name the directory that it is in"
        raise ProtocolError(ErrorCode.INVALID_PATH, why, details={"field": "path"})


def check_ref(name: str) -> None:
    """Raise ProtocolError INVALID_ARGUMENTS for what git takes for no branch, and what is not the name of a remote.

    The address of a remote is none: `ext::sh -c ...` is one.
    """
    if not name or name in ("@", "HEAD") or _NO_REF.search(name) or _is_option(name):
        why = "This is not a name that git allows for a branch or a remote (git check-ref-format)"
        raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, why, details={"field": "name"})


def _is_option(value: str) -> bool:
    """Does it begin with a dash, also after an IDE has made `-x` of `./-x`, or Windows an ASCII one of another dash?"""
    names = (name.strip() for name in re.split(r"[/\\]", unicodedata.normalize("NFKC", value)))
    first = next((name for name in names if name not in ("", ".")), "")
    return bool(first) and (unicodedata.category(first[0]) == "Pd" or first[0] == _MINUS)
