"""What a model is told of the results of its calls."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

#: The user's words once more, behind the newest results.
_REMINDER = re.compile(r"\n\nThe task was:\n.*\n\nIf the task is done, [^\n]*\Z", re.DOTALL)
#: What stands before the images of a result.
_IMAGES = re.compile(r"^The images of \S+:$", re.MULTILINE)
_RESULT = re.compile(r"^## \d+\. (\S+)\n(?:with [^\n]*\n)?(`{3,})\n(.*?)\n\2$", re.DOTALL | re.MULTILINE)


def told_results(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The results in the messages of a Request, in order."""
    texts = [text_of(message["content"]) for message in messages if message["role"] == "user"]
    told = [text for text in texts if text.startswith("The results of these calls.")]
    return [match.group(3) for text in told for match in _RESULT.finditer(text)]


def text_of(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def tells_only_results(message: Mapping[str, Any]) -> bool:
    """Is this message of the user nothing but results of calls?"""
    text = text_of(message["content"]) if message["role"] == "user" else ""
    text, images = _IMAGES.subn("", text)
    if images and not text.strip():
        return True
    if not text.startswith("The results of these calls."):
        return False
    *_, last = _RESULT.finditer(text)
    return not without_reminder(text[last.end() :]).strip()


def without_reminder(text: str) -> str:
    """What a user's message tells, without the user's words that are told once more."""
    return _REMINDER.sub("", text)
