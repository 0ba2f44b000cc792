"""The strict codec: converts any JSON Schema to one that strict mode accepts, and answers back to the original shape.

    codec = make_codec(schema)
    codec.schema              # what is sent
    codec.decode(answer)      # the answer in the original shape

The strict schema is a relaxation: it states what strict mode can express, and the original schema validates the decoded
answer afterwards. With `open_objects="close"`, objects that do not forbid further keys lose them on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from codelab.llm.encoding import Fixed
from codelab.llm.schema.containers import Array, Object
from codelab.llm.schema.converter import Converter
from codelab.llm.schema.limits import measure
from codelab.llm.schema.nodes import (
    Link,
    Memo,
    Mismatch,
    Node,
    Plain,
    Union,
)
from codelab.llm.schema.strict import NeedsWrapping, Settings, StepCounter, TooLarge, Unsatisfiable

# From the most detailed schema to the least.
_ATTEMPTS = (
    Settings(),
    Settings(branches=4, values=500, characters=60_000),
    Settings(levels=8, branches=1, values=500, characters=60_000),
    Settings(levels=6, width=500, branches=1, values=300, characters=30_000),
    Settings(levels=4, width=200, branches=1, values=100, characters=10_000),
    Settings(levels=3, width=50, branches=1, values=50, characters=5_000),
    Settings(levels=2, width=20, branches=1, values=10, characters=1_000),
)

# The steps of all attempts together. A step takes about a microsecond.
_MAX_STEPS = 400_000


class Codec:
    """A schema in its strict form, and the conversion of answers to the original shape.

    schema: what is sent. strict: whether strict mode accepts it. is_wrapped: whether the answer is the property `value`
    of an object, because the original schema is not that of a plain object.
    """

    def __init__(self, schema: Any, node: Node | None, *, is_wrapped: bool = False) -> None:
        self.schema = Fixed(schema) if node is not None else schema
        self.strict = node is not None
        self.is_wrapped = is_wrapped
        self._node = node

    def decode(self, answer: Any) -> Any:
        """The answer in the original shape.

        Never raises: an answer that does not have the strict form is restored as far as possible, and validation
        against the original schema finds what is wrong with it.
        """
        node = self._node
        if node is None:
            return answer
        if self.is_wrapped:
            if not isinstance(answer, dict) or len(answer) != 1 or "value" not in answer:
                return answer
            answer = answer["value"]
        return _restored(node, answer)

    def strict_path(self, path: Sequence[str]) -> tuple[str, ...] | None:
        """The path in the strict form of a string field or array of the original; None if the form has none for it."""
        node = self._node
        for name in path if node is not None else ():
            node = _field(node, name)
            if node is None:
                return None
        if node is not None and not _is_direct(node):
            return None
        return (("value",) if self.is_wrapped else ()) + tuple(path)

    def decode_item(self, path: Sequence[str], value: Any) -> Any:
        """One item of the array at `path`, in the original shape."""
        node = self._node
        for name in path if node is not None else ():
            node = _field(node, name)
        array = _resolved(node)
        if isinstance(array, Union):
            array = next((_resolved(n) for _, n in array.branches if isinstance(_resolved(n), Array)), None)
        return _restored(array.item, value) if isinstance(array, Array) else value


def _restored(node: Node, value: Any) -> Any:
    memo: Memo = {}
    try:
        try:
            return node.decode(value, True, memo)
        except Mismatch:
            return node.decode(value, False, memo)
    except RecursionError:
        return value  # no real answer is nested so deeply


def _resolved(node: Node | None) -> Node | None:
    while isinstance(node, Link):
        node = node.node
    return node


def _field(node: Node | None, name: str) -> Node | None:
    node = _resolved(node)
    if isinstance(node, Object):
        return next((field.node for field in node.fields if field.name == name), None)
    return None


def _is_direct(node: Node) -> bool:
    target = _resolved(node)
    if isinstance(target, Union):
        return all(_is_direct(branch) or not isinstance(branch, (Plain, Array)) for _, branch in target.branches)
    return (isinstance(target, Plain) and target.type == "string") or isinstance(target, Array)


def new_step_counter() -> StepCounter:
    """The steps that a codec may take, or several codecs together."""
    return StepCounter(_MAX_STEPS)


def make_codec(
    schema: Any,
    *,
    open_objects: str = "close",
    excluded_keywords: frozenset[str] = frozenset(),
    steps: StepCounter | None = None,
) -> Codec:
    """The codec of a schema. What is not a schema gets a codec that changes nothing.

    open_objects: "close" drops the further keys of objects that do not mention them, "keep" keeps them as a list.
    excluded_keywords: strict keywords to leave out, for providers that do not support them. steps: those left for this
    codec and others; as many as one may take if not given.
    """
    if not isinstance(schema, (dict, bool)):
        return Codec(schema, None)
    steps = steps or new_step_counter()
    for settings in _ATTEMPTS:
        make_converter = partial(
            Converter,
            schema,
            keep=open_objects == "keep",
            settings=settings,
            excluded_keywords=excluded_keywords,
            steps=steps,
        )
        try:
            try:
                strict, node, is_wrapped = make_converter().root()
            except NeedsWrapping:
                strict, node, is_wrapped = make_converter().root(depth=1)
        except Unsatisfiable:
            break
        except (TooLarge, NeedsWrapping, RecursionError):
            continue
        if not measure(strict).exceeded():
            return Codec(strict, node, is_wrapped=is_wrapped)
    # The last resort: the whole answer as JSON text.
    converter = Converter(
        True, keep=False, settings=Settings(), excluded_keywords=frozenset(), steps=new_step_counter()
    )
    strict, node, _ = converter.root()
    return Codec(strict, node, is_wrapped=True)
