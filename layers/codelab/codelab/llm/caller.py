"""Limits on Requests from outside the program.

They do not apply to Requests that the program makes itself, nor to the settings in agents' files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codelab.llm.config import RequestConfig
from codelab.llm.content import BUILT_IN
from codelab.llm.errors import ContextTooLarge, InvalidRequest
from codelab.llm.pipeline import ContentError, PreparedRequest, Registry
from codelab.llm.schema.budget import check_schema, depth_of
from codelab.llm.tokens import IMAGE_TOKENS, estimate_context, estimate_tokens

#: The maximum of each setting. `n` and `max_repairs` multiply the cost of a Request.
_MAXIMA = {"n": 4, "max_repairs": 3, "max_output_tokens": 32_000, "seed": 2**63 - 1}
_STREAMED_FIELDS, _NAME_CHARS = 16, 200
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
#: The fields that a message and each part of its content may have.
_MESSAGE_FIELDS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal"})
_PART_FIELDS = {
    "text": frozenset({"text"}),
    "refusal": frozenset({"refusal"}),
    "image_url": frozenset({"image_url"}),
    "input_audio": frozenset({"input_audio"}),
    "file": frozenset({"file"}),
}
#: The maximum nesting depth of a message, and the most characters that one token can have.
_DEPTH, _CHARS_PER_TOKEN = 64, 16


@dataclass(frozen=True, slots=True)
class CallerBounds:
    """What a caller may choose.

    models: the models that a caller may name. provider: the only profile that a caller may name. context_tokens: the
    maximum of messages and schema together, in estimated tokens.
    """

    models: frozenset[str]
    provider: str
    context_tokens: int

    def check_settings(self, config: RequestConfig, pointer: str = "/config") -> None:
        """Raise InvalidRequest for a setting that the caller may not choose, or that is too high."""

        def bad(name: str, message: str) -> InvalidRequest:
            return InvalidRequest(message, f"{pointer}/{name}")

        if config.extra_body:
            raise bad("extra_body", "callers may not set extra_body")
        if config.text_calls:
            raise bad("text_calls", "callers may not set text_calls")
        if config.model not in self.models:
            offered_models = ", ".join(sorted(self.models))
            raise bad("model", f"the model {config.model[:_NAME_CHARS]!r} is not offered; offered are {offered_models}")
        if config.provider != self.provider:
            raise bad("provider", f"the provider is {self.provider!r}")
        for name, maximum in _MAXIMA.items():
            value = getattr(config, name)
            if value is not None and not -maximum <= value <= maximum:
                raise bad(name, f"{name} may be at most {maximum}")
        if config.reasoning_effort is not None and config.reasoning_effort not in _EFFORTS:
            raise bad("reasoning_effort", f"reasoning_effort is one of {', '.join(_EFFORTS)}")
        if len(config.stream_fields) > _STREAMED_FIELDS or any(
            len(field) > _NAME_CHARS for field in config.stream_fields
        ):
            raise bad(
                "stream_fields",
                f"at most {_STREAMED_FIELDS} fields may be streamed, with names of at most {_NAME_CHARS} characters",
            )
        if config.stream_items is not None and len(config.stream_items) > _NAME_CHARS:
            raise bad("stream_items", "the name of the streamed items is too long")

    def check_input(self, schema: Any, context: Any) -> None:
        """Raise InvalidRequest or ContextTooLarge for input that is too large to be processed."""
        check_schema(schema)
        for index, message in enumerate(context if isinstance(context, list) else ()):
            if depth_of(message, _DEPTH) > _DEPTH:
                raise InvalidRequest("the message is nested too deeply", f"/context/{index}")
        characters = len(json.dumps(schema)) + sum(map(len, _texts(context)))
        if characters > _CHARS_PER_TOKEN * self.context_tokens:
            raise self._too_large()

    def check_prepared(self, config: RequestConfig, schema: Any, messages: list[dict[str, Any]]) -> None:
        """Raise InvalidRequest or ContextTooLarge if what the content handlers made of the input breaks a limit."""
        self.check_settings(config)
        check_schema(schema)
        for message in messages:
            _check_fields(message)
        images = sum(1 for _ in _images(messages))
        tokens = estimate_context([_without_images(message) for message in messages])
        tokens += sum(estimate_tokens(str(message.get("refusal") or "")) for message in messages)
        tokens += estimate_tokens(json.dumps(schema, ensure_ascii=False)) + IMAGE_TOKENS * images
        if tokens > self.context_tokens:
            raise self._too_large()

    def registry(self) -> Registry:
        """The built-in content types, with a `meta` that checks the settings it changes."""
        registry = BUILT_IN.copy()
        change = registry.handler("meta")
        assert change is not None

        @registry.register("meta", role="system")
        def checked_meta(config: RequestConfig, schema: Any, messages: list[dict[str, Any]]) -> PreparedRequest:
            prepared_request = change(config, schema, messages)
            try:
                self.check_settings(prepared_request[0], "")
            except InvalidRequest as error:
                raise ContentError(error.message, "config") from None
            return prepared_request

        return registry

    def _too_large(self) -> ContextTooLarge:
        return ContextTooLarge(f"the context and the schema have more than {self.context_tokens} tokens", "/context")


def _check_fields(message: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a field that the caller may not set.

    Providers also read settings from messages (caching, a service tier), and files of the operator's account by id.
    """
    for name in message:
        if not name.startswith("_") and name not in _MESSAGE_FIELDS:
            raise InvalidRequest(f"a message has no field {name[:_NAME_CHARS]!r} that a caller may set", "/context")
    for name in ("name", "tool_call_id"):
        if len(str(message.get(name) or "")) > _NAME_CHARS:
            raise InvalidRequest(f"{name} has more than {_NAME_CHARS} characters", "/context")
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, Mapping):
            continue
        extra = part.keys() - _PART_FIELDS.get(str(part.get("type")), frozenset()) - {"type"}
        if str(part.get("type")) not in _PART_FIELDS or extra:
            raise InvalidRequest("a part of a message is text, an image, or a file's data", "/context")
        for name, field_names in (("file", {"file_data", "filename"}), ("image_url", {"url", "detail"})):
            value = part.get(name)
            if isinstance(value, Mapping) and not value.keys() <= field_names:
                raise InvalidRequest(f"{name} may have {' and '.join(sorted(field_names))} only", "/context")


def _texts(value: Any) -> Iterator[str]:
    """Every string in a JSON value except the data of images."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            if not node.startswith("data:image/"):
                yield node
        elif isinstance(node, Mapping):
            is_image = node.get("type") == "image"
            stack.extend(item for name, item in node.items() if not (is_image and name == "data"))
            yield from (str(name) for name in node)
        elif isinstance(node, list):
            stack.extend(node)


def _images(messages: list[dict[str, Any]]) -> Iterator[Any]:
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type") == "image_url":
                yield part


def _without_images(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = [part for part in content if not (isinstance(part, Mapping) and part.get("type") == "image_url")]
    return {**message, "content": parts}
