"""A text some of whose lines end with CRLF and some with LF, as one who sees no CR knows it."""

import re
from bisect import bisect_left
from itertools import chain, islice, repeat

_END = re.compile("\r?\n")


class MixedEnds:
    """plain: the text with LF in place of CRLF."""

    def __init__(self, text: str) -> None:
        self.text, self.plain = text, text.replace("\r\n", "\n")
        self._shortened_at = [
            match.start() - number for number, match in enumerate(re.finditer("\r\n", text))
        ]  # where a CR is left out of the plain text

    def place(self, at: int) -> int:
        """Where a place of the plain text is in the text."""
        return at + bisect_left(self._shortened_at, at)

    def ended(self, new: str, start: int, end: int) -> str:
        """A text with the line ends of the part that it replaces, or of the line before it."""
        if "\r" in new or "\n" not in new:
            return new
        ends = _END.findall(self.text, start, end)
        if not ends:
            near = _END.search(self.text, start) if "\n" not in self.text[:start] else None
            before = self.text.rfind("\n", 0, start)
            ends = [near[0]] if near else ["\r\n" if self.text[before - 1 : before] == "\r" else "\n"]
        lines = new.split("\n")
        endless = chain(ends, repeat(ends[-1]))
        return "".join(map("".join, zip(lines, [*islice(endless, len(lines) - 1), ""], strict=True)))
