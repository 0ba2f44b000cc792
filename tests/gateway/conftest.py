"""A suite for any WebSocket gateway that runs `tests/local/app`: the local cloud's, or a deployed stack.

With GATEWAY_URL (`wss://{api}.execute-api.{region}.amazonaws.com/{stage}` of a stack deployed from that template) it
runs there; otherwise it starts a local cloud. It only uses the WebSocket, so the same tests run on both.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from codelab_local import LocalCloud
from websockets.sync.client import ClientConnection, connect

from tests.waiting import PATIENCE

TEMPLATE = Path(__file__).parents[1] / "local" / "app" / "template.yaml"


class Client:
    """One connection; messages are JSON unless they are text or bytes."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, message: Any) -> None:
        self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def receive(self, timeout: float = PATIENCE) -> Any:
        return json.loads(self.socket.recv(timeout))

    def do(self, what: str, **fields: Any) -> Any:
        """Let the function `command` do something, and return its answer."""
        self.send({"type": "command", "do": what, **fields})
        return self.receive()

    @property
    def id(self) -> str:
        """This connection's id in a function."""
        connection_id: str = self.do("event")["requestContext"]["connectionId"]
        return connection_id


Connect = Callable[..., Client]


@pytest.fixture(scope="session")
def gateway_url() -> Iterator[str]:
    deployed = os.environ.get("GATEWAY_URL")
    if deployed:
        yield deployed
        return
    with LocalCloud(TEMPLATE) as cloud:
        yield cloud.url()


@pytest.fixture
def open_socket(gateway_url: str) -> Iterator[Connect]:
    """Open connections, closed after the test: `open_socket(query…, headers=…, subprotocols=…)`."""
    with ExitStack() as opened:

        def open_one(*, headers: Any = None, subprotocols: Any = None, **query: str) -> Client:
            url = f"{gateway_url}?{urlencode(query)}" if query else gateway_url
            connection = connect(
                url, additional_headers=headers, subprotocols=subprotocols, max_size=None, open_timeout=60
            )
            return Client(opened.enter_context(connection))

        yield open_one


@pytest.fixture
def client(open_socket: Connect) -> Client:
    return open_socket()
