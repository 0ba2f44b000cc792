"""The expression that selects a message's route.

Developer guide, "Route selection expressions": variables are paths into the message's JSON, wrapped in braces or not.
What they lead to becomes a text, an empty one if they lead to nothing. All else in the expression stands for itself.
"""

import json
import re
from typing import Any

from codelab_local.http.protocol import loads

#: An escaped dollar, a wrapped variable, or one without braces, which ends where no path can go on.
_PART = re.compile(r"\\\$|\$\{request\.body\.([^}]+)\}|\$request\.body\.((?:[\w-]|\.(?=\w)|\[\d+\])+)")
_STEP = re.compile(r"[^.\[\]]+")


class RouteSelection:
    """Reads the key of a message's route, for an expression such as `$request.body.action`."""

    def __init__(self, expression: str) -> None:
        self._expression = expression

    def key_of(self, body: str) -> str | None:
        """The key; None, for the route `$default`, without JSON or if it is one of API Gateway's own keys."""
        message = loads(body)
        if message is None:
            return None
        key = _PART.sub(
            lambda part: "$" if part[0] == r"\$" else _text(_at(message, part[1] or part[2])), self._expression
        )
        return None if key.startswith("$") else key


def _at(message: Any, path: str) -> Any:
    value = message
    for step in _STEP.findall(path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return "" if value is None else json.dumps(value)
