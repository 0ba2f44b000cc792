"""A session's title: first the beginning of its first message, then, after the first turn, what the model calls it.

A title that somebody has given is never replaced, and of two that race the first one stays.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from codelab.sessions.items import MessageItem
from codelab.sessions.transition import Transition
from codelab.turns import control
from codelab.turns.draft import Draft
from codelab.turns.text import head_and_tail

#: Messages of the history that are looked at, and characters of each.
MESSAGES = 10
_CHARS = 1_500
_TITLE_CHARS = 80

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {
            "type": "string",
            "description": "Three to six words in the user's language, without quotes",
        }
    },
    "required": ["title"],
    "additionalProperties": False,
}

_PROMPT = "Give this conversation of a user with a programming assistant a title by which the user finds it in a list."


def is_due(ended: Transition) -> bool:
    """Has this transition ended a turn well, in a session that still goes by its first message?"""
    return ended.after.title_is_draft and any(
        event.frame["type"] == "turn_end" and event.frame["reason"] == "completed" for event in ended.events
    )


def messages(history: Sequence[MessageItem]) -> list[dict[str, Any]]:
    """What the title is made from: what the user asked first, and the first answer."""
    asked = next((message.content for message in history if message.role == "user"), "")
    answered = next((message.content for message in history if message.role == "assistant" and message.content), "")
    spoken = f"User: {head_and_tail(asked, _CHARS)}\n\nAssistant: {head_and_tail(answered, _CHARS)}"
    return [{"role": "system", "content": _PROMPT}, {"role": "user", "content": spoken}]


def title_of(solution: Mapping[str, Any]) -> str:
    """The title on one line; empty if the model had none."""
    title = " ".join(str(solution["title"]).split()).strip("\"'“”«». ")
    return title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1].rstrip() + "…"


def entitle(draft: Draft, title: str) -> Transition | None:
    """Give the session its title, and tell the connections that know extensions. Without one the draft stays for good.

    None: it has been given one meanwhile. Needs the plan, which is told with it.
    """
    register = draft.register
    if not register.title_is_draft:
        return None
    register.title_is_draft = False
    if title:
        register.title = title
        told = control.session_info(draft)
        draft.replies += [(found, told) for found, connection in register.connections.items() if connection.extensions]
    return draft.finish()
