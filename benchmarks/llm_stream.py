"""Measure the cost of reading a streamed answer: 80 KB of JSON in pieces of four characters.

    python benchmarks/llm_stream.py

Compares the scanner with jiter, which parses everything again with every piece, and with the state of openai's own
`.stream()`. Then reads the same answer through the whole client: socket, SDK, scanner and events.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.llm.scanner import Scanner

SIZE = 80_000
PIECE = 4
SCHEMA = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"_tool": {"const": "write"}, "content": {"type": "string"}},
                "required": ["_tool", "content"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["message", "calls"],
    "additionalProperties": False,
}


def answer(size: int) -> str:
    words = 'Lorem ipsum “dolor” sit\n amet, "x" \\ é 😀 '
    call = {"_tool": "write", "content": words * 10}
    calls = [call] * (size // 2 // len(json.dumps(call)))
    return json.dumps({"message": words * (size // 2 // len(words)), "calls": calls}, ensure_ascii=False)


def pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def cpu_ms(work: Callable[[], Any], times: int = 3) -> float:
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return 1000 * best


def scan(parts: list[str]) -> None:
    scanner = Scanner([("message",)], ("calls",))
    for part in parts:
        scanner.feed(part)


def parse_again(parts: list[str]) -> None:
    import jiter

    so_far = b""
    for part in parts:
        so_far += part.encode()
        jiter.from_json(so_far, partial_mode="trailing-strings")


def openai_state(parts: list[str]) -> None:
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    response_format: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
    state = ChatCompletionStreamState(response_format=response_format)
    for part in parts:
        choice: Any = {"index": 0, "delta": {"content": part}, "finish_reason": None}
        chunk = ChatCompletionChunk.construct(
            id="x", created=0, model="m", object="chat.completion.chunk", choices=[choice]
        )
        chunk = ChatCompletionChunk.model_validate(chunk.model_dump())
        list(state.handle_chunk(chunk))


def serve(parts: list[str]) -> str:
    """A provider that sends the whole stream as fast as the client reads it."""
    chunks = [{"id": "x", "choices": [{"index": 0, "delta": {"content": p}, "finish_reason": None}]} for p in parts]
    chunks.append({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]
    stream = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    listening = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            connection, _ = listening.accept()
            lines = connection.makefile("rb")
            while lines.readline():
                length = 0
                while (line := lines.readline().strip()) != b"":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                lines.read(length)
                connection.sendall(head + stream)

    threading.Thread(target=work, daemon=True).start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def main() -> int:
    parts, twice = pieces(answer(SIZE)), pieces(answer(2 * SIZE))
    one, two = cpu_ms(lambda: scan(parts), 7), cpu_ms(lambda: scan(twice), 7)
    print(f"{len(parts)} pieces of {PIECE} characters")
    print(f"scanner                  {one:9.1f} ms   {1000 * one / len(parts):7.2f} µs a piece")
    print(f"  twice the length       {two:9.1f} ms   {two / one:7.2f} times as much")
    print(f"jiter, parsing again     {cpu_ms(lambda: parse_again(parts), 1):9.1f} ms")
    print(f"openai's stream state    {cpu_ms(lambda: openai_state(parts), 1):9.1f} ms")
    transport = DirectTransport(base_url=serve(parts), api_key="x")
    context = [{"role": "user", "content": "Write."}]

    def whole() -> None:
        for _ in Request(RequestConfig("m"), SCHEMA, context).stream(transport):
            pass

    whole()
    spent = cpu_ms(whole)
    print(f"the whole client         {spent:9.1f} ms   {1000 * spent / len(parts):7.2f} µs a piece (server included)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
