"""Find the files that a unified diff touches, so that their paths can be checked.

Only a strict form is accepted, in which git and patch(1) find the same names. Each file of a diff is

    diff --git a/NAME b/NAME     optional, then git's lines about modes, a new or deleted file, a rename or a copy
    --- a/NAME
    +++ b/NAME                   the same name, or /dev/null on one side for a new or deleted file
    @@ -1,2 +1,3 @@              hunks with exactly the announced number of lines

and the next file follows immediately.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.paths import checked_path

_NO_FILE = "/dev/null"
_MODE = r"100(?:644|755)"  # Not a symlink's mode: a later write could follow it out of the workspace.
#: The lines that may follow `diff --git`, in git's order.
_EXTENDED_HEADERS = tuple(
    (keyword, re.compile(form))
    for keyword, form in (
        ("old mode", f"old mode {_MODE}"),
        ("new mode", f"new mode {_MODE}"),
        ("deleted", f"deleted file mode {_MODE}"),
        ("new", f"new file mode {_MODE}"),
        ("similarity", r"similarity index (?:100|[1-9]?[0-9])%"),
        ("rename from", "rename from (.+)"),
        ("rename to", "rename to (.+)"),
        ("copy from", "copy from (.+)"),
        ("copy to", "copy to (.+)"),
        ("index", rf"index ([0-9a-f]{{4,64}})\.\.([0-9a-f]{{4,64}})(?: {_MODE})?"),
    )
)
_NUMBER = "(0|[1-9][0-9]{0,8})"
_HUNK = re.compile(rf"@@ -{_NUMBER}(?:,{_NUMBER})? \+{_NUMBER}(?:,{_NUMBER})? @@(?: [^\r]*)?")
_NO_NEWLINE = "\\ No newline at end of file"
_QUOTED_NAME = re.compile(r'"((?:[^"\\]|\\["\\]|\\[0-3][0-7]{2})*)"')
_NAME = re.compile(r'"(?:[^"\\]|\\.)*"|[^ "\t]+')
_ESCAPE = re.compile(rb'\\([0-7]{3}|["\\])')


def check_diff(diff: str, *, posix: bool = False) -> list[str]:
    """The paths in `diff`, each once, in order of appearance. posix: see `workspace_path`.

    Empty for a single line: it cannot be applied, and the IDE reports that. Raises ProtocolError: INVALID_ARGUMENTS,
    with the line, for a malformed diff; INVALID_PATH or PATH_OUTSIDE_WORKSPACE.
    """
    return list(_names_in(diff, posix))


@lru_cache(maxsize=4)  # One call is checked several times: for its agent, its rules and its risk.
def _names_in(diff: str, posix: bool) -> tuple[str, ...]:
    if "\n" not in diff.strip("\n"):
        return ()
    reader = _Reader(diff.removesuffix("\n").split("\n"), posix)  # Like git: only \n ends a line.
    names = reader.file()
    while not reader.is_done():
        names += reader.file()
    return tuple(dict.fromkeys(names))


@dataclass(slots=True)
class _Header:
    """The `diff --git` line of one file and the lines that follow it."""

    old: str
    new: str
    lines: dict[str, re.Match[str]] = field(default_factory=dict)

    @property
    def moves(self) -> bool:
        return "rename from" in self.lines or "copy from" in self.lines


class _Reader:
    """Reads the diff file by file. `position` is the index of the next line."""

    def __init__(self, lines: list[str], posix: bool) -> None:
        self.lines = lines
        self.posix = posix
        self.position = 0
        self._end = len(lines) - next((number for number, line in enumerate(reversed(lines)) if line), len(lines))

    def is_done(self) -> bool:
        """Are only empty lines left?"""
        return self.position >= self._end

    def file(self) -> list[str]:
        """Read the next file and return its names."""
        header = self._header() if self._line().startswith("diff --git ") else None
        if header is not None and not self._line().startswith("--- "):
            if header.lines.keys() <= {"index", "similarity"}:
                self._refuse("a file without hunks must be new, deleted, renamed or copied, or change its mode")
            return [header.old, header.new]
        if not (self._line().startswith("--- ") and self._line(1).startswith("+++ ")):
            self._refuse("expected 'diff --git a/NAME b/NAME', or '--- a/NAME' followed by '+++ b/NAME'")
        old, new = self._name("--- ", "a/"), self._name("+++ ", "b/")
        self._compare(old, new, header)
        hunks = 0
        while self._line().startswith("@@ "):
            hunks += 1
            self._hunk(old, new, hunks)
        if not hunks:
            self._refuse("expected a hunk such as '@@ -1,2 +1,3 @@'")
        return [name for name in (old, new) if name]

    # -- headers -----------------------------------------------------------------------------------------------------

    def _header(self) -> _Header:
        names = _git_names(self._line().removeprefix("diff --git "))
        if names is None:
            self._refuse("'diff --git' must name a/NAME and b/NAME; quote names with spaces, or omit this line")
        header = _Header(self._path(names[0], "a/"), self._path(names[1], "b/"))
        self.position += 1
        for keyword, form in _EXTENDED_HEADERS:
            if (match := form.fullmatch(self._line())) is not None:
                if " from" in keyword or " to" in keyword:
                    header_name = header.old if " from" in keyword else header.new
                    if self._path(match[1]) != header_name:
                        self._refuse("the name differs from the one in 'diff --git'")
                header.lines[keyword] = match
                self.position += 1
        self._consistent(header)
        return header

    def _consistent(self, header: _Header) -> None:
        lines = header.lines
        for keyword, partner in (("old mode", "new mode"), ("rename from", "rename to"), ("copy from", "copy to")):
            if (keyword in lines) != (partner in lines):
                self._refuse(f"{keyword!r} and {partner!r} must come together")
        if ("new" in lines) + ("deleted" in lines) + ("rename from" in lines) + ("copy from" in lines) > 1:
            self._refuse("a file can be only one of new, deleted, renamed and copied")
        if ("old mode" in lines and ("new" in lines or "deleted" in lines)) or (
            "similarity" in lines and not header.moves
        ):
            self._refuse("the lines after 'diff --git' contradict each other")
        if (header.old != header.new) != header.moves:
            self._refuse("the names in 'diff --git' must be equal, unless the file is renamed or copied")
        index = lines.get("index")
        if index is not None:
            for keyword, digest in (("new", index[1]), ("deleted", index[2])):
                if not digest.strip("0") and keyword not in lines:
                    self._refuse("the index line contradicts the other lines: a zero id means a new or deleted file")

    def _name(self, start: str, prefix: str) -> str:
        """The name in a `---` or `+++` line; empty for /dev/null."""
        text = self._line().removeprefix(start)
        if text == _NO_FILE:
            self.position += 1
            return ""
        if text.endswith("\t") and not text.startswith('"'):
            text = text[:-1]
        elif " " in text and not text.startswith('"'):
            self._refuse("a name with spaces must be followed by a tab")
        name = self._path(text, prefix)
        self.position += 1
        return name

    def _path(self, text: str, prefix: str = "") -> str:
        """A checked path. Raises ProtocolError."""
        if "\t" in text and not text.startswith('"'):
            self._refuse("a name with a tab must be quoted, because a tab ends a name")
        name = self._unquoted(text) if text.startswith('"') else text
        if not name.startswith(prefix):
            self._refuse(f"a name must begin with {prefix}, or be {_NO_FILE} for a new or deleted file")
        name = checked_path(name.removeprefix(prefix), lenient=False, posix=self.posix)
        if "\\" in name or '"' in name or any(part in ("", ".") or part != part.strip() for part in name.split("/")):
            raise ProtocolError(ErrorCode.INVALID_PATH, f"The diff, line {self.position + 1}: invalid file name")
        return name

    def _unquoted(self, text: str) -> str:
        """Decode a name that git quoted as a C string with octal bytes."""
        match = _QUOTED_NAME.fullmatch(text)
        if match is None:
            self._refuse('a quoted name may only contain the escapes \\", \\\\ and three octal digits')

        def plain(escape: re.Match[bytes]) -> bytes:
            return bytes([int(escape[1], 8)]) if escape[1].isdigit() else escape[1]

        try:
            return _ESCAPE.sub(plain, match[1].encode()).decode()
        except UnicodeError:
            self._refuse("a name must be UTF-8")

    def _compare(self, old: str, new: str, header: _Header | None) -> None:
        if header is None:
            if old != new and old and new:
                self._refuse("the two names must be equal, or one of them /dev/null")
            if not old and not new:
                self._refuse("a file must have a name")
            return
        if old != ("" if "new" in header.lines else header.old) or new != (
            "" if "deleted" in header.lines else header.new
        ):
            self._refuse("the names do not match the 'diff --git' line and those after it")

    # -- hunks -------------------------------------------------------------------------------------------------------

    def _hunk(self, old: str, new: str, number: int) -> None:
        match = _HUNK.fullmatch(self._line())
        if match is None:
            self._refuse("a hunk must begin like '@@ -1,2 +1,3 @@'")
        removed_lines, added_lines = int(match[2] or 1), int(match[4] or 1)
        if (not old and (number, removed_lines, match[1]) != (1, 0, "0")) or (
            not new and (number, added_lines, match[3]) != (1, 0, "0")
        ):
            self._refuse("a new or deleted file must have one hunk with only added or only removed lines")
        self.position += 1
        is_change = False
        while removed_lines or added_lines:
            line = self._line(default="\r")
            kind = line[:1]
            if kind in ("", " ") and removed_lines and added_lines:
                removed_lines, added_lines = removed_lines - 1, added_lines - 1
            elif kind == "-" and removed_lines:
                removed_lines, is_change = removed_lines - 1, True
            elif kind == "+" and added_lines:
                added_lines, is_change = added_lines - 1, True
            else:
                self._refuse("the hunk's lines do not match its header")
            self.position += 1
            if self._line() == _NO_NEWLINE:
                self.position += 1
        if not is_change:
            self._refuse("the hunk changes nothing")

    # -- lines -------------------------------------------------------------------------------------------------------

    def _line(self, offset: int = 0, default: str = "") -> str:
        """The next line, or `default` after the last one."""
        index = self.position + offset
        return self.lines[index] if index < len(self.lines) else default

    def _refuse(self, reason: str) -> NoReturn:
        raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, f"The diff, line {self.position + 1}: {reason}")


def _git_names(text: str) -> tuple[str, str] | None:
    """The two names of a `diff --git` line, each quoted or without spaces: git and patch split others differently."""
    old_match = _NAME.match(text)
    new_match = (
        _NAME.fullmatch(text, old_match.end() + 1)
        if old_match is not None and text.startswith(" ", old_match.end())
        else None
    )
    return (old_match[0], new_match[0]) if old_match is not None and new_match is not None else None
