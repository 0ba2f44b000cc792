"""Chat completions: from a request's body to what is answered, in pieces like a model's tokens."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from codelab_local.demo_model import assistant, conversation
from codelab_local.demo_model.conversation import Conversation
from codelab_local.demo_model.instance import instance
from codelab_local.demo_model.schemas import Tool, TurnSchema, fill_turn, resolve, schema_in_text, turn_schema

MODEL = "demonstration"
FINGERPRINT = "fp_demonstration"
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
# A word with its leading space, a run of punctuation, white space: what tokens look like.
_PIECE = re.compile(r"\s?[^\W_]{1,10}|[^\w\s]{1,3}|_+|\s+")
_MANY = 10_000
_MAX_CHOICES = 8


class BadRequest(Exception):
    """The request cannot be answered; `param` names the offending field as OpenAI does."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status = param, code, status

    def body(self) -> dict[str, Any]:
        error = {"message": str(self), "type": "invalid_request_error", "param": self.param, "code": self.code}
        return {"error": error}


@dataclass(frozen=True)
class Answer:
    """Text, or function calls (name, arguments as JSON text), or both."""

    text: str = ""
    functions: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class ChatRequest:
    """A validated request."""

    messages: list[dict[str, Any]]
    model: str
    stream: bool
    include_usage: bool
    choices: int
    max_tokens: int | None
    format: str
    schema: Any
    functions: tuple[Tool, ...]
    forced: str
    """The function that must be called; `*` for any of them; empty for none."""

    @classmethod
    def parse(cls, body: bytes) -> "ChatRequest":
        """Raises BadRequest."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise BadRequest("We could not parse the JSON body of your request.") from None
        if not isinstance(data, dict):
            raise BadRequest("The body of the request must be a JSON object.")
        kind, schema = _format(data.get("response_format"))
        functions = _functions(data.get("tools"))
        stream = _optional(data, "stream", bool, False)
        options = data.get("stream_options")
        if options is not None and not stream:
            raise BadRequest("'stream_options' is only allowed when 'stream' is enabled.", "stream_options")
        if options is not None and not isinstance(options, dict):
            raise BadRequest("'stream_options' must be an object.", "stream_options")
        choices = _optional(data, "n", int, 1)
        if not 1 <= choices <= _MAX_CHOICES:
            raise BadRequest(f"'n' must be between 1 and {_MAX_CHOICES}.", "n")
        limit = _optional(data, "max_completion_tokens", int, None) or _optional(data, "max_tokens", int, None)
        if limit is not None and limit < 1:
            raise BadRequest("'max_tokens' must be at least 1.", "max_tokens")
        return cls(
            messages=_messages(data.get("messages")),
            model=_optional(data, "model", str, MODEL) or MODEL,
            stream=stream,
            include_usage=bool(options and options.get("include_usage")),
            choices=choices,
            max_tokens=limit,
            format=kind,
            schema=schema,
            functions=functions,
            forced=_forced(data.get("tool_choice"), functions),
        )


def _optional(data: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(f"Invalid type for '{name}': expected {kind.__name__}.", name, "invalid_type")
    return value


def _messages(messages: Any) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise BadRequest(
            "'messages' must be a list with at least one message.", "messages", "missing_required_parameter"
        )
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise BadRequest(f"'messages[{index}].role' must be one of {sorted(_ROLES)}.", f"messages[{index}].role")
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            raise BadRequest(f"'messages[{index}].content' must be a string or a list.", f"messages[{index}].content")
        calls = message.get("tool_calls")
        if calls is not None and not (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)):
            raise BadRequest(f"'messages[{index}].tool_calls' must be a list.", f"messages[{index}].tool_calls")
        if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise BadRequest(f"'messages[{index}].tool_call_id' is missing.", f"messages[{index}].tool_call_id")
    return messages


def _format(wanted: Any) -> tuple[str, Any]:
    if wanted is None:
        return "text", None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind in {"text", "json_object"}:
        return str(kind), None
    if kind != "json_schema":
        raise BadRequest("'response_format.type' must be text, json_object or json_schema.", "response_format.type")
    described = wanted.get("json_schema")
    if not isinstance(described, dict) or not isinstance(described.get("name"), str):
        raise BadRequest("'response_format.json_schema.name' is missing.", "response_format.json_schema.name")
    schema = described.get("schema")
    if not isinstance(schema, dict):
        raise BadRequest(
            "'response_format.json_schema.schema' must be an object.", "response_format.json_schema.schema"
        )
    return "json_schema", schema


def _functions(tools: Any) -> tuple[Tool, ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise BadRequest("'tools' must be a list.", "tools", "invalid_type")
    functions = []
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequest(f"'tools[{index}].function.name' is missing.", f"tools[{index}].function.name")
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(parameters, dict):
            raise BadRequest(
                f"'tools[{index}].function.parameters' must be an object.", f"tools[{index}].function.parameters"
            )
        functions.append(Tool(function["name"], parameters, parameters))
    return tuple(functions)


def _forced(choice: Any, functions: Sequence[Tool]) -> str:
    if choice in (None, "auto", "none"):
        return "-" if choice == "none" else ""
    if not functions:
        raise BadRequest("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")
    if choice == "required":
        return "*"
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not any(tool.name == name for tool in functions):
        raise BadRequest(f"Tool choice '{name}' not found in 'tools'.", "tool_choice")
    return str(name)


def answer(request: ChatRequest) -> Answer:
    """What the assistant says to this request, in the form that was asked for."""
    talk = conversation.read(request.messages)
    schema = request.schema
    if request.format == "json_object":
        schema = schema_in_text([*talk.system, *talk.earlier, talk.question])
        if schema is None:
            said = assistant.answer(talk, ()).message
            return Answer(_json({"model": MODEL, "message": said}))
    if request.functions and request.forced != "-":
        called = _called(request, talk)
        if called is not None:
            return called
    if schema is None:
        return Answer(assistant.answer(talk, ()).message)
    return Answer(_json(_structured(schema, talk)))


def _structured(schema: Any, talk: Conversation) -> Any:
    turn = turn_schema(schema)
    if turn is None:
        return instance(schema, partial(assistant.prefer, talk))
    return _turn(turn, talk)


def _turn(turn: TurnSchema, talk: Conversation) -> dict[str, Any]:
    reply = assistant.answer(talk, turn.tools, turn.max_calls)
    return fill_turn(turn, reply.message, [arguments for _, arguments in reply.calls], assistant.title(talk))


def _called(request: ChatRequest, talk: Conversation) -> Answer | None:
    """The answer as function calls, or None when text is the better answer."""
    for function in request.functions:
        if request.forced in {"", "*", function.name} and (
            function.name == "generate_response" or turn_schema(function.parameters) is not None
        ):
            return Answer(functions=[(function.name, _json(_structured(function.parameters, talk)))])
    if request.forced in {"", "*"}:
        reply = assistant.answer(talk, request.functions)
        if reply.calls:
            return Answer(reply.message, [(tool.name, _json(arguments)) for tool, arguments in reply.calls])
    if request.forced == "":
        if talk.calls:
            return (
                None
                if any(call.status != "completed" for call in talk.calls)
                else Answer(assistant.answer(talk, ()).message)
            )
        fitting = _fitting(request.functions, talk.question)
        return None if fitting is None else Answer(functions=[(fitting.name, _json(_plausible(fitting, talk)))])
    fitting = next((tool for tool in request.functions if tool.name == request.forced), None)
    fitting = fitting or _fitting(request.functions, talk.question) or request.functions[0]
    return Answer(functions=[(fitting.name, _json(_plausible(fitting, talk)))])


def _fitting(functions: Sequence[Tool], question: str) -> Tool | None:
    """The function whose name shares most words with the question."""
    words = set(re.findall(r"[a-z]{3,}", question.lower()))

    def shared(tool: Tool) -> int:
        spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", tool.name).lower()
        return len(words & set(re.findall(r"[a-z]{3,}", spaced)) - {"get", "the", "and"})

    best = max(functions, key=shared)
    return best if shared(best) else None


def _plausible(tool: Tool, talk: Conversation) -> Any:
    """Arguments for a function nobody here knows: names and numbers of the question where they fit."""
    quoted = re.findall(r"[\"«“]([^\"»”]+)[\"»”]", talk.question)
    named = re.findall(r"(?<=\s)[A-ZА-ЯЁ][\w-]+(?:\s[A-ZА-ЯЁ][\w-]+)*", talk.question)
    texts = iter([*quoted, *named])

    def suggest(name: str, choices: tuple[Any, ...]) -> Any:
        return assistant.prefer(talk, name, choices) if choices else next(texts, None)

    parameters = resolve(tool.parameters, tool.root)
    return instance(parameters | {key: tool.root[key] for key in ("$defs",) if key in tool.root}, suggest)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pieces(text: str) -> list[str]:
    """`text` cut like tokens; of a very long one the rest comes in ever larger pieces."""
    if len(text) <= 8 * _MANY:
        return _PIECE.findall(text)
    cut = _PIECE.findall(text[: 4 * _MANY])
    start, size = len("".join(cut)), 16
    while start < len(text):
        cut.append(text[start : start + size])
        start += size
        size = min(4_096, size + 8)
    return cut


def tokens(text: str) -> int:
    """An estimate of a text's tokens: about four Latin or two and a half other characters each."""
    other = (len(text.encode("utf-8", "replace")) - len(text)) if not text.isascii() else 0
    other = min(other, len(text))
    return (len(text) - other + 3) // 4 + (other * 2 + 4) // 5


def prompt_tokens(request: ChatRequest) -> int:
    count = 3
    for message in request.messages:
        count += 4 + tokens(conversation.text_of(message.get("content")))
        if message.get("tool_calls"):
            count += tokens(_json(message["tool_calls"]))
    for part in (request.schema, [tool.parameters for tool in request.functions]):
        if part:
            count += tokens(_json(part))
    return count
