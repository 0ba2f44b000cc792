"""Parses the JSON text of a model."""

from __future__ import annotations

import json
import re
from typing import Any

from codelab.llm.scanner import DECODER, mend_escapes

_FENCE = "```"
_LANGUAGE = re.compile("json", re.IGNORECASE)
#: What a JSON value begins with.
_BEGINNINGS = frozenset('{["-0123456789tfn')


class NoJson(ValueError):
    """The text is prose: no JSON begins in it."""


def parse(text: str, *, prose: bool = False) -> Any:
    """The value of a JSON text. Raises ValueError if it is not JSON, NoJson if it is prose.

    Control characters in strings are allowed, and unpaired surrogates become U+FFFD. The JSON may be in a code fence,
    which servers that were asked for a format write all the same. With `prose`, text may surround the object: the last
    code fence that parses is used, else the first object.
    """
    text = mend_escapes(text)
    try:
        return DECODER.decode(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError:
        prefix = text.lstrip()[:3]
        if prose or prefix == "```":
            try:
                return _find(text)
            except RecursionError:
                raise ValueError("the JSON is nested too deeply") from None
        if prefix[:1] not in _BEGINNINGS:
            raise NoJson("the answer is prose") from None
        raise


def is_whole(text: str) -> bool:
    """Whether a text is one JSON value, at most in one code fence: it shows by itself that nothing of it is missing.

    Other text around a value does not: the answer may have been cut in the middle of a later value, which would count.
    """
    text = mend_escapes(text).strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) >= 2 * len(_FENCE):
        text = text.removeprefix(_FENCE).removesuffix(_FENCE)
        language = _LANGUAGE.match(text)
        text = text[language.end() if language else 0 :].strip()
    try:
        DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _find(text: str) -> Any:
    for block in reversed(text.split(_FENCE)[1:-1:2]):
        language = _LANGUAGE.match(block)
        try:
            return DECODER.decode(block[language.end() if language else 0 :].strip())
        except ValueError:
            continue
    first_error: ValueError | None = None
    start = text.find("{")
    for _ in range(64):
        if start < 0:
            break
        try:
            return DECODER.raw_decode(text, start)[0]
        except ValueError as error:
            if _is_cut(error):  # what lies inside of an object without an end is not the answer
                raise first_error or error from None
            first_error = first_error or error
        start = text.find("{", start + 1)
    raise first_error or NoJson("there is no JSON object in the answer")


def _is_cut(error: ValueError) -> bool:
    """Whether the text ends before its value does."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or not error.doc[error.pos :].strip()
