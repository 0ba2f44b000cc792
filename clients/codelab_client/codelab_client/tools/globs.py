"""Globs of file names: `*.py` matches in any directory, `src/**/*.py` below `src`."""

import fnmatch
from collections.abc import Sequence


def matches(pattern: str, names: Sequence[str]) -> bool:
    """Whether a path's names match. `*`, `?` and `[…]` match within one name, `**` any number of directories."""
    wanted = [part for part in pattern.split("/") if part not in ("", ".")]
    if "/" not in pattern:
        return fnmatch.fnmatchcase(names[-1], pattern)
    at = seen = 0
    retry: tuple[int, int] | None = None
    while seen < len(names):
        if at < len(wanted) and wanted[at] == "**":
            retry = (at + 1, seen)
            at += 1
        elif at < len(wanted) and fnmatch.fnmatchcase(names[seen], wanted[at]):
            at, seen = at + 1, seen + 1
        elif retry is not None:
            retry = (retry[0], retry[1] + 1)
            at, seen = retry
        else:
            return False
    return all(part == "**" for part in wanted[at:])
