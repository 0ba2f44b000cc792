"""What a provider refused is not asked of it again.

A 400 that blames a feature is turned into that feature's name; the names refused so far are kept per (base URL, model)
for the life of the process and, if a store is given, beyond it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Protocol

from .errors import TransportError
from .profiles import Mode


class Store(Protocol):
    """Where refusals survive the process: a table, a file, a cache."""

    def load(self, base_url: str, model: str) -> Iterable[str]:
        """The refused features of a model; called once per process and model."""

    def save(self, base_url: str, model: str, refused: frozenset[str]) -> None:
        """Keep the whole set; called when it has grown."""


class Memory:
    """Refused features by (base URL, model). Threads may share it."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._refused: dict[tuple[str, str], frozenset[str]] = {}

    def refused(self, base_url: str, model: str) -> frozenset[str]:
        key = (base_url, model)
        known = self._refused.get(key)
        if known is None:
            known = frozenset(self._store.load(base_url, model)) if self._store else frozenset()
            with self._lock:
                known = self._refused.setdefault(key, known)
        return known

    def refuse(self, base_url: str, model: str, feature: str) -> None:
        known = self.refused(base_url, model)
        if feature in known:
            return
        with self._lock:
            known = self._refused[base_url, model] = self._refused[base_url, model] | {feature}
        if self._store:
            self._store.save(base_url, model, known)


# Keywords that some "strict" providers refuse although OpenAI takes them; they can be moved into the description.
REMOVABLE = (
    "pattern",
    "format",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "title",
    "const",
)
_PARAMETERS = ("stream_options", "temperature", "top_p", "seed", "reasoning_effort", "max_completion_tokens", "n")
_BLAMES_SCHEMA = re.compile(
    r"invalid.{0,20}schema|schema.{0,80}(not supported|unsupported|not permitted|invalid|too)"
    r"|(unsupported|not supported|not permitted).{0,60}(keyword|schema|properties)",
    re.IGNORECASE | re.DOTALL,
)


def blamed(error: TransportError, mode: Mode) -> str | None:
    """The feature that a refusal blames, or None when it is about something else.

    >>> blamed(TransportError("'tool_choice' is not supported", status=400), Mode("tool", forced=True))
    'tool_choice'
    """
    if error.status not in (400, 404, 415, 422, 501):
        return None
    text = f"{error.message} {error.body}"
    if error.status not in (400, 422) and "response_format" not in text and "tool" not in text:
        return None
    if mode.strict and _BLAMES_SCHEMA.search(text):
        for keyword in REMOVABLE:
            if re.search(rf"['\"`]{keyword}['\"`]", text):
                return f"keyword:{keyword}"
    if mode.forced and "tool_choice" in text:
        return "tool_choice"
    if mode.strict and re.search(r"\bstrict\b", text):
        return f"{mode.strategy}:strict"
    if re.search(r"response_format|json_schema|json_object|structured.?output|guided", text, re.IGNORECASE):
        if mode.strategy == "native":
            # A schema that is too much for strict mode may do without it; a format that is unknown may not.
            return "native:strict" if mode.strict and _BLAMES_SCHEMA.search(text) else "native"
        if mode.strategy == "json" and mode.typed:
            return "json_object"
    for parameter in _PARAMETERS:
        if re.search(rf"(?<![\w.]){parameter}(?![\w])['\"`]?", text) and (
            len(parameter) > 1 or f"'{parameter}'" in text
        ):
            return f"parameter:{parameter}"
    if mode.strict and _BLAMES_SCHEMA.search(text):
        return f"{mode.strategy}:strict"
    if mode.strategy == "tool" and re.search(r"\btools?\b|function", text, re.IGNORECASE):
        return "tool"
    return None
