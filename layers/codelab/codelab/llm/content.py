"""The built-in content types."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from codelab.llm.call_schema import with_tool
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest
from codelab.llm.fence import fenced
from codelab.llm.pipeline import ContentError, Message, PreparedRequest, Registry

BUILT_IN = Registry()


def _content(messages: list[Message]) -> dict[str, Any]:
    content: dict[str, Any] = messages[-1]["content"]
    return content


def _field(content: dict[str, Any], name: str, *types: type) -> Any:
    """A required field."""
    if name not in content:
        raise ContentError(f"{name} is missing", name)
    value = content[name]
    if types and not isinstance(value, types):
        raise ContentError(f"{name} has the wrong type", name)
    return value


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ContentError(f"is not JSON: {error}") from None


def _with_content(
    message: Message, text: str | list[dict[str, Any]], original_content: dict[str, Any] | None = None
) -> Message:
    """The message with `text` as its content. original_content: for later handlers."""
    message_copy = {**message, "content": text}
    if original_content is not None:
        message_copy["_content"] = original_content
    return message_copy


def _section(title: str, content: dict[str, Any], value: Any) -> str:
    """A titled block with the description, the schema and the data."""
    lines = [f"# {title}"]
    if content.get("description"):
        lines.append(str(content["description"]))
    if content.get("schema") is not None:
        lines.append(f"Schema: {_json(content['schema'])}")
    lines.append(value if isinstance(value, str) else _json(value))
    return "\n".join(lines)


@BUILT_IN.register("text", leaves_texts=True)
def text(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
    """{"type": "text", "text": "Hello"}: the same as a string."""
    message = messages[-1]
    if isinstance(message["content"], dict):
        messages[-1] = _with_content(message, _field(message["content"], "text", str))
    return config, schema, messages


@BUILT_IN.register("data")
def data(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
    """{"type": "data", "kind": "orders", "data": […], "schema": …, "description": …}: data to work with.

    All messages of one kind are combined in the first of them: objects are merged, lists are joined, anything else is
    replaced.
    """
    content = _content(messages)
    kind = _field(content, "kind", str)
    _field(content, "data")
    for index, message in enumerate(messages[:-1]):
        previous_content = message.get("_content", {})
        if previous_content.get("type") == "data" and previous_content.get("kind") == kind:
            merged_content = {**previous_content, **content, "data": _merged(previous_content["data"], content["data"])}
            messages[index] = _with_content(
                message, _section(f"Data: {kind}", merged_content, merged_content["data"]), merged_content
            )
            return config, schema, messages[:-1]
    messages[-1] = _with_content(messages[-1], _section(f"Data: {kind}", content, content["data"]), content)
    return config, schema, messages


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _merged(old[key], value) if key in old else value for key, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    return new


@BUILT_IN.register("input")
def input_(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
    """{"type": "input", "input": {"question": "…"}, "schema": …, "description": …}: what the request is about."""
    content = _content(messages)
    messages[-1] = _with_content(messages[-1], _section("Input", content, _field(content, "input")))
    return config, schema, messages


def _latest(type_: str, title: str) -> Callable[[RequestConfig, Any, list[Message]], PreparedRequest]:
    """The handler of a type whose latest message replaces the earlier ones."""

    def handler(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
        content = _content(messages)
        value = _field(content, type_)
        other_messages = [message for message in messages[:-1] if message.get("_content", {}).get("type") != type_]
        return config, schema, [*other_messages, _with_content(messages[-1], _section(title, content, value), content)]

    return handler


# {"type": "state", "state": {…}}: the current state.
BUILT_IN.register("state", role="system")(_latest("state", "Current state"))
# {"type": "plan", "plan": […]}: what to do, and what is done.
BUILT_IN.register("plan", role="system")(_latest("plan", "Plan"))


@BUILT_IN.register("tool", role="system")
def tool(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
    """{"type": "tool", "name": "read_file", "description": "…", "parameters": {…}}: a tool that the model may call.

    The solution gets an array `calls` with a branch for the tool, whose first property is the constant `_tool`. The
    last definition of a name wins. The definition may also be in a field `tool`.
    """
    content = _content(messages)
    definition = content.get("tool", content)
    if not isinstance(definition, dict):
        raise ContentError("tool is not an object", "tool")
    if isinstance(definition.get("function"), dict):  # as the chat completions API writes it
        definition = definition["function"]
    name = _field(definition, "name", str)
    if not name:
        raise ContentError("the name is empty", "name")
    parameters = definition.get("parameters", {})
    if not isinstance(parameters, (dict, bool)):
        raise ContentError("parameters is not a schema", "parameters")
    try:
        schema = with_tool(schema, name, parameters, str(definition.get("description") or ""))
    except ValueError as error:
        raise InvalidRequest(str(error), "/schema") from None
    return config, schema, messages[:-1]


@BUILT_IN.register("meta", role="system")
def meta(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
    """{"type": "meta", "meta": {"locale": "de"}, "config": {"temperature": 0}}: facts about the request, and settings.

    `config` changes the configuration of this Request; the model reads `meta`. Either may be missing.
    """
    content = _content(messages)
    changes = content.get("config", {})
    if not isinstance(changes, dict):
        raise ContentError("config is not an object", "config")
    if changes:
        try:
            config = RequestConfig.parse({**_settings(config), **changes}, "")
        except InvalidRequest as error:
            raise ContentError(error.message, "config") from None
    if not changes or "meta" in content:
        messages[-1] = _with_content(messages[-1], _section("About this request", content, _field(content, "meta")))
        return config, schema, messages
    return config, schema, messages[:-1]


def _settings(config: RequestConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in RequestConfig.__dataclass_fields__}


@BUILT_IN.register("error")
def error_(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
    """{"type": "error", "error": "…" or {"code", "message", …}}: an error that the model should know about."""
    content = _content(messages)
    problem = _field(content, "error", str, dict)
    messages[-1] = _with_content(messages[-1], _section("Error", content, problem))
    return config, schema, messages


@BUILT_IN.register("file")
def file(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
    """{"type": "file", "path": "src/a.py", "content": "…", "language": "python"}: a text file.

    A file that is not text is {"type": "file", "file": {…}}, as in the chat completions API.
    """
    content = _content(messages)
    if "file" in content:
        part = {"type": "file", "file": _field(content, "file", dict)}
        messages[-1] = _with_content(messages[-1], [part])
        return config, schema, messages
    path = _field(content, "path", str)
    body = _field(content, "content", str)
    block = fenced(body, str(content.get("language") or ""))
    messages[-1] = _with_content(messages[-1], _section(f"File: {path}", content, block), content)
    return config, schema, messages


@BUILT_IN.register("image")
def image(config: RequestConfig, schema: Any, messages: list[Message]) -> PreparedRequest:
    """{"type": "image", "url": "https://…"} or {"type": "image", "data": "base64…", "media_type": "image/png"}.

    An optional `text` precedes the image; `detail` is "low", "high" or "auto".
    """
    content = _content(messages)
    if "url" in content:
        url = _field(content, "url", str)
    else:
        url = f"data:{content.get('media_type') or 'image/png'};base64,{_field(content, 'data', str)}"
    image_url: dict[str, Any] = {"url": url}
    if content.get("detail"):
        image_url["detail"] = content["detail"]
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": image_url}]
    if content.get("text"):
        parts.insert(0, {"type": "text", "text": str(content["text"])})
    messages[-1] = _with_content(messages[-1], parts)
    return config, schema, messages
