"""Globs of file names: `*.py` matches in any directory, `src/**/*.py` below `src`."""

import fnmatch
from collections.abc import Sequence


def matches(pattern: str, names: Sequence[str]) -> bool:
    """Whether a path's names match. `*`, `?` and `[…]` match within one name, `**` any number of directories."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if "/" not in pattern:
        return fnmatch.fnmatchcase(names[-1], pattern)
    at = count = 0
    retry: tuple[int, int] | None = None
    while count < len(names):
        if at < len(parts) and parts[at] == "**":
            retry = (at + 1, count)
            at += 1
        elif at < len(parts) and fnmatch.fnmatchcase(names[count], parts[at]):
            at, count = at + 1, count + 1
        elif retry is not None:
            retry = (retry[0], retry[1] + 1)
            at, count = retry
        else:
            return False
    return all(part == "**" for part in parts[at:])
