"""OpenAI's Responses API (`POST /v1/responses`), behind the form of the chat completions API.

What differs: messages, calls and results are items of one list, functions are not nested, and the answer is a list of
items too. Nothing is stored with the provider, so each call has the whole conversation.
https://developers.openai.com/api/reference/resources/responses
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codelab.llm.client.answers import checked_object, events, foreign_answer, read_object
from codelab.llm.encoding import encode
from codelab.llm.errors import InvalidRequest

Json = dict[str, Any]

_NAME = "OpenAI's Responses API"
#: The fields of a chat completion that are translated here, or that this API does not have (`seed`). All others are
#: sent as they are.
_TRANSLATED = frozenset(
    {"messages", "stream_options", "response_format", "tools", "tool_choice", "seed", "n", "max_tokens",
     "max_completion_tokens", "reasoning_effort", "reasoning", "text"}
)  # fmt: skip
_FINISH_REASONS = {"max_output_tokens": "length"}


class ResponsesApi:
    """See `Api`."""

    base_url = "https://api.openai.com/v1"
    path = "/responses"
    models_path = "/models"
    headers: Mapping[str, str] = {}

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
            for event in batch:
                chunks = stream.chunks(event)
                if chunks:
                    yield chunks
            if stream.has_ended:
                return


# The request.


def _request(body: Mapping[str, Any]) -> Json:
    if body.get("n", 1) != 1:
        raise InvalidRequest(f"{_NAME} gives one answer to a call", "/config/n")
    request: Json = {"store": False, **{name: value for name, value in body.items() if name not in _TRANSLATED}}
    request["input"] = [item for message in body["messages"] for item in _items(message)]
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is not None:
        request["max_output_tokens"] = limit
    if body.get("tools"):
        request["tools"] = [_tool(tool["function"]) for tool in body["tools"]]
        if "tool_choice" in body:
            request["tool_choice"] = _tool_choice(body["tool_choice"])
    text = dict(body.get("text") or {})
    if "response_format" in body:
        text["format"] = _format(body["response_format"])
    if text:
        request["text"] = text
    reasoning = dict(body.get("reasoning") or {})
    if "reasoning_effort" in body:
        reasoning = {"effort": body["reasoning_effort"], **reasoning}
    if reasoning:
        request["reasoning"] = reasoning
    return request


def _format(response_format: Mapping[str, Any]) -> Json:
    if response_format["type"] == "json_schema":
        return {"type": "json_schema", **response_format["json_schema"]}
    return dict(response_format)


def _tool(function: Mapping[str, Any]) -> Json:
    # Without `strict`, it is enforced.
    return {"type": "function", "strict": False, **function}


def _tool_choice(choice: Any) -> Any:
    return {"type": "function", "name": choice["function"]["name"]} if isinstance(choice, Mapping) else choice


def _items(message: Mapping[str, Any]) -> Iterator[Json]:
    role = message.get("role")
    content = message.get("content")
    if role == "tool":
        output = content if isinstance(content, str) else _parts(content or (), role)
        yield {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": output}
        return
    yield from message.get("reasoning_items") or ()
    if content:
        yield {"role": role, "content": content if isinstance(content, str) else _parts(content, role)}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = function.get("arguments") or "{}"
        yield from call.get("reasoning_items") or ()
        yield {"type": "function_call", "call_id": call.get("id"), "name": function["name"], "arguments": arguments}


def _parts(parts: Iterable[Mapping[str, Any]], role: Any) -> list[Json]:
    text_type = "output_text" if role == "assistant" else "input_text"
    translated: list[Json] = []
    for part in parts:
        mark = {name: part[name] for name in ("prompt_cache_breakpoint",) if name in part}
        match part.get("type"):
            case "text":
                translated.append({"type": text_type, "text": part["text"], **mark})
            case "image_url":
                image = part["image_url"]
                detail = {"detail": image["detail"]} if "detail" in image else {}
                translated.append({"type": "input_image", "image_url": image["url"], **detail, **mark})
            case "refusal" if role == "assistant":
                translated.append({"type": "refusal", "refusal": part["refusal"]})
            case "file":
                translated.append({"type": "input_file", **part["file"]})
            case kind:
                raise InvalidRequest(f"{_NAME} takes no part of the type {kind!r} here", "/context")
    return translated


# The answer.


class _Stream:
    """The events of one answer, as chunks. Without a last event with the whole response, the answer is cut."""

    def __init__(self) -> None:
        self.has_ended = False
        #: By the number of an item, the number of its call; and the calls of which no argument has arrived.
        self._calls: dict[int, int] = {}
        self._without_arguments: set[int] = set()
        #: Reasoning that stands before the next item.
        self._reasoning_items: list[Json] = []
        self._numbers = itertools.count()

    def chunks(self, event: Json) -> list[Json]:
        """The chunks of an event. Raises ModelError for the provider's errors."""
        match event.get("type"):
            case "response.output_text.delta":
                return _delta(content=event["delta"])
            case "response.function_call_arguments.delta":
                self._without_arguments.discard(event["output_index"])
                return self._arguments(event["output_index"], event["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return _delta(reasoning_content=event["delta"])
            case "response.refusal.delta":
                return _delta(refusal=event["delta"])
            case "response.output_item.added" if event["item"].get("type") == "function_call":
                return self._called(event["output_index"], event["item"])
            case "response.output_item.added" if event["item"].get("type") == "message" and self._reasoning_items:
                return _delta(reasoning_items=self._taken_reasoning())
            case "response.output_item.done" if event["item"].get("type") == "reasoning":
                self._reasoning_items += _reasoning_items(event["item"])
            case "response.output_item.done" if event["output_index"] in self._without_arguments:
                return self._arguments(event["output_index"], event["item"].get("arguments") or "{}")
            case "response.completed" | "response.incomplete":
                self.has_ended = True
                response = event["response"]
                finish_reason = _finish_reason(response, is_called=bool(self._calls))
                return [
                    {"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]},
                    {"choices": [], "usage": _usage(response)},
                ]
            case "response.failed":
                checked_object({"error": event["response"].get("error") or {"message": "the response failed"}})
            case "error":
                checked_object({"error": event})
            case None:
                if event.get("object") != "response":
                    raise foreign_answer("an answer of another API", json.dumps(event).encode(), _NAME)
                self.has_ended = True  # whole, though a stream was asked for
                return [_whole(event)]
        return []  # what repeats these, and what is added later

    def _called(self, number: int, item: Json) -> list[Json]:
        self._calls[number] = next(self._numbers)
        self._without_arguments.add(number)
        return self._arguments(number, "", item)

    def _arguments(self, number: int, text: str, item: Json | None = None) -> list[Json]:
        call: Json = {"index": self._calls[number], "function": {"arguments": text}}
        if item is not None:
            call |= {"id": item.get("call_id"), "type": "function"}
            call["function"]["name"] = item.get("name")
            if self._reasoning_items:
                call["reasoning_items"] = self._taken_reasoning()
        return _delta(tool_calls=[call])

    def _taken_reasoning(self) -> list[Json]:
        items, self._reasoning_items = self._reasoning_items, []
        return items


def _reasoning_items(item: Json) -> list[Json]:
    """The item as it can be sent back; none if its content was not asked for, because nothing is stored there."""
    if not item.get("encrypted_content"):
        return []
    return [{name: item[name] for name in ("type", "id", "summary", "encrypted_content") if name in item}]


def _delta(**delta: Any) -> list[Json]:
    return [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}]


def _whole(response: Json) -> Json:
    """A whole answer. Raises TransportError for what is none."""
    if response.get("object") != "response":
        raise foreign_answer("an answer of another API", json.dumps(response).encode(), _NAME)
    texts: list[str] = []
    refusals: list[str] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    message: Json = {"role": "assistant"}
    reasoning_items: list[Json] = []
    for item in response.get("output") or ():
        match item.get("type"):
            case "message":
                if reasoning_items:
                    message["reasoning_items"], reasoning_items = reasoning_items, []
                texts += [part["text"] for part in item["content"] if part.get("type") == "output_text"]
                refusals += [part["refusal"] for part in item["content"] if part.get("type") == "refusal"]
            case "reasoning":
                thoughts += [part["text"] for part in item.get("summary") or ()]
                reasoning_items += _reasoning_items(item)
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                call = {"index": len(calls), "id": item.get("call_id"), "type": "function", "function": function}
                calls.append({**call, "reasoning_items": reasoning_items} if reasoning_items else call)
                reasoning_items = []
    message |= {"content": "".join(texts), "reasoning_content": "".join(thoughts)}
    message |= {"refusal": "".join(refusals)} if refusals else {}
    message |= {"tool_calls": calls} if calls else {}
    finish_reason = _finish_reason(response, is_called=bool(calls))
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}], "usage": _usage(response)}


def _finish_reason(response: Json, *, is_called: bool) -> str | None:
    match response.get("status"):
        case "completed":
            return "tool_calls" if is_called else "stop"
        case "incomplete":
            reason = (response.get("incomplete_details") or {}).get("reason") or "interrupted"
            return _FINISH_REASONS.get(reason, reason)
        case "cancelled" | "failed" as status:
            return f"interrupted ({status})"
    return None


def _usage(response: Json) -> Json:
    usage = response.get("usage") or {}
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": usage.get("input_tokens_details"),
        "completion_tokens_details": usage.get("output_tokens_details"),
    }
