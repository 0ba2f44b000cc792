"""The strict codec: any JSON Schema to one that strict mode accepts, and answers back to the original shape.

    codec = encode(schema)
    codec.schema              # what is sent
    codec.decode(answer)      # the answer in the original shape
    codec.express(instance)   # the inverse, or NotExpressible with the reason

The strict schema is a relaxation: it says what can be said strictly, and the original schema validates the decoded
answer afterwards. Given up on purpose, with `open_objects="close"`, are the further keys of objects that merely do not
forbid them. A schema that cannot be made strict says why in `reason`, and is sent as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codelab.llm.schema.containers import Array, Object
from codelab.llm.schema.encoder import Encoder
from codelab.llm.schema.limits import Figures, measure
from codelab.llm.schema.nodes import (
    Link,
    Mismatch,
    Node,
    NotExpressible,
    Plain,
    Union,
    decoding,
    identity,
    same_but_for_nulls,
    strict_validator,
)
from codelab.llm.schema.strict import Schema, Settings, TooLarge, Unsatisfiable, Work, Wrapped

__all__ = ["Codec", "Figures", "NotExpressible", "encode", "measure"]

# From generous to frugal.
_ATTEMPTS = (
    Settings(),
    Settings(branches=4, values=500, characters=60_000),
    Settings(levels=8, branches=1, values=500, characters=60_000),
    Settings(levels=6, width=500, branches=1, values=300, characters=30_000),
    Settings(levels=4, width=200, branches=1, values=100, characters=10_000),
    Settings(levels=3, width=50, branches=1, values=50, characters=5_000),
    Settings(levels=2, width=20, branches=1, values=10, characters=1_000),
)

# Small steps, about a microsecond each, in all attempts together.
_WORK = 400_000


class Codec:
    """A schema in its strict form, and the way there and back for instances.

    schema: what is sent. strict: whether strict mode accepts it. reason: why not. wrapped: whether the answer is the
    property `value` of an object, because the original is not a plain object. texts: how many places are JSON text, by
    reason ("untyped", "unresolved", or the limit that forced it). figures: what it uses of the limits.
    """

    def __init__(
        self,
        schema: Any,
        node: Node | None,
        *,
        wrapped: bool = False,
        reason: str = "",
        texts: Mapping[str, int] | None = None,
        figures: Figures | None = None,
        source: Any = None,
    ) -> None:
        self.schema = schema
        self.strict = node is not None
        self.reason = reason
        self.wrapped = wrapped
        self.texts = dict(texts or {})
        self.figures = figures
        self._node = node
        self._source = source
        self._validator: Any = None
        self._original: Any = None

    def decode(self, answer: Any) -> Any:
        """The answer in the original shape. Never raises: what is not of the strict form is restored as far as it can
        be, and the original schema will say what is wrong with it."""
        node = self._node
        if node is None:
            return answer
        if self.wrapped:
            if not isinstance(answer, dict) or len(answer) != 1 or "value" not in answer:
                return answer
            answer = answer["value"]
        with decoding():
            return _restored(node, answer)

    def express(self, instance: Any) -> Any:
        """The strict form of an original instance, keys in the order of the schema: `decode` gives the instance back.

        Raises NotExpressible, with the place and the reason.
        """
        node = self._node
        if node is None:
            return instance
        strict = node.express(instance)
        if self.wrapped:
            strict = {"value": strict}
        self._check(strict)
        restored = self.decode(strict)
        if identity(restored) != identity(instance) and not self._as_good(restored, instance):
            raise NotExpressible("would be restored as something else")
        return strict

    def _as_good(self, restored: Any, instance: Any) -> bool:
        """Null for an optional property becomes absent: as good, if the original schema agrees."""
        if not same_but_for_nulls(restored, instance):
            return False
        if self._original is None:
            from codelab.llm.errors import InvalidRequest
            from codelab.llm.schema.validation import compile_schema

            try:
                self._original = compile_schema(self._source)
            except InvalidRequest:
                return True  # there is nobody to disagree
        return bool(self._original.is_valid(restored) or not self._original.is_valid(instance))

    def strict_path(self, path: Sequence[str]) -> tuple[str, ...] | None:
        """Where a string field or an array of the original stands in the strict form; None when it is not there as
        such."""
        node = self._node
        for name in path if node is not None else ():
            child = _field(node, name)
            if child is None:
                return None
            node = child
        if node is not None and not _is_direct(node):
            return None
        return (("value",) if self.wrapped else ()) + tuple(path)

    def decode_item(self, path: Sequence[str], value: Any) -> Any:
        """One item of the array at `path`, in the original shape."""
        node = self._node
        for name in path if node is not None else ():
            node = _field(node, name)
        array = _resolved(node)
        if isinstance(array, Union):
            array = next((_resolved(n) for _, n in array.branches if isinstance(_resolved(n), Array)), None)
        if not isinstance(array, Array):
            return value
        with decoding():
            return _restored(array.item, value)

    def _check(self, strict: Any) -> None:
        """Raise NotExpressible for what the strict schema itself refuses."""
        if self._validator is None:
            self._validator = strict_validator(self.schema)
        error = next(iter(self._validator.iter_errors(strict)), None)
        if error is not None:
            problem = NotExpressible(str(error.message))
            problem.parts = list(error.instance_path)[::-1]
            raise problem


def _restored(node: Node, value: Any) -> Any:
    try:
        try:
            return node.decode(value, True)
        except Mismatch:
            return node.decode(value, False)
    except RecursionError:
        return value  # nested as deeply as no answer is meant to be


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
    found = _resolved(node)
    if isinstance(found, Union):
        return all(_is_direct(inner) or not isinstance(inner, (Plain, Array)) for _, inner in found.branches)
    return (isinstance(found, Plain) and found.type == "string") or isinstance(found, Array)


def encode(schema: Any, *, open_objects: str = "close", without: frozenset[str] = frozenset()) -> Codec:
    """Make a schema strict.

    open_objects: "close" gives up the further keys of objects that do not mention them, "keep" keeps them as a list.
    without: strict keywords to leave out all the same, for providers that refuse them.
    """
    if not isinstance(schema, (dict, bool)):
        return Codec(schema, None, reason="not a schema")
    exceeded: list[str] = []
    work = Work(_WORK)
    for settings in _ATTEMPTS:
        keep = open_objects == "keep"
        encoder = Encoder(schema, keep=keep, settings=settings, without=without, work=work)
        try:
            try:
                strict, node, wrapped = encoder.root()
            except Wrapped:
                encoder = Encoder(schema, keep=keep, settings=settings, without=without, work=work)
                strict, node, wrapped = encoder.root(depth=1)
        except Unsatisfiable:
            return _as_text(schema, ["unsatisfiable"])
        except (TooLarge, Wrapped, RecursionError):
            exceeded = ["size"]
            continue
        figures = measure(strict)
        exceeded = figures.exceeded()
        if not exceeded:
            return Codec(strict, node, wrapped=wrapped, texts=encoder.texts, figures=figures, source=schema)
    return _as_text(schema, exceeded)


def _as_text(schema: Any, exceeded: Sequence[str]) -> Codec:
    """The last resort: the whole answer as JSON text."""
    encoder = Encoder(True, keep=False, settings=Settings(), without=frozenset(), work=Work(_WORK))
    strict: Schema
    strict, node, _ = encoder.root()
    return Codec(strict, node, wrapped=True, texts=dict.fromkeys(exceeded, 1), figures=measure(strict), source=schema)
