"""An OpenAI-compatible endpoint of tests, which may answer anything."""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = tuple[int, bytes]

MODELS = {"data": [{"id": f"small-{n}"} for n in range(40)] + [{"id": "large-code"}, {"id": 3}, {"id": "\x1b[2J"}, 7]}
READY = {"choices": [{"message": {"role": "assistant", "content": "rea\x1b]0;owned\x07dy"}}]}


def as_answer(said: Any, status: int = 200) -> Answer:
    return status, json.dumps(said).encode()


class ModelEndpoint:
    """`with ModelEndpoint() as endpoint`. `answers` are by path; `asked` are the requests: path, key, body."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[BaseHTTPRequestHandler], None]] = {
            "/v1/models": as_answer(MODELS),
            "/v1/chat/completions": as_answer(READY),
        }
        self.asked: list[tuple[str, str, Any]] = []

    def __enter__(self) -> Self:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                key = self.headers.get("Authorization", "")
                endpoint.asked.append((self.path, key, json.loads(body) if body else None))
                found = endpoint.answers.get(self.path, (404, b"{}"))
                if callable(found):
                    found(self)
                    return
                self.send_response(found[0])
                if 300 <= found[0] < 400:
                    self.send_header("Location", "/v1/elsewhere")
                self.send_header("Content-Length", str(len(found[1])))
                self.end_headers()
                self.wfile.write(found[1])

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"


def drip(request: BaseHTTPRequestHandler) -> None:
    """Send a byte now and then, for as long as anybody waits."""
    request.send_response(200)
    request.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(200):
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.05)


def flood(request: BaseHTTPRequestHandler) -> None:
    """Send more than anybody can keep."""
    request.send_response(200)
    request.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(200):
            request.wfile.write(b"[" * 1_000_000)
