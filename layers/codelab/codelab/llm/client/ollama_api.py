"""Ollama's own API (`POST /api/chat`), behind the form of the chat completions API.

It can do what Ollama's compatible endpoint cannot: reserve a window that the prompt fits into. Without `num_ctx`,
Ollama takes 4,096 tokens on most machines, and cuts the beginning of a longer prompt without a word.
https://docs.ollama.com/api/chat
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codelab.llm.client.answers import foreign_answer, json_lines, read_object
from codelab.llm.encoding import encode
from codelab.llm.errors import InvalidRequest
from codelab.llm.history import past_arguments

Json = dict[str, Any]

_NAME = "Ollama's API"
#: The fields of a chat completion that are translated here, or that this API does not have (`tool_choice`). All others
#: are sent as they are.
_TRANSLATED = frozenset(
    {"model", "messages", "stream", "stream_options", "response_format", "tools", "tool_choice", "parallel_tool_calls",
     "temperature", "top_p", "seed", "n", "max_tokens", "max_completion_tokens", "reasoning_effort", "options",
     "prompt_cache_key"}
)  # fmt: skip
#: The names of options.
_OPTIONS = {"temperature": "temperature", "top_p": "top_p", "seed": "seed", "max_tokens": "num_predict",
            "max_completion_tokens": "num_predict"}  # fmt: skip
_OFF = frozenset({"none", "minimal"})
_DATA_URL = re.compile(r"data:[^,]*;base64,(.*)", re.DOTALL)


class OllamaApi:
    """See `Api`. window: the tokens to reserve for a model of this name."""

    base_url = "http://localhost:11434/api"
    path = "/chat"
    models_path = "/tags"
    headers: Mapping[str, str] = {}

    def __init__(self, window: Callable[[str], int]) -> None:
        self._window = window

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """See `Api.encode`."""
        if body.get("n", 1) != 1:
            raise InvalidRequest(f"{_NAME} gives one answer to a call", "/config/n")
        options: Json = {"num_ctx": self._window(body["model"])}
        options |= {option: body[name] for name, option in _OPTIONS.items() if name in body}
        request: Json = {
            "model": body["model"],
            "messages": _messages(body["messages"]),
            "stream": bool(body.get("stream")),  # otherwise it streams
            "options": options | dict(body.get("options") or {}),
            # A prompt that does not fit is an error, and so is an answer: nothing is cut from either in silence.
            "truncate": False,
            "shift": False,
        }
        if body.get("tools") and body.get("tool_choice") != "none":
            request["tools"] = body["tools"]
        if "response_format" in body:
            request["format"] = _format(body["response_format"])
        if "reasoning_effort" in body:
            effort = body["reasoning_effort"]
            request["think"] = False if effort in _OFF else effort
        request |= {name: value for name, value in body.items() if name not in _TRANSLATED}
        return encode(request)

    def chunks(self, pieces: Iterator[bytes], *, streams: bool) -> Iterator[list[Json]]:
        """See `Api.chunks`."""
        answer = _Answer()
        if not streams:
            yield [answer.whole(read_object(pieces))]
            return
        for batch in json_lines(pieces):
            yield [chunk for part in batch for chunk in answer.chunks(part)]
            if answer.has_ended:
                return


# The request.


def _format(response_format: Mapping[str, Any]) -> Any:
    return response_format["json_schema"]["schema"] if response_format["type"] == "json_schema" else "json"


def _messages(messages: Any) -> list[Json]:
    """The messages. Arguments of calls are objects, and results name their function."""
    names: dict[Any, str] = {}
    ollama_messages: list[Json] = []
    for message in messages:
        role = message["role"]
        text, images = _content(message.get("content"))
        translation: Json = {"role": "system" if role == "developer" else role, "content": text}
        if images:
            translation["images"] = images
        if message.get("tool_calls"):
            names |= {call.get("id"): call["function"]["name"] for call in message["tool_calls"]}
            translation["tool_calls"] = [_call(call) for call in message["tool_calls"]]
        if role == "tool":
            translation["tool_call_id"] = message.get("tool_call_id")
            translation["tool_name"] = names.get(message.get("tool_call_id"), "")
        ollama_messages.append(translation)
    return ollama_messages


def _call(call: Mapping[str, Any]) -> Json:
    return {"id": call.get("id"), "function": {"name": call["function"]["name"], "arguments": past_arguments(call)}}


def _content(content: Any) -> tuple[str, list[str]]:
    """The text of a message, and its images in base64."""
    if not isinstance(content, list):
        return content or "", []
    texts: list[str] = []
    images: list[str] = []
    for part in content:
        match part.get("type"):
            case "text" | "refusal" as kind:
                texts.append(part.get(kind) or "")
            case "image_url":
                data = _DATA_URL.match(part["image_url"]["url"])
                if data is None:
                    raise InvalidRequest(f"{_NAME} fetches no images: give the data of the image", "/context")
                images.append(data[1])
            case kind:
                raise InvalidRequest(f"{_NAME} takes no part of the type {kind!r}", "/context")
    return "\n\n".join(texts), images


# The answer.


class _Answer:
    """The parts of one answer, as chunks. A stream without its last part, which is `done`, is cut."""

    def __init__(self) -> None:
        self.has_ended = False
        self._calls = 0

    def chunks(self, part: Json) -> list[Json]:
        message = self._message(part)
        chunks: list[Json] = []
        if message:
            chunks.append({"choices": [{"index": 0, "delta": message, "finish_reason": None}]})
        if part.get("done"):
            self.has_ended = True
            chunks += [
                {"choices": [{"index": 0, "delta": {}, "finish_reason": self._finish_reason(part)}]},
                {"choices": [], "usage": _usage(part)},
            ]
        return chunks

    def whole(self, part: Json) -> Json:
        choice = {"index": 0, "message": self._message(part), "finish_reason": self._finish_reason(part)}
        return {"choices": [choice], "usage": _usage(part)}

    def _message(self, part: Json) -> Json:
        message = part.get("message")
        if not isinstance(message, dict):
            raise foreign_answer("an answer of another API", json.dumps(part).encode(), _NAME)
        translated: Json = {}
        if message.get("content"):
            translated["content"] = message["content"]
        if message.get("thinking"):
            translated["reasoning_content"] = message["thinking"]
        if message.get("tool_calls"):
            translated["tool_calls"] = [self._call(call["function"], call.get("id")) for call in message["tool_calls"]]
        return translated

    def _call(self, function: Json, call_id: Any) -> Json:
        """A call, which always comes whole."""
        number, self._calls = self._calls, self._calls + 1
        arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
        return {
            "index": number,
            "id": call_id or f"call_{number}",
            "type": "function",
            "function": {"name": function["name"], "arguments": arguments},
        }

    def _finish_reason(self, part: Json) -> str | None:
        reason: str | None = part.get("done_reason") or ("stop" if part.get("done") else None)
        return "tool_calls" if reason == "stop" and self._calls else reason


def _usage(part: Json) -> Json:
    return {"prompt_tokens": part.get("prompt_eval_count"), "completion_tokens": part.get("eval_count")}
