"""Anthropic's Messages API (`POST /v1/messages`), behind the form of the chat completions API.

What differs: the system prompt is a field, tools take and return objects, an answer needs an output limit, roles take
turns, results follow their calls at once, and what the provider is to cache must be marked.
https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from codelab.llm.client.answers import events, foreign_answer, read_object
from codelab.llm.encoding import encode
from codelab.llm.errors import InvalidRequest
from codelab.llm.history import past_arguments

Json = dict[str, Any]

_NAME = "Anthropic's Messages API"
#: The fields of a chat completion that are translated here, or that this API does not have (`seed`). All others are
#: sent as they are.
_TRANSLATED = frozenset(
    {"model", "messages", "stream", "stream_options", "response_format", "tools", "tool_choice", "parallel_tool_calls",
     "seed", "n", "max_tokens", "max_completion_tokens", "reasoning_effort", "thinking", "output_config",
     "prompt_cache_key"}
)  # fmt: skip
#: Models that think within a budget of tokens. Later ones adapt it, and refuse a budget.
_BUDGETED = re.compile(r"claude-(3|(opus|sonnet|haiku)-4($|[-@.](?![6-9]($|\D))))", re.IGNORECASE)
_BUDGETS: Mapping[str | None, int] = {"low": 2_048, "medium": 8_192, "high": 24_576, None: 4_096}
#: Models that always think.
_ALWAYS_THINKING = re.compile(r"claude-(fable|mythos|opus-5[-.][5-9])", re.IGNORECASE)
_OFF = frozenset({"none", "minimal"})
#: The output limit (tokens) where the Request has none: the most that all models have, and those of the third series.
_ANSWER_TOKENS, _OLD_ANSWER_TOKENS = 32_000, 4_096
_OLD = re.compile(r"claude-3-(?!7)", re.IGNORECASE)

#: The types of blocks that are thoughts; one is encrypted.
_THOUGHTS = ("thinking", "redacted_thinking")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_NO_ID = re.compile(r"[^\w-]", re.ASCII)
#: A conversation must begin and end with the user's side.
_OPENING, _CLOSING = "Begin.", "Continue."

_FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
                   "pause_turn": "interrupted (pause_turn)"}  # fmt: skip


class MessagesApi:
    """See `Api`."""

    base_url = "https://api.anthropic.com/v1"
    path = "/messages"
    models_path = "/models"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """See `Api.encode`."""
        return encode(_request(body))

    def chunks(self, pieces: Iterator[bytes], *, streams: bool) -> Iterator[list[Json]]:
        """See `Api.chunks`."""
        if not streams:
            yield [_whole(read_object(pieces))]
            return
        stream = _Stream()
        for batch in events(pieces):
            chunks = [chunk for event in batch for chunk in stream.chunks(event)]
            if chunks:
                yield chunks
            if stream.has_ended:
                return


# The request.


def _request(body: Mapping[str, Any]) -> Json:
    if body.get("n", 1) != 1:
        raise InvalidRequest(f"{_NAME} gives one answer to a call", "/config/n")
    system, messages = conversation(body["messages"])
    request: Json = {"model": body["model"]}
    request |= thinking_fields(body, lacks_thoughts=lacks_thoughts(messages))
    if (request.get("thinking") or {}).get("type") == "disabled":
        messages = without_thoughts(messages)
    request["max_tokens"] = _max_tokens(body, (request.get("thinking") or {}).get("budget_tokens", 0))
    if body.get("tools"):
        request["tools"] = [_tool(tool, streams=bool(body.get("stream"))) for tool in body["tools"]]
        request |= _tool_choice(body)
    if system:
        request["system"] = system
    request["messages"] = messages
    response_format = body.get("response_format") or {}
    if response_format.get("type") == "json_schema":  # there is no `json_object`: the prompt asks for it anyway
        answer_format = {"type": "json_schema", "schema": response_format["json_schema"]["schema"]}
        request["output_config"] = {**request.get("output_config", {}), "format": answer_format}
    if body.get("stream"):
        request["stream"] = True
    request |= {name: value for name, value in body.items() if name not in _TRANSLATED}
    return request


def thinking_fields(body: Mapping[str, Any], *, lacks_thoughts: bool) -> Json:
    """The fields `thinking` and `output_config`. lacks_thoughts: see the function.

    A model with a budget must see them to go on, and thinks no more without.
    """
    switch, effort = body.get("thinking"), body.get("reasoning_effort")
    output = {"output_config": body["output_config"]} if "output_config" in body else {}
    if switch is not None and switch.keys() != {"type"}:
        return {"thinking": switch, **output}  # an operator's own setting
    if switch is None and effort is None:
        return output
    model = body["model"]
    is_budgeted = _BUDGETED.search(model) is not None
    if effort in _OFF or (switch is not None and switch["type"] == "disabled") or (is_budgeted and lacks_thoughts):
        if _ALWAYS_THINKING.search(model):
            return {"output_config": {"effort": "low", **output.get("output_config", {})}}
        return {"thinking": {"type": "disabled"}, **output}
    if is_budgeted:
        budget = _BUDGETS.get(effort, _BUDGETS["high"])
        return {"thinking": {"type": "enabled", "budget_tokens": budget}, **output}
    if effort is not None:
        output = {"output_config": {"effort": effort, **output.get("output_config", {})}}
    return {"thinking": {"type": "adaptive", "display": "summarized"}, **output}


def _max_tokens(body: Mapping[str, Any], budget: int) -> int:
    """The output limit, which must be larger than the budget of the thoughts in it."""
    usual = _OLD_ANSWER_TOKENS if _OLD.search(body["model"]) else _ANSWER_TOKENS
    limit: int = body.get("max_completion_tokens") or body.get("max_tokens") or usual
    return limit if limit > budget else limit + budget


def _tool(tool: Mapping[str, Any], *, streams: bool) -> Json:
    function = tool["function"]
    schema = function.get("parameters") or {}
    translated: Json = {"name": function["name"]}
    if function.get("description"):
        translated["description"] = function["description"]
    translated["input_schema"] = schema if schema.get("type") == "object" else {"type": "object", **schema}
    if function.get("strict"):
        translated["strict"] = True
    if streams:  # else a text arrives when it is complete
        translated["eager_input_streaming"] = True
    return translated


def _tool_choice(body: Mapping[str, Any]) -> Json:
    choice, is_single = body.get("tool_choice"), body.get("parallel_tool_calls") is False
    if isinstance(choice, Mapping):
        return {"tool_choice": {"type": "tool", "name": choice["function"]["name"], "disable_parallel_tool_use": True}}
    if choice == "none":
        return {"tool_choice": {"type": "none"}}
    if choice is None and not is_single:
        return {}
    translated: Json = {"type": "any" if choice == "required" else "auto"}
    if is_single:
        translated["disable_parallel_tool_use"] = True
    return {"tool_choice": translated}


def conversation(messages: Iterable[Mapping[str, Any]]) -> tuple[list[Json], list[Json]]:
    """The system prompt, and the messages, whose roles take turns.

    All system messages go into the prompt, as Anthropic's own compatible endpoint does it.
    """
    system: list[Json] = []
    turns: list[Json] = []
    for message in messages:
        sender = message.get("role", "")
        if sender in ("system", "developer"):
            system += _blocks(message.get("content"))
            continue
        role, blocks = ("assistant", _answer(message)) if sender == "assistant" else ("user", _user(message))
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [_text(_OPENING)]})
    if turns[-1]["role"] != "user":
        turns.append({"role": "user", "content": [_text(_CLOSING)]})
    return system, turns


def lacks_thoughts(turns: Sequence[Json]) -> bool:
    """Whether the model is to go on after calls of its own, and the first answer since the user spoke has no thoughts.

    What follows results of calls is the same turn of the model, in which it may have thought only at the beginning.
    """
    first_answer: Json | None = None
    for message in reversed(turns):
        if message["role"] == "assistant":
            first_answer = message
        elif not any(block["type"] == "tool_result" for block in message["content"]):
            break
    if turns[-1]["content"][0]["type"] != "tool_result" or first_answer is None:
        return False
    return first_answer["content"][0]["type"] not in _THOUGHTS


def without_thoughts(turns: Sequence[Json]) -> list[Json]:
    """The messages of a model that does not think, which takes no thoughts."""
    return [
        {**message, "content": [block for block in message["content"] if block["type"] not in _THOUGHTS]}
        for message in turns
    ]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _blocks(content: Any) -> list[Json]:
    """The blocks of a message's content. An empty text is refused, and has nothing to say."""
    if isinstance(content, str):
        return [_text(content)] if content.strip() else []
    return [block for part in content or () for block in _part(part)]


def _part(part: Mapping[str, Any]) -> list[Json]:
    mark = {"cache_control": part["cache_control"]} if "cache_control" in part else {}
    return [{**block, **mark} for block in _unmarked(part)]


def _unmarked(part: Mapping[str, Any]) -> list[Json]:
    match part.get("type"):
        case "text" | "refusal" as kind:
            return _blocks(part.get(kind))
        case "image_url":
            url = part["image_url"]["url"]
            data = _DATA_URL.match(url)
            if data is None:
                return [{"type": "image", "source": {"type": "url", "url": url}}]
            return [{"type": "image", "source": {"type": "base64", "media_type": data[1], "data": data[2]}}]
        case kind:
            raise InvalidRequest(f"{_NAME} takes no part of the type {kind!r} here", "/context")


def _user(message: Mapping[str, Any]) -> list[Json]:
    content = _blocks(message.get("content"))
    if message.get("role") != "tool":
        return content
    result: Json = {"type": "tool_result", "tool_use_id": _id(message.get("tool_call_id"))}
    if not content:
        return [result]
    mark = {"cache_control": content[-1].pop("cache_control")} if "cache_control" in content[-1] else {}
    return [{**result, "content": content, **mark}]


def _answer(message: Mapping[str, Any]) -> list[Json]:
    calls = message.get("tool_calls") or ()
    thoughts = message.get("thinking_blocks") or () if calls else ()
    return [*thoughts, *_blocks(message.get("content")), *map(_call, calls)]


def _call(call: Mapping[str, Any]) -> Json:
    return {
        "type": "tool_use",
        "id": _id(call.get("id")),
        "name": call["function"]["name"],
        "input": past_arguments(call),
    }


def _id(call_id: Any) -> str:
    """A call's id in the characters that this API allows."""
    return _NO_ID.sub("_", str(call_id))


# The answer.


class BlockStream:
    """The content blocks of one answer, as chunks; `number` is a block's."""

    #: Whether thoughts that are not signed can go back.
    _keeps_plain_thoughts = True

    def __init__(self) -> None:
        self.has_ended = False
        #: By the number of a block, the number of its call; and the calls of which no argument has arrived.
        self._calls: dict[int, int] = {}
        self._without_arguments: set[int] = set()
        #: By the number of a block, its thoughts and their signature, and by their names the pieces that have come.
        self._thoughts: dict[int, Json] = {}
        self._pieces: dict[int, dict[str, list[str]]] = {}
        self._numbers = itertools.count()

    def started(self, number: int, block: Json) -> list[Json]:
        """The chunks of a block's beginning."""
        if block.get("type") in _THOUGHTS:
            self._thoughts[number] = dict(block)
            return []
        if block.get("type") != "tool_use":
            return _texts(block.get("text"))
        call = self._calls[number] = next(self._numbers)
        arguments = json.dumps(block["input"]) if block.get("input") else ""
        if not arguments:
            self._without_arguments.add(number)
        return [_arguments(call, arguments, block)]

    def delta(self, number: int, delta: Json) -> list[Json]:
        """The chunks of a piece of a block."""
        match delta.get("type"):
            case "text_delta":
                return _texts(delta["text"])
            case "input_json_delta" if number in self._calls and delta["partial_json"]:
                self._without_arguments.discard(number)
                return [_arguments(self._calls[number], delta["partial_json"])]
            case "thinking_delta" if delta["thinking"]:
                self._add_thoughts(number, "thinking", delta["thinking"])
                return [{"choices": [chunk_choice({"reasoning_content": delta["thinking"]})]}]
            case "signature_delta":
                self._add_thoughts(number, "signature", delta["signature"])
        return []  # signatures and citations

    def stopped(self, number: int) -> list[Json]:
        """The chunks of a block's end."""
        if number in self._without_arguments:
            return [_arguments(self._calls[number], "{}")]
        if number not in self._thoughts:
            return []
        block = self._whole_thoughts(number)
        is_plain = block["type"] == "thinking" and not block.get("signature")
        if is_plain and not self._keeps_plain_thoughts:
            return []
        return [{"choices": [chunk_choice({"thinking_blocks": [block]})]}]

    def _add_thoughts(self, number: int, name: str, piece: str) -> None:
        self._thoughts.setdefault(number, {"type": "thinking", "thinking": ""})
        self._pieces.setdefault(number, {}).setdefault(name, []).append(piece)

    def _whole_thoughts(self, number: int) -> Json:
        block = self._thoughts[number]
        pieces = self._pieces.get(number, {})
        return {**block, **{name: block.get(name, "") + "".join(parts) for name, parts in pieces.items()}}


class _Stream(BlockStream):
    """The events of one answer, as chunks.

    The finish reason waits for `message_stop`: without it the answer is cut.
    """

    def __init__(self) -> None:
        super().__init__()
        self._usage: Json = {}
        self._finish_reason: str | None = None

    def chunks(self, event: Json) -> list[Json]:
        match event.get("type"):
            case "content_block_delta":
                return self.delta(event["index"], event["delta"])
            case "content_block_start":
                return self.started(event["index"], event["content_block"])
            case "content_block_stop":
                return self.stopped(event["index"])
            case "message_start":
                self._usage = event["message"].get("usage") or {}
            case "message_delta":
                return self._ending(event)
            case "message_stop":
                self.has_ended = True
                return [
                    {"choices": [chunk_choice({}, self._finish_reason)]},
                    {"choices": [], "usage": token_usage(self._usage)},
                ]
            case "message":  # whole, though a stream was asked for
                self.has_ended = True
                return [_whole(event)]
            case None:
                raise foreign_answer("an answer of another API", json.dumps(event).encode(), _NAME)
        return []  # `ping`, and what is added later

    def _ending(self, event: Json) -> list[Json]:
        delta = event.get("delta") or {}
        self._usage = {**self._usage, **(event.get("usage") or {})}
        if delta.get("stop_reason"):
            self._finish_reason = finish_reason(delta["stop_reason"])
        refusal = _refusal(delta)
        return [{"choices": [chunk_choice({"refusal": refusal})]}] if refusal else []


def _whole(message: Json) -> Json:
    """A whole answer. Raises TransportError for what is none."""
    if message.get("type") != "message":
        raise foreign_answer("an answer of another API", json.dumps(message).encode(), _NAME)
    blocks = message.get("content") or []
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    answer: Json = {
        "role": "assistant",
        "content": "".join(block["text"] for block in blocks if block.get("type") == "text"),
        "reasoning_content": "".join(block["thinking"] for block in blocks if block.get("type") == "thinking"),
        "refusal": _refusal(message),
        "thinking_blocks": [block for block in blocks if block.get("type") in _THOUGHTS],
    }
    if calls:
        answer["tool_calls"] = [
            {"index": number, **_function(json.dumps(block.get("input") or {}), block)}
            for number, block in enumerate(calls)
        ]
    choice = {"index": 0, "message": answer, "finish_reason": finish_reason(message.get("stop_reason"))}
    return {"choices": [choice], "usage": token_usage(message.get("usage") or {})}


def chunk_choice(delta: Json, finish_reason: str | None = None) -> Json:
    """The choice of a chunk."""
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def _texts(text: str | None) -> list[Json]:
    return [{"choices": [chunk_choice({"content": text})]}] if text else []


def _arguments(call: int, text: str, block: Json | None = None) -> Json:
    """A piece of a call's arguments; with its block, the beginning of the call."""
    return {"choices": [chunk_choice({"tool_calls": [{"index": call, **_function(text, block)}]})]}


def _function(arguments: str, block: Json | None) -> Json:
    if block is None:
        return {"function": {"arguments": arguments}}
    return {
        "id": block.get("id"),
        "type": "function",
        "function": {"name": block.get("name"), "arguments": arguments},
    }


def finish_reason(stop_reason: str | None) -> str | None:
    """The finish reason for a reason to stop; itself, if the chat completions API has no other word."""
    return _FINISH_REASONS.get(stop_reason or "", stop_reason)


def _refusal(message: Json) -> str | None:
    """Why the model refused, if the provider says it."""
    details = message.get("stop_details")
    if message.get("stop_reason") != "refusal" or not isinstance(details, dict):
        return None
    explanation = details.get("explanation")
    return explanation if isinstance(explanation, str) else None


def token_usage(usage: Json) -> Json:
    """The tokens. `input_tokens` are only those that were neither read from the cache nor written to it."""
    cache_reads, cache_writes = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    other_tokens = usage.get("input_tokens")
    return {
        "prompt_tokens": None if other_tokens is None else other_tokens + (cache_reads or 0) + (cache_writes or 0),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": {"cached_tokens": cache_reads, "cache_write_tokens": cache_writes},
    }
