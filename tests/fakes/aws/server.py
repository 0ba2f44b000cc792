"""An HTTP server that answers as a test says."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Received:
    connection: int
    start: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """`answers` are sent one per request: bytes as they are, b"" as a close; None is no answer. Then `{}` is."""

    port: int
    answers: list[bytes | None] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    #: Close each connection after an answer without telling.
    closes: bool = False
    closed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as stream, suppress(OSError):
            while start := stream.readline().decode().strip():
                headers = {}
                while line := stream.readline().decode().strip():
                    name, _, value = line.partition(": ")
                    headers[name.lower()] = value
                body = stream.read(int(headers.get("content-length", 0)))
                self.received.append(Received(number, start, headers, body))
                answer = self.answers.pop(0) if self.answers else http(200, {})
                if answer is None:
                    continue
                connection.sendall(answer)
                if self.closes or not answer:
                    connection.shutdown(socket.SHUT_RDWR)
                    break
        self.closed.release()


def http(status: int, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """A response; `body` is bytes, or something to be told as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


@contextmanager
def serving() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener.getsockname()[1])

        def accept() -> None:
            with suppress(OSError):
                for number in range(1_000_000):
                    connection = listener.accept()[0]
                    threading.Thread(target=server.serve, args=(connection, number), daemon=True).start()

        thread = threading.Thread(target=accept)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)
