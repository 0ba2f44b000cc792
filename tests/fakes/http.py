"""Web servers in a test's process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any

Handler = Callable[..., BaseHTTPRequestHandler]
#: How often a server looks whether it shall end, in seconds. Python's half second is waited for by each test.
POLL_S = 0.01


class Quiet:
    """A handler that does not log its requests."""

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(handler: Handler, port: int = 0, tls: SSLContext | None = None) -> Iterator[int]:
    """The port of a server; 0 is any that is free."""
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
