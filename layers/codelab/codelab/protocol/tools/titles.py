"""Titles of calls: a few words for a list or a card. They are cut, so they do not replace the arguments.

A title is written as `Search for {query}[ in {path}]`: an argument's name in braces stands for its value, and what is
in brackets is left out without its argument.
"""

import re
from collections.abc import Mapping
from typing import Any

#: Characters of a title, and values of a list that it names.
_CHARS = 160
_VALUES = 3
_OPTIONAL = re.compile(r"\[([^\]]*\{(\w+)\}[^\]]*)\]")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def title(form: str, arguments: Mapping[str, Any]) -> str:
    """The title of a call with these arguments."""
    template = _OPTIONAL.sub(lambda match: match[1] if match[2] in arguments else "", form)
    text = _PLACEHOLDER.sub(lambda match: _value(arguments.get(match[1], "")), template)
    line = " ".join(_printable(text).split())
    return line if len(line) <= _CHARS else line[: _CHARS - 1] + "…"


def _value(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)[: 2 * _CHARS]
    text = ", ".join(str(item)[:_CHARS] for item in value[:_VALUES])
    return text if len(value) <= _VALUES else f"{text} and {len(value) - _VALUES} more"


def _printable(text: str) -> str:
    """The text without what controls a terminal, ends a line, changes the direction of writing or is unseen."""
    return _UNSEEN.sub(" ", "".join(character if character.isprintable() else " " for character in text))


#: Letters and marks that are printable for Unicode, and drawn as nothing or as a space.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013430-\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
