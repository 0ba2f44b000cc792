"""Amazon Bedrock's Converse (`POST /model/{model}/converse-stream`), behind the form of the chat completions API.

It is Anthropic's Messages API in other words: turns of blocks, results behind their calls, marks for the cache. So both
share the way to turns and from blocks. What differs: the model is in the path, marks are blocks, the settings of one
model have a field of their own, and the answer is a binary stream. A call that does not stream is asked for as one that
does, so that the role needs one permission.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from codelab.http.event_stream import BrokenStream, Message, messages
from codelab.llm.client.answers import DOCUMENT_STARTS, MAX_ANSWER_BYTES, checked_object, foreign_answer
from codelab.llm.client.messages_api import (
    BlockStream,
    chunk_choice,
    conversation,
    finish_reason,
    lacks_thoughts,
    thinking_fields,
    token_usage,
    without_thoughts,
)
from codelab.llm.encoding import encode
from codelab.llm.errors import InvalidRequest, TransportError

Json = dict[str, Any]

_NAME = "Amazon Bedrock's Converse API"
#: The fields of a chat completion that are translated here, or that this API does not have.
_TRANSLATED = frozenset(
    {"model", "messages", "stream", "stream_options", "response_format", "tools", "tool_choice", "parallel_tool_calls",
     "seed", "n", "max_tokens", "max_completion_tokens", "temperature", "top_p", "reasoning_effort", "thinking",
     "output_config", "inferenceConfig", "additionalModelRequestFields", "outputConfig",
     "prompt_cache_key"}
)  # fmt: skip
#: Fields of its own, which an operator may set. All others are the model's.
_OWN = frozenset(
    {"guardrailConfig", "performanceConfig", "serviceTier", "requestMetadata", "additionalModelResponseFieldPaths"}
)
_CLAUDE, _NOVA = re.compile(r"claude|anthropic", re.IGNORECASE), re.compile(r"amazon\.nova", re.IGNORECASE)
_OFF = frozenset({"none", "minimal"})
_MARK = {"cachePoint": {"type": "default"}}
_IMAGE_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif",
                  "image/webp": "webp"}  # fmt: skip
_ID_CHARS = 64
#: A result must have content.
_NO_CONTENT = {"text": "(nothing)"}


class ConverseApi:
    """See `Api`."""

    base_url = ""  # that of a region, see `bedrock.runtime_url`
    path = "/model/{model}/converse-stream"
    models_path = ""
    headers: Mapping[str, str] = {"Accept": "application/vnd.amazon.eventstream"}

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """See `Api.encode`."""
        return encode(_request(body))

    def chunks(self, pieces: Iterator[bytes], *, streams: bool) -> Iterator[list[Json]]:
        """See `Api.chunks`. The chunks are those of a stream in either case."""
        stream = _Stream()
        try:
            for batch in messages(_checked(pieces), MAX_ANSWER_BYTES):
                chunks = [chunk for message in batch for chunk in stream.chunks(message)]
                if chunks:
                    yield chunks
                if stream.has_ended:
                    return
        except BrokenStream as error:
            raise TransportError(f"the stream is broken: {error}", retryable=True) from None


# The request.


def _request(body: Mapping[str, Any]) -> Json:
    if body.get("n", 1) != 1:
        raise InvalidRequest(f"{_NAME} gives one answer to a call", "/config/n")
    system, turns = conversation(body["messages"])
    thinking = _thinking(body, is_without=lacks_thoughts(turns))
    if not _CLAUDE.search(body["model"]) or (thinking.get("thinking") or {}).get("type") == "disabled":
        turns = without_thoughts(turns)
    request: Json = {"messages": [{"role": turn["role"], "content": _blocks(turn["content"])} for turn in turns]}
    if system:
        request["system"] = _blocks(system)
    tools = _tools(body, turns)
    if tools:
        request["toolConfig"] = tools
    output = {**thinking.pop("output_config", {}), **_format(body.get("response_format") or {})}
    settings = {name: value for name, value in body.items() if name not in _TRANSLATED | _OWN} | thinking
    fields = {
        "inferenceConfig": _inference(body, settings),
        "outputConfig": output | body.get("outputConfig", {}),
        "additionalModelRequestFields": settings | body.get("additionalModelRequestFields", {}),
    }
    request |= {name: value for name, value in fields.items() if value}
    return request | {name: value for name, value in body.items() if name in _OWN}


def _thinking(body: Mapping[str, Any], *, is_without: bool) -> Json:
    """The model's own settings that switch its thinking; for Claude also `output_config`, which has its effort."""
    effort, switch = body.get("reasoning_effort"), body.get("thinking")
    if _CLAUDE.search(body["model"]):
        return thinking_fields(body, lacks_thoughts=is_without)
    if effort is None and switch is None:
        return {}
    if _NOVA.search(body["model"]):
        if effort in _OFF or (switch or {}).get("type") == "disabled":
            return {"reasoningConfig": {"type": "disabled"}}
        return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": effort or "medium"}}
    return {} if effort is None else {"reasoning_effort": effort}


def _inference(body: Mapping[str, Any], settings: Mapping[str, Any]) -> Json:
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    budget = (settings.get("thinking") or {}).get("budget_tokens", 0)
    if limit is not None and limit <= budget:  # the thoughts count as part of the answer
        limit += budget
    values = {"maxTokens": limit, "temperature": body.get("temperature"), "topP": body.get("top_p")}
    if (settings.get("reasoningConfig") or {}).get("maxReasoningEffort") == "high":
        values = {}  # which Nova then refuses
    return {name: value for name, value in values.items() if value is not None} | dict(body.get("inferenceConfig", {}))


def _format(response_format: Mapping[str, Any]) -> Json:
    """The enforced schema. There is no `json_object`: the prompt asks for it anyway."""
    if response_format.get("type") != "json_schema":
        return {}
    schema = response_format["json_schema"]
    definition = {"name": schema.get("name", "answer"), "schema": json.dumps(schema["schema"], ensure_ascii=False)}
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": definition}}}


def _tools(body: Mapping[str, Any], turns: Sequence[Mapping[str, Any]]) -> Json:
    """The tools, and which the model must call. Without tools, those of past calls: each must be one of them."""
    tools = [_tool(tool["function"]) for tool in body.get("tools") or ()]
    if not tools:
        names = {block["name"]: 1 for turn in turns for block in turn["content"] if block["type"] == "tool_use"}
        return {"tools": [_tool({"name": name}) for name in names]} if names else {}
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        return {"tools": tools, "toolChoice": {"tool": {"name": choice["function"]["name"]}}}
    # Some models refuse the field, and `auto` is what they do without it.
    return {"tools": tools, "toolChoice": {"any": {}}} if choice == "required" else {"tools": tools}


def _tool(function: Mapping[str, Any]) -> Json:
    schema = function.get("parameters") or {}
    spec: Json = {"name": function["name"]}
    if function.get("description"):
        spec["description"] = function["description"]
    spec["inputSchema"] = {"json": schema if schema.get("type") == "object" else {"type": "object", **schema}}
    if function.get("strict"):
        spec["strict"] = True
    return {"toolSpec": spec}


def _blocks(blocks: Iterable[Mapping[str, Any]]) -> list[Json]:
    """The blocks of the Messages API in this one's form, and a mark behind each that is marked there."""
    translated: list[Json] = []
    for block in blocks:
        translated.append(_block(block))
        if "cache_control" in block:
            translated.append(_MARK)
    return translated


def _block(block: Mapping[str, Any]) -> Json:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "image":
            return {"image": _image(block["source"])}
        case "thinking":
            thoughts = {"text": block["thinking"], "signature": block["signature"]}
            return {"reasoningContent": {"reasoningText": thoughts}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": block["data"]}}
        case "tool_use":
            return {"toolUse": {"toolUseId": _id(block["id"]), "name": block["name"], "input": block["input"]}}
        case _:
            content = _blocks(block.get("content", ())) or [_NO_CONTENT]
            return {"toolResult": {"toolUseId": _id(block["tool_use_id"]), "content": content}}


def _id(call_id: str) -> str:
    return call_id[-_ID_CHARS:]


def _image(source: Mapping[str, Any]) -> Json:
    if source["type"] != "base64":
        raise InvalidRequest(f"{_NAME} fetches no images: give the data of the image", "/context")
    image_format = _IMAGE_FORMATS.get(source["media_type"].lower())
    if image_format is None:
        raise InvalidRequest(f"{_NAME} takes no image of the type {source['media_type']!r}", "/context")
    return {"format": image_format, "source": {"bytes": source["data"]}}


# The answer.


def _checked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces. Raises ModelError if they begin like a document of another server."""
    for first_piece in pieces:
        if first_piece.lstrip()[:1] in DOCUMENT_STARTS:
            raise foreign_answer("no event stream", first_piece, _NAME)
        yield from chain((first_piece,), pieces)


class _Stream(BlockStream):
    """The events of one answer, as chunks. Without `messageStop` the answer is cut; its usage comes after that."""

    _keeps_plain_thoughts = False

    def chunks(self, message: Message) -> list[Json]:
        """The chunks of a message. Raises ModelError for an error of the provider."""
        headers = message.headers
        if headers.get(":message-type") == "error":
            code, text = headers.get(":error-code"), headers.get(":error-message")
            checked_object({"error": {"code": code, "message": text or code or "an error without a name"}})
        event = _payload(message.payload)
        if headers.get(":message-type") == "exception":
            code = headers.get(":exception-type", "")
            checked_object({"error": {**event, "code": code, "message": event.get("message") or code}})
        match headers.get(":event-type"):
            case "contentBlockDelta":
                return self._delta(event["contentBlockIndex"], event["delta"])
            case "contentBlockStart" if "toolUse" in event["start"]:
                call = event["start"]["toolUse"]
                block = {"type": "tool_use", "id": call["toolUseId"], "name": call["name"]}
                return self.started(event["contentBlockIndex"], block)
            case "contentBlockStop":
                return self.stopped(event["contentBlockIndex"])
            case "messageStop":
                return [{"choices": [chunk_choice({}, finish_reason(event["stopReason"]))]}]
            case "metadata":
                self.has_ended = True
                return [{"choices": [], "usage": _usage(event.get("usage") or {})}]
        return []  # `messageStart`, and what is added later

    def _delta(self, number: int, delta: Json) -> list[Json]:
        if "toolUse" in delta:
            return self.delta(number, {"type": "input_json_delta", "partial_json": delta["toolUse"]["input"]})
        if "reasoningContent" in delta:
            return self._thought(number, delta["reasoningContent"])
        return self.delta(number, {"type": "text_delta", "text": delta.get("text")})

    def _thought(self, number: int, thought: Json) -> list[Json]:
        """The chunks of a thought, in the Messages API's words. Its data is encrypted, or its text signed."""
        if "redactedContent" in thought:
            return self.started(number, {"type": "redacted_thinking", "data": thought["redactedContent"]})
        if "signature" in thought:
            return self.delta(number, {"type": "signature_delta", "signature": thought["signature"]})
        return self.delta(number, {"type": "thinking_delta", "thinking": thought.get("text") or ""})


def _payload(data: bytes) -> Json:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise TransportError("the stream contains a message that is not JSON", retryable=True) from None
    if not isinstance(value, dict):
        raise foreign_answer("no JSON object", data, _NAME)
    return value


def _usage(usage: Json) -> Json:
    return token_usage(
        {
            "input_tokens": usage.get("inputTokens"),
            "output_tokens": usage.get("outputTokens"),
            "cache_read_input_tokens": usage.get("cacheReadInputTokens"),
            "cache_creation_input_tokens": usage.get("cacheWriteInputTokens"),
        }
    )
