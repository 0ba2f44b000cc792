"""What a change does to a text, as lines that hide nothing: for the cards of the terminal and the texts of editors.

Only a newline ends a line, as for git. Whatever else could end one, or is drawn as nothing, is spelled out.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from codelab_client.safe_text import exact, exact_line

#: Stands for a change in `Difference.notes`.
NO_CHANGES = "(no changes)"
_NO_NEWLINE = "\\ No newline at end of file"
_ALIKE = "Lines that look alike differ: characters other than plain ASCII are spelled out in them"
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

    in_place: show each change where it is, which can take seconds for large files; otherwise only the lines that one of
    the texts does not have.
    """
    if before == after:
        return Difference((), (NO_CHANGES,))
    if before is None and not after:
        return Difference((), ("(an empty file)",))
    ends_before, ends_after = _line_ends(before or ""), _line_ends(after)
    old, new = _comparable(before or "", ends_before, ends_after), _comparable(after, ends_after, ends_before)
    if before is None:
        unified = [f"+{line}" for line in new]
    elif not in_place:
        unified = [f"-{line}" for line in _missing(old, new)] + [f"+{line}" for line in _missing(new, old)]
    else:
        unified = list(difflib.unified_diff(old, new, f"a/{exact_line(path)}", f"b/{exact_line(path)}"))
    shown = spelled_out(_ended(unified))
    return Difference(shown.lines, [*_remarks(before, after, ends_before, ends_after), *shown.notes])


def spelled_out(lines: Iterable[str]) -> Difference:
    """The lines of a unified diff, without their newlines, as they may be shown."""
    shown: list[str] = []
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
        shown += [_spelled(line) if line in doubles else _line(line) for line in (*pending, *block)]
        notes = [_ALIKE] if doubles else notes
        pending = []
    return Difference([*shown, *map(_line, pending)], notes)


def hidden_lines(lines: Sequence[str]) -> list[str]:
    """Those changed lines of a `Difference` in which something is spelled out, which another program would hide."""
    return [line for line in lines if line[:1] in ("+", "-") and _SPELLED.search(line)]


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


def _comparable(text: str, ends: str, others: str) -> list[str]:
    """The lines with their newlines. If all end alike, here and in the other text, a remark says how: not each line."""
    if ends == "CRLF" and not others.startswith("mixed"):
        text = text.replace("\r\n", "\n")
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _missing(lines: Iterable[str], other: Iterable[str]) -> Iterator[str]:
    known = frozenset(other)
    return (line for line in lines if line not in known)


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


def _doubles(removed: Sequence[str], added: Sequence[str]) -> frozenset[str]:
    """The lines that are replaced by ones that look the same, and these."""
    known: dict[str, set[str]] = {}
    for line in removed:
        if not line.startswith("\\"):
            known.setdefault(_outline(line), set()).add(line)
    pairs = ((old, new) for new in dict.fromkeys(added) for old in known.get(_outline(new), ()))
    return frozenset(line for pair in pairs if _are_alike(*pair) for line in pair)


def _are_alike(old: str, new: str) -> bool:
    return old[1:] != new[1:] and ("\t" in f"{old}{new}" or _glyphs(old) == _glyphs(new))


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
