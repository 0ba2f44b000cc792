"""A model that costs nothing: an OpenAI-compatible stream, prepared before the first request.

The user's message may say `pieces=N` and `rate=N` (pieces per second; absent: at full speed), `silence=S` (seconds
before the first piece), `stamps=1` (each piece is the time at which it is sent) and `clock=1` (a last piece more: the
time of the end), by the machine's monotonic clock. The answer is an object with `message` and `calls` if the request
has a `response_format`, else plain text. If the request lets it choose an `agent`, it chooses `universal`.
Run as `python -m benchmarks.instant_model PORT`.
"""

import asyncio
import json
import re
import sys
import time

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_SETTING = re.compile(r"(pieces|rate|silence|clock|stamps)=([0-9.]+)")
PIECE = "abc "


def _content(piece: str) -> bytes:
    return _event({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})


def _event(fields: dict[str, object]) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "instant", **fields}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


_PIECE = _content(PIECE)
_END = (
    _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    + _event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}})
    + b"data: [DONE]\n\n"
)


def _whole(solution: dict[str, object]) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": json.dumps(solution)}, "finish_reason": "stop"}
    return _answer({"object": "chat.completion", "choices": [choice]})


def _answer(value: dict[str, object]) -> bytes:
    data = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data) + data


#: Only the Request for a summary of a long history is not streamed.
_SUMMARY = _whole({"summary": "A talk.", "decisions": [], "open_tasks": [], "files": [], "facts": []})


#: `/health` asks for the models.
_MODELS = _answer({"object": "list", "data": []})


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET "):
                writer.write(_MODELS)
                continue
            found = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            assert found is not None, "the SDK says how long its body is"
            body = json.loads(await reader.readexactly(int(found[1])))
            asked = [message["content"] for message in body["messages"] if message["role"] == "user"][-1]
            settings = {name: float(value) for name, value in _SETTING.findall(asked)}
            if not body.get("stream"):
                writer.write(_SUMMARY)
                continue
            pieces = int(settings.get("pieces", 1))
            if "silence" in settings:
                await asyncio.sleep(settings["silence"])
            writer.write(_HEAD)
            before, after = ('"message":"', '","calls":[]}') if "response_format" in body else ("", "")
            if before:
                chooses = "agent" in body["response_format"]["json_schema"]["schema"]["properties"]
                before = '{"agent":"universal",' + before if chooses else "{" + before
            _chunk(writer, _content(before))
            began = asyncio.get_running_loop().time()
            for n in range(pieces):
                if writer.is_closing():  # the client has hung up, as a cancelled turn does
                    return
                _chunk(writer, _content(f"{time.monotonic():.6f} ") if "stamps" in settings else _PIECE)
                if "rate" in settings:
                    await asyncio.sleep(began + (n + 1) / settings["rate"] - asyncio.get_running_loop().time())
                elif n % 100 == 0:
                    await writer.drain()
            if "clock" in settings:
                after = f"{time.monotonic():.6f}{after}"
            _chunk(writer, _content(after) + _END)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def main(port: int) -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
