"""A provider on a real socket that sends scripted bytes at scripted times."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from tests.fakes.ide.ide import PATIENCE

Script = Callable[["Exchange"], None]

DONE = b"data: [DONE]\n\n"


class Exchange:
    """One request, and the ways to answer it."""

    def __init__(self, connection: socket.socket, headers: dict[str, str], body: dict[str, Any]) -> None:
        self.connection = connection
        self.headers = headers
        self.body = body
        self._chunked = False

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def begin(self, status: str = "200 OK", **headers: str) -> None:
        """Start a chunked stream."""
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.send(
            f"HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\n{more}transfer-encoding: chunked\r\n\r\n".encode()
        )
        self._chunked = True

    def write(self, data: bytes) -> None:
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        self.send(b"0\r\n\r\n")

    def events(self, objects: Iterable[Any], *, done: bool = True) -> None:
        """A whole stream of JSON events."""
        self.begin()
        for item in objects:
            self.write(event(item))
        if done:  # Together: a client does not wait long for what follows.
            self.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(DONE), DONE))
        else:
            self.end()

    def json(self, value: Any, status: str = "200 OK", **headers: str) -> None:
        data = json.dumps(value).encode()
        more = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
        self.send(
            f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}content-length: {len(data)}\r\n\r\n".encode()
            + data
        )

    def closed_by_client(self, timeout: float = PATIENCE) -> bool:
        """Whether the client closes the connection within the timeout."""
        self.connection.settimeout(timeout)
        try:
            return self.connection.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


class ScriptedServer:
    """Answers each request with the next script, and repeats the last one."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._closing = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def answer(self, *scripts: Script) -> None:
        self.scripts = list(scripts)

    def says(self, *texts: str, usage: dict[str, Any] | None = None, **finish: Any) -> None:
        """Answer with these texts, one per request, streamed if asked."""
        self.scripts = [saying(text, usage=usage, **finish) for text in texts]

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The thread must not be about to accept: it could do so on the next server's socket, which gets this number.
        self._closing = True
        socket.create_connection(self._socket.getsockname()).close()
        self._thread.join()
        self._socket.close()

    def _accept(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            if self._closing:
                connection.close()
                return
            self.connections += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            lines = connection.makefile("rb")
            while True:
                if not lines.readline():
                    return
                headers = {}
                while (line := lines.readline().strip()) != b"":
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = json.loads(lines.read(int(headers.get("content-length", 0))) or b"{}")
                self.requests.append(body)
                self.headers.append(headers)
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                script(Exchange(connection, headers, body))


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(text: str | None = None, *, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """A chunk of a streamed answer."""
    content = {} if text is None else {"content": text}
    return {"id": "x", "choices": [{"index": index, "delta": {**content, **more}, "finish_reason": finish}]}


def argument(text: str, *, index: int = 0, name: str | None = None) -> dict[str, Any]:
    """A chunk of a streamed function call."""
    function = {"arguments": text} | ({"name": name} if name else {})
    return delta(tool_calls=[{"index": index, "id": "call_1", "type": "function", "function": function}])


def saying(
    text: str, *, usage: dict[str, Any] | None = None, finish: str = "stop", size: int = 5, **message: Any
) -> Script:
    """An answer in the requested form: streamed or whole, as content or as a function call."""

    def script(exchange: Exchange) -> None:
        tools = exchange.body.get("tools")
        name = tools[0]["function"]["name"] if tools else None
        if not exchange.body.get("stream"):
            call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
            said = {"role": "assistant", "content": None, "tool_calls": [call]} if tools else {"content": text}
            choice = {"index": 0, "message": {**said, **message}, "finish_reason": finish}
            exchange.json({"choices": [choice], "usage": usage})
            return
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        chunks = [argument(p, name=None if i else name) if tools else delta(p) for i, p in enumerate(pieces)]
        if message:
            chunks.append(delta(**message))
        chunks.append(delta(finish=finish))
        if usage:
            chunks.append({"choices": [], "usage": usage})
        exchange.events(chunks)

    return script


def failing(status: int, message: str = "no", **headers: str) -> Script:
    """An error in OpenAI's form."""

    def script(exchange: Exchange) -> None:
        exchange.json(
            {"error": {"message": message, "type": "x", "param": None, "code": None}}, f"{status} X", **headers
        )

    return script
