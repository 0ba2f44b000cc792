"""Messages of a history, and what a model is sent of them."""

from typing import Any

from codelab.sessions.items import MessageItem
from codelab.sessions.store import Conversation
from codelab.turns.context import assemble


def message(n: int, role: str, content: str, **more: Any) -> MessageItem:
    return MessageItem(n, role, content, at=0, turn_id="t", **more)


def sent(*history: MessageItem, budget: int = 8_000, **read: Any) -> list[dict[str, Any]]:
    return assemble(Conversation(list(history), **read), "Be brief.", budget=budget)
