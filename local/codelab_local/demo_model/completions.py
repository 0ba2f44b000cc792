"""Chat completions: from a request's body to the answer, whole or in pieces like a model's tokens."""

import itertools
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from codelab_local.demo_model import conversation, player
from codelab_local.demo_model.conversation import ChatHistory
from codelab_local.demo_model.instance import instance

MODEL = "demonstration"
#: Properties of unknown schemas that hold a text for the user.
_SPOKEN = ("message", "answer", "text", "content", "reply", "response")
#: The most pieces of a text, roughly; a longer text has larger pieces.
_PIECES = 10_000
#: Words of a question that are its title.
_TITLE_WORDS = 8
_ids = itertools.count(1)


class _Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class _Function(BaseModel):
    name: str
    parameters: dict[str, Any] = {}


class _Tool(BaseModel):
    function: _Function


class _JsonSchema(BaseModel):
    name: str
    definition: dict[str, Any] = Field(alias="schema")


class _Format(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None


class Request(BaseModel):
    """The part of OpenAI's request that matters here."""

    messages: list[_Message] = Field(min_length=1)
    model: str = MODEL
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    n: int = Field(1, ge=1, le=8)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    response_format: _Format | None = None
    tools: list[_Tool] = []
    tool_choice: str | dict[str, Any] = "auto"

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


class BadRequest(Exception):
    """The request cannot be answered; `param` names the field as OpenAI does."""

    def __init__(self, message: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.status = param, status


def parsed(body: bytes) -> Request:
    """Parse the body of a request. Raises BadRequest."""
    try:
        return Request.model_validate_json(body, strict=True)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        names = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise BadRequest(first["msg"], names.removeprefix(".") or None) from None


@dataclass
class ModelAnswer:
    """An answer: its parts in order, as (field of a delta, text). The arguments of a call are `call:NAME`."""

    parts: list[tuple[str, str]]

    def pieces(self, limit: int | None) -> Iterator[tuple[int, str, str]]:
        """At most `limit` pieces, as (number of the part, its field, the text)."""
        numbered_pieces = (
            (number, name, piece) for number, (name, text) in enumerate(self.parts) for piece in pieces(text)
        )
        return itertools.islice(numbered_pieces, limit)


def answer(request: Request) -> ModelAnswer:
    """The answer to a request, in the requested form."""
    talk = conversation.read([message.model_dump() for message in request.messages])
    functions = {tool.function.name: tool.function.parameters for tool in request.tools}
    if functions and request.tool_choice != "none":
        return _by_functions(functions, request.tool_choice, talk)
    if request.response_format is None or request.response_format.type == "text":
        return ModelAnswer(_said(player.answer(talk, set())))
    json_schema = request.response_format.json_schema
    return _structured(json_schema.definition if json_schema else _schema_in(talk.system), talk)


def _by_functions(functions: dict[str, Any], choice: str | dict[str, Any], talk: ChatHistory) -> ModelAnswer:
    required_name = choice["function"]["name"] if isinstance(choice, dict) else ""
    for name in [required_name] if required_name else functions:
        if name not in functions:
            raise BadRequest(f"Tool choice '{name}' not found in 'tools'.", "tool_choice")
        if name == "generate_response" or _tools_of(functions[name]) is not None:  # the answer itself is asked for
            whole = _structured(functions[name], talk)
            return ModelAnswer([(f"call:{name}" if part == "content" else part, text) for part, text in whole.parts])
    reply = player.answer(talk, {*functions})
    calls = [(name, call_arguments) for name, call_arguments in reply.calls if required_name in ("", name)]
    if not calls and choice != "auto":
        calls = [(required_name or next(iter(functions)), {})]
    complete_calls = [
        (name, instance(functions[name], call_arguments, _wishes(talk))) for name, call_arguments in calls
    ]
    return ModelAnswer([*_said(reply), *((f"call:{name}", _json(arguments)) for name, arguments in complete_calls)])


def _said(reply: player.Reply) -> list[tuple[str, str]]:
    parts = [("reasoning_content", reply.think), ("refusal", reply.refuse), ("content", reply.say)]
    return [(name, text) for name, text in parts if text]


def _structured(schema: Any, talk: ChatHistory) -> ModelAnswer:
    """An agent's turn (`message` and `calls`; `agent` if one is to be chosen), or an instance of any other schema."""
    tools = _tools_of(schema)
    reply = player.answer(talk, tools or set())
    names = schema.get("properties", {}) if isinstance(schema, dict) else {}
    preset: dict[str, Any] = {}
    if tools is not None and isinstance(names.get("agent"), dict):  # chosen before anything is said
        agents = names["agent"].get("enum", ())
        preset["agent"] = next((wish for wish in _wishes(talk) if wish in agents), "universal")
    preset |= {name: reply.say for name in _SPOKEN if name in names}
    if "title" in names:
        words = talk.question.split()
        preset["title"] = " ".join(words[:_TITLE_WORDS]) + "…" * (len(words) > _TITLE_WORDS)
    if tools is None:
        return ModelAnswer([("content", _json(instance(schema, preset or None, _wishes(talk))))])
    preset["calls"] = [{"_tool": tool, **arguments} for tool, arguments in reply.calls]
    reply.say = "" if reply.refuse else _json(instance(schema, preset))
    return ModelAnswer(_said(reply))


def _wishes(talk: ChatHistory) -> tuple[str, ...]:
    """Preferred values where a schema leaves a choice: an agent that suits the question, or a word of it."""
    scenario, _ = player.chosen(talk.question)
    return (*scenario.data.get("agents", ()), "universal", "ask", *re.findall(r"[\w-]+", talk.question.lower()))


def _tools_of(schema: Any) -> set[str] | None:
    """The tools that a turn may call; None if `schema` is not a turn's."""
    if not isinstance(schema, dict) or not {"message", "calls"} <= schema.get("properties", {}).keys():
        return None
    return {*_tags(schema)}


def _tags(node: Any) -> Iterator[str]:
    tag = node.get("_tool") if isinstance(node, dict) else None
    if isinstance(tag, dict):
        yield from tag.get("enum", [tag.get("const")])
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _tags(inner)


def _schema_in(text: str) -> Any:
    """The last JSON object in a prompt, which is the schema of the answer."""
    schema, at = {"type": "object"}, text.find("{")
    while at != -1:
        try:
            schema, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        at = text.find("{", end)
    return schema


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pieces(text: str) -> list[str]:
    """`text` cut like tokens: words with the space before them, punctuation, white space."""
    size = max(10, len(text) // _PIECES)
    return re.findall(rf"\s?\w{{1,{size}}}|[^\w\s]{{1,{size}}}|\s{{1,{size}}}", text)


def _head(request: Request, kind: str) -> dict[str, Any]:
    number, now = next(_ids), int(time.time())
    return {"id": f"chatcmpl-demonstration-{number}", "object": kind, "created": now, "model": request.model,
            "system_fingerprint": "fp_demonstration"}  # fmt: skip


def _usage(request: Request, completion_tokens: int) -> dict[str, Any]:
    """The prompt's tokens are an estimate: four characters each."""
    prompt_tokens = len(request.model_dump_json(include={"messages", "response_format", "tools"})) // 4
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _call(index: int, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_demo_{next(_ids)}", "type": "function", "function": function}


def _finish(answer: ModelAnswer, limit: int | None) -> str:
    if limit is not None and len(list(answer.pieces(limit + 1))) > limit:
        return "length"
    return "tool_calls" if any(name.startswith("call:") for name, _ in answer.parts) else "stop"


def whole(request: Request, answer: ModelAnswer) -> dict[str, Any]:
    """The body of a `chat.completion`."""
    limit = request.limit
    answer_pieces = list(answer.pieces(limit))
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    for number, (name, _) in enumerate(answer.parts):
        text = "".join(piece for part, _, piece in answer_pieces if part == number)
        if name.startswith("call:"):
            calls = message.setdefault("tool_calls", [])
            calls.append(_call(len(calls), name.removeprefix("call:"), text))
        else:
            message[name] = text
    finish = _finish(answer, limit)
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": finish} for index in range(request.n)
    ]
    usage = _usage(request, len(answer_pieces) * request.n)
    return {**_head(request, "chat.completion"), "choices": choices, "usage": usage}


def events(request: Request, answer: ModelAnswer) -> Iterator[bytes]:
    """The events of the stream, one for each piece."""
    head = _head(request, "chat.completion.chunk")
    limit = request.limit
    numbers = [number for number, (name, _) in enumerate(answer.parts) if name.startswith("call:")]
    started_parts, piece_count = set(), 0

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choices = [{"index": index, "delta": delta, "finish_reason": finish} for index in range(request.n)]
        return b"".join(
            b"data: " + _json({**head, "choices": [choice]}).encode("utf-8", "replace") + b"\n\n" for choice in choices
        )

    yield event({"role": "assistant", "content": ""})
    for number, name, piece in answer.pieces(limit):
        piece_count += 1
        if number not in numbers:
            yield event({name: piece})
        elif number in started_parts:
            yield event({"tool_calls": [{"index": numbers.index(number), "function": {"arguments": piece}}]})
        else:
            started_parts.add(number)
            yield event({"tool_calls": [_call(numbers.index(number), name.removeprefix("call:"), piece)]})
    yield event({}, _finish(answer, limit))
    if (request.stream_options or {}).get("include_usage"):
        usage = _usage(request, piece_count * request.n)
        yield b"data: " + _json({**head, "choices": [], "usage": usage}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"
