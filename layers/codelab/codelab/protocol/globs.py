"""Globs as in .gitignore: `*.md` matches any such file, `docs/*.md` one in docs, `docs/**` everything below docs.

Patterns come from users, so matching takes quadratic time at worst, never exponential.
"""

import re
from collections.abc import Callable, Sequence

_ANY_DIRECTORIES = "**"


def matches(glob: str, path: str) -> bool:
    r"""Whether `path` (relative to the workspace, separated by `/` or `\`) matches `glob`. Case-sensitive.

    `*` and `?` match within one name, `**` matches any number of directories, a trailing `**` everything below.
    """
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]
    if "/" not in glob:
        return bool(parts) and _name(glob, parts[-1])
    pattern = [part for part in glob.split("/") if part]
    if pattern[-1:] == [_ANY_DIRECTORIES]:
        pattern.append("*")  # below it, not itself
    return _run(pattern, parts, _ANY_DIRECTORIES, _name)


def _name(glob: str, name: str) -> bool:
    return _run(glob, name, "*", lambda symbol, character: symbol in ("?", character))


def _run(pattern: Sequence[str], parts: Sequence[str], star: str, element_matches: Callable[[str, str], bool]) -> bool:
    """Match a sequence in which `star` stands for any number of elements. Only the last star is ever retried."""
    pattern_index, part_index, retry = 0, 0, None
    while part_index < len(parts):
        if pattern_index < len(pattern) and pattern[pattern_index] == star:
            retry = (pattern_index + 1, part_index)
            pattern_index += 1
        elif pattern_index < len(pattern) and element_matches(pattern[pattern_index], parts[part_index]):
            pattern_index, part_index = pattern_index + 1, part_index + 1
        elif retry is not None:
            retry = (retry[0], retry[1] + 1)
            pattern_index, part_index = retry
        else:
            return False
    return all(element == star for element in pattern[pattern_index:])
