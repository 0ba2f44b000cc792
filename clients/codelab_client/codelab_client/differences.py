"""What a change does to a text, as lines that hide nothing: for the cards of the terminal and the texts of editors.

Only a newline ends a line, as for git. Whatever else could end one, or is drawn as nothing, is spelled out.
"""

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice, takewhile
from typing import Any

from codelab_client.safe_text import exact, exact_line

#: Stands for a change in `Difference.notes`.
NO_CHANGES = "(no changes)"
_NO_NEWLINE = "\\ No newline at end of file"
_ALIKE = "Lines that look alike differ: characters other than plain ASCII are spelled out in them"
_NOT_PLACED = "Comparing the texts line by line would take too long: all of what may change is shown"
#: Pairs of equal lines that are looked at for a diff: about a second.
_MOST_PAIRS = 10_000_000
#: What `_spelled` must change so that two texts never come out as one.
_UNPLAIN = re.compile(r"[^ -~]|<(?=U\+|0x)")
#: What `exact` writes, but for blanks at the end of a line.
_SPELLED = re.compile(r"<U\+[0-9A-F]{4,6}>|<0x[0-9A-F]{2}>|[␀-␈␊-␟␡]")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_BLANKS_AT_END = re.compile(r"[ \t]+\Z")
#: Cyrillic, Greek and Armenian letters, and some of phonetic alphabets, that most fonts draw like Latin ones.
_LATIN = str.maketrans(
    "асеорхуіјѕԁһԛԝкАВЕЅІЈКМНОРСТУХαορνικυγχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոհɑıɡ",
    "aceopxyijsdhqwkABESIJKMHOPCTYXaopvikuyxABEZHIKMNOPTYXounhaig",
)
_MARKS = str.maketrans({" ": "␠", "\t": "␉"})


@dataclass(frozen=True)
class Difference:
    """lines: those of a unified diff, spelled out. notes: what no line shows, each in a line of its own."""

    lines: Sequence[str]
    notes: Sequence[str]


def lossless(data: bytes) -> str:
    """Bytes as text: different bytes are different texts, and bytes that are not UTF-8 become surrogates."""
    return data.decode("utf-8", "surrogateescape")


def difference(before: str | None, after: str, path: str, *, in_place: bool = True) -> Difference:
    """What changes. before: None if there is no file yet.

    in_place: show each change where it is, which can take a second or two for large files; otherwise only the lines
    that one of the texts does not have.
    """
    if before == after:
        return Difference((), (NO_CHANGES,))
    if before is None and not after:
        return Difference((), ("(an empty file)",))
    ends_before, ends_after = _line_ends(before or ""), _line_ends(after)
    old, new = _comparable(before or "", ends_before, ends_after), _comparable(after, ends_after, ends_before)
    notes: list[str] = []
    if before is None:
        unified = [f"+{line}" for line in new]
    elif not in_place:
        unified = [f"-{line}" for line in _missing(old, new)] + [f"+{line}" for line in _missing(new, old)]
    else:
        unified, notes = _unified(old, new, path)
    spelling = spelled_out(_ended(unified))
    return Difference(spelling.lines, [*_remarks(before, after, ends_before, ends_after), *notes, *spelling.notes])


def spelled_out(lines: Iterable[str]) -> Difference:
    """The lines of a unified diff, without their newlines, as they may be shown."""
    output: list[str] = []
    notes: list[str] = []
    pending: list[str] = []
    for sign, run in groupby(lines, key=lambda line: line[:1]):
        block = list(run)
        if sign == "-":
            pending += block
            continue
        if sign == "\\" and pending:
            pending += block
            continue
        doubles = _doubles(pending, block) if sign == "+" else frozenset()
        output += [_spelled(line) if line in doubles else _line(line) for line in (*pending, *block)]
        notes = [_ALIKE] if doubles else notes
        pending = []
    return Difference([*output, *map(_line, pending)], notes)


def hidden_lines(lines: Sequence[str]) -> list[str]:
    """Those changed lines of a `Difference` in which something is spelled out, which another program would hide."""
    return [line for line in lines if line[:1] in ("+", "-") and _SPELLED.search(line)]


class _TooMuch(Exception):
    """Two texts cannot be compared in time."""


class _Matcher(difflib.SequenceMatcher[str]):
    """Compares as long as that takes no more than `_MOST_PAIRS` pairs of lines. Raises _TooMuch."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new)
        places: Mapping[str, Sequence[int]] = vars(self)["b2j"]  # where a line is in `new`; see its own description
        pairs = (1 + len(places.get(line, ())) for line in old)
        self._pairs = list(accumulate(pairs, initial=0))  # that are looked at for the lines before each one
        self._pairs_left = _MOST_PAIRS

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Any:
        end = len(self._pairs) - 1 if ahi is None else ahi
        self._pairs_left -= self._pairs[end] - self._pairs[alo]
        if self._pairs_left < 0:
            raise _TooMuch
        return super().find_longest_match(alo, ahi, blo, bhi)


def _unified(old: Sequence[str], new: Sequence[str], path: str) -> tuple[list[str], list[str]]:
    """The lines of a unified diff, and notes. Texts that cannot be compared in time are shown as they are."""
    head = [f"--- a/{exact_line(path)}\n", f"+++ b/{exact_line(path)}\n"]
    hunk_lines = hunks(old, new)
    return ([*head, *_replaced(old, new)], [_NOT_PLACED]) if hunk_lines is None else ([*head, *hunk_lines], [])


def hunks(old: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """The lines of a unified diff behind its head, each with its sign; None if that would take too long."""
    try:
        groups = list(_Matcher(old, new).get_grouped_opcodes(3))
    except _TooMuch:
        return None
    lines = []
    for group in groups:
        (_, first, _, new_first, _), (_, _, last, _, new_last) = group[0], group[-1]
        lines.append(f"@@ -{_range(first, last)} +{_range(new_first, new_last)} @@\n")
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[start:end]]
            else:
                lines += [*(f"-{line}" for line in old[start:end]), *(f"+{line}" for line in new[new_start:new_end])]
    return lines


def _range(start: int, stop: int) -> str:
    """Lines as unified diffs name them."""
    count = stop - start
    return f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """First the lines that only one of the texts has, then all lines between those that begin and end both."""
    begin = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))
    limit = min(len(old), len(new)) - begin
    pairs = islice(zip(reversed(old), reversed(new), strict=False), limit)
    end = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    old, new = old[begin : len(old) - end], new[begin : len(new) - end]
    yield "@@ lines that only one of the texts has @@\n"
    yield from (f"-{line}" for line in _missing(old, new))
    yield from (f"+{line}" for line in _missing(new, old))
    yield f"@@ all lines from line {begin + 1} on @@\n"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)


def _remarks(before: str | None, after: str, ends_before: str, ends_after: str) -> Iterator[str]:
    if before is not None and ends_before and ends_after and ends_before != ends_after:
        yield f"Line ends change: {ends_before} → {ends_after}"
    elif before is None and ends_after not in ("", "LF"):
        yield f"Line ends: {ends_after}"
    if before and after and before.endswith("\n") != after.endswith("\n"):
        yield "No newline at end of file any more" if before.endswith("\n") else "A newline at end of file now"
    if _NOT_UTF8.search(before or ""):
        yield "The file is not UTF-8 text: its other bytes are shown as <0x…>"


def _line_ends(text: str) -> str:
    """How the lines end: LF, CRLF, mixed, or an empty text if there are none."""
    ends, with_cr = text.count("\n"), text.count("\r\n")
    return "" if not ends else "LF" if not with_cr else "CRLF" if with_cr == ends else "mixed LF and CRLF"


def _comparable(text: str, ends: str, other_ends: str) -> list[str]:
    """The lines with their newlines. If all end alike, here and in the other text, a remark says how: not each line."""
    if ends == "CRLF" and not other_ends.startswith("mixed"):
        text = text.replace("\r\n", "\n")
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _missing(lines: Iterable[str], reference: Iterable[str]) -> Iterator[str]:
    other_lines = frozenset(reference)
    return (line for line in lines if line not in other_lines)


def _ended(lines: Iterable[str]) -> Iterator[str]:
    """The lines without their newlines; a line that has none is followed by one that says so."""
    for line in lines:
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield _NO_NEWLINE


def _line(line: str) -> str:
    """A line as it is shown. Blanks at the end of a changed one are visible."""
    if line[:1] not in ("+", "-"):
        return exact(line)
    return line[0] + _BLANKS_AT_END.sub(lambda blanks: blanks[0].translate(_MARKS), exact(line[1:]))


def _doubles(old_lines: Sequence[str], new_lines: Sequence[str]) -> frozenset[str]:
    """The lines that are replaced by ones that look the same, and these."""
    old, new = (_by_outline(line for line in lines if not line.startswith("\\")) for lines in (old_lines, new_lines))
    doubles: list[str] = []
    for outline in old.keys() & new.keys():
        for side, opposite in ((old[outline], new[outline]), (new[outline], old[outline])):
            alike = _Alike([line[1:] for line in opposite])
            doubles += [line for line in side if alike.has_other(line[1:])]
    return frozenset(doubles)


def _by_outline(lines: Iterable[str]) -> dict[str, dict[str, None]]:
    """Different lines with the same outline."""
    by_outline: dict[str, dict[str, None]] = {}
    for line in lines:
        by_outline.setdefault(_outline(line), {})[line] = None
    return by_outline


class _Alike:
    """Different bodies of lines with the same outline. A tab may look like any number of blanks."""

    def __init__(self, bodies: Sequence[str]) -> None:
        self._bodies = frozenset(bodies)
        self._has_tab = any("\t" in body for body in bodies)
        self._glyphs = Counter(_glyphs(f"+{body}") for body in bodies)

    def has_other(self, body: str) -> bool:
        """Whether another one looks like this body."""
        is_known = body in self._bodies
        if "\t" in body:
            return len(self._bodies) > is_known
        return self._has_tab or self._glyphs[_glyphs(f"+{body}")] > is_known


def _outline(line: str) -> str:
    """How a line looks if blanks do not count: a tab may look like any number of them."""
    return " ".join(re.split(r"[ \t␠␉]+", _glyphs(line))).rstrip()


def _glyphs(line: str) -> str:
    """How a changed line looks, without its sign."""
    return unicodedata.normalize("NFKC", _line(line)[1:]).translate(_LATIN)


def _spelled(line: str) -> str:
    """A line in which every character but plain ASCII is spelled out."""
    if line[:1] not in ("+", "-"):
        return exact(line)
    body = _UNPLAIN.sub(_code, line[1:])
    return line[0] + _BLANKS_AT_END.sub(lambda blanks: blanks[0].translate(_MARKS), body)


def _code(character: "re.Match[str]") -> str:
    code = ord(character[0])
    if 0xDC80 <= code <= 0xDCFF:
        return f"<0x{code - 0xDC00:02X}>"
    return "␉" if code == 0x09 else f"<U+{code:04X}>"
