"""How the servers of other APIs speak: each takes what its documents allow, refuses the rest, and sends its own form.

Scripts are written for the chat completions API. A `SpokenExchange` shows them its requests in that form, and sends
what they answer in the form of the API.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from codelab.llm.client.api import Api, ChatCompletionsApi
from codelab.llm.client.messages_api import MessagesApi
from codelab.llm.client.ollama_api import OllamaApi
from codelab.llm.client.responses_api import ResponsesApi

from tests.fakes.http import DONE, Exchange

Json = dict[str, Any]

#: The tokens that the tests' Ollama reserves.
WINDOW = 50_000


class Refused(Exception):
    """A request against the rules."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.status = message, status


class Answering(Protocol):
    """One answer of a server, in the form of its API."""

    def begin(self) -> bytes: ...

    def chunk(self, chunk: Json) -> bytes:
        """What is sent for a chunk of a chat completion."""

    def comment(self) -> bytes:
        """What is sent while there is nothing to say."""

    def end(self) -> bytes:
        """What is sent at the end of a whole stream."""

    def whole(self, completion: Json) -> Json: ...


class SpokenApi(Protocol):
    """A provider's server.

    name: of the profile. reports: the tokens that it counts beside those of the prompt and the answer. has_json_object:
    whether it can be asked for a JSON object of any form.
    """

    name: str
    key_header: Any
    content_type: str
    reports: frozenset[str]
    has_json_object: bool

    def client(self) -> Api:
        """What a transport needs to speak to it."""

    def asked(self, exchange: Exchange) -> Json:
        """The request as the body of a chat completion. Raises Refused."""

    def answering(self) -> Answering: ...

    def error(self, status: int, message: str) -> Json: ...


class SpokenExchange(Exchange):
    """An exchange whose script knows the chat completions API only."""

    spoken: SpokenApi
    _answering: Answering

    @classmethod
    def of(cls, exchange: Exchange, spoken: SpokenApi) -> "SpokenExchange":
        self = cls.__new__(cls)
        self.__dict__.update(exchange.__dict__)
        self.spoken, self._answering = spoken, spoken.answering()
        return self

    @property
    def body(self) -> Any:
        return self.spoken.asked(self) if self.content else None

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        if isinstance(value, dict) and "error" in value:
            error = value["error"]
            value = self.spoken.error(status, error.get("message", "") if isinstance(error, dict) else error)
        elif isinstance(value, dict) and "choices" in value:
            value = self._answering.whole(value)
        super().json(value, status, **headers)

    def begin(self, status: int = 200, *, chunked: bool = True, **headers: str) -> None:
        super().begin(status, chunked=chunked, **{"content_type": self.spoken.content_type, **headers})
        super().write(self._answering.begin() or self._answering.comment())

    def write(self, data: bytes) -> None:
        spoken = b"".join(self._spoken(data))
        if spoken:
            super().write(spoken)

    def events(self, values: Any, *, done: bool = True) -> None:
        self.begin()
        for value in values:
            self.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        if done:
            self.write(DONE)
        self.end()

    def _spoken(self, data: bytes) -> Iterator[bytes]:
        for line in data.split(b"\n\n"):
            if line.startswith(b":"):
                yield self._answering.comment()
            elif line.startswith(b"data: [DONE]"):
                yield self._answering.end()
            elif line.startswith(b"data: "):
                yield self._answering.chunk(json.loads(line[6:]))


def text_of(blocks: Any, kind: str = "text") -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == kind)


def need(is_met: object, message: str) -> None:
    if not is_met:
        raise Refused(message)


# Anthropic's Messages API: https://platform.claude.com/docs/en/api/messages and the pages about errors, tool use,
# thinking, caching and streaming.

_MESSAGES_FIELDS = frozenset(
    {"model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "output_config", "stream",
     "temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier"}
)  # fmt: skip
_ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
                404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error",
                529: "overloaded_error"}  # fmt: skip
_TOOL_NAME, _TOOL_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}"), re.compile(r"[a-zA-Z0-9_-]+")
_THOUGHTS = ("thinking", "redacted_thinking")
_MOST_BREAKPOINTS = 4
_LEAST_BUDGET = 1_024


class SpokenMessages:
    name = "anthropic-messages"
    key_header = "x-api-key"
    content_type = "text/event-stream; charset=utf-8"
    reports = frozenset({"cached", "cache_writes"})
    has_json_object = False

    def client(self) -> Api:
        return MessagesApi()

    def error(self, status: int, message: str) -> Json:
        error = {"type": _ERROR_TYPES.get(status, "api_error"), "message": message}
        return {"type": "error", "error": error, "request_id": "req_1"}

    def answering(self) -> Answering:
        return _MessagesAnswer()

    def asked(self, exchange: Exchange) -> Json:
        if exchange.path.partition("?")[0] != "/v1/messages":
            raise Refused("Not Found", 404)
        if "x-api-key" not in exchange.headers:
            raise Refused("x-api-key header is required", 401)
        need(exchange.headers.get("anthropic-version") == "2023-06-01", "anthropic-version: header is required")
        body = json.loads(exchange.content)
        for name in body:
            need(name in _MESSAGES_FIELDS, f"{name}: Extra inputs are not permitted")
        for name in ("model", "max_tokens", "messages"):
            need(name in body, f"{name}: Field required")
        need(body["max_tokens"] >= 1, "max_tokens: Input should be greater than or equal to 1")
        _check_thinking(body)
        _check_tools(body)
        _check_turns(body["messages"])
        _check_thoughts(body)
        marked = [block for block in _all_blocks(body) if "cache_control" in block]
        need(len(marked) <= _MOST_BREAKPOINTS, "A maximum of 4 blocks with cache_control may be provided.")
        return _completion(body)


def _check_thinking(body: Json) -> None:
    thinking = body.get("thinking", {"type": "disabled"})
    if thinking["type"] == "enabled":
        need(thinking["budget_tokens"] >= _LEAST_BUDGET, "thinking.enabled.budget_tokens: must be at least 1024")
        need(thinking["budget_tokens"] < body["max_tokens"], "`max_tokens` must be greater than `budget_tokens`")
    if thinking["type"] != "disabled":
        need(body.get("temperature", 1) == 1, "`temperature` may only be set to 1 when thinking is enabled.")
        is_forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
        need(not is_forced, "Thinking may not be enabled when tool_choice forces tool use.")
    need(0 <= body.get("temperature", 0) <= 1, "temperature: range: 0..1")


def _check_thoughts(body: Json) -> None:
    """Thoughts come first in an answer and unchanged. A model with a budget begins its turn with them."""
    turns, thinking = body["messages"], body.get("thinking", {}).get("type")
    for number, turn in enumerate(turns):
        kinds = [block["type"] in _THOUGHTS for block in turn["content"]]
        need(kinds == sorted(kinds, reverse=True), f"messages.{number}: thinking blocks must come first")
        need(not any(kinds) or turn["role"] == "assistant", f"messages.{number}: unexpected thinking block")
        need(not any(kinds) or thinking != "disabled", "thinking blocks require thinking to be enabled")
        for block in turn["content"]:
            if block["type"] == "thinking":
                is_own = block["signature"] == signature_of(block["thinking"])
                need(is_own, f"messages.{number}.content.0: Invalid `signature` in `thinking` block")
    own_turn = list(itertools.takewhile(_is_of_the_models_turn, reversed(turns)))
    if thinking == "enabled" and len(own_turn) > 1:
        first = own_turn[-1] if own_turn[-1]["role"] == "assistant" else own_turn[-2]
        need(first["content"][0]["type"] in _THOUGHTS, "Expected `thinking` or `redacted_thinking`, but found another")


def _is_of_the_models_turn(turn: Json) -> bool:
    return turn["role"] == "assistant" or any(block["type"] == "tool_result" for block in turn["content"])


def signature_of(thoughts: str) -> str:
    """What the provider signs thoughts with."""
    return hashlib.sha256(thoughts.encode()).hexdigest()


def _check_tools(body: Json) -> None:
    names = [tool["name"] for tool in body.get("tools", ())]
    for tool in body.get("tools", ()):
        need(_TOOL_NAME.fullmatch(tool["name"]), "tools.0.custom.name: String should match pattern")
        need(tool["input_schema"].get("type") == "object", "tools.0.custom.input_schema.type: Field required")
    choice = body.get("tool_choice")
    need(choice is None or names, "tool_choice may only be specified while providing tools.")
    if choice and choice["type"] == "tool":
        need(choice["name"] in names, "Tool not found in provided tools")
        is_refused = re.search(r"claude-(fable|mythos|opus-5-5)", body["model"])
        need(not is_refused, 'tool_choice: type "tool" and "any" are not supported for this model.')


def _check_turns(turns: list[Json]) -> None:
    need(turns, "messages: at least one message is required")
    need(turns[0]["role"] == "user", 'messages: first message must use the "user" role')
    need(turns[-1]["role"] == "user", "This model does not support assistant message prefill.")
    waiting: set[str] = set()
    last_role = ""
    for number, turn in enumerate(turns):
        need(turn["role"] in ("user", "assistant"), f"messages.{number}.role: unexpected role {turn['role']}")
        need(turn["role"] != last_role, "messages: roles must alternate between user and assistant")
        need(turn["content"], f"messages.{number}: all messages must have non-empty content")
        last_role = turn["role"]
        blocks = turn["content"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        begin = [block["type"] for block in blocks[: len(results)]]
        need(begin == ["tool_result"] * len(results), f"messages.{number}: tool_result blocks must come first")
        for result in results:
            need(result in waiting, f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks")
        missing = waiting - set(results)
        need(not missing, f"messages.{number}: `tool_use` ids were found without `tool_result` blocks: {missing}")
        waiting = set()
        for block in blocks:
            if block["type"] == "text":
                need(block["text"].strip(), "messages: text content blocks must contain non-whitespace text")
            if block["type"] == "tool_use":
                need(_TOOL_ID.fullmatch(block["id"]), "tool_use.id: String should match pattern")
                need(isinstance(block["input"], dict), "tool_use.input: Input should be a valid dictionary")
                waiting.add(block["id"])


def _all_blocks(body: Json) -> Iterator[Json]:
    yield from body.get("tools", ())
    yield from body.get("system", ())
    for turn in body["messages"]:
        yield from turn["content"]


def _completion(body: Json) -> Json:
    """The request as a chat completion."""
    told: list[Json] = []
    if body.get("system"):
        told.append({"role": "system", "content": text_of(body["system"])})
    for turn in body["messages"]:
        told += _told(turn)
    asked: Json = {"model": body["model"], "messages": told, "max_tokens": body["max_tokens"]}
    asked |= {name: body[name] for name in ("stream", "temperature", "top_p", "thinking") if name in body}
    if "tools" in body:
        asked["tools"] = [
            {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}
            for tool in body["tools"]
        ]
        asked["tool_choice"] = body.get("tool_choice", {"type": "auto"})
    answer_format = body.get("output_config", {}).get("format")
    if answer_format:
        asked["response_format"] = {"type": "json_schema", "json_schema": {"schema": answer_format["schema"]}}
    return asked


def _told(turn: Json) -> Iterator[Json]:
    blocks = turn["content"]
    for block in blocks:
        if block["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(block.get("content", ()))}
    calls = [
        {"id": block["id"], "function": {"name": block["name"], "arguments": json.dumps(block["input"])}}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    text = text_of(blocks)
    if text or calls:
        yield {"role": turn["role"], "content": text, **({"tool_calls": calls} if calls else {})}


class _MessagesAnswer:
    def __init__(self) -> None:
        self._block, self._kind, self._thoughts = -1, "", ""
        self._reason: str | None = None
        self._explanation: str | None = None
        self._usage: Json = {}

    def begin(self) -> bytes:
        message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                   "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        return self._event("message_start", message=message) + self.comment()

    def comment(self) -> bytes:
        return self._event("ping")

    def chunk(self, chunk: Json) -> bytes:
        if "error" in chunk:
            error = chunk["error"]
            return self._event("error", error={"type": error.get("type", "api_error"), "message": error["message"]})
        self._usage = chunk.get("usage") or self._usage
        sent = b""
        for choice in chunk["choices"]:
            sent += self._delta(choice.get("delta") or {})
            self._reason = choice.get("finish_reason") or self._reason
        return sent

    def _delta(self, delta: Json) -> bytes:
        sent = b""
        if delta.get("reasoning_content"):
            sent += self._piece("thinking", {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta",
                                thinking=delta["reasoning_content"])  # fmt: skip
            self._thoughts += delta["reasoning_content"]
        if delta.get("content"):
            sent += self._piece("text", {"type": "text", "text": ""}, "text_delta", text=delta["content"])
        for call in delta.get("tool_calls") or ():
            function = call["function"]
            block = {"type": "tool_use", "id": f"toolu_{call['index']}", "name": function.get("name"), "input": {}}
            sent += self._piece(f"call {call['index']}", block, "input_json_delta", partial_json=function["arguments"])
        self._explanation = delta.get("refusal") or self._explanation
        return sent

    def _piece(self, kind: str, block: Json, delta: str, **content: str) -> bytes:
        sent = b""
        if kind != self._kind:
            sent += self._stopped()
            self._block, self._kind = self._block + 1, kind
            sent += self._event("content_block_start", index=self._block, content_block=block)
        return sent + self._event("content_block_delta", index=self._block, delta={"type": delta, **content})

    def _stopped(self) -> bytes:
        signed = b""
        if self._kind == "thinking":
            delta = {"type": "signature_delta", "signature": signature_of(self._thoughts)}
            signed, self._thoughts = self._event("content_block_delta", index=self._block, delta=delta), ""
        return signed + self._event("content_block_stop", index=self._block) if self._kind else b""

    def end(self) -> bytes:
        if self._reason is None and self._explanation is None:
            return b""
        delta = self._stop()
        return (
            self._stopped()
            + self._event("message_delta", delta=delta, usage=_anthropic_usage(self._usage))
            + self._event("message_stop")
        )

    def _stop(self) -> Json:
        if self._explanation is not None:
            details = {"type": "refusal", "category": None, "explanation": self._explanation}
            return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
        reason = {"length": "max_tokens", "stop": "tool_use" if self._kind.startswith("call") else "end_turn"}
        return {"stop_reason": reason.get(self._reason or "", self._reason), "stop_sequence": None}

    def whole(self, completion: Json) -> Json:
        choice = completion["choices"][0]
        message = choice["message"]
        content: list[Json] = []
        if message.get("reasoning_content"):
            thoughts = message["reasoning_content"]
            content.append({"type": "thinking", "thinking": thoughts, "signature": signature_of(thoughts)})
        if message.get("content"):
            content.append({"type": "text", "text": message["content"]})
        for number, call in enumerate(message.get("tool_calls") or ()):
            self._kind = "call"
            arguments = call["function"]["arguments"]
            try:
                given = json.loads(arguments)
            except ValueError:
                given = {"broken": arguments}  # a whole answer has only objects
            content.append({"type": "tool_use", "id": f"toolu_{number}", "name": call["function"]["name"],
                            "input": given})  # fmt: skip
        self._reason, self._explanation = choice["finish_reason"], message.get("refusal")
        stop = self._stop() if self._reason or self._explanation else {"stop_reason": None}
        usage = _anthropic_usage(completion.get("usage") or {})
        return {"id": "msg_1", "type": "message", "role": "assistant", "content": content, "usage": usage, **stop}

    @staticmethod
    def _event(type_: str, **fields: Any) -> bytes:
        data = json.dumps({"type": type_, **fields})
        return f"event: {type_}\ndata: {data}\n\n".encode()


def _anthropic_usage(usage: Json) -> Json:
    if not usage:
        return {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    written = (usage.get("prompt_tokens_details") or {}).get("cache_write_tokens", 0)
    return {
        "input_tokens": usage["prompt_tokens"] - cached - written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": usage["completion_tokens"],
    }


# Ollama's API: https://docs.ollama.com/api/chat and its pages about errors, streaming and thinking.

_OLLAMA_FIELDS = frozenset(
    {"model", "messages", "stream", "format", "options", "tools", "think", "keep_alive", "truncate", "shift"}
)
_LEVELS = (True, False, "low", "medium", "high")
#: What it reserves on most machines unless it is told.
_USUAL_WINDOW = 4_096
_CHARS_PER_TOKEN = 4


class SpokenOllama:
    name = "ollama-chat"
    key_header = "Authorization"
    content_type = "application/x-ndjson"
    reports = frozenset[str]()
    has_json_object = True

    def client(self) -> Api:
        return OllamaApi(lambda _model: WINDOW)

    def error(self, status: int, message: str) -> Json:
        return {"error": message}

    def answering(self) -> Answering:
        return _OllamaAnswer()

    def asked(self, exchange: Exchange) -> Json:
        if exchange.path != "/v1/chat":
            raise Refused("404 page not found", 404)
        body = json.loads(exchange.content)
        for name in body:
            need(name in _OLLAMA_FIELDS, f"the documents know no field {name}")
        need(body.get("model"), "model is required")
        need(body.get("think", True) in _LEVELS, f"invalid think value: {body.get('think')}")
        answer_format = body.get("format", "json")
        need(answer_format == "json" or isinstance(answer_format, dict), "invalid format: expected an object")
        options = body.get("options", {})
        need(set(options) <= {"num_ctx", "num_predict", "temperature", "top_p", "seed", "top_k"}, "unknown option")
        told = [_from_ollama(message) for message in body["messages"]]
        tokens = len(json.dumps(body["messages"])) // _CHARS_PER_TOKEN
        if tokens > options.get("num_ctx", _USUAL_WINDOW):
            if body.get("truncate") is False:
                raise Refused(f"the prompt has {tokens} tokens, which exceeds the context length")
            told = told[-1:]
        asked: Json = {"model": body["model"], "messages": told, "stream": body.get("stream", True)}
        asked |= {name: options[name] for name in ("temperature", "top_p", "seed") if name in options}
        if "tools" in body:
            asked["tools"] = body["tools"]
        if isinstance(body.get("format"), dict):
            asked["response_format"] = {"type": "json_schema", "json_schema": {"schema": body["format"]}}
        elif "format" in body:
            asked["response_format"] = {"type": "json_object"}
        return asked


def _from_ollama(message: Json) -> Json:
    need(message["role"] in ("system", "user", "assistant", "tool"), f"invalid role {message['role']}")
    need(isinstance(message["content"], str), "cannot unmarshal array into Message.content of type string")
    told: Json = {"role": message["role"], "content": message["content"]}
    for image in message.get("images", ()):
        need(re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", image), "illegal base64 data")
    if "tool_calls" in message:
        for call in message["tool_calls"]:
            need(isinstance(call["function"]["arguments"], dict), "Value looks like object, but can't find closing")
        told["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]
    if message["role"] == "tool":
        need(message.get("tool_name"), "a result names its tool")
        told["tool_call_id"] = message.get("tool_call_id")
    return told


class _OllamaAnswer:
    def __init__(self) -> None:
        self._calls: dict[int, Json] = {}
        self._reason: str | None = None
        self._usage: Json = {}

    def begin(self) -> bytes:
        return b""

    def comment(self) -> bytes:
        return b"\n"

    def chunk(self, chunk: Json) -> bytes:
        if "error" in chunk:
            return self._line({"error": chunk["error"]["message"]})
        self._usage = chunk.get("usage") or self._usage
        sent = b""
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            self._reason = choice.get("finish_reason") or self._reason
            for call in delta.get("tool_calls") or ():  # calls are sent when they are whole
                known = self._calls.setdefault(call["index"], {"name": "", "arguments": ""})
                known["name"] = call["function"].get("name") or known["name"]
                known["arguments"] += call["function"]["arguments"]
            message = {"role": "assistant", "content": delta.get("content") or ""}
            if delta.get("reasoning_content"):
                message["thinking"] = delta["reasoning_content"]
            if message["content"] or "thinking" in message:
                sent += self._part(message)
        return sent

    def end(self) -> bytes:
        if self._reason is None:
            return b""
        sent = b""
        if self._calls:
            calls = [self._whole_call(call) for call in self._calls.values()]
            sent = self._part({"role": "assistant", "content": "", "tool_calls": calls})
        return sent + self._part({"role": "assistant", "content": ""}, **self._last(self._usage))

    def whole(self, completion: Json) -> Json:
        choice = completion["choices"][0]
        message: Json = {"role": "assistant", "content": choice["message"].get("content") or ""}
        if choice["message"].get("tool_calls"):
            message["tool_calls"] = [self._whole_call(call["function"]) for call in choice["message"]["tool_calls"]]
        self._reason = choice["finish_reason"]
        last = self._last(completion.get("usage") or {}) if self._reason else {"done": False}
        return {"model": "m", "created_at": "2026-11-27T00:00:00Z", "message": message, **last}

    @staticmethod
    def _whole_call(function: Json) -> Json:
        try:
            arguments = json.loads(function["arguments"])
        except ValueError:
            arguments = {"broken": function["arguments"]}
        return {"function": {"name": function["name"], "arguments": arguments}}

    def _last(self, usage: Json) -> Json:
        counts = (
            {"prompt_eval_count": usage["prompt_tokens"], "eval_count": usage["completion_tokens"]} if usage else {}
        )
        return {"done": True, "done_reason": self._reason, "total_duration": 1, **counts}

    def _part(self, message: Json, **more: Any) -> bytes:
        return self._line(
            {"model": "m", "created_at": "2026-11-27T00:00:00Z", "message": message, "done": False, **more}
        )

    @staticmethod
    def _line(value: Json) -> bytes:
        return json.dumps(value).encode() + b"\n"


# OpenAI's Responses API: its reference, and the guides about streaming, function calling and structured outputs.

_RESPONSES_FIELDS = frozenset(
    {"model", "input", "instructions", "stream", "store", "text", "tools", "tool_choice", "parallel_tool_calls",
     "reasoning", "max_output_tokens", "temperature", "top_p", "include", "metadata", "prompt_cache_key",
     "prompt_cache_options"}
)  # fmt: skip


class SpokenResponses:
    name = "openai-responses"
    key_header = "Authorization"
    content_type = "text/event-stream; charset=utf-8"
    reports = frozenset({"cached", "cache_writes", "reasoning"})
    has_json_object = True

    def __init__(self) -> None:
        #: Whether the last request asked for encrypted reasoning.
        self.encrypts = False

    def client(self) -> Api:
        return ResponsesApi()

    def error(self, status: int, message: str) -> Json:
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}

    def answering(self) -> Answering:
        return _ResponsesAnswer(self)

    def asked(self, exchange: Exchange) -> Json:
        if exchange.path != "/v1/responses":
            raise Refused("Invalid URL", 404)
        body = json.loads(exchange.content)
        for name in body:
            need(name in _RESPONSES_FIELDS, f"Unknown parameter: '{name}'.")
        need(body.get("model") and body.get("input"), "Missing required parameter")
        need(body.get("store") is False, "nothing is to be stored")
        self.encrypts = "reasoning.encrypted_content" in body.get("include", ())
        need(not self.encrypts or "gpt-4" not in body["model"], "Encrypted content is not supported with this model.")
        _check_reasoning(body["input"])
        for tool in body.get("tools", ()):
            need({"type", "name", "parameters"} <= tool.keys(), "Missing required parameter: 'tools[0].name'.")
        asked: Json = {"model": body["model"], "messages": _from_items(body["input"])}
        asked |= {name: body[name] for name in ("stream", "temperature", "top_p", "tool_choice") if name in body}
        if "tools" in body:
            asked["tools"] = [{"type": "function", "function": tool} for tool in body["tools"]]
        answer_format = body.get("text", {}).get("format")
        if answer_format and answer_format["type"] == "json_schema":
            need("name" in answer_format, "Missing required parameter: 'text.format.name'.")
            asked["response_format"] = {"type": "json_schema", "json_schema": answer_format}
        elif answer_format:
            asked["response_format"] = answer_format
        return asked


def _check_reasoning(items: list[Json]) -> None:
    """Reasoning is encrypted, because nothing is stored, and an item of the same answer follows it."""
    nothing: Json = {}
    for item, following in itertools.zip_longest(items, items[1:], fillvalue=nothing):
        if item.get("type") != "reasoning":
            continue
        need(item.keys() == {"type", "id", "summary", "encrypted_content"}, "Unknown parameter of a reasoning item")
        need(item["encrypted_content"] == encrypted(item["summary"][0]["text"]), "invalid_encrypted_content")
        is_followed = following.get("type") == "function_call" or following.get("role") == "assistant"
        need(is_followed, f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.")


def encrypted(reasoning: str) -> str:
    return f"gAAAA{hashlib.sha256(reasoning.encode()).hexdigest()}"


def _from_items(items: list[Json]) -> list[Json]:
    told: list[Json] = []
    waiting: set[str] = set()
    for number, item in enumerate(items):
        match item.get("type", "message"):
            case "message":
                need(item["role"] in ("system", "developer", "user", "assistant"), f"Invalid value: input[{number}]")
                text_type = "output_text" if item["role"] == "assistant" else "input_text"
                parts = item["content"]
                parts = parts if isinstance(parts, list) else [{"type": text_type, "text": parts}]
                for part in parts:
                    need(part["type"] in (text_type, "input_image"), f"Invalid value: '{part['type']}'.")
                told.append({"role": item["role"], "content": text_of(parts, text_type)})
            case "function_call":
                need(isinstance(item["arguments"], str), f"Invalid type for input[{number}].arguments")
                waiting.add(item["call_id"])
                if not told or told[-1]["role"] != "assistant":
                    told.append({"role": "assistant", "content": ""})
                call = {"id": item["call_id"], "function": {"name": item["name"], "arguments": item["arguments"]}}
                told[-1].setdefault("tool_calls", []).append(call)
            case "reasoning":
                pass
            case "function_call_output":
                need(item["call_id"] in waiting, f"No tool call found for function call output {item['call_id']}.")
                waiting.remove(item["call_id"])
                output = item["output"] if isinstance(item["output"], str) else text_of(item["output"], "input_text")
                told.append({"role": "tool", "tool_call_id": item["call_id"], "content": output})
            case kind:
                raise Refused(f"Invalid value: '{kind}'.")
    need(not waiting, f"No tool output found for function call {waiting}.")
    return told


class _ResponsesAnswer:
    def __init__(self, spoken_api: SpokenResponses) -> None:
        self._spoken = spoken_api
        self._reasoning = ""
        self._kinds: list[str] = []
        self._calls: dict[str, Json] = {}
        self._reason: str | None = None
        self._usage: Json = {}

    def begin(self) -> bytes:
        return self._event("response.created", response={"object": "response", "status": "in_progress", "error": None})

    def comment(self) -> bytes:
        return b": keep-alive\n\n"

    def chunk(self, chunk: Json) -> bytes:
        if "error" in chunk:
            error = chunk["error"]
            return self._event("error", code=error.get("code"), message=error["message"], param=None)
        self._usage = chunk.get("usage") or self._usage
        sent = b""
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            self._reason = choice.get("finish_reason") or self._reason
            if delta.get("reasoning_content"):
                self._reasoning += delta["reasoning_content"]
                sent += self._piece("reasoning", "response.reasoning_summary_text.delta", delta["reasoning_content"])
            if delta.get("content"):
                sent += self._piece("message", "response.output_text.delta", delta["content"])
            if delta.get("refusal"):
                sent += self._piece("message", "response.refusal.delta", delta["refusal"])
            for call in delta.get("tool_calls") or ():
                kind, function = f"call {call['index']}", call["function"]
                known = self._calls.setdefault(kind, {"type": "function_call", "call_id": f"call_{call['index']}",
                                                      "name": function.get("name"), "arguments": ""})  # fmt: skip
                sent += self._piece(kind, "response.function_call_arguments.delta", function["arguments"], known)
                known["arguments"] += function["arguments"]
        return sent

    def _piece(self, kind: str, type_: str, text: str, item: Json | None = None) -> bytes:
        sent = b""
        if kind not in self._kinds:
            if self._kinds == ["reasoning"]:
                sent += self._event("response.output_item.done", output_index=0, item=self._reasoning_item())
            self._kinds.append(kind)
            number = len(self._kinds) - 1
            sent += self._event("response.output_item.added", output_index=number, item=item or {"type": kind})
        return sent + self._event(type_, output_index=self._kinds.index(kind), content_index=0, delta=text)

    def end(self) -> bytes:
        if self._reason is None:
            return b""
        done = b"".join(
            self._event("response.output_item.done", output_index=number, item=self._calls.get(kind, {"type": kind}))
            for number, kind in enumerate(self._kinds)
            if kind != "reasoning" or self._kinds == ["reasoning"]
        )
        response = self._response([])
        return done + self._event(f"response.{response['status']}", response=response)

    def _reasoning_item(self) -> Json:
        summary = [{"type": "summary_text", "text": self._reasoning}] if self._reasoning else []
        item: Json = {"type": "reasoning", "id": "rs_1", "summary": summary, "status": "completed"}
        return {**item, "encrypted_content": encrypted(self._reasoning)} if self._spoken.encrypts else item

    def _response(self, output: list[Json]) -> Json:
        response: Json = {"id": "resp_1", "object": "response", "error": None, "output": output}
        if self._reason is None:
            return {**response, "status": "in_progress"}
        reason = {"length": "max_output_tokens"}.get(self._reason, self._reason)
        is_complete = self._reason in ("stop", "tool_calls")
        details = None if is_complete else {"reason": reason}
        usage = self._usage
        counts = {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": usage.get("prompt_tokens_details", {"cached_tokens": 0}),
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": usage.get("completion_tokens_details", {}),
        } if usage else None  # fmt: skip
        status = "completed" if is_complete else "incomplete"
        return {**response, "status": status, "incomplete_details": details, "usage": counts}

    def whole(self, completion: Json) -> Json:
        choice = completion["choices"][0]
        message = choice["message"]
        content: list[Json] = []
        if message.get("content"):
            content.append({"type": "output_text", "text": message["content"], "annotations": []})
        if message.get("refusal"):
            content.append({"type": "refusal", "refusal": message["refusal"]})
        self._reasoning = message.get("reasoning_content", "")
        output: list[Json] = [self._reasoning_item()]
        if content or not message.get("tool_calls"):
            output.append({"type": "message", "content": content})
        for call in message.get("tool_calls") or ():
            output.append({"type": "function_call", "call_id": "call_1", **call["function"]})
        self._reason, self._usage = choice["finish_reason"], completion.get("usage") or {}
        return self._response(output)

    @staticmethod
    def _event(type_: str, **fields: Any) -> bytes:
        return f"event: {type_}\ndata: {json.dumps({'type': type_, **fields})}\n\n".encode()


def _converse() -> SpokenApi:
    from tests.fakes.model.converse import SpokenConverse  # it needs this module

    return SpokenConverse()


#: The APIs beside the chat completions API, by the names of their profiles.
SPOKEN: Mapping[str, Callable[[], SpokenApi]] = {
    "openai-responses": SpokenResponses,
    "anthropic-messages": SpokenMessages,
    "ollama-chat": SpokenOllama,
    "bedrock-converse": _converse,
}


def spoken(name: str) -> SpokenApi | None:
    """The server's side of the profile's API; None for chat completions."""
    make = SPOKEN.get(name)
    return make() if make is not None else None


def client(spoken_api: SpokenApi | None) -> Api:
    """The client's side."""
    return ChatCompletionsApi() if spoken_api is None else spoken_api.client()
