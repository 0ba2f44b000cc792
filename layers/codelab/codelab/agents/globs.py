"""Globs as .gitignore reads them: `*.md` is any such file, `docs/*.md` one in docs, `docs/**` everything below it."""

import re
from functools import cache


def matches(glob: str, path: str) -> bool:
    """Does `path` (relative to the workspace, `/` or `\\` between its parts) match? Case counts."""
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]
    if "/" not in glob:
        return bool(parts) and _regex(glob).fullmatch(parts[-1]) is not None
    return _regex(glob).fullmatch("/".join(parts)) is not None


@cache
def _regex(glob: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", glob.removeprefix("/"))
    meaning = {"**/": "(?:.+/)?", "**": ".+", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)
