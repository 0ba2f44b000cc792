"""Parses the JSON text of a model."""

from __future__ import annotations

import json
import re
from typing import Any

from codelab.llm.scanner import mend_escapes

_FENCE = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda name: _reject(name))


def _reject(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def parse(text: str, *, prose: bool = False) -> Any:
    """The value of a JSON text. Raises ValueError if it is not JSON.

    Control characters in strings are allowed, and unpaired surrogates become U+FFFD. With `prose`, text may surround
    the object: the last code fence that parses is used, else the first object.
    """
    text = mend_escapes(text)
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError:
        if not prose:
            raise
        return _find(text)


def _find(text: str) -> Any:
    for fenced in reversed(_FENCE.findall(text)):
        try:
            return _DECODER.decode(fenced.strip())
        except ValueError:
            continue
    first: ValueError | None = None
    at = text.find("{")
    for _ in range(64):
        if at < 0:
            break
        try:
            return _DECODER.raw_decode(text, at)[0]
        except ValueError as error:
            first = first or error
        at = text.find("{", at + 1)
    raise first or ValueError("there is no JSON object in the answer")
