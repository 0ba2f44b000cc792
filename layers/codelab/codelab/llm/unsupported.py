"""Finds the feature that a provider's error reports as unsupported.

A feature is a string: a strategy ("native"), "native:strict", "tool:strict" (of all functions), "tool_choice",
"json_object", "caching" (all of `prompt_cache`), "keyword:NAME" of JSON Schema, or "parameter:NAME" of the chat
completions API.
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
_PARAMETERS = (
    "stream_options",
    "temperature",
    "top_p",
    "seed",
    "reasoning_effort",
    "max_completion_tokens",
    "parallel_tool_calls",
    "n",
)
_SCHEMA_ERROR = re.compile(
    r"invalid.{0,20}schema|schema.{0,80}(not supported|unsupported|not permitted|invalid|too\b)"
    r"|(unsupported|not supported|not permitted).{0,60}(keyword|schema|properties)",
    re.IGNORECASE | re.DOTALL,
)
# The server makes a grammar of the schema, and cannot.
_GRAMMAR_ERROR = re.compile(
    r"grammar|response_schema|too many states|unimplemented keys?|constrained.{0,20}(decod|generat)|outlines\b"
    r"|llguidance|guidance\b",
    re.IGNORECASE,
)
_FORMAT = re.compile(r"response_format|json_schema|json_object|structured.?output|guided", re.IGNORECASE)
_UNKNOWN_FORMAT = re.compile(r"(unknown|unsupported|invalid) format\b(?!\s*(parameter|field))", re.IGNORECASE)
_FUNCTION = re.compile(r"\btools?\b|function", re.IGNORECASE)
_CACHING = re.compile(r"prompt_cache|cache_?control|cache_?point", re.IGNORECASE)
# What refuses native calls, in `tools` or in the conversation.
_CALLS = re.compile(r"\btools?\b|tool.?(call|choice)", re.IGNORECASE)
# Every error that names a feature has at least one of these words.
_FEATURE_WORDS = re.compile(
    r"response_format|response_schema|json_schema|json_object|tool_?choice|structured.?output|guided|guidance|strict|schema"
    r"|prompt_cache|cache_?control|cache_?point|tools?|function|grammar|states|keys?|constrained|outlines|"
    + "|".join(sorted((*_PARAMETERS[:-1], *REMOVABLE), key=len, reverse=True))
    + r"|(?<=['\"`])n(?=['\"`])",
    re.IGNORECASE,
)
# Errors that are about the caller, or about this moment, whatever words they contain.
_OTHER_STATUS = frozenset({401, 402, 403, 408, 409, 413, 425, 429})


def unsupported_feature(error: TransportError, mode: Mode, quoted_values: Iterable[Any] = ()) -> str | None:
    """The feature that the provider does not support, or None if the error is about something else.

    A server that fails over a grammar says so with a 5xx as often as with a 4xx. quoted_values: JSON values whose words
    are ignored, because the provider may be quoting them.

    >>> unsupported_feature(TransportError("'tool_choice' is not supported", status=400), Mode("tool", is_forced=True))
    'tool_choice'
    """
    if error.status in _OTHER_STATUS:
        return None
    quoted_text = str([*quoted_values]).casefold()
    text = _FEATURE_WORDS.sub(
        lambda match: "" if match.group().casefold() in quoted_text else match.group(), f"{error.message} {error.body}"
    )
    if error.retryable or error.status not in (400, 404, 415, 422, 501):
        # llama.cpp fails over calls that its template cannot write.
        if mode.strategy == "calls" and (error.status or 0) >= 500 and _CALLS.search(text):
            return "calls"
        return _refused_form(text, mode)
    if error.status not in (400, 422) and not (_FORMAT.search(text) or "tool" in text or _GRAMMAR_ERROR.search(text)):
        return None
    return _named_feature(text, mode)


def _refused_form(text: str, mode: Mode) -> str | None:
    """What a server that failed blames of the schema or the grammar; None if it blames neither."""
    if mode.strategy == "json" or not (_GRAMMAR_ERROR.search(text) or _SCHEMA_ERROR.search(text)):
        return None
    return _keyword(text) or mode.strategy


def _keyword(text: str) -> str | None:
    """A keyword of JSON Schema that a description can express instead."""
    for keyword in REMOVABLE:
        if re.search(rf"['\"`]{keyword}['\"`]", text):
            return f"keyword:{keyword}"
    return "keyword:format" if _UNKNOWN_FORMAT.search(text) else None


def _named_feature(text: str, mode: Mode) -> str | None:
    if _CACHING.search(text):
        return "caching"
    is_schema_error = _SCHEMA_ERROR.search(text) is not None
    blames_schema = is_schema_error or _GRAMMAR_ERROR.search(text) or _UNKNOWN_FORMAT.search(text)
    if (mode.strict or mode.strategy == "native") and blames_schema and (keyword := _keyword(text)):
        return keyword
    if mode.strategy == "tool" and re.search("tool_?choice", text, re.IGNORECASE):
        return "tool_choice"
    if mode.strict and re.search(r"\bstrict\b", text):
        return mode.strict_feature
    if _FORMAT.search(text) or _GRAMMAR_ERROR.search(text):
        if mode.strategy == "native":
            # A schema that strict mode rejects may be accepted without it. An unknown format is rejected either way.
            is_strictness = mode.strict and is_schema_error and not _GRAMMAR_ERROR.search(text)
            return "native:strict" if is_strictness else "native"
        if mode.strategy == "json" and mode.json_object:
            return "json_object"
    for parameter in _PARAMETERS:
        if re.search(rf"(?<![\w.]){parameter}(?![\w])['\"`]?", text) and (
            len(parameter) > 1 or f"'{parameter}'" in text
        ):
            return f"parameter:{parameter}"
    if mode.strict and is_schema_error:
        return mode.strict_feature
    if mode.strategy in ("native", "calls") and is_schema_error:
        return mode.strategy
    if mode.strategy in ("tool", "calls") and (_GRAMMAR_ERROR.search(text) or _FUNCTION.search(text)):
        return mode.strategy
    if mode.strategy == "calls" and _CALLS.search(text):
        return "calls"
    return None
