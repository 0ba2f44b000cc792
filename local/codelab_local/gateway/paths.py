"""The local addresses of the WebSocket API.

A deployed API has a single address, `/{stage}?session_id=…`. Locally, as behind an edge that rewrites paths, there can
be others such as `/ws/{session_id}`, whose variables become query string parameters.
"""

import re
from collections.abc import Sequence
from urllib.parse import parse_qs, unquote, urlsplit

from codelab_local.host.errors import StartError

_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class PathForms:
    """The stage's path and the forms of `[tool.codelab-local] paths`."""

    def __init__(self, stage: str, forms: Sequence[str]) -> None:
        self.forms = (*forms, f"/{stage}")
        self._patterns = [_pattern(form) for form in self.forms]

    def match(self, target: str) -> dict[str, list[str]] | None:
        """The query string parameters of a request target, including those from the path. None if no form matches."""
        parts = urlsplit(target)
        path = parts.path.rstrip("/") or "/"
        for pattern in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                parameters = {name: [unquote(value)] for name, value in match.groupdict().items()}
                return parse_qs(parts.query, keep_blank_values=True) | parameters
        return None


def _pattern(form: str) -> re.Pattern[str]:
    if not form.startswith("/"):
        raise StartError(f"[tool.codelab-local] paths: {form!r} must begin with a slash")
    text, position = "", 0
    for variable in _VARIABLE.finditer(form):
        text += re.escape(form[position : variable.start()]) + f"(?P<{variable.group(1)}>[^/]+)"
        position = variable.end()
    return re.compile(text + re.escape(form[position:].rstrip("/") if position < len(form) else ""))
