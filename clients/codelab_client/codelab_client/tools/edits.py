"""Edits of a text: each `old` occurs once, or is replaced wherever it occurs. Nothing here touches a file.

If an `old` is missing, but there is one place whose lines differ from it only in whitespace, that is the place that is
meant, and `new` is indented as it is. Everybody who shows an edit and who makes it calls the same function.

All edits refer to the text as it was, so their order does not matter, and none can hit what another has written.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.mixed_ends import MixedEnds
from codelab_client.tools.texts import has_only_crlf
from codelab_client.tools.whitespace import nearly

#: Lines of a place that is shown, places that are shown, counted and listed, and characters of a shown line.
_SHOWN_LINES = 8
_PLACES = 3
_COUNTED = 1_000
_LISTED = 10
#: Texts that one call replaces.
_MOST = 100_000
_LINE_CHARS = 200
#: A line whose pairs of characters agree to this degree with the wanted one is close.
_CLOSE = 0.5


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which is not empty, by `new`."""

    old: str
    new: str
    replace_all: bool = False


class Edited(NamedTuple):
    """The edited text, how many places were replaced, and which of them differed in whitespace; empty if none did."""

    text: str
    replacements: int
    whitespace: str


class _Place(NamedTuple):
    """Characters `start` to `end` become `new`."""

    start: int
    end: int
    new: str


def apply(text: str, edits: Sequence[Edit], file_name: str) -> Edited:
    """The edited text. file_name: the file's name, for errors.

    If every line of the text ends with CRLF, so do the lines of the edits, however they are given. If only some do, a
    line end of an edit without CR matches both, and what replaces lines has their line ends.

    Raises ToolFailure PATCH_APPLY_FAILED if an `old` is missing or ambiguous, or if edits overlap or change nothing.
    """
    has_crlf = has_only_crlf(text)
    lines = None if has_crlf or "\r\n" not in text else MixedEnds(text)
    places: list[tuple[int, int, str, int]] = []  # from, to, the new text, the edit's number
    near: list[str] = []
    for number, edit in enumerate(edits, 1):
        label = f"{file_name}: edit {number}" if len(edits) > 1 else file_name
        old, new = (_with_crlf(edit.old), _with_crlf(edit.new)) if has_crlf else (edit.old, edit.new)
        if old == new:
            raise _failed(f"{label}: old and new are equal")
        plain = lines.plain if lines is not None and "\r" not in old else None
        matches, whitespace = _places(text if plain is None else plain, old, new, label, replace_all=edit.replace_all)
        if whitespace:
            near.append(f"edit {number}: {whitespace}" if len(edits) > 1 else whitespace)
        for start, end, replacement in matches:
            if lines is not None and plain is not None:
                start, end = lines.place(start), lines.place(end)
                replacement = lines.ended(replacement, start, end)
            places.append((start, end, replacement, number))
        if len(places) > _MOST:
            raise _failed(f"{file_name}: more than {_MOST:,} texts would be replaced: use write_file")
    places.sort(key=lambda place: place[0])
    pieces: list[str] = []
    copy_end, before = 0, 0
    for start, end, new, number in places:
        if start < copy_end:
            line = _line_of(text, start)
            raise _failed(f"{file_name}: edits {before} and {number} overlap in line {line}: make one edit of them")
        pieces += [text[copy_end:start], new]
        copy_end, before = end, number
    pieces.append(text[copy_end:])
    return Edited("".join(pieces), len(places), "; ".join(near))


def _places(text: str, old: str, new: str, label: str, *, replace_all: bool) -> tuple[list[_Place], str]:
    """What is replaced, and which lines differ from `old` in whitespace. Raises ToolFailure PATCH_APPLY_FAILED."""
    if not replace_all and old not in text and (near := nearly(text, old, new)) is not None:
        which_lines = f"line {near.first}" if near.first == near.last else f"lines {near.first}-{near.last}"
        return [_Place(near.start, near.end, near.new)], f"{which_lines}, whitespace differs"
    if old not in text:
        raise _missing(text, old, new, label)
    starts = _everywhere(text, old, label) if replace_all else [_once(text, old, label)]
    return [_Place(start, start + len(old), new) for start in starts], ""


def _once(text: str, old: str, label: str) -> int:
    """Where `old` begins, if there is only one place. Raises ToolFailure PATCH_APPLY_FAILED."""
    starts = list(islice(_occurrences(text, old), _COUNTED))
    if len(starts) == 1:
        return starts[0]
    lines = ", ".join(str(_line_of(text, start)) for start in starts[:_LISTED])
    ellipsis = ", …" if len(starts) > _LISTED else ""
    count = f"{len(starts)} times" if len(starts) < _COUNTED else "many times"
    raise _failed(
        f"{label}: the text to replace occurs {count} (lines {lines}{ellipsis}). "
        "Add lines around it until it is unique, or set replace_all"
    )


def _everywhere(text: str, old: str, label: str) -> list[int]:
    """Where `old` begins. Raises ToolFailure PATCH_APPLY_FAILED if its occurrences overlap."""
    starts: list[int] = []
    for start in islice(_occurrences(text, old), _MOST + 1):
        if starts and start - starts[-1] < len(old):
            raise _failed(f"{label}: its occurrences overlap, so it is not clear which to replace")
        starts.append(start)
    return starts


def _occurrences(text: str, old: str) -> Iterator[int]:
    """Where `old` begins, overlapping occurrences included."""
    start = text.find(old)
    while start >= 0:
        yield start
        start = text.find(old, start + 1)


def _missing(text: str, old: str, new: str, label: str) -> ToolFailure:
    """A failure with the closest lines, and with the line that has the new text, if one has: a change may be made."""
    start = text.find(new) if new.strip() else -1
    hint = "" if start < 0 else f" The new text does (line {_line_of(text, start)}): the change may be made already."
    return _failed(f"{label}: the text to replace does not occur in the file.{hint}{_closest(text, old)}")


def _with_crlf(text: str) -> str:
    return re.sub(r"(?<!\r)\n", "\r\n", text)


def _line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _closest(text: str, old: str) -> str:
    """The places most like `old`, with line numbers; empty if nothing is like it."""
    old_lines = old.split("\n")
    anchor = max(range(len(old_lines)), key=lambda number: len(old_lines[number].strip()))
    lines = text.split("\n")
    near = _like(lines, old_lines[anchor].strip())
    if not near:
        return " No line of the file is like it: read the file again."
    output = []
    for number in near:
        first = max(0, number - anchor)
        part = lines[first : first + min(len(old_lines), _SHOWN_LINES)]
        output += ["", *(f"{first + at + 1}\t{_cut(line)}" for at, line in enumerate(part))]
    return " The closest lines are:" + "\n".join(output)


def _like(lines: Sequence[str], target: str) -> list[int]:
    """The lines most like `target`, by the pairs of characters that they have in common."""
    if not target:
        return []
    pairs = _pairs(target)
    total = sum(pairs.values())
    scores: list[tuple[float, int]] = []
    for number, line in enumerate(lines):
        stripped = line.strip()
        if stripped == target:
            scores.append((2.0, number))
        elif stripped and 1 / 3 < len(stripped) / len(target) < 3:
            line_pairs = _pairs(stripped)
            common = sum(min(count, line_pairs[pair]) for pair, count in pairs.items() if pair in line_pairs)
            score = 2 * common / (total + sum(line_pairs.values()))
            if score >= _CLOSE:
                scores.append((score, number))
    best = sorted(scores, key=lambda score: (-score[0], score[1]))[:_PLACES]
    top = best[0][0] if best else 0.0
    return sorted(number for score, number in best if score >= top - 0.2)


def _pairs(text: str) -> Counter[str]:
    text = f" {text[:_LINE_CHARS]} "
    return Counter(first + second for first, second in pairwise(text))


def _cut(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…"


def _failed(message: str) -> ToolFailure:
    return ToolFailure("PATCH_APPLY_FAILED", message)
