"""Titles of calls: a few words for a list or a card. They are cut, so they do not replace the arguments.

A title is written as `Search for {query}[ in {path}]`: an argument's name in braces stands for its value, and what is
in brackets is left out without its argument.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

#: Characters of a title, and values of a list that it names.
_CHARS = 160
_VALUES = 3
_OPTIONAL = re.compile(r"\[([^\]]*\{(\w+)\}[^\]]*)\]")
_NAMED = re.compile(r"\{(\w+)\}")


def title(form: str, arguments: Mapping[str, Any]) -> str:
    """The title of a call with these arguments."""
    needed = _OPTIONAL.sub(lambda found: found[1] if found[2] in arguments else "", form)
    text = _NAMED.sub(lambda found: _value(arguments.get(found[1], "")), needed)
    line = " ".join(_printable(text).split())
    return line if len(line) <= _CHARS else line[: _CHARS - 1] + "…"


def _value(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)[: 2 * _CHARS]
    shown = ", ".join(str(item)[:_CHARS] for item in value[:_VALUES])
    return shown if len(value) <= _VALUES else f"{shown} and {len(value) - _VALUES} more"


def _printable(text: str) -> str:
    """The text without characters that control a terminal, end a line or change the direction of writing."""
    return "".join(" " if unicodedata.category(one) in _HIDDEN else one for one in text)


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
