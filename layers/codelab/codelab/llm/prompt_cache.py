"""Asks a provider to cache how a prompt begins, see `Caching`: by a key, and by marks at messages.

Marks stand at the end of the first system message, and of the newest messages that the next call repeats. Some
providers only find what they have cached at a mark of the new call, or close to one. So the newest three are marked:
one of them is the newest one that the call before could mark.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from codelab.llm.encoding import encode
from codelab.llm.profiles import Caching

Message = Mapping[str, Any]

#: Marks beside the one at the system message. Every provider takes four in a request.
_MARKS = 3
_KEY_BYTES = 16
_PARTS = ("text", "image_url")


def cache_fields(caching: Caching, model: str, messages: Sequence[Message], *, repeats_end: bool) -> dict[str, Any]:
    """The fields of a body that ask for the cache, with its `messages` if any is marked.

    repeats_end: the next call repeats even the last message as it is.
    """
    fields: dict[str, Any] = {}
    if caching.has_key:
        fields["prompt_cache_key"] = _key(messages)
    if caching.models is None or not re.search(caching.models, model, re.IGNORECASE):
        return fields
    places = _places(messages, repeats_end=repeats_end)
    messages = [
        _marked(message, caching.mark) if place in places else message for place, message in enumerate(messages)
    ]
    return {**fields, **caching.body, "messages": messages}


def _key(messages: Sequence[Message]) -> str:
    """What stands for a conversation: calls that begin alike have the same, and nobody reads anything from it."""
    beginning = b"".join(map(encode, messages[:2]))
    return hashlib.blake2b(beginning, digest_size=_KEY_BYTES).hexdigest()


def _places(messages: Sequence[Message], *, repeats_end: bool) -> set[int]:
    """The indices of the messages to mark. Of results that follow each other, it is the last."""
    roles = [str(message.get("role")) for message in messages]
    repeated_count = len(messages) if repeats_end else len(messages) - 1
    newest = [
        place
        for place in range(repeated_count)
        if roles[place] in ("user", "tool")
        and roles[place : place + 2] != ["tool", "tool"]
        and _content(messages[place])
    ][-_MARKS:]
    has_prompt = roles[:1] in (["system"], ["developer"]) and _content(messages[0])
    return {*newest, 0} if has_prompt else {*newest}


def _content(message: Message) -> Any:
    """The content if its end can be marked, else None: no provider takes a mark at an empty text."""
    content = message.get("content")
    if isinstance(content, str):
        return content if content.strip() else None
    last = content[-1] if isinstance(content, list) and content else {}
    return content if last.get("type") in _PARTS and (last["type"] != "text" or last["text"].strip()) else None


def _marked(message: Message, mark: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*parts[:-1], {**parts[-1], **mark}]}
