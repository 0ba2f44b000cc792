"""How Amazon Bedrock's Converse speaks: the rules of its documents, and its event stream.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html, the pages about tool use,
prompt caching and structured output, and the shapes of the SDK's service model.
"""

import base64
import itertools
import json
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from codelab.llm.client.api import Api
from codelab.llm.client.converse_api import ConverseApi

from tests.fakes.http import Exchange
from tests.fakes.model.apis import Answering, Refused, need, signature_of

Json = dict[str, Any]

_FIELDS = frozenset(
    {"messages", "system", "inferenceConfig", "toolConfig", "guardrailConfig", "additionalModelRequestFields",
     "requestMetadata", "performanceConfig", "serviceTier", "outputConfig", "additionalModelResponseFieldPaths"}
)  # fmt: skip
_PATH = re.compile(r"(/v1)?/model/([^/]+)/converse-stream")
_NAME, _ID = re.compile(r"[a-zA-Z0-9_-]{1,64}"), re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_INFERENCE = frozenset({"maxTokens", "temperature", "topP", "stopSequences"})
_BLOCKS = frozenset({"text", "image", "document", "toolUse", "toolResult", "cachePoint", "reasoningContent"})
_IMAGE_FORMATS = frozenset({"png", "jpeg", "gif", "webp"})
_DOCUMENT_FORMATS = frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"})
_MOST_POINTS, _MOST_IMAGES = 4, 20
#: The vendors of which models take a forced tool, and whose caching models take marks.
_FORCED = re.compile(r"anthropic|amazon|scripted|test-model|other")
_EXCEPTIONS = {400: "validationException", 429: "throttlingException", 500: "internalServerException",
               503: "serviceUnavailableException"}  # fmt: skip


def message(headers: dict[str, str], payload: bytes) -> bytes:
    """A message of an event stream."""
    texts = [(name.encode(), value.encode()) for name, value in headers.items()]
    encoded = b"".join(
        struct.pack("!B", len(name)) + name + b"\x07" + struct.pack("!H", len(value)) + value for name, value in texts
    )
    prelude = struct.pack("!II", 16 + len(encoded) + len(payload), len(encoded))
    data = prelude + struct.pack("!I", zlib.crc32(prelude)) + encoded + payload
    return data + struct.pack("!I", zlib.crc32(data))


def event(type_: str, **fields: Any) -> bytes:
    """An event, padded as Bedrock pads them."""
    payload = json.dumps({**fields, "p": "abcdefghij"[: len(str(fields)) % 10]}).encode()
    headers = {":event-type": type_, ":content-type": "application/json", ":message-type": "event"}
    return message(headers, payload)


def exception(type_: str, text: str) -> bytes:
    """An error in the stream."""
    headers = {":exception-type": type_, ":content-type": "application/json", ":message-type": "exception"}
    return message(headers, json.dumps({"message": text}).encode())


EVENT_STREAM = "application/vnd.amazon.eventstream"


class SpokenConverse:
    name = "bedrock-converse"
    key_header = "Authorization"
    content_type = EVENT_STREAM
    reports = frozenset({"cached", "cache_writes"})
    has_json_object = False

    def client(self) -> Api:
        return ConverseApi()

    def error(self, status: int, message: str) -> Json:
        return {"message": message}

    def __init__(self) -> None:
        #: Whether the model that was asked last signs its thoughts.
        self._signs = False

    def answering(self) -> Answering:
        return _Answer(signs=self._signs)

    def asked(self, exchange: Exchange) -> Json:
        path = _PATH.fullmatch(exchange.path)
        if path is None:
            raise Refused("UnknownOperationException", 404)
        if "authorization" not in exchange.headers:
            raise Refused("Missing Authentication Token", 403)
        body = json.loads(exchange.content)
        for name in body:
            need(name in _FIELDS, f"extraneous key [{name}] is not permitted")
        model = unquote(path[2])
        need(set(body.get("inferenceConfig", {})) <= _INFERENCE, "extraneous key in inferenceConfig")
        need(body.get("inferenceConfig", {}).get("maxTokens", 1) >= 1, "maxTokens: must be at least 1")
        need(0 <= body.get("inferenceConfig", {}).get("temperature", 0) <= 1, "temperature: must be 0 to 1")
        _check_blocks(body)
        _check_tools(body, model)
        _check_turns(body["messages"])
        self._signs = "claude" in model
        _check_thoughts(body, signs=self._signs)
        return _completion(body, model)


def _all_blocks(body: Json) -> Iterator[Json]:
    yield from body.get("system", ())
    for turn in body["messages"]:
        yield from turn["content"]


def _check_blocks(body: Json) -> None:
    points = images = 0
    for block in [*_all_blocks(body), *body.get("toolConfig", {}).get("tools", ())]:
        [kind] = block
        need(kind in _BLOCKS | {"toolSpec"}, f"Invalid content block {kind}")
        if kind == "text":
            need(block["text"].strip(), "The text field in the ContentBlock object is blank. Add text and try again.")
        points += kind == "cachePoint"
        images += kind == "image"
        if kind in ("image", "document"):
            _check_source(kind, block[kind])
    need(points <= _MOST_POINTS, "A maximum of 4 cache points is permitted")
    need(images <= _MOST_IMAGES, "too many images")


def _check_source(kind: str, block: Json) -> None:
    formats = _IMAGE_FORMATS if kind == "image" else _DOCUMENT_FORMATS
    need(block["format"] in formats, f"{kind}.format: Member must satisfy enum value set")
    base64.b64decode(block["source"]["bytes"], validate=True)


def _check_tools(body: Json, model: str) -> None:
    kinds = {kind for block in _all_blocks(body) for kind in block}
    config = body.get("toolConfig")
    if config is None:
        needed = "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        need(not kinds & {"toolUse", "toolResult"}, needed)
        return
    need(config["tools"], "toolConfig.tools: must have length greater than or equal to 1")
    names = [tool["toolSpec"]["name"] for tool in config["tools"] if "toolSpec" in tool]
    for tool in config["tools"]:
        spec = tool.get("toolSpec", {"name": "x", "inputSchema": {"json": {"type": "object"}}})
        need(_NAME.fullmatch(spec["name"]), "toolSpec.name: Member must satisfy regular expression pattern")
        need(spec.get("description", "x"), "toolSpec.description: must have length greater than or equal to 1")
        need(spec["inputSchema"]["json"].get("type") == "object", "inputSchema.json.type must be one of: object.")
    need(len(set(names)) == len(names), "The toolConfig has duplicate names")
    choice = config.get("toolChoice", {"auto": {}})
    [kind] = choice
    need(kind in ("auto", "any", "tool"), "Invalid toolChoice")
    if kind == "tool":
        need(choice["tool"]["name"] in names, "The toolChoice names no tool")
    if kind != "auto":
        refused = f"This model doesn't support the toolConfig.toolChoice.{kind} field. Remove toolConfig.toolChoice."
        need(_FORCED.search(model), f"{refused}{kind} and try again.")
        thinking = body.get("additionalModelRequestFields", {}).get("thinking", {"type": "disabled"})
        need(thinking["type"] == "disabled", "Thinking may not be enabled when tool_choice forces tool use.")


def _check_turns(turns: list[Json]) -> None:
    need(turns and turns[0]["role"] == "user", "A conversation must start with a user message.")
    need(turns[-1]["role"] == "user", "This model does not support assistant message prefill.")
    waiting: list[str] = []
    last_role = ""
    for number, turn in enumerate(turns):
        need(turn["role"] in ("user", "assistant"), f"messages.{number}.role: Member must satisfy enum value set")
        need(turn["role"] != last_role, "A conversation must alternate between user and assistant roles.")
        need(turn["content"], f"The content field in the Message object at messages.{number} is empty.")
        last_role = turn["role"]
        results = [block["toolResult"] for block in turn["content"] if "toolResult" in block]
        ids = [result["toolUseId"] for result in results]
        need(sorted(ids) == sorted(waiting), f"Expected toolResult blocks at messages.{number} for the Ids: {waiting}")
        for result in results:
            need(result["content"], "toolResult.content is empty")
            need(all(part.get("text", "x").strip() for part in result["content"]), "toolResult.content.text is blank")
        calls = [block["toolUse"] for block in turn["content"] if "toolUse" in block]
        for call in calls:
            need(turn["role"] == "assistant", "toolUse blocks are the assistant's")
            need(_ID.fullmatch(call["toolUseId"]), "toolUseId: Member must satisfy regular expression pattern")
            need(_NAME.fullmatch(call["name"]), "toolUse.name: Member must satisfy regular expression pattern")
            need(isinstance(call["input"], dict), "The format of the value at toolUse.input is invalid.")
        waiting = [call["toolUseId"] for call in calls]


def _check_thoughts(body: Json, *, signs: bool) -> None:
    """As the Messages API has it: thoughts come first and unchanged, and a model with a budget begins with them."""
    thinking = body.get("additionalModelRequestFields", {}).get("thinking", {}).get("type")
    for number, turn in enumerate(body["messages"]):
        kinds = ["reasoningContent" in block for block in turn["content"]]
        need(kinds == sorted(kinds, reverse=True), f"messages.{number}: thinking blocks must come first")
        need(not any(kinds) or (signs and turn["role"] == "assistant"), f"messages.{number}: unexpected reasoning")
        need(not any(kinds) or thinking != "disabled", "thinking blocks require thinking to be enabled")
        for block in turn["content"]:
            thought = block.get("reasoningContent", {}).get("reasoningText")
            is_own = thought is None or thought["signature"] == signature_of(thought["text"])
            need(is_own, f"messages.{number}: Invalid `signature` in `thinking` block")
    turns = itertools.takewhile(_is_of_the_models_turn, reversed(body["messages"]))
    answers = [turn for turn in turns if turn["role"] == "assistant"]
    if thinking == "enabled" and answers:
        need("reasoningContent" in answers[-1]["content"][0], "Expected `thinking`, but found another block")


def _is_of_the_models_turn(turn: Json) -> bool:
    return turn["role"] == "assistant" or any("toolResult" in block for block in turn["content"])


def _text(blocks: list[Json]) -> str:
    return "\n".join(block["text"] for block in blocks if "text" in block)


def _completion(body: Json, model: str) -> Json:
    """The request as a chat completion. What asks for a stream is all there is."""
    told: list[Json] = [{"role": "system", "content": _text(body["system"])}] if body.get("system") else []
    for turn in body["messages"]:
        told += _told(turn)
    asked: Json = {"model": model, "messages": told, "stream": True}
    names = {"maxTokens": "max_tokens", "temperature": "temperature", "topP": "top_p"}
    asked |= {names[name]: value for name, value in body.get("inferenceConfig", {}).items()}
    if "toolConfig" in body:
        specs = [tool["toolSpec"] for tool in body["toolConfig"]["tools"] if "toolSpec" in tool]
        asked["tools"] = [
            {"type": "function", "function": {"name": spec["name"], "parameters": spec["inputSchema"]["json"]}}
            for spec in specs
        ]
        asked["tool_choice"] = body["toolConfig"].get("toolChoice", {"auto": {}})
    answer_format = body.get("outputConfig", {}).get("textFormat")
    if answer_format:
        schema = json.loads(answer_format["structure"]["jsonSchema"]["schema"])
        asked["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    return asked


def _told(turn: Json) -> Iterator[Json]:
    for block in turn["content"]:
        if "toolResult" in block:
            result = block["toolResult"]
            yield {"role": "tool", "tool_call_id": result["toolUseId"], "content": _text(result["content"])}
    calls = [
        {"id": call["toolUseId"], "function": {"name": call["name"], "arguments": json.dumps(call["input"])}}
        for call in (block["toolUse"] for block in turn["content"] if "toolUse" in block)
    ]
    text = _text(turn["content"])
    if text or calls:
        yield {"role": turn["role"], "content": text, **({"tool_calls": calls} if calls else {})}


class _Answer:
    def __init__(self, *, signs: bool) -> None:
        self._signs, self._thoughts = signs, ""
        self._block, self._kind = -1, ""
        self._reason: str | None = None
        self._usage: Json = {}

    def begin(self) -> bytes:
        return event("messageStart", role="assistant")

    def comment(self) -> bytes:
        return b""

    def chunk(self, chunk: Json) -> bytes:
        if "error" in chunk:
            error = chunk["error"]
            kind = _EXCEPTIONS.get(error.get("code"), "modelStreamErrorException")
            return exception(kind, error["message"])
        self._usage = chunk.get("usage") or self._usage
        sent = b""
        for choice in chunk["choices"]:
            sent += self._delta(choice.get("delta") or {})
            self._reason = choice.get("finish_reason") or self._reason
        return sent

    def _delta(self, delta: Json) -> bytes:
        sent = b""
        if delta.get("reasoning_content"):
            self._thoughts += delta["reasoning_content"]
            sent += self._piece("thinking", None, reasoningContent={"text": delta["reasoning_content"]})
        if delta.get("content"):
            sent += self._piece("text", None, text=delta["content"])
        for call in delta.get("tool_calls") or ():
            function = call["function"]
            start = {"toolUse": {"toolUseId": f"tooluse_{call['index']}", "name": function.get("name")}}
            sent += self._piece(f"call {call['index']}", start, toolUse={"input": function["arguments"]})
        return sent

    def _piece(self, kind: str, start: Json | None, **delta: Any) -> bytes:
        """A text has no start of its own."""
        sent = b""
        if kind != self._kind:
            sent += self._stopped()
            self._block, self._kind = self._block + 1, kind
            if start is not None:
                sent += event("contentBlockStart", contentBlockIndex=self._block, start=start)
        return sent + event("contentBlockDelta", contentBlockIndex=self._block, delta=delta)

    def _stopped(self) -> bytes:
        sent = b""
        if self._kind == "thinking" and self._signs:
            delta = {"reasoningContent": {"signature": signature_of(self._thoughts)}}
            sent = event("contentBlockDelta", contentBlockIndex=self._block, delta=delta)
        return sent + (event("contentBlockStop", contentBlockIndex=self._block) if self._kind else b"")

    def end(self) -> bytes:
        if self._reason is None:
            return b""
        reasons = {"length": "max_tokens", "stop": "tool_use" if self._kind.startswith("call") else "end_turn",
                   "content_filter": "content_filtered", "tool_calls": "tool_use"}  # fmt: skip
        stop = event("messageStop", stopReason=reasons.get(self._reason, self._reason))
        metrics = {"latencyMs": 100}
        return self._stopped() + stop + event("metadata", usage=converse_usage(self._usage), metrics=metrics)

    def whole(self, completion: Json) -> Json:
        raise AssertionError("every answer is a stream")


def converse_usage(usage: Json) -> Json:
    """The counts of a chat completion as Converse has them: what the cache had or got is not in the input."""
    if not usage:
        return {}
    details = usage.get("prompt_tokens_details") or {}
    read, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
    return {
        "inputTokens": usage["prompt_tokens"] - read - written,
        "outputTokens": usage["completion_tokens"],
        "totalTokens": usage["prompt_tokens"] + usage["completion_tokens"],
        "cacheReadInputTokens": read,
        "cacheWriteInputTokens": written,
    }
