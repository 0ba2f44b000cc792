"""A compiled schema: its validator and its strict forms, made once and shared by all Requests that use the schema."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cached_property
from typing import Any

from codelab.llm.form import Form, form_of
from codelab.llm.functions import Functions, excluded_keywords_of, functions_of
from codelab.llm.modes import Mode
from codelab.llm.schema.bounded import BoundedValidator, Verdict
from codelab.llm.schema.budget import depth_of
from codelab.llm.schema.codec import Codec, make_codec
from codelab.llm.schema.validation import compile_validator, explain

#: How deeply an answer may be nested: what stores and shows it is written for people's data.
_MAX_DEPTH = 100
_MAX_SCHEMAS = 64
# Characters of all cached schemas: a compiled schema takes some fifty times as much memory.
_MAX_CHARACTERS = 500_000
_cache: dict[tuple[str, str], CompiledSchema] = {}  # the least recently used comes first
#: The last schemas that were asked for, by their ids: to find one in the cache, all of it has to be written as text.
_MAX_SAME = 16
_by_identity: dict[int, tuple[Any, str, CompiledSchema]] = {}


class CompiledSchema:
    """What is sent for a schema in each mode, and what checks and decodes the answer.

    schema: a JSON Schema. open_objects: see `RequestConfig`. Raises InvalidRequest if the schema is not valid.
    """

    def __init__(self, schema: Any, open_objects: str) -> None:
        self.schema = schema
        self._validator = compile_validator(schema)
        self._bounded_validator = BoundedValidator(schema, self._validator)
        self._open_objects = open_objects
        self._codecs: dict[frozenset[str], Codec] = {}
        self._forms: dict[int, tuple[Any, Form | None]] = {}

    @cached_property
    def functions(self) -> Functions | None:
        """What the strategy `calls` needs; None if the schema is not one for it."""
        return functions_of(self.schema, self._open_objects)

    def codec(self, unsupported: Collection[str] = ()) -> Codec:
        """The codec of the strict form, without the keywords among the unsupported features."""
        excluded_keywords = excluded_keywords_of(unsupported)
        codec = self._codecs.get(excluded_keywords)
        if codec is None:
            codec = self._codecs[excluded_keywords] = make_codec(
                self.schema, open_objects=self._open_objects, excluded_keywords=excluded_keywords
            )
        return codec

    def codec_for(self, mode: Mode, unsupported: Collection[str]) -> Codec | None:
        """The codec whose schema is sent in this mode, or None if the original schema is sent.

        The native strategy sends the strict form even without the flag `strict`: servers make grammars from it, and it
        has only keywords that they know. Where nothing enforces the schema, the original reads better, unless its root
        is not an object: functions and JSON mode require one.
        """
        codec = self.codec(unsupported)
        if codec.strict and (mode.strict or mode.strategy == "native" or codec.is_wrapped):
            return codec
        return None

    def form_for(self, mode: Mode, unsupported: Collection[str]) -> Form | None:
        """The form of the answers in this mode; None if only the schema itself can say it, because it is no object's.

        Not in JSON mode, in which the prompt has the schema, nor with `calls`, whose answer has no form.
        """
        if mode.strategy in ("json", "calls"):
            return None
        codec = self.codec_for(mode, unsupported)
        schema = self.schema if codec is None else codec.schema
        schema_form = self._forms.get(id(schema))
        if schema_form is None:
            schema_form = self._forms[id(schema)] = schema, form_of(schema) if isinstance(schema, dict) else None
        return schema_form[1]

    def explain(self, value: Any) -> list[str]:
        """Why a value is invalid, one sentence per error. Empty if it is valid."""
        if depth_of(value, _MAX_DEPTH) > _MAX_DEPTH:
            return [f"the answer is nested more than {_MAX_DEPTH} levels deep"]
        verdict = self._bounded_validator.verdict(value)
        if verdict is Verdict.VALID:
            return []
        if verdict is Verdict.EXPLAINABLE:
            return explain(self._validator, value) or ["the answer is not valid"]
        if verdict is Verdict.INVALID:
            return ["the answer is not valid, and too large to say where: give a shorter one"]
        return ["the answer is too large to be validated: give a shorter one"]


def compile_schema(schema: Any, open_objects: str) -> CompiledSchema:
    """The compiled schema, from a small cache. Takes and raises what `CompiledSchema` does.

    The schema must not be changed afterwards.
    """
    entry = _by_identity.get(id(schema))
    if entry is not None and entry[0] is schema and entry[1] == open_objects:
        return entry[2]
    compiled_schema = _compiled(schema, open_objects)
    if len(_by_identity) >= _MAX_SAME:
        _by_identity.clear()
    if compiled_schema in _cache.values():
        _by_identity[id(schema)] = schema, open_objects, compiled_schema
    return compiled_schema


def _compiled(schema: Any, open_objects: str) -> CompiledSchema:
    """As `compile_schema`, for equal schemas that are different objects."""
    try:
        key = (json.dumps(schema, separators=(",", ":")), open_objects)
    except (TypeError, ValueError, RecursionError):
        return CompiledSchema(schema, open_objects)
    # Threads may share the cache: at worst two of them compile the same schema.
    _cache[key] = compiled_schema = _cache.pop(key, None) or CompiledSchema(schema, open_objects)
    keys = list(_cache)
    while len(keys) > _MAX_SCHEMAS or (len(keys) > 1 and sum(len(text) for text, _ in keys) > _MAX_CHARACTERS):
        _cache.pop(keys.pop(0), None)
        _by_identity.clear()  # so that none of them is kept here alone
    return compiled_schema
