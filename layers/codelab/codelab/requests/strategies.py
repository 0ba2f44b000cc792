"""From a schema and messages to the body of a chat completion, and from its answer back to JSON text.

- native: the schema goes into `response_format`.
- tool: the schema is the parameter list of a function that the model is told to call.
- json: the schema stands in the system prompt and the provider only promises some JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .config import RequestConfig
from .profiles import Mode, Profile
from .scanner import mend

TOOL_NAME = "generate_response"
_SCHEMA_NAME = "answer"
_TOOL_HINT = f"Answer only by calling the function {TOOL_NAME}, once."
_JSON_HINT = (
    "Answer with one JSON object and nothing else: no introduction, no code fence. "
    "The JSON object must validate against this JSON Schema:\n"
)

Body = dict[str, Any]


def build(
    mode: Mode,
    profile: Profile,
    config: RequestConfig,
    schema: Mapping[str, Any],
    messages: list[dict[str, Any]],
    *,
    streaming: bool,
    refused: Collection[str] = (),
) -> Body:
    """The request body. Messages keep their order; what a strategy adds goes to the first system message, so that a
    conversation's prefix stays the same from call to call and providers' prompt caches hit."""
    body: Body = {"model": config.model, "messages": messages}
    if mode.strategy == "native":
        described: Body = {"name": _SCHEMA_NAME, "schema": schema}
        if mode.strict:
            described["strict"] = True
        body["response_format"] = {"type": "json_schema", "json_schema": described}
    elif mode.strategy == "tool":
        function: Body = {"name": TOOL_NAME, "description": "Give the answer.", "parameters": schema}
        if mode.strict:
            function["strict"] = True
        body["tools"] = [{"type": "function", "function": function}]
        if not mode.forced:
            body["tool_choice"] = "auto"
        elif profile.forces_by_name:
            body["tool_choice"] = {"type": "function", "function": {"name": TOOL_NAME}}
        else:
            body["tool_choice"] = "required"
        body["messages"] = _instructed(messages, _TOOL_HINT)
    else:
        if mode.typed:
            body["response_format"] = {"type": "json_object"}
        body["messages"] = _instructed(
            messages, _JSON_HINT + json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        )
    if streaming:
        body["stream"] = True
        if profile.stream_usage:
            body["stream_options"] = {"include_usage": True}
    for name in ("temperature", "top_p", "seed", "reasoning_effort"):
        value = getattr(config, name)
        if value is not None:
            body[name] = value
    if config.max_output_tokens is not None:
        body[profile.max_tokens_field] = config.max_output_tokens
    if config.n > 1:
        body["n"] = config.n
    if config.thinking is not None:
        body.update(profile.thinking_body.get(config.thinking, {}))
    for feature in refused:
        if feature.startswith("parameter:"):
            name = feature.removeprefix("parameter:")
            value = body.pop(name, None)
            if name == "max_completion_tokens" and value is not None:
                body["max_tokens"] = value
    body.update(config.extra_body)
    return body


def _instructed(messages: list[dict[str, Any]], hint: str) -> list[dict[str, Any]]:
    first = messages[0] if messages else {}
    if first.get("role") in ("system", "developer"):
        content = first.get("content")
        if isinstance(content, list):
            return [{**first, "content": [*content, {"type": "text", "text": hint}]}, *messages[1:]]
        return [{**first, "content": f"{content}\n\n{hint}" if content else hint}, *messages[1:]]
    return [{"role": "system", "content": hint}, *messages]


class Choice:
    """What has been received of one of the `n` answers."""

    __slots__ = ("_arguments", "_content", "_refusal", "_tool", "finish_reason", "tool_name")

    def __init__(self) -> None:
        self._content: list[str] = []
        self._arguments: list[str] = []
        self._refusal: list[str] = []
        self._tool: Any = None  # the index of the call that is read; others are not ours
        self.tool_name: str | None = None
        self.finish_reason: str | None = None

    def take(self, choice: Mapping[str, Any], tool: bool) -> str:
        """Take one chunk's (or the whole answer's) choice; give the new text of the answer."""
        reason = choice.get("finish_reason")
        if reason:
            self.finish_reason = reason
        delta = choice.get("delta") or choice.get("message")
        if not delta:
            return ""
        content = delta.get("content")
        if content:
            if not isinstance(content, str):  # Mistral's list of parts
                content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
            self._content.append(content)
        if delta.get("refusal"):
            self._refusal.append(str(delta["refusal"]))
        if not tool:
            return content or ""
        calls: Iterable[Any] = delta.get("tool_calls") or ()
        text = ""
        for call in calls:
            index = call.get("index", 0)
            function = call.get("function") or {}
            if self._tool is None:
                self._tool = index
            if index != self._tool:
                continue
            if function.get("name"):
                self.tool_name = (self.tool_name or "") + function["name"]
            arguments = function.get("arguments")
            if arguments:
                if not isinstance(arguments, str):  # Ollama's native shape leaks through some proxies
                    arguments = json.dumps(arguments)
                self._arguments.append(arguments)
                text += arguments
        return text

    @property
    def called(self) -> bool:
        """Whether the model called a function."""
        return self._tool is not None

    @property
    def refusal(self) -> str:
        return "".join(self._refusal)

    @property
    def content(self) -> str:
        return mend("".join(self._content))

    @property
    def arguments(self) -> str:
        return mend("".join(self._arguments))

    def text(self, tool: bool) -> str:
        """The answer: the arguments of the call or, when the model did not call, what it said instead."""
        return self.arguments if tool and self.called else self.content
