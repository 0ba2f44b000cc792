"""Builds the body of a chat completion from a schema and messages, and reads the JSON text from its answer.

- native: the schema goes into `response_format`, and its form into the prompt if the provider does not show it.
- tool: the schema describes the parameters of a function, and the prompt instructs the model to call it.
- json: the schema is part of the system prompt, and the provider guarantees no more than a JSON object.
- calls: the answer's text is what the model writes, and its calls are calls of functions (see `functions`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

from codelab.llm.config import RequestConfig
from codelab.llm.encoding import TextMessage
from codelab.llm.finish import finish_error
from codelab.llm.form import Form
from codelab.llm.functions import Functions, excluded_keywords_of
from codelab.llm.modes import Mode, past_reasoning
from codelab.llm.native_calls import CallAssembler, CallPiece, NativeCall
from codelab.llm.past_reasoning import Reasoning, ReasoningCollector
from codelab.llm.profiles import Profile
from codelab.llm.prompt_cache import cache_fields
from codelab.llm.reasoning import Separator
from codelab.llm.scanner import Mender, mend
from codelab.llm.text_calls import TextCalls

TOOL_NAME = "generate_response"
_SCHEMA_NAME = "answer"
_TOOL_HINT = f"Answer only by calling the function {TOOL_NAME}, once."
_JSON_HINT = (
    "Answer with one JSON object and nothing else: no introduction, no code fence. "
    "The JSON object must validate against this JSON Schema:\n"
)

_CALLS_HINT = (
    "Write what belongs into `{text}` as plain text, and call a function for each item of `calls`. "
    "Write no JSON for either."
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
    unsupported: Collection[str] = (),
    form: Form | None = None,
    functions: Functions | None = None,
    repeats_end: bool = False,
) -> Body:
    """The body of the call.

    form: of the answer, for a model that does not see the schema. functions: for `calls`. repeats_end: see
    `cache_fields`. A strategy adds its instructions to the first system message, so that the beginning of a
    conversation stays the same from call to call and providers can cache it.
    """
    body: Body = {"model": config.model, "messages": messages if form is None else _formed(messages, form)}
    if mode.strategy == "native":
        json_schema: Body = {"name": _SCHEMA_NAME, "schema": schema}
        if mode.strict:
            json_schema["strict"] = True
        body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    elif mode.strategy == "tool":
        function: Body = {"name": TOOL_NAME, "description": "Give the answer.", "parameters": schema}
        if mode.strict:
            function["strict"] = True
        body["tools"] = [{"type": "function", "function": function}]
        if not mode.is_forced:
            body["tool_choice"] = "auto"
        elif profile.forces_by_name:
            body["tool_choice"] = {"type": "function", "function": {"name": TOOL_NAME}}
        else:
            body["tool_choice"] = "required"
        body["messages"] = _instructed(body["messages"], _TOOL_HINT)
    elif mode.strategy == "calls":
        assert functions is not None, "the mode is only offered for a schema that has functions"
        body["tools"] = functions.definitions(mode, excluded_keywords_of(unsupported))
        body["tool_choice"] = "auto"
        body["parallel_tool_calls"] = True  # off by default in llama.cpp
        if past_reasoning(profile, config) != "dropped":
            body.update(profile.reasoning_body)
        body["messages"] = _instructed(messages, _CALLS_HINT.format(text=functions.text_field))
    else:
        if mode.json_object:
            body["response_format"] = {"type": "json_object"}
        body["messages"] = _instructed(
            messages, _JSON_HINT + json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        )
    if profile.caching is not None and "caching" not in unsupported:
        body |= cache_fields(profile.caching, config.model, body["messages"], repeats_end=repeats_end)
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
    for feature in unsupported:
        if feature.startswith("parameter:"):
            name = feature.removeprefix("parameter:")
            value = body.pop(name, None)
            if name == "max_completion_tokens" and value is not None:
                body["max_tokens"] = value
    body.update(config.extra_body)
    return body


def _instructed(messages: list[dict[str, Any]], hint: str) -> list[dict[str, Any]]:
    first_message = messages[0] if messages else {}
    if first_message.get("role") in ("system", "developer"):
        content = first_message.get("content")
        if isinstance(content, list):
            return [{**first_message, "content": [*content, {"type": "text", "text": hint}]}, *messages[1:]]
        return [{**first_message, "content": f"{content}\n\n{hint}" if content else hint}, *messages[1:]]
    return [{"role": "system", "content": hint}, *messages]


def _formed(messages: list[dict[str, Any]], form: Form) -> list[dict[str, Any]]:
    """The messages with the form in the first system message."""
    first_message = messages[0] if messages else {}
    if first_message.get("role") not in ("system", "developer"):
        return [_with_form("system", "", form), *messages]
    content = first_message.get("content")
    if isinstance(content, list):
        catalogue_parts = [{"type": "text", "text": form.catalogue}] if form.catalogue else []
        return [
            {**first_message, "content": [*catalogue_parts, *content, {"type": "text", "text": form.answer}]},
            *messages[1:],
        ]
    if first_message.keys() != {"role", "content"}:
        return [{**first_message, "content": form.added_to(str(content or ""))}, *messages[1:]]
    return [_with_form(str(first_message["role"]), str(content or ""), form), *messages[1:]]


@lru_cache(32)
def _with_form(role: str, prompt: str, form: Form) -> TextMessage:
    """Kept, because it is long and the same in every step of a session."""
    return TextMessage(role, form.added_to(prompt))


def _details(parts: Any) -> str:
    """The text of `reasoning_details`: OpenAI's summaries as OpenRouter passes them on. Encrypted parts have none."""
    texts = [
        part.get("summary") or part.get("text")
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict)
    ]
    return "".join(text for text in texts if isinstance(text, str))


def arguments_in(value: Any) -> Any:
    """The arguments of the function if `value` is a call of it that the model wrote as text, else `value`.

    Qwen2.5-Coder writes its calls so: llama.cpp neither reads them nor enforces `tool_choice` for it.
    """
    if isinstance(value, dict) and value.keys() == {"name", "arguments"} and value["name"] == TOOL_NAME:
        return value["arguments"]
    return value


_NO_CALL = -1


class Choice:
    """One of the `n` answers, as far as received. text_calls: finds a call that its text is, with `calls`."""

    __slots__ = ("_arguments", "_assembler", "_by_tool", "_content", "_mender", "_message", "_reasoning", "_refusal",
                 "_tool", "call_pieces", "finish_reason", "mode", "text_calls", "thoughts", "tool_name")  # fmt: skip

    def __init__(self, mode: Mode, text_calls: TextCalls | None = None) -> None:
        self.text_calls = text_calls
        #: How the model was asked.
        self.mode = mode
        self._by_tool = mode.strategy == "tool"
        #: The model's thoughts, in pieces. Readers remove what they have read.
        self.thoughts: list[str] = []
        #: The arguments of its calls, with the strategy `calls`. Readers remove what they have read.
        self.call_pieces: list[CallPiece] = []
        self._assembler = CallAssembler(self.thoughts, self.call_pieces) if mode.strategy == "calls" else None
        self._content = Separator(
            self.thoughts, prose=mode.strategy in ("tool", "json"), is_text=self._assembler is not None
        )
        self._arguments = Separator(self.thoughts)
        self._reasoning = ReasoningCollector()
        self._mender = None if self._assembler is None else Mender()  # the scanner of JSON mends what it shows
        self._refusal: list[str] = []
        self._message: Mapping[str, Any] | None = None  # beside empty deltas: all of the answer so far
        self._tool: int | None = None  # the index of the call that is read; others are ignored
        self.tool_name: str | None = None
        self.finish_reason: str | None = None

    def take(self, choice: Mapping[str, Any]) -> str:
        """Add the choice of one chunk, or of the whole answer; return the new text of the answer."""
        reason = choice.get("finish_reason")
        if reason and (self.finish_reason is None or finish_error(self.finish_reason) is None):
            self.finish_reason = str(reason)  # of several, the first that reports an error
        delta = choice.get("delta")
        if "message" in choice:
            if delta:
                self._message = choice["message"]
            else:
                delta = choice["message"]
        if not delta:
            return ""
        content = delta.get("content")
        text = ""
        if content:
            content = content if isinstance(content, str) else self._joined(content)
            text = self._content.feed(content if self._mender is None else self._mender.feed(content))
            if self.text_calls is not None:
                text = self.text_calls.feed(text)
            if self.finish_reason is not None and not reason and content.strip():
                self._go_on()
            if len(delta) == 1 and not self._by_tool:
                return text
        thoughts = delta.get("reasoning_content") or delta.get("reasoning")
        if thoughts and isinstance(thoughts, str):
            self.thoughts.append(thoughts)
        elif "reasoning_details" in delta:
            self.thoughts.append(_details(delta["reasoning_details"]))
        if delta.get("refusal"):
            self._refusal.append(str(delta["refusal"]))
        calls: Iterable[Any] = delta.get("tool_calls") or ()
        if calls and self.finish_reason is not None and not reason:
            self._go_on()
        if self._assembler is not None:
            self._reasoning.take(delta)
            for call in calls:
                self._assembler.take(call, is_whole=delta is choice.get("message"))
        if not self._by_tool:
            return text
        return "".join([self._call(call) for call in calls])

    def _go_on(self) -> None:
        """Take back a finish reason that more of the answer follows: it has to come again, behind all of it."""
        if finish_error(self.finish_reason) is None:
            self.finish_reason = None

    def _joined(self, parts: Any) -> str:
        """The text of a list of parts. Mistral sends thoughts as parts of such a list."""
        texts: list[str] = []
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "thinking":
                thinking = part.get("thinking")
                self.thoughts.append(thinking if isinstance(thinking, str) else self._joined(thinking))
            elif isinstance(part, dict):
                texts.append(part.get("text") or "")
        return "".join(texts)

    def _call(self, call: Mapping[str, Any]) -> str:
        """Add a piece of a function call; return the new text of the answer."""
        function = call.get("function") or {}
        name, index = function.get("name"), call.get("index") or 0
        if self._tool is None:
            self._tool = index
        elif name and self._arguments.complete:
            self._tool = _NO_CALL  # another call: some providers give all calls the same index, or none
        if index != self._tool:
            return ""
        if name and name != self.tool_name:  # some providers repeat the name in every piece
            self.tool_name = (self.tool_name or "") + name
        arguments = function.get("arguments")
        if not arguments:
            return ""
        # Some proxies pass Ollama's native arguments through, which are objects.
        return self._arguments.feed(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def finish(self) -> str:
        """End the answer; return the rest of its text."""
        text = ""
        if self._message and not (self.called or self._content.begun):
            text = self.take({"message": self._message, "finish_reason": self.finish_reason})
        if self._assembler is not None:
            self._assembler.finish()
        content = "" if self._mender is None else self._content.feed(self._mender.finish())
        content, arguments = content + self._content.finish(), self._arguments.finish()
        if self.text_calls is not None:
            content = self.text_calls.feed(content) + self.text_calls.finish(has_calls=bool(self._assembler))
        return text + (arguments if self._by_tool else content)

    @property
    def called(self) -> bool:
        """Whether the model called a function."""
        return self._tool is not None or bool(self._assembler)

    @property
    def calls(self) -> list[NativeCall]:
        """The calls of functions, with the strategy `calls`; or the one that the model has written as text."""
        if self._assembler is None:
            return []
        text_call = None if self.text_calls is None else self.text_calls.call
        return self._assembler.calls if text_call is None else [text_call]

    @property
    def is_text_call(self) -> bool:
        """Whether the model has written its call as text. Known after `finish`."""
        return self.text_calls is not None and self.text_calls.call is not None

    @property
    def reasoning(self) -> Reasoning:
        """The reasoning before native calls as it goes back with them; empty with another strategy."""
        calls = tuple(call.reasoning for call in self.calls)
        return Reasoning(self._reasoning.fields if calls else {}, calls)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither text nor a call."""
        return not (self.text.strip() or self.calls)

    @property
    def retracted(self) -> bool:
        """Whether returned text turned out to be a thought."""
        return self._content.retracted or self._arguments.retracted

    @property
    def refusal(self) -> str:
        return "".join(self._refusal)

    @property
    def text(self) -> str:
        """The answer: the arguments of the call or, if the model made none, its text."""
        has_call = self._by_tool and self.called
        text = (self._arguments if has_call else self._content).text
        if self.text_calls is not None and self.text_calls.call is not None:
            text = text.removesuffix(self.text_calls.held)
        return mend(text)
