"""A model that calls tools and fails one call in fifty. Run as `python -m benchmarks.soak_model PORT`.

A user's message names its turn: `[[session turn tools]]`. The answers are a function of that, so the client knows what
it must read. `GET /counts` returns how many calls came, how many of them were for summaries, and the failures by kind.
"""

import asyncio
import json
import re
import sys
from collections import Counter
from typing import Any

#: One call in so many fails, in each of these ways in turn.
ONE_IN = 50
FAILURES = ("status 500", "status 429", "closed", "cut", "invalid")

PIECES, PIECE_S = 40, 0.003
_MARKER = re.compile(r"\[\[(\S+) (\d+) (\d+)\]\]")
_TOOLS: list[dict[str, Any]] = [
    {"_tool": "read_file", "path": "a.py"},
    {"_tool": "write_file", "path": "b.py", "content": "x = 1\n" * 20},
]
_SUMMARY = {"summary": "A talk.", "decisions": [], "open_tasks": [], "files": [], "facts": []}


def asks(session: str, turn: int, tools: int) -> str:
    """A user's message that asks for an answer after so many calls."""
    return f"[[{session} {turn} {tools}]] " + "and why is that so? " * 20


def text(session: str, turn: int, step: int) -> str:
    """What the model says in that step."""
    return "".join(f"{session}.{turn}.{step}.{n} " for n in range(PIECES))


class Model:
    """Serves chat completions, streamed and whole."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET "):
                    _reply(writer, dict(self.counts) if b"/counts " in head else {"object": "list", "data": []})
                    continue
                found = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                assert found is not None, "the SDK says how long its body is"
                await self._answer(writer, json.loads(await reader.readexactly(int(found[1]))))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        wanted = body["response_format"]["json_schema"]["schema"]["properties"]
        summary = "open_tasks" in wanted
        self.counts["calls"] += 1
        self.counts["summaries"] += summary
        failure = ""
        if self.counts["calls"] % ONE_IN == 0:
            failure = FAILURES[self.counts["calls"] // ONE_IN % len(FAILURES)]
            self.counts[failure] += 1
        if failure.startswith("status"):
            _reply(writer, {"error": {"message": "It fails now and then"}}, failure.split()[1])
            return
        if failure == "closed":
            raise ConnectionAbortedError
        solution = _SUMMARY if summary else _solution(body["messages"], wanted)
        answer = json.dumps(solution)
        if failure == "invalid":
            answer = answer[:-1] + ", and so on"
        if body.get("stream"):
            await _stream(writer, answer, PIECES // 2 if failure == "cut" else None)
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
            _reply(writer, {"object": "chat.completion", "choices": [choice]}, cut=failure == "cut")


def _solution(messages: list[dict[str, Any]], wanted: dict[str, Any]) -> dict[str, Any]:
    """The answer to the newest message that names a turn, with the `wanted` fields."""
    named = [(n, found) for n, it in enumerate(messages) if it["role"] == "user" and (found := _named(it))]
    asked, (session, turn, tools) = named[-1]
    # An answer that is not valid JSON is sent back with a message that names no turn.
    last = messages[-1]
    tells_results = str(last["content"]).startswith("The results of these calls.")
    is_repair = last["role"] == "user" and asked < len(messages) - 1 and not tells_results
    step = sum(it["role"] == "assistant" for it in messages[asked:]) - is_repair
    calls = [_TOOLS[step % len(_TOOLS)]] if step < int(tools) else []
    return {
        name: value
        for name, value in {"message": text(session, int(turn), step), "calls": calls, "title": "Soak"}.items()
        if name in wanted
    }


def _named(message: dict[str, Any]) -> tuple[str, ...]:
    found = _MARKER.findall(json.dumps(message["content"]))
    return found[-1] if found else ()


async def _stream(writer: asyncio.StreamWriter, answer: str, cut_after: int | None) -> None:
    """Send the answer in pieces; `cut_after` so many, the stream ends without a finish reason."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    size = len(answer) // PIECES + 1
    for n, start in enumerate(range(0, len(answer), size)):
        if n == cut_after or writer.transport.is_closing():  # an invocation that does not get the step hangs up
            raise ConnectionAbortedError
        _chunk(writer, {"choices": [_choice(answer[start : start + size], None)]})
        await asyncio.sleep(PIECE_S)
    usage = {"prompt_tokens": 1_000, "completion_tokens": PIECES, "total_tokens": 1_000 + PIECES}
    _chunk(writer, {"choices": [_choice("", "stop")], "usage": usage})
    writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    await writer.drain()


def _choice(content: str, finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": {"content": content}, "finish_reason": finish_reason}


def _chunk(writer: asyncio.StreamWriter, fields: dict[str, Any]) -> None:
    data = b"data: " + json.dumps({"object": "chat.completion.chunk", **fields}).encode() + b"\n\n"
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _reply(writer: asyncio.StreamWriter, value: dict[str, Any], status: str = "200", *, cut: bool = False) -> None:
    data = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + (data[:10] if cut else data))
    if cut:
        raise ConnectionAbortedError


async def main(port: int) -> None:
    server = await asyncio.start_server(Model().serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
