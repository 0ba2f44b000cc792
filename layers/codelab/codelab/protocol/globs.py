"""Globs as in .gitignore: `*.md` matches any such file, `docs/*.md` one in docs, `docs/**` everything below docs.

Patterns come from users, so matching takes quadratic time at worst, never exponential.
"""

import re
from collections.abc import Callable, Sequence

_MANY = "**"


def matches(glob: str, path: str) -> bool:
    r"""Whether `path` (relative to the workspace, separated by `/` or `\`) matches `glob`. Case-sensitive.

    `*` and `?` match within one name, `**` matches any number of directories, a trailing `**` everything below.
    """
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]
    if "/" not in glob:
        return bool(parts) and _name(glob, parts[-1])
    wanted = [part for part in glob.split("/") if part]
    if wanted[-1:] == [_MANY]:
        wanted.append("*")  # below it, not itself
    return _run(wanted, parts, _MANY, _name)


def _name(glob: str, name: str) -> bool:
    return _run(glob, name, "*", lambda wanted, found: wanted in ("?", found))


def _run(wanted: Sequence[str], found: Sequence[str], star: str, fits: Callable[[str, str], bool]) -> bool:
    """Match a sequence in which `star` stands for any number of elements. Only the last star is ever retried."""
    at, seen, retry = 0, 0, None
    while seen < len(found):
        if at < len(wanted) and wanted[at] == star:
            retry = (at + 1, seen)
            at += 1
        elif at < len(wanted) and fits(wanted[at], found[seen]):
            at, seen = at + 1, seen + 1
        elif retry is not None:
            retry = (retry[0], retry[1] + 1)
            at, seen = retry
        else:
            return False
    return all(rest == star for rest in wanted[at:])
