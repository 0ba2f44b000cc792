"""Lines of a text that differ from the wanted ones only in whitespace: at their ends, or in the indentation of all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

#: Places with the wanted words that are looked at; if there are more, none is the one that was meant.
_PLACES = 10


@dataclass(frozen=True)
class _Indentation:
    """How much further the lines of the text are indented than the wanted ones; `prefix_removed`: how much less."""

    prefix_added: str = ""
    prefix_removed: str = ""

    def of(self, lines: Sequence[str]) -> list[str] | None:
        """The lines with this indentation; None if one of them has not enough."""
        if any(line.strip() and not line.startswith(self.prefix_removed) for line in lines):
            return None
        return [self.prefix_added + line.removeprefix(self.prefix_removed) if line.strip() else line for line in lines]


@dataclass(frozen=True)
class Near:
    """Where the lines are: characters `start` to `end` of the text, lines `first` to `last`, and the text in place."""

    start: int
    end: int
    first: int
    last: int
    new: str


def nearly(text: str, old: str, new: str) -> Near | None:
    """The only place where whole lines of `text` are those of `old` but for whitespace, None if there is not just one.

    `new` is indented as the lines in the text are; if it has the same words as `old`, nothing is near. The line ends of
    `text` and `old` must be the same.
    """
    is_ended = old.endswith("\n")
    old_lines = (old.removesuffix("\n") if is_ended else old).split("\n")
    if not any(line.strip() for line in old_lines) or old.split() == new.split():
        return None  # An edit of whitespace alone must not guess at it.
    lines = text.split("\n")
    places = list(islice(_places(lines, old_lines), _PLACES + 1))
    if len(places) > _PLACES:
        return None
    fitting = [
        (first, indented)
        for first in places
        if (indentation := _indentation(lines[first : first + len(old_lines)], old_lines)) is not None
        and (indented := indentation.of(new.split("\n"))) is not None
    ]
    if len(fitting) != 1:
        return None
    first, indented = fitting[0]
    last = first + len(old_lines) - 1
    start = sum(len(line) + 1 for line in lines[:first])
    end = start + sum(len(line) + 1 for line in lines[first : last + 1])
    text_made = "\n".join(indented)
    if last == len(lines) - 1:  # The last line has no end, whatever the wanted one has.
        end -= 1
        text_made = text_made.removesuffix("\n").removesuffix("\r") if is_ended else text_made
    elif not is_ended:
        end -= 2 if lines[last].endswith("\r") else 1
    return Near(start, end, first + 1, last + 1, text_made)


def _places(lines: Sequence[str], old_lines: Sequence[str]) -> Iterator[int]:
    """The numbers, from 0, of the lines from which on all lines have the wanted words. Linear in the text."""
    text, words = ("\n".join(["", *(line.strip() for line in group), ""]) for group in (lines, old_lines))
    at = text.find(words)
    line, position = 0, 0
    while at >= 0:
        line += text.count("\n", position, at)
        position = at
        yield line
        at = text.find(words, at + 1)


def _indentation(lines: Sequence[str], old_lines: Sequence[str]) -> _Indentation | None:
    """What indents each of the wanted lines like those of the text; None if it is not the same for all."""
    pairs = [
        (_begin(line), _begin(old_indent)) for line, old_indent in zip(lines, old_lines, strict=True) if line.strip()
    ]
    line, old_indent = pairs[0]
    if line.endswith(old_indent):
        indentation = _Indentation(prefix_added=line.removesuffix(old_indent))
    elif old_indent.endswith(line):
        indentation = _Indentation(prefix_removed=old_indent.removesuffix(line))
    else:
        return None
    return (
        indentation
        if all(
            line == indentation.prefix_added + old_indent.removeprefix(indentation.prefix_removed)
            for line, old_indent in pairs
        )
        else None
    )


def _begin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
