"""A gateway that throttles: for a while, it answers each frame with API Gateway's `Too Many Requests`."""

import json
import threading
import time
from types import TracebackType
from typing import Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import Server, ServerConnection, serve

from tests.waiting import PATIENCE


class ThrottlingProxy:
    """`with ThrottlingProxy(port, "user_message", seconds) as proxy`: forwards `proxy.port` to a port of this machine.

    first: the storm begins with the first frame of this type, and lasts `seconds`. only_first: other frames pass, as
    when a route has a throttle of its own. `refused` are the types of the frames that it answered itself.
    """

    def __init__(self, target: int, first: str, seconds: float, *, only_first: bool = False) -> None:
        self._target, self._first, self._seconds, self._only_first = target, first, seconds, only_first
        self._ends: float | None = None
        self._lock = threading.Lock()
        self.refused: list[str] = []

    def __enter__(self) -> Self:
        self._server: Server = serve(self._talk, "127.0.0.1", 0, compression=None, max_size=None)
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(PATIENCE)

    def _talk(self, near: ServerConnection) -> None:
        assert near.request is not None
        url = f"ws://127.0.0.1:{self._target}{near.request.path}"
        with connect(url, compression=None, max_size=None) as far:
            threading.Thread(target=_forward, args=(far, near), daemon=True).start()
            try:
                for message in near:
                    if self._admits(json.loads(message)["type"]):
                        far.send(message)
                    else:
                        near.send(json.dumps({"message": "Too Many Requests", "connectionId": "c=", "requestId": "r="}))
            except ConnectionClosed:
                pass

    def _admits(self, kind: str) -> bool:
        with self._lock:
            if self._ends is None and kind == self._first:
                self._ends = time.monotonic() + self._seconds
            if self._ends is None or time.monotonic() >= self._ends or (self._only_first and kind != self._first):
                return True
            self.refused.append(kind)
            return False


def _forward(source: ClientConnection, sink: ServerConnection) -> None:
    try:
        for message in source:
            sink.send(message)
    except ConnectionClosed:
        pass
    sink.close()
