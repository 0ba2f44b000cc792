"""Writing an answer: one JSON body, or server-sent events in the rhythm of a model."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from codelab_local.demo_model.completions import FINGERPRINT, Answer, ChatRequest, pieces, prompt_tokens

# Above so many wake-ups a second the pieces of each stream travel in groups, at the same speed on the whole.
_WAKEUPS_PER_SECOND = 4_000
_AT_ONCE = 64
_DONE = b"data: [DONE]\n\n"
_ids = count(1)


@dataclass(frozen=True)
class Delays:
    """Seconds before the first piece and between pieces."""

    first: float = 0.0
    piece: float = 0.01


def _head(request: ChatRequest, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-demonstration-{next(_ids)}",
        "object": kind,
        "created": int(time.time()),
        "model": request.model,
        "system_fingerprint": FINGERPRINT,
    }


def _usage(request: ChatRequest, written: int) -> dict[str, Any]:
    asked = prompt_tokens(request)
    return {
        "prompt_tokens": asked,
        "completion_tokens": written,
        "total_tokens": asked + written,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _call_id(index: int) -> str:
    return f"call_demo_{next(_ids)}_{index}"


@dataclass
class Cut:
    """An answer in pieces, cut off at the request's limit."""

    text: list[str]
    functions: list[tuple[str, list[str]]]
    finish: str

    @classmethod
    def of(cls, said: Answer, limit: int | None = None) -> "Cut":
        left = limit if limit is not None else 10**9
        text = pieces(said.text)
        finish = "length" if len(text) > left else "stop"
        text = text[:left]
        left -= len(text)
        functions = []
        for name, arguments in said.functions:
            if finish == "length":
                break
            cut = pieces(arguments)
            finish = "length" if len(cut) > left else "tool_calls"
            functions.append((name, cut[:left]))
            left -= len(functions[-1][1])
        return cls(text, functions, finish)

    def __len__(self) -> int:
        return len(self.text) + sum(len(arguments) for _, arguments in self.functions)


def whole(request: ChatRequest, cut: Cut) -> dict[str, Any]:
    """The body of a `chat.completion`."""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(cut.text), "refusal": None}
    if cut.functions:
        message["content"] = message["content"] or None
        message["tool_calls"] = [
            {"id": _call_id(index), "type": "function", "function": {"name": name, "arguments": "".join(arguments)}}
            for index, (name, arguments) in enumerate(cut.functions)
        ]
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": cut.finish}
        for index in range(request.choices)
    ]
    usage = _usage(request, len(cut) * request.choices)
    return {**_head(request, "chat.completion"), "choices": choices, "usage": usage}


def _events(request: ChatRequest, cut: Cut) -> Iterator[tuple[bool, bytes]]:
    """Every event of the stream, with whether it is a piece, which takes time to write."""
    start = json.dumps(_head(request, "chat.completion.chunk"), separators=(",", ":"))[:-1]
    usage = ',"usage":null' if request.include_usage else ""

    def event(index: int, delta: str, finish: str = "null") -> bytes:
        choice = f'{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":{finish}}}'
        return f'data: {start},"choices":[{choice}]{usage}}}\n\n'.encode("utf-8", "replace")

    for index in range(request.choices):
        yield False, event(index, '{"role":"assistant","content":"","refusal":null}')
    for piece in cut.text:
        delta = f'{{"content":{json.dumps(piece, ensure_ascii=False)}}}'
        for index in range(request.choices):
            yield index == 0, event(index, delta)
    for position, (name, arguments) in enumerate(cut.functions):
        opening = {
            "index": position,
            "id": _call_id(position),
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        for index in range(request.choices):
            yield False, event(index, json.dumps({"tool_calls": [opening]}))
        for piece in arguments:
            function = f'{{"arguments":{json.dumps(piece, ensure_ascii=False)}}}'
            delta = f'{{"tool_calls":[{{"index":{position},"function":{function}}}]}}'
            for index in range(request.choices):
                yield index == 0, event(index, delta)
    for index in range(request.choices):
        yield False, event(index, "{}", f'"{cut.finish}"')
    if request.include_usage:
        written = json.dumps(_usage(request, len(cut) * request.choices), separators=(",", ":"))
        yield False, f'data: {start},"choices":[],"usage":{written}}}\n\n'.encode()
    yield False, _DONE


async def events(
    request: ChatRequest, cut: Cut, delays: Delays, active: Callable[[], int]
) -> AsyncGenerator[bytes, None]:
    """The stream's bytes as they become due; `active` is the number of streams being written now."""
    if delays.first:
        await asyncio.sleep(delays.first)
    due = time.monotonic()
    ready: list[bytes] = []
    written, flushed = 0, False
    for is_piece, event in _events(request, cut):
        if is_piece and written:
            pause = None if flushed and written < _AT_ONCE else 0.0
            if delays.piece:
                due += delays.piece
                wait = due - time.monotonic()
                enough = written * delays.piece >= active() / _WAKEUPS_PER_SECOND
                pause = wait if wait > 0 and enough else pause
            if pause is not None:
                yield b"".join(ready)
                ready, written, flushed = [], 0, True
                await asyncio.sleep(pause)
        ready.append(event)
        written += is_piece
    yield b"".join(ready)
