"""Stands between an agent and the model: the same sampling for every agent, the key kept from it, its tokens counted.

Every agent of a comparison asks through one of these, so none can set its own temperature, and none sees the key.
"""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_TIMEOUT_S = 900
#: How often the server looks whether it shall end: each attempt waits for that.
_POLL_S = 0.01
_MOST_PROBLEM = 300
#: What a server says whatever it was asked: the key, the model's name, or the quota is at fault, not the request.
_NO_ANSWER = (401, 403, 404, 429)
_FORWARDED = ("content-type", "retry-after")


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server. sampling: fields put into every body, such as `temperature` and `seed`."""

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    sampling: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Spent:
    """What an attempt has cost so far. answered: requests that succeeded. problem: why the server answered
    those since the last of them not at all; a request that it refused is the agent's.
    """

    requests: int = 0
    answered: int = 0
    problem: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    completion_tokens: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def tokens(self) -> int:
        """Prompts and answers together."""
        return self.prompt_tokens + self.completion_tokens

    def add(self, usage: Mapping[str, Any]) -> None:
        """Add the `usage` of an answer, under the names that providers give it."""
        details = usage.get("prompt_tokens_details") or {}
        with self.lock:
            self.prompt_tokens += int(usage.get("prompt_tokens") or 0)
            self.completion_tokens += int(usage.get("completion_tokens") or 0)
            self.cached_tokens += int(details.get("cached_tokens") or usage.get("cached_tokens") or 0)
            self.cache_write_tokens += int(details.get("cache_write_tokens") or 0)


@contextmanager
def serving(endpoint: Endpoint, spent: Spent, most_tokens: int | None = None) -> Iterator[str]:
    """Serve on 127.0.0.1; the base URL for the agent. After `most_tokens` tokens every request is refused with 402."""
    target = urlsplit(endpoint.base_url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._forward(None)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
            if self.path.endswith("/chat/completions"):
                body |= {"model": endpoint.model, **endpoint.sampling}
                if body.get("stream"):
                    body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
            self._forward(json.dumps(body).encode())

        def _forward(self, body: bytes | None) -> None:
            if body is not None and most_tokens is not None and spent.tokens >= most_tokens:
                self._answer(402, b'{"error": {"message": "the budget of tokens for this attempt is spent"}}')
                return
            kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
            connection = kind(target.netloc, timeout=_TIMEOUT_S)
            try:
                path = target.path.rstrip("/") + self.path.removeprefix("/v1")
                headers = {"content-type": "application/json", "authorization": f"Bearer {endpoint.key or 'none'}"}
                connection.request(self.command, path, body, headers)
                self._relay(connection.getresponse(), counted=body is not None)
            except (OSError, http.client.HTTPException) as error:
                with spent.lock:
                    spent.problem = repr(error)
                self._answer(502, json.dumps({"error": {"message": f"the model's server: {error!r}"}}).encode())
            finally:
                connection.close()
                self.close_connection = True

        def _relay(self, response: http.client.HTTPResponse, *, counted: bool) -> None:
            self.send_response(response.status)
            for name in _FORWARDED:
                if value := response.headers.get(name):
                    self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            lines = []
            while line := response.readline():
                lines.append(line)
                try:
                    self.wfile.write(line)
                except OSError:  # the agent has hung up, and so does this
                    break
            if counted:
                with spent.lock:
                    spent.requests += 1
                    if response.status < 400:
                        spent.answered += 1
                        spent.problem = ""
                    elif response.status in _NO_ANSWER or response.status >= 500:
                        spent.problem = (
                            f"{response.status} {b''.join(lines)[:_MOST_PROBLEM].decode('utf-8', 'replace')}"
                        )
                for usage in _usages(lines):
                    spent.add(usage)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _usages(lines: list[bytes]) -> Iterator[Mapping[str, Any]]:
    """The usage in an answer: of its one document, or of the last chunk of a stream that has any."""
    last: Mapping[str, Any] | None = None
    streamed = [line[5:].strip() for line in lines if line.startswith(b"data:")]
    for text in streamed or [b"".join(lines)]:
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("usage"), dict):
            last = found["usage"]
    if last is not None:
        yield last
