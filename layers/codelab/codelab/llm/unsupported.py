"""What a provider refused is not asked of it again.

A 400 that blames a feature is turned into that feature's name. The run that met it does without; `Memory` keeps it per
(base URL, model) for the other Requests of the process, for an hour, if it was learnt from what the program itself set:
a provider's refusal may quote the words of whoever wrote the messages, the schema or the settings.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from codelab.llm.errors import TransportError
from codelab.llm.profiles import Mode

#: How long a refusal is remembered, in seconds: providers and models change, and so may a mistake of ours.
KEPT_S = 3_600


class Store(Protocol):
    """Where refusals survive the process: a table, a file, a cache."""

    def load(self, base_url: str, model: str) -> Iterable[str]:
        """The refused features of a model; called once per process and model."""

    def save(self, base_url: str, model: str, refused: frozenset[str]) -> None:
        """Keep the whole set; called when it has grown."""


class Memory:
    """Refused features by (base URL, model), each for `kept_s` by `clock` (seconds). Threads may share it."""

    def __init__(
        self, store: Store | None = None, *, kept_s: float = KEPT_S, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._kept_s = kept_s
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[tuple[str, str], Mapping[str, float]] = {}  # never changed, only replaced

    def refused(self, base_url: str, model: str) -> frozenset[str]:
        key, now = (base_url, model), self._clock()
        known = self._until.get(key)
        if known is None:
            loaded = self._store.load(base_url, model) if self._store else ()
            with self._lock:
                known = self._until.setdefault(key, dict.fromkeys(loaded, now + self._kept_s))
        return frozenset(feature for feature, until in known.items() if until > now) if known else frozenset()

    def refuse(self, base_url: str, model: str, feature: str) -> None:
        if feature in self.refused(base_url, model):
            return
        with self._lock:
            now = self._clock()
            known = {kept: until for kept, until in self._until[base_url, model].items() if until > now}
            self._until[base_url, model] = {**known, feature: now + self._kept_s}
        if self._store:
            self._store.save(base_url, model, frozenset({*known, feature}))


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
# The words of which at least one is in every refusal that blames something.
_TELLING = re.compile(
    r"response_format|json_schema|json_object|tool_choice|structured.?output|guided|strict|schema|tools?|function|"
    + "|".join(sorted((*_PARAMETERS[:-1], *REMOVABLE), key=len, reverse=True))
    + r"|(?<=['\"`])n(?=['\"`])",
    re.IGNORECASE,
)


def blamed(error: TransportError, mode: Mode) -> str | None:
    """The feature that a refusal blames, or None when it is about something else.

    >>> blamed(TransportError("'tool_choice' is not supported", status=400), Mode("tool", forced=True))
    'tool_choice'
    """
    if error.retryable:
        return None
    return _blamed(error.status, f"{error.message} {error.body}", mode)


def learnt(error: TransportError, mode: Mode, words: Iterable[Any]) -> str | None:
    """The feature that a refusal blames also without the `words` (JSON values) of others that it may be quoting."""
    written = str([*words]).casefold()
    text = _TELLING.sub(
        lambda found: "" if found.group().casefold() in written else found.group(), f"{error.message} {error.body}"
    )
    return _blamed(error.status, text, mode)


def _blamed(status: int | None, text: str, mode: Mode) -> str | None:
    if status not in (400, 404, 415, 422, 501):
        return None
    if status not in (400, 422) and "response_format" not in text and "tool" not in text:
        return None
    if mode.strict and _BLAMES_SCHEMA.search(text):
        for keyword in REMOVABLE:
            if re.search(rf"['\"`]{keyword}['\"`]", text):
                return f"keyword:{keyword}"
    if mode.strategy == "tool" and "tool_choice" in text:
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
