"""Turns a context of typed messages into the messages for a model.

A message is {"role", "content"}. Its content is a string, an OpenAI content list or an object {"type": …, …}. The
fields of that object may also stand in the message itself. Each type has a handler

    handler(config, schema, messages) -> (config, schema, messages)

that is called for each message of its type, in order. Its message is the last of `messages`, after those already
handled. A handler may change the configuration, the schema of the solution, and the messages: replace its own with
text, add others, or merge it into an earlier one.

A handler may keep data about a message under the key `_content`. Later handlers see it, models do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codelab.llm.config import RequestConfig
from codelab.llm.encoding import TextMessage, are_texts
from codelab.llm.errors import InvalidRequest, json_pointer

Message = dict[str, Any]
PreparedRequest = tuple[RequestConfig, Any, list[Message]]
Handler = Callable[[RequestConfig, Any, list[Message]], PreparedRequest]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
#: The keys of a message that is only a text.
_TEXT_MESSAGE_FIELDS = {"role", "content"}
# The parts of a content list of the chat completions API, and what their main field is, which has the same name. They
# are sent unchanged.
_OPENAI_PARTS: Mapping[Any, type] = {"text": str, "image_url": Mapping, "input_audio": Mapping, "refusal": str,
                                     "file": Mapping}  # fmt: skip


class ContentError(Exception):
    """The message that a handler takes is invalid. field: the name of the invalid field."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class Registry:
    """Content types and their handlers. To add types, copy `content.BUILT_IN` and register them there."""

    def __init__(self, handlers: Mapping[str, Handler] | None = None, roles: Mapping[str, str] | None = None) -> None:
        self._handlers = dict(handlers or {})
        self._roles = dict(roles or {})
        #: The handler of `text` does nothing with a message that is only a text.
        self.leaves_texts = False

    def register(self, type_: str, *, role: str = "user", leaves_texts: bool = False) -> Callable[[Handler], Handler]:
        """A decorator that registers the handler of a type. role: the role of messages of this type that name none."""

        def registered(handler: Handler) -> Handler:
            self._handlers[type_] = handler
            self._roles[type_] = role
            if type_ == "text":
                self.leaves_texts = leaves_texts
            return handler

        return registered

    def copy(self) -> Registry:
        registry = Registry(self._handlers, self._roles)
        registry.leaves_texts = self.leaves_texts
        return registry

    def handler(self, type_: str) -> Handler | None:
        return self._handlers.get(type_)

    def role(self, type_: str) -> str:
        return self._roles.get(type_, "user")

    @property
    def types(self) -> list[str]:
        return list(self._handlers)


def prepare(config: RequestConfig, schema: Any, context: Any, registry: Registry) -> PreparedRequest:
    """Run the handlers of all messages. Raises InvalidRequest with the pointer of the invalid value."""
    if not isinstance(context, list) or not context:
        raise InvalidRequest("the context is empty" if context == [] else "the context is not a list", "/context")
    if registry.leaves_texts and are_texts(context):
        return config, schema, list(context)
    prepared_messages: list[Message] = []
    original_config = config
    for index, raw in enumerate(context):
        if type(raw) is TextMessage and registry.leaves_texts:  # most messages, so they are not copied
            prepared_messages.append(raw)
            continue
        entries = [(raw.copy(), "")] if _is_plain(raw) else _normalised(raw, f"/context/{index}", registry)
        for message, pointer in entries:
            content = message.get("content")
            type_ = content["type"] if isinstance(content, dict) else "text"
            handler = registry.handler(type_)
            prepared_messages.append(message)
            if handler is None:
                continue
            try:
                config, schema, prepared_messages = handler(config, schema, prepared_messages)
            except ContentError as error:
                field = json_pointer(error.field) if error.field else ""
                place = pointer or f"/context/{index}/content"
                raise InvalidRequest(f"{type_}: {error}", place + field) from error
    if config is not original_config:
        config.check()
    messages = [
        {key: value for key, value in message.items() if key != "_content"} if "_content" in message else message
        for message in prepared_messages
    ]
    if not messages:
        raise InvalidRequest("the context leaves no message for the model", "/context")
    return config, schema, messages


def _is_plain(raw: Any) -> bool:
    """Is it only a text? Most messages of a long conversation are, so they take the short way."""
    return (
        type(raw) is dict
        and raw.keys() == _TEXT_MESSAGE_FIELDS
        and type(raw["content"]) is str
        and raw["role"] in ROLES
    )


def _normalised(raw: Any, pointer: str, registry: Registry) -> Iterator[tuple[Message, str]]:
    """The messages of one entry of the context, each with the pointer of its content."""
    if not isinstance(raw, Mapping):
        raise InvalidRequest("a message is not an object", pointer)
    role = raw.get("role")
    if role is not None and role not in ROLES:
        raise InvalidRequest(f"unknown role {role!r}; known are {', '.join(ROLES)}", f"{pointer}/role")
    _check_calls(raw, pointer)
    if "type" in raw or ("content" not in raw and "tool_calls" not in raw and _named(raw, registry)):
        # The fields are in the message itself, even those that all messages have: a file's `content`, a tool's `name`.
        content: Any = {key: value for key, value in raw.items() if key != "role"}
        place, envelope = pointer, {}
    else:
        content, place = raw.get("content"), f"{pointer}/content"
        envelope = {key: value for key, value in raw.items() if key not in ("role", "content")}
    if isinstance(content, Mapping):
        typed_content = _typed(dict(content), place, registry)
        yield {**envelope, "role": role or registry.role(typed_content["type"]), "content": typed_content}, place
        return
    if role is None:
        raise InvalidRequest("the role is missing", f"{pointer}/role")
    if isinstance(content, list):
        yield from _parts(content, {**envelope, "role": role}, place, registry)
        return
    if content is None and role == "assistant" and (raw.get("tool_calls") or raw.get("refusal")):
        yield dict(raw), place
        return
    if not isinstance(content, str):
        raise InvalidRequest(
            "the content is missing" if content is None else "the content is neither a string, a list nor an object",
            place,
        )
    yield dict(raw), place


def _check_calls(message: Mapping[str, Any], pointer: str) -> None:
    """Raise InvalidRequest for native calls, or the id of one, of another form than the chat completions API's."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise InvalidRequest("the calls are not a list", f"{pointer}/tool_calls")
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not function.get("name"):
            raise InvalidRequest("the call names no function", f"{pointer}/tool_calls/{index}")
        if not all(
            isinstance(text or "", str) for text in (call.get("id"), function["name"], function.get("arguments"))
        ):
            raise InvalidRequest("id, name and arguments of a call are strings", f"{pointer}/tool_calls/{index}")
    if not isinstance(message.get("tool_call_id") or "", str):
        raise InvalidRequest("the id of a call is a string", f"{pointer}/tool_call_id")


def _check_part(value: Any, kind: str, pointer: str) -> None:
    """Raise InvalidRequest for the main field of a part that has another form than the chat completions API's."""
    has_form = isinstance(value, _OPENAI_PARTS[kind])
    if kind == "image_url":
        has_form = isinstance(value, Mapping) and isinstance(value.get("url"), str)
    if not has_form:
        raise InvalidRequest(f"{kind} has the wrong form", pointer)


def _typed(content: dict[str, Any], place: str, registry: Registry) -> dict[str, Any]:
    type_ = content.get("type")
    if type_ is None:
        type_ = _named(content, registry)
        if type_ is None:
            raise InvalidRequest(f"the content has no type; known are {', '.join(registry.types)}", f"{place}/type")
    if not isinstance(type_, str) or registry.handler(type_) is None:
        raise InvalidRequest(f"unknown content type {type_!r}; known are {', '.join(registry.types)}", f"{place}/type")
    return {**content, "type": type_}


def _named(content: Mapping[str, Any], registry: Registry) -> str | None:
    """The first type whose name is a field of the content, or None."""
    return next((type_ for type_ in registry.types if type_ in content), None)


def _parts(parts: list[Any], envelope: Message, place: str, registry: Registry) -> Iterator[tuple[Message, str]]:
    """The messages of a content list. Each typed part becomes a message, in order."""
    openai_parts: list[Any] = []
    for index, part in enumerate(parts):
        part_pointer = f"{place}/{index}"
        if isinstance(part, str):
            openai_parts.append({"type": "text", "text": part})
            continue
        if not isinstance(part, Mapping):
            raise InvalidRequest("a part of the content is neither an object nor a string", part_pointer)
        kind = part.get("type")
        if isinstance(kind, str) and kind in _OPENAI_PARTS and kind in part:
            _check_part(part[kind], kind, f"{part_pointer}/{kind}")
            openai_parts.append(dict(part))
            continue
        typed_content = _typed(dict(part), part_pointer, registry)
        if openai_parts:
            yield {**envelope, "content": openai_parts}, place
            openai_parts = []
        yield {**envelope, "content": typed_content}, part_pointer
    if openai_parts or not parts:
        yield {**envelope, "content": openai_parts}, place
