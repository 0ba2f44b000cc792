"""Unified diffs in the strict form of docs/tools.md: read, applied to texts, and cut down to chosen chunks.

Nothing here touches a file. Texts are `str`; bytes that are not UTF-8 are kept as surrogates.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NoReturn

from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components, joined

_NOTHING = "/dev/null"
_MODE = "100(?:644|755)"
_NUMBER = "(0|[1-9][0-9]{0,8})"
_HUNK = re.compile(rf"@@ -{_NUMBER}(?:,{_NUMBER})? \+{_NUMBER}(?:,{_NUMBER})? @@([^\r]*)")
_NO_NEWLINE = "\\ No newline at end of file"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^ "\t]+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\]|\\[0-3][0-7]{2})*)"')
_ESCAPE = re.compile(rb'\\([0-7]{3}|["\\])')
_BOM = "\ufeff"
#: git's lines after `diff --git`, in its order; the groups are what we need of them.
_EXTENDED = tuple(
    (header_name, re.compile(form))
    for header_name, form in (
        ("old mode", f"old mode {_MODE}"),
        ("mode", f"new mode ({_MODE})"),
        ("deleted", f"deleted file mode {_MODE}"),
        ("new", f"new file mode ({_MODE})"),
        ("similarity", r"similarity index (?:100|[1-9]?[0-9])%"),
        ("rename from", "rename from (.+)"),
        ("rename to", "rename to (.+)"),
        ("copy from", "copy from (.+)"),
        ("copy to", "copy to (.+)"),
        ("index", rf"index ([0-9a-f]{{4,64}})\.\.([0-9a-f]{{4,64}})(?: {_MODE})?"),
    )
)
#: Lines compared at most to find the places of one diff's hunks.
_COMPARISONS = 20_000_000


@dataclass(frozen=True)
class Hunk:
    """One `@@` part. `old` and `new` are its lines before and after, each with its line end. raw: as in the diff."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    section: str
    raw: tuple[str, ...]


@dataclass(frozen=True)
class FilePatch:
    """What a diff does to one file: `old` becomes `new`; None stands for no file.

    mode: the new mode, "100644" or "100755", or None. copies: `old` stays. header: its lines before the hunks.
    """

    old: tuple[str, ...] | None
    new: tuple[str, ...] | None
    hunks: tuple[Hunk, ...] = ()
    mode: str | None = None
    copies: bool = False
    header: tuple[str, ...] = ()


def parse(diff: str) -> list[FilePatch]:
    """Read a diff. Raises ToolFailure: INVALID_ARGUMENTS with the line, INVALID_PATH or PATH_OUTSIDE_WORKSPACE."""
    return list(_Parser(diff.removesuffix("\n").split("\n")).files())


def chunks(files: Sequence[FilePatch]) -> int:
    """How many chunks a diff has: its hunks, and one for each file without any."""
    return sum(max(1, len(file.hunks)) for file in files)


def only(files: Sequence[FilePatch], numbers: Collection[int]) -> str:
    """The diff with only the chosen chunks, counted from 1; empty if none is."""
    output: list[str] = []
    number = 0
    for file in files:
        hunks = [hunk for at, hunk in enumerate(file.hunks, number + 1) if at in numbers]
        is_chosen = bool(hunks) if file.hunks else number + 1 in numbers
        number += max(1, len(file.hunks))
        if is_chosen:
            output += [*file.header, *_renumbered(hunks)]
    return "".join(f"{line}\n" for line in output)


def _renumbered(hunks: Sequence[Hunk]) -> Iterator[str]:
    """The hunks with the new line numbers that follow from those that are left."""
    shift = 0
    for hunk in hunks:
        start = hunk.start + shift + (not hunk.old) - (not hunk.new)
        yield f"@@ -{hunk.start},{len(hunk.old)} +{start},{len(hunk.new)} @@{hunk.section}"
        yield from hunk.raw
        shift += len(hunk.new) - len(hunk.old)


@dataclass
class Patched:
    """A file after a patch: its text, or None if it is deleted, and its permission bits (None: those of a new file)."""

    text: str | None
    mode: int | None = None


def apply(
    files: Sequence[FilePatch], read_file: Callable[[tuple[str, ...]], Patched]
) -> dict[tuple[str, ...], Patched]:
    """Apply a diff to the files that `read_file` gives (with a text of None for none) and return those that changed.

    Raises ToolFailure PATCH_APPLY_FAILED.
    """
    after: dict[tuple[str, ...], Patched] = {}
    budget = _Budget(_COMPARISONS)
    for file in files:
        names = file.old or file.new or ()
        file_state = after[names] if names in after else read_file(names)
        name = joined(names)
        if file.old is None and file_state.text is not None:
            raise _failed(f"{name} exists already")
        if file.old is not None and file_state.text is None:
            raise _failed(f"{name} does not exist")
        if file.old is not None and file.new is not None and file.new != file.old:
            target = after[file.new] if file.new in after else read_file(file.new)
            if target.text is not None:
                raise _failed(f"{joined(file.new)} exists already")
        text = _patched(file_state.text or "", file.hunks, name, budget)
        if file.new is None:
            if text:
                raise _failed(f"{name} has more lines than the diff removes")
            after[names] = Patched(None)
            continue
        if file.old is not None and file.old != file.new and not file.copies:
            after[file.old] = Patched(None)
        after[file.new] = Patched(text, _mode(file_state.mode, file))
    return after


def _mode(old: int | None, file: FilePatch) -> int | None:
    if file.mode is None:
        return old
    if old is None:
        return 0o777 if file.mode == "100755" else None
    return old | (old & 0o444) >> 2 if file.mode == "100755" else old & ~0o111


@dataclass
class _Budget:
    remaining: int

    def spend(self, comparisons: int) -> None:
        self.remaining -= comparisons
        if self.remaining < 0:
            raise _failed("the places of its hunks are too expensive to find")


def _patched(text: str, hunks: Sequence[Hunk], name: str, budget: _Budget) -> str:
    """Apply hunks to a text. Its byte order mark and its line ends stay, also if the diff does not have them."""
    diff_lines = [line for hunk in hunks for line in (*hunk.old, *hunk.new)]
    bom = _BOM if text.startswith(_BOM) and not any(line.startswith(_BOM) for line in diff_lines) else ""
    lines = _lines(text[len(bom) :])
    keeps_ends = not any(line.endswith("\r\n") for line in diff_lines)
    result: list[str] = []
    copy_end, is_as_stated = 0, True
    index = _Index([_without_cr(line) for line in lines] if keeps_ends else lines)
    for number, hunk in enumerate(hunks, 1):
        stated_line = hunk.start - bool(hunk.old)
        places = index.places(hunk.old, copy_end, budget, stated_line if is_as_stated else None)
        label = f"{name}: hunk {number} (line {hunk.start})"
        if not places:
            raise _failed(f"{label} does not match the file" if hunk.old or not lines else f"{label} has no context")
        if len(places) > 1:
            raise _failed(
                f"{label} is not in that line and matches more than one place, among them lines "
                f"{places[0] + 1} and {places[1] + 1}: correct the line numbers, or give more context"
            )
        at = places[0]
        is_as_stated = is_as_stated and at == stated_line
        result += lines[copy_end:at]
        result += _with_ends(hunk, lines, at) if keeps_ends else hunk.new
        copy_end = at + len(hunk.old)
    result += lines[copy_end:]
    if any(not line.endswith("\n") for line in result[:-1]):
        raise _failed(f"{name}: a line without a line end would not be the last one")
    return bom + "".join(result)


def _lines(text: str) -> list[str]:
    """The lines of a text with their ends; only \\n ends a line."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _without_cr(line: str) -> str:
    return f"{line[:-2]}\n" if line.endswith("\r\n") else line


def _with_ends(hunk: Hunk, lines: list[str], at: int) -> list[str]:
    """What a hunk makes of the lines from `at` on. Old lines keep their ends, and new ones have their neighbours'."""
    new_lines: list[str] = []
    end = _end_near(lines, at)
    for raw in hunk.raw:
        kind = raw[:1] or " "
        if kind == "\\":
            continue
        if kind == "+":
            line = hunk.new[len(new_lines)]
            new_lines.append(line[:-1] + end if line.endswith("\n") else line)
            continue
        if lines[at].endswith("\n"):
            end = "\r\n" if lines[at].endswith("\r\n") else "\n"
        if kind == " ":
            new_lines.append(lines[at])
        at += 1
    return new_lines


def _end_near(lines: list[str], at: int) -> str:
    """The line end of the line before, or of the next one."""
    near = lines[at - 1 if at else 0] if lines else ""
    return "\r\n" if near.endswith("\r\n") else "\n"


class _Index:
    """Finds where consecutive lines occur, by the first of them.

    Line numbers in a diff are often wrong. One that fits is taken as long as all hunks before were where the diff says;
    otherwise only a place that is the only one: the nearest of several may be the wrong one.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at: dict[str, list[int]] | None = None

    def places(self, old_lines: tuple[str, ...], first: int, budget: _Budget, stated_line: int | None) -> list[int]:
        """The places of `old_lines` from `first` on: `stated_line` if it is one, else the first two."""
        if not old_lines:  # without lines to compare, only an empty file is certainly the right one
            return [] if self.lines else [0]
        if stated_line is not None and stated_line >= first and self._fits(old_lines, stated_line, budget):
            return [stated_line]
        if self.at is None:
            self.at = {}
            for number, line in enumerate(self.lines):
                self.at.setdefault(line, []).append(number)
        places = self.at.get(old_lines[0], [])
        budget.spend(len(places))
        fitting = (place for place in places if place >= first and self._fits(old_lines, place, budget))
        return list(islice(fitting, 2))

    def _fits(self, old_lines: tuple[str, ...], place: int, budget: _Budget) -> bool:
        budget.spend(len(old_lines) + 1)
        return place >= 0 and tuple(self.lines[place : place + len(old_lines)]) == old_lines


# -- reading a diff ----------------------------------------------------------------------------------------------------


@dataclass
class _Header:
    old: tuple[str, ...]
    new: tuple[str, ...]
    says: dict[str, re.Match[str]] = field(default_factory=dict)


class _Parser:
    """Reads a diff line by line. `at` is the index of the next line."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    def files(self) -> Iterator[FilePatch]:
        """All files of the diff, at least one. Empty lines may follow them; within a hunk they are empty context."""
        yield self._file()
        lines = self.lines
        end = len(lines) - next((number for number, line in enumerate(reversed(lines)) if line), len(lines))
        while self.at < end:
            yield self._file()

    def _file(self) -> FilePatch:
        begin = self.at
        header = self._git_header() if self._line().startswith("diff --git ") else None
        if header is not None and not self._line().startswith("--- "):
            if header.says.keys() <= {"index", "similarity"}:
                self._refuse("a file without hunks must be new, deleted, renamed or copied, or change its mode")
            return self._made(header, header.old, header.new, (), begin)
        if not (self._line().startswith("--- ") and self._line(1).startswith("+++ ")):
            self._refuse("expected 'diff --git a/NAME b/NAME', or '--- a/NAME' followed by '+++ b/NAME'")
        old, new = self._name("--- ", "a/"), self._name("+++ ", "b/")
        self._compare(old, new, header)
        end = self.at
        hunks: list[Hunk] = []
        while self._line().startswith("@@ "):
            hunks.append(self._hunk(old is not None, new is not None, len(hunks) + 1))
        if not hunks:
            self._refuse("expected a hunk such as '@@ -1,2 +1,3 @@'")
        patch = self._made(header, old or (), new or (), tuple(hunks), begin)
        return replace(patch, old=old, new=new, header=tuple(self.lines[begin:end]))

    def _made(
        self, header: _Header | None, old: tuple[str, ...], new: tuple[str, ...], hunks: tuple[Hunk, ...], begin: int
    ) -> FilePatch:
        says = header.says if header is not None else {}
        mode = says.get("mode") or says.get("new")
        return FilePatch(
            old=None if "new" in says else old,
            new=None if "deleted" in says else new,
            hunks=hunks,
            mode=mode[1] if mode else None,
            copies="copy from" in says,
            header=tuple(self.lines[begin : self.at]),
        )

    def _git_header(self) -> _Header:
        text = self._line().removeprefix("diff --git ")
        first = _TOKEN.match(text)
        two = _TOKEN.fullmatch(text, first.end() + 1) if first and text.startswith(" ", first.end()) else None
        if first is None or two is None:
            self._refuse("'diff --git' must name a/NAME and b/NAME; quote names with spaces, or omit this line")
        header = _Header(self._path(first[0], "a/"), self._path(two[0], "b/"))
        self.at += 1
        for header_name, form in _EXTENDED:
            if (match := form.fullmatch(self._line())) is not None:
                if " from" in header_name or " to" in header_name:
                    expected = header.old if " from" in header_name else header.new
                    if self._path(match[1]) != expected:
                        self._refuse("the name differs from the one in 'diff --git'")
                header.says[header_name] = match
                self.at += 1
        says = header.says
        for pair in (("old mode", "mode"), ("rename from", "rename to"), ("copy from", "copy to")):
            if len(says.keys() & set(pair)) == 1:
                self._refuse(f"{pair[0]!r} needs the line that belongs to it")
        kinds = says.keys() & {"new", "deleted", "rename from", "copy from"}
        moves = bool(kinds & {"rename from", "copy from"})
        if len(kinds) > 1 or ("mode" in says and kinds & {"new", "deleted"}) or ("similarity" in says and not moves):
            self._refuse("the lines after 'diff --git' contradict each other")
        if (header.old != header.new) != moves:
            self._refuse("the names in 'diff --git' must be equal, unless the file is renamed or copied")
        index = says.get("index")
        if index is not None:
            for header_name, digest in (("new", index[1]), ("deleted", index[2])):
                if not digest.strip("0") and header_name not in says:
                    self._refuse("a zero id in the index line means a new or deleted file")
        return header

    def _name(self, start: str, prefix: str) -> tuple[str, ...] | None:
        text = self._line().removeprefix(start)
        if text == _NOTHING:
            self.at += 1
            return None
        if not text.startswith('"'):
            if text.endswith("\t"):
                text = text[:-1]
            elif " " in text:
                self._refuse("a name with spaces must be followed by a tab")
        names = self._path(text, prefix)
        self.at += 1
        return names

    def _path(self, text: str, prefix: str = "") -> tuple[str, ...]:
        if "\t" in text and not text.startswith('"'):
            self._refuse("a name with a tab must be quoted, because a tab ends a name")
        name = self._unquoted(text) if text.startswith('"') else text
        if not name.startswith(prefix):
            self._refuse(f"a name must begin with {prefix}, or be {_NOTHING} for a new or deleted file")
        name = name.removeprefix(prefix)
        names = components(name)
        if "\\" in name or '"' in name or "/".join(names) != name or any(part != part.strip() for part in names):
            raise ToolFailure("INVALID_PATH", f"The diff, line {self.at + 1}: invalid file name")
        return names

    def _unquoted(self, text: str) -> str:
        quoted = _QUOTED.fullmatch(text)
        if quoted is None:
            self._refuse('a quoted name may only contain the escapes \\", \\\\ and three octal digits')
        try:
            plain = _ESCAPE.sub(
                lambda match: bytes([int(match[1], 8)]) if match[1].isdigit() else match[1], quoted[1].encode()
            )
            return plain.decode()
        except UnicodeError:
            self._refuse("a name must be UTF-8")

    def _compare(self, old: tuple[str, ...] | None, new: tuple[str, ...] | None, header: _Header | None) -> None:
        if header is None:
            if old is None and new is None:
                self._refuse("a file must have a name")
            if old is not None and new is not None and old != new:
                self._refuse("the two names must be equal, or one of them /dev/null")
            return
        expected_old = None if "new" in header.says else header.old
        if old != expected_old or new != (None if "deleted" in header.says else header.new):
            self._refuse("the names do not match the 'diff --git' line and those after it")

    def _hunk(self, has_old: bool, has_new: bool, number: int) -> Hunk:
        match = _HUNK.fullmatch(self._line())
        if match is None or (match[5] and not match[5].startswith(" ")):
            self._refuse("a hunk must begin like '@@ -1,2 +1,3 @@'")
        old_count, new_count = int(match[2] or 1), int(match[4] or 1)
        for side, side_exists, lines in ((1, has_old, old_count), (3, has_new, new_count)):
            if not side_exists and (number, lines, match[side]) != (1, 0, "0"):
                self._refuse("a new or deleted file must have one hunk with only added or only removed lines")
        self.at += 1
        begin, is_change = self.at, False
        old: list[str] = []
        new: list[str] = []
        while len(old) < old_count or len(new) < new_count:
            line = self._line(missing="\r")
            kind, text = line[:1] or " ", f"{line[1:]}\n"
            if kind not in " -+" or (kind != "+" and len(old) == old_count) or (kind != "-" and len(new) == new_count):
                self._refuse("the hunk's lines do not match its header")
            self.at += 1
            if self._line() == _NO_NEWLINE:
                text = text[:-1]
                self.at += 1
            if kind != "+":
                old.append(text)
            if kind != "-":
                new.append(text)
            is_change = is_change or kind != " "
        if not is_change:
            self._refuse("the hunk changes nothing")
        return Hunk(int(match[1]), tuple(old), tuple(new), match[5], tuple(self.lines[begin : self.at]))

    def _line(self, ahead: int = 0, missing: str = "") -> str:
        at = self.at + ahead
        return self.lines[at] if at < len(self.lines) else missing

    def _refuse(self, reason: str) -> NoReturn:
        raise ToolFailure("INVALID_ARGUMENTS", f"The diff, line {self.at + 1}: {reason}")


def _failed(reason: str) -> ToolFailure:
    return ToolFailure("PATCH_APPLY_FAILED", f"The diff does not apply: {reason}")
