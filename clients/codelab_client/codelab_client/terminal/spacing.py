"""Blank lines between printed blocks: one where two blocks meet that each bring their own."""

import re

_BLANK = re.compile(r"(?:[ \t]|\x1b\[[0-9;]*m)*\n")


class Spacing:
    """Knows how the last block ended."""

    def __init__(self) -> None:
        self._ends_blank = False

    def spaced(self, block: str) -> str:
        """A block as it may be printed below the last one: whole lines, each with its newline."""
        if self._ends_blank:
            while (match := _BLANK.match(block)) is not None:
                block = block[match.end() :]
        if block:
            self._ends_blank = _BLANK.fullmatch(block.splitlines(keepends=True)[-1]) is not None
        return block
