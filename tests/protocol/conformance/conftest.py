"""The system under test.

`CONFORMANCE_URL` is its WebSocket address, with `{session_id}` where the session belongs, as `make run` prints it;
without it the local cloud is started. `CONFORMANCE_HTTP` is where its REST API is, if not at the same host and port;
`CONFORMANCE_TOKEN` a token that it takes, or several between commas, which the cases use in turn, because what one user
may do in a minute is limited. Most cases need scripted answers of the model: if its `LLM_BASE_URL` is
http://127.0.0.1:PORT/v1, `CONFORMANCE_MODEL_PORT=PORT` makes the suite serve the model there. Without it, these cases
are skipped for an external system.
"""

import itertools
import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.fakes.ide.dialects import DIALECTS, Client, Dialect
from tests.fakes.model.server import ScriptedModel

FOLDER = Path(__file__).parent

Connect = Callable[..., Client]

#: A prefix for this run's sessions: an external system has others.
_sessions = (f"conformance_{secrets.token_hex(4)}_{n}" for n in itertools.count(1))


@dataclass(frozen=True)
class Server:
    """A running system. `model` is its scripted model, or None."""

    websocket: str
    http: str
    token: str
    model: ScriptedModel | None

    def url(self, session: str, query: dict[str, Any]) -> str:
        address = self.websocket
        if "{session_id}" in address:
            address = address.replace("{session_id}", session)
        else:
            query = {"session_id": session, **query}
        return address + ("&" if "?" in address else "?") + urlencode(query) if query else address

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` sends each example in one dialect, the next one in the next; `make test-deep` sends all in all."""
    numbers: dict[str, dict[str, int]] = defaultdict(dict)
    for item in items:
        if item.path.parent != FOLDER or "dialect" not in item.fixturenames:  # type: ignore[attr-defined]
            continue
        test, _, parameters = item.nodeid.partition("[")
        dialect, _, example = parameters.partition("-")
        if example:
            number = numbers[test].setdefault(example, len(numbers[test]))
            if dialect != [*DIALECTS][number % len(DIALECTS)]:
                item.add_marker(pytest.mark.deep)


@pytest.fixture
def server(servers: Iterator[Server]) -> Server:
    """The system, for one of the users."""
    return next(servers)


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[Iterator[Server]]:
    """The system for each user in turn."""
    address = os.environ.get("CONFORMANCE_URL", "")
    if not address:
        cloud = request.getfixturevalue("cloud")
        websocket = cloud.url("SESSION").replace("SESSION", "{session_id}")
        yield itertools.repeat(Server(websocket, cloud.http, "", request.getfixturevalue("model")))
        return
    http = os.environ.get("CONFORMANCE_HTTP") or re.sub(r"^ws(s?)://([^/]+).*", r"http\1://\2", address)
    tokens = os.environ.get("CONFORMANCE_TOKEN", "").split(",")
    port = int(os.environ.get("CONFORMANCE_MODEL_PORT", "0"))
    with ScriptedModel(port) if port else nullcontext() as model:
        yield itertools.cycle([Server(address, http, token, model) for token in tokens])


@pytest.fixture
def scripted(server: Server) -> ScriptedModel:
    """The scripted model."""
    if server.model is None:
        pytest.skip("the system at CONFORMANCE_URL asks a model of its own: see CONFORMANCE_MODEL_PORT")
    return server.model


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


def _connections(server: Server, dialect: Dialect) -> Iterator[Connect]:
    with ExitStack() as opened:

        def connect(session: str | None = None, **query: Any) -> Client:
            url = server.url(session or next(_sessions), query)
            return opened.enter_context(Client(url, dialect, additional_headers=server.headers))

        yield connect


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """Opens connections, by default to a new session."""
    yield from _connections(server, DIALECTS["plain"])


@pytest.fixture
def connect_in_dialect(server: Server, dialect: Dialect) -> Iterator[Connect]:
    """The same, for clients of every dialect."""
    yield from _connections(server, dialect)


@pytest.fixture
def session() -> str:
    """A session that nobody has opened yet."""
    return next(_sessions)


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.http, headers=server.headers, timeout=40) as client:
        yield client
