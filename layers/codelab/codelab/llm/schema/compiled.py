"""A schema made ready for calls: its validator and its codecs, made once and shared by all requests that use it."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

from codelab.llm.profiles import Mode
from codelab.llm.schema.codec import Codec, encode
from codelab.llm.schema.effort import Judge, Verdict
from codelab.llm.schema.validation import compile_schema, explain

_MAX_PLANS = 64
# Characters of all schemas in the cache: a plan takes some fifty times as much memory.
_MAX_CHARACTERS = 500_000
_plans: OrderedDict[tuple[str, str], Plan] = OrderedDict()
_lock = threading.Lock()


class Plan:
    """What is sent for a schema in each mode, and how the answer becomes the caller's shape again."""

    def __init__(self, schema: Any, open_objects: str) -> None:
        self.schema = schema
        self.validator = compile_schema(schema)
        self._judge = Judge(schema, self.validator)
        self._open_objects = open_objects
        self._codecs: dict[frozenset[str], Codec] = {}

    def codec(self, refused: Collection[str] = ()) -> Codec:
        """The strict form, without the keywords that were refused."""
        without = frozenset(feature[8:] for feature in refused if feature.startswith("keyword:"))
        made = self._codecs.get(without)
        if made is None:
            made = self._codecs[without] = encode(self.schema, open_objects=self._open_objects, without=without)
        return made

    def explain(self, value: Any) -> list[str]:
        """Why a value is invalid, a sentence an error; empty when it is valid."""
        verdict = self._judge.verdict(value)
        if verdict is Verdict.VALID:
            return []
        if verdict is Verdict.EXPLAINABLE:
            return explain(self.validator, value) or ["the answer is not valid"]
        if verdict is Verdict.INVALID:
            return ["the answer is not valid; it is too large to say where: give a shorter one"]
        return ["the answer is too large to be validated: give a shorter one"]

    def coded(self, mode: Mode, refused: Collection[str]) -> Codec | None:
        """The codec whose schema is sent in this mode; None when the original is sent.

        Native decoding is given the strict form even where the flag is not understood: grammars are made from it, and
        it uses no keyword that their makers do not know. Where nothing enforces the schema the original reads better,
        unless its root is not an object, which functions and JSON mode require.
        """
        strict = self.codec(refused)
        if not strict.strict:
            return None
        if mode.strict or mode.strategy == "native" or strict.wrapped:
            return strict
        return None


def plan_for(schema: Any, open_objects: str) -> Plan:
    """The plan of a schema, from a small cache. Raises InvalidRequest when the schema is not one."""
    try:
        key = (json.dumps(schema, separators=(",", ":")), open_objects)
    except (TypeError, ValueError, RecursionError):
        return Plan(schema, open_objects)
    with _lock:
        plan = _plans.get(key)
        if plan is not None:
            _plans.move_to_end(key)
            return plan
    plan = Plan(schema, open_objects)
    with _lock:
        _plans[key] = plan
        while len(_plans) > _MAX_PLANS or (len(_plans) > 1 and sum(len(it) for it, _ in _plans) > _MAX_CHARACTERS):
            _plans.popitem(last=False)
    return plan
