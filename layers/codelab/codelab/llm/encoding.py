"""Encodes the body of a call as JSON. What is the same from Request to Request is encoded once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, NoReturn

from codelab.llm.tokens import estimate_message

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_JSON = attrgetter("_json")
#: How deep a schema is in a body: response_format.json_schema.schema.
_DEPTH = 2


class Fixed(dict[str, Any]):
    """An immutable JSON object, which caches its JSON."""

    __slots__ = ("_json",)

    @property
    def json(self) -> bytes:
        """Encoded when first asked for."""
        try:
            return self._json
        except AttributeError:
            self._json: bytes = _encoded(self)
        return self._json

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("it may be encoded already")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)  # a copy may be changed


class TextMessage(Fixed):
    """A message that is only a text."""

    __slots__ = ("tokens",)

    def __init__(self, role: str, content: str, tokens: int | None = None) -> None:
        super().__init__(role=role, content=content)
        #: As `estimate_context` counts; the caller may pass an approximate value to save time.
        self.tokens = estimate_message(self) if tokens is None else tokens
        self._json = _encoded(self)


def are_texts(messages: Iterable[Any]) -> bool:
    """Are all of these only texts? Then they need not be looked at one by one."""
    return set(map(type, messages)) == {TextMessage}


def encode(body: Mapping[str, Any]) -> bytes:
    """The body as compact JSON in UTF-8."""
    return _joined(body, _DEPTH)


def _encoded(value: Any) -> bytes:
    # Half of a surrogate pair has no UTF-8.
    return _dumps(value).encode("utf-8", "replace")


#: Names of members, and constants such as `true`, are the same in every body.
_name = lru_cache(256)(_encoded)
_constant = lru_cache(256, typed=True)(_encoded)
_CONSTANTS = frozenset({bool, int, type(None)})


def _joined(value: Any, depth: int) -> bytes:
    """The same as `_encoded`, with the JSON that parts of the value keep."""
    if isinstance(value, Fixed):
        return value.json
    if type(value) in _CONSTANTS:
        return _constant(value)
    if isinstance(value, list) and are_texts(value):
        return b"[" + b",".join(map(_JSON, value)) + b"]"
    if isinstance(value, list):
        return b"[" + b",".join([item.json if isinstance(item, Fixed) else _encoded(item) for item in value]) + b"]"
    if depth < 0 or not isinstance(value, dict) or not {*map(type, value)} <= {str}:
        return _encoded(value)
    return b"{" + b",".join([_name(name) + b":" + _joined(item, depth - 1) for name, item in value.items()]) + b"}"
