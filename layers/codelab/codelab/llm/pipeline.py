"""From a context of rich messages to what a model is sent.

A message is {"role", "content"}. Its content is a string, an OpenAI content list, an object {"type": …, …}, or the
fields of such an object stand in the message itself. Every type has a handler

    handler(config, schema, messages) -> (config, schema, messages)

which is called for each message of its type, in the order of the context. The message it is called for is the last of
`messages`; before it stand the messages that have been handled already. A handler may change the model's configuration,
the schema of the solution, and the messages (in place or not): replace its own by text, add others, merge it into an
earlier one.

What a handler wants to remember about a message it may keep under the key `_content`: later handlers see it, models do
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest, json_pointer

Message = dict[str, Any]
Prepared = tuple[RequestConfig, Any, list[Message]]
Handler = Callable[[RequestConfig, Any, list[Message]], Prepared]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# What a content list of the chat completions API may hold; these parts are sent as they are.
_OPENAI_PARTS = {"text": "text", "image_url": "image_url", "input_audio": "input_audio", "refusal": "refusal",
                 "file": "file"}  # fmt: skip


class ContentError(Exception):
    """A handler's complaint about its message. `field` is the name of the field that is wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class Registry:
    """Content types and their handlers. A copy of the default one is where own types are registered."""

    def __init__(self, handlers: Mapping[str, Handler] | None = None, roles: Mapping[str, str] | None = None) -> None:
        self._handlers = dict(handlers or {})
        self._roles = dict(roles or {})

    def register(self, type_: str, *, role: str = "user") -> Callable[[Handler], Handler]:
        """A decorator for the handler of a type. `role` is that of messages of this type that name none."""

        def registered(handler: Handler) -> Handler:
            self._handlers[type_] = handler
            self._roles[type_] = role
            return handler

        return registered

    def copy(self) -> Registry:
        return Registry(self._handlers, self._roles)

    def handler(self, type_: str) -> Handler | None:
        return self._handlers.get(type_)

    def role(self, type_: str) -> str:
        return self._roles.get(type_, "user")

    @property
    def types(self) -> list[str]:
        return list(self._handlers)


def prepare(config: RequestConfig, schema: Any, context: Any, registry: Registry) -> Prepared:
    """Run the pipeline. Raises InvalidRequest that names the wrong place of the context."""
    if not isinstance(context, list) or not context:
        raise InvalidRequest("the context is empty" if context == [] else "the context is not a list", "/context")
    out: list[Message] = []
    for index, raw in enumerate(context):
        for message, pointer in _normalised(raw, f"/context/{index}", registry):
            content = message.get("content")
            type_ = content["type"] if isinstance(content, dict) else "text"
            handler = registry.handler(type_)
            out.append(message)
            if handler is None:
                continue
            try:
                config, schema, out = handler(config, schema, out)
            except ContentError as error:
                field = json_pointer(error.field) if error.field else ""
                raise InvalidRequest(f"{type_}: {error}", pointer + field) from error
    config.check()
    messages = [{key: value for key, value in message.items() if key != "_content"} for message in out]
    if not messages:
        raise InvalidRequest("the context leaves no message for the model", "/context")
    return config, schema, messages


def _normalised(raw: Any, pointer: str, registry: Registry) -> Iterator[tuple[Message, str]]:
    """The messages that one entry of the context stands for, each with the pointer of its content."""
    if not isinstance(raw, Mapping):
        raise InvalidRequest("a message is not an object", pointer)
    role = raw.get("role")
    if role is not None and role not in ROLES:
        raise InvalidRequest(f"there is no role {role!r}; there are {', '.join(ROLES)}", f"{pointer}/role")
    if "type" in raw or ("content" not in raw and "tool_calls" not in raw and _named(raw, registry)):
        # Its fields stand in the message; also those that messages have too: a file's content, a tool's name.
        content: Any = {key: value for key, value in raw.items() if key != "role"}
        place, envelope = pointer, {}
    else:
        content, place = raw.get("content"), f"{pointer}/content"
        envelope = {key: value for key, value in raw.items() if key not in ("role", "content")}
    if isinstance(content, Mapping):
        typed = _typed(dict(content), place, registry)
        yield {**envelope, "role": role or registry.role(typed["type"]), "content": typed}, place
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
        raise InvalidRequest("the content is missing" if content is None else "the content has no known form", place)
    yield dict(raw), place


def _typed(content: dict[str, Any], place: str, registry: Registry) -> dict[str, Any]:
    type_ = content.get("type")
    if type_ is None:
        type_ = _named(content, registry)
        if type_ is None:
            raise InvalidRequest(f"the content has no type; there are {', '.join(registry.types)}", f"{place}/type")
    if not isinstance(type_, str) or registry.handler(type_) is None:
        raise InvalidRequest(
            f"there is no content type {type_!r}; there are {', '.join(registry.types)}", f"{place}/type"
        )
    return {**content, "type": type_}


def _named(content: Mapping[str, Any], registry: Registry) -> str | None:
    """The type whose main field, which has its name, is there."""
    return next((type_ for type_ in registry.types if type_ in content), None)


def _parts(parts: list[Any], envelope: Message, place: str, registry: Registry) -> Iterator[tuple[Message, str]]:
    """A content list; parts of our own types become messages of their own, in order."""
    plain: list[Any] = []
    for index, part in enumerate(parts):
        where = f"{place}/{index}"
        if isinstance(part, str):
            plain.append({"type": "text", "text": part})
            continue
        if not isinstance(part, Mapping):
            raise InvalidRequest("a part of the content is neither an object nor a string", where)
        main = _OPENAI_PARTS.get(part.get("type", ""))
        if main is not None and main in part:
            plain.append(dict(part))
            continue
        typed = _typed(dict(part), where, registry)
        if plain:
            yield {**envelope, "content": plain}, place
            plain = []
        yield {**envelope, "content": typed}, where
    if plain or not parts:
        yield {**envelope, "content": plain}, place
