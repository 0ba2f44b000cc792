"""Finds the feature that a provider's error reports as unsupported.

A feature is a string: a strategy ("native"), "native:strict", "tool_choice", "json_object", "keyword:NAME" of JSON
Schema, or "parameter:NAME" of the chat completions API.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from codelab.llm.errors import TransportError
from codelab.llm.modes import Mode

# Keywords that OpenAI's strict mode accepts and some others reject. A description can express them instead.
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
_SCHEMA_ERROR = re.compile(
    r"invalid.{0,20}schema|schema.{0,80}(not supported|unsupported|not permitted|invalid|too)"
    r"|(unsupported|not supported|not permitted).{0,60}(keyword|schema|properties)",
    re.IGNORECASE | re.DOTALL,
)
# Every error that names a feature has at least one of these words.
_FEATURE_WORDS = re.compile(
    r"response_format|json_schema|json_object|tool_choice|structured.?output|guided|strict|schema|tools?|function|"
    + "|".join(sorted((*_PARAMETERS[:-1], *REMOVABLE), key=len, reverse=True))
    + r"|(?<=['\"`])n(?=['\"`])",
    re.IGNORECASE,
)


def unsupported_feature(error: TransportError, mode: Mode, quoted: Iterable[Any] = ()) -> str | None:
    """The feature that the provider does not support, or None if the error is about something else.

    quoted: JSON values whose words are ignored, because the provider may be quoting them.

    >>> unsupported_feature(TransportError("'tool_choice' is not supported", status=400), Mode("tool", forced=True))
    'tool_choice'
    """
    if error.retryable or error.status not in (400, 404, 415, 422, 501):
        return None
    written = str([*quoted]).casefold()
    text = _FEATURE_WORDS.sub(
        lambda found: "" if found.group().casefold() in written else found.group(), f"{error.message} {error.body}"
    )
    if error.status not in (400, 422) and "response_format" not in text and "tool" not in text:
        return None
    if mode.strict and _SCHEMA_ERROR.search(text):
        for keyword in REMOVABLE:
            if re.search(rf"['\"`]{keyword}['\"`]", text):
                return f"keyword:{keyword}"
    if mode.strategy == "tool" and "tool_choice" in text:
        return "tool_choice"
    if mode.strict and re.search(r"\bstrict\b", text):
        return f"{mode.strategy}:strict"
    if re.search(r"response_format|json_schema|json_object|structured.?output|guided", text, re.IGNORECASE):
        if mode.strategy == "native":
            # A schema that strict mode rejects may be accepted without it. An unknown format is rejected either way.
            return "native:strict" if mode.strict and _SCHEMA_ERROR.search(text) else "native"
        if mode.strategy == "json" and mode.typed:
            return "json_object"
    for parameter in _PARAMETERS:
        if re.search(rf"(?<![\w.]){parameter}(?![\w])['\"`]?", text) and (
            len(parameter) > 1 or f"'{parameter}'" in text
        ):
            return f"parameter:{parameter}"
    if mode.strict and _SCHEMA_ERROR.search(text):
        return f"{mode.strategy}:strict"
    if mode.strategy == "tool" and re.search(r"\btools?\b|function", text, re.IGNORECASE):
        return "tool"
    return None
