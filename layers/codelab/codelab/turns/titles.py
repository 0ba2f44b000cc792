"""A session's title: first the beginning of its first message, then the title that the model sets in its first answer.

The title is the last field of that answer, which costs a few tokens; a separate Request would cost the whole prompt
again. A title set by a user is never replaced.
"""

from collections.abc import Mapping
from typing import Any

from codelab.sessions.register import Register

TITLE = "title"

TITLE_CHARS = 80
_FIELD = {
    "type": "string",
    "description": "What the user finds this conversation by in a list: three to six words in the user's language",
}


def with_title(answer: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer, with an optional title as the last field."""
    return {**answer, "properties": {**answer["properties"], TITLE: _FIELD}}


def title_of(solution: Mapping[str, Any]) -> str:
    """The title on one line; empty if the model set none."""
    title = " ".join(str(solution.get(TITLE) or "").split()).strip("\"'“”«». ")
    return title if len(title) <= TITLE_CHARS else title[: TITLE_CHARS - 1].rstrip() + "…"


def set_title(register: Register, title: str) -> None:
    """Set the model's title unless a user has set one meanwhile. If it is empty, the model is not asked again."""
    if register.title_is_draft:
        register.title_is_draft = False
        register.title = title or register.title
