"""Which files a unified diff touches: a patch is a way to name paths, too."""

import re

from codelab.protocol.paths import workspace_path

#: Lines of git that name one path, without a prefix.
_MOVES = ("rename from ", "rename to ", "copy from ", "copy to ")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_NOTHING = "/dev/null"


def check_diff(diff: str) -> list[str]:
    """The paths that `diff` names, each once, in order of appearance. What is no diff names none: the IDE refuses it.

    Raises ProtocolError INVALID_PATH or PATH_OUTSIDE_WORKSPACE.
    """
    lines = [line.removesuffix("\r") for line in diff.split("\n")]  # as git does: no other character ends a line
    named: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        # Inside a hunk a removed line may look like the first of the two; with the second it is a header.
        if line.startswith("--- ") and following.startswith("+++ "):
            named += [_without_prefix(line[4:]), _without_prefix(following[4:])]
        elif line.startswith(_MOVES):
            named.append(_unquoted(line.split(" ", 2)[2]))
        elif line.startswith("diff --git "):
            named += map(_without_prefix, _two_names(line[len("diff --git ") :]))
    return list(dict.fromkeys(workspace_path(name, lenient=False) for name in named if name != _NOTHING))


def _two_names(text: str) -> list[str]:
    """`a/x b/x`, either of which may be quoted. Names with spaces are ambiguous here; the other lines have them."""
    quoted = re.findall(r'"(?:[^"\\]|\\.)*"|[^ ]+', text)
    return quoted if len(quoted) == 2 else []


def _without_prefix(name: str) -> str:
    """The path behind `a/` and `b/`, without the time that may follow after a tab."""
    name = _unquoted(name.split("\t", 1)[0] if not name.startswith('"') else name)
    return name[2:] if name[:2] in ("a/", "b/", "i/", "w/", "c/", "o/") else name


def _unquoted(name: str) -> str:
    """git quotes unusual names as C strings, their bytes in octal."""
    end = name.rfind('"')
    if not name.startswith('"') or end == 0:
        return name

    def plain(found: re.Match[bytes]) -> bytes:
        escape = found[1]
        if escape.isdigit():
            return bytes([int(escape, 8) & 0xFF])
        return _ESCAPES.get(escape.decode("latin-1"), escape.decode("latin-1")).encode("latin-1")

    return _ESCAPE.sub(plain, name[1:end].encode(errors="replace")).decode(errors="replace")
