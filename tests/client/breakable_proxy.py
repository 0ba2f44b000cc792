"""A TCP proxy whose address stays, while its connections can be broken and its target can move."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class BreakableProxy:
    """`with BreakableProxy(port) as proxy`: forwards `proxy.port` to `target`, a port of this machine."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.break_all()

    def break_all(self) -> None:
        """Break every connection, without a farewell."""
        for one in list(self._open):
            _close(one)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(65_536):
                sink.sendall(piece)
        except OSError:
            pass
        _close(source)
        _close(sink)
        self._open -= {source, sink}


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
