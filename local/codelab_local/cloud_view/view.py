"""The view's port: its page, what the page asks, and the faults.

GET  /                      the page
POST /session               {"secret"}: the cookie that everything below needs
GET  /state?match=…         functions, connections, and the newest invocations, traces and lines that contain the text
GET  /items?match=…         items of the tables of which a key contains the text
POST /drop                  {"connection"}: break a connection
POST /kill                  {"function", "after_ms"?}: kill what runs now, or the next invocation after a time
POST /delay                 {"function", "ms"}: begin every later invocation so much later; 0 ends it
POST /{secret}/v1/traces    the spans of the functions, whose collector it is: not for browsers
"""

import asyncio
import hmac
import json
import re
import secrets
from collections.abc import Awaitable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from codelab_local.cloud_view.door import Door, refused
from codelab_local.cloud_view.items import find_items
from codelab_local.cloud_view.recorder import Faults, Recorder
from codelab_local.cloud_view.traces import Traces
from codelab_local.emulator.aws_api import AwsApi, AwsError
from codelab_local.emulator.server import Emulator
from codelab_local.functions.pool import Pool
from codelab_local.gateway.connections import Connections
from codelab_local.http.protocol import HttpProtocol, Request, Response, loads
from codelab_local.settings.settings import Settings

_MOST_INVOCATIONS, _MOST_LINES, _MOST_SPANS = 200, 300, 300
_MOST_MS = 600_000
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _Invalid(Exception):
    """The message is for the caller."""


class CloudView:
    """Looks at the cloud's `pools` (by deployed name), `connections` and tables.

    `settings.paths` say which parts of a connection's address are shown: others may be tokens.
    """

    def __init__(self, emulator: Emulator, settings: Settings, pools: dict[str, Pool], recorder: Recorder) -> None:
        self.connections: Connections | None = None
        self._emulator = emulator
        self._region = settings.region
        self._variables = {name for path in settings.paths for name in re.findall(r"\{(\w+)\}", path)}
        self._pools = pools
        self._recorder = recorder
        self._traces = Traces()
        self._collector_path = f"/{secrets.token_urlsafe(32)}/v1/traces"
        self._protocols: set[HttpProtocol] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._door: Door

    @property
    def address(self) -> str:
        """For the user's browser, with the secret of this run."""
        return self._door.address

    @property
    def traces_endpoint(self) -> str:
        """Where functions send their spans, as OTLP over HTTP; it contains a secret of this run."""
        return f"http://127.0.0.1:{self._port}{self._collector_path}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: HttpProtocol(self._answer, self._protocols), "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        self._door = Door(self._port)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for protocol in list(self._protocols):
            protocol.transport.abort()

    def _answer(self, request: Request) -> Response | Awaitable[Response]:
        path = request.path.encode("utf-8", "replace")
        if request.method == "POST" and hmac.compare_digest(path, self._collector_path.encode()):
            self._traces.add(loads(request.body))
            return Response.json({})
        refusal = self._door.refusal(request)
        answer = refusal if refusal is not None else self._route(request)
        if isinstance(answer, Response):
            answer.headers |= _HEADERS
        return answer

    def _route(self, request: Request) -> Response | Awaitable[Response]:
        key = (request.method, request.path)
        if request.method == "GET" and request.path in _FILES:
            name, kind = _FILES[request.path]
            return Response(200, (Path(__file__).parent / "page" / name).read_bytes(), f"{kind}; charset=utf-8")
        if key == ("POST", "/session"):
            return self._door.exchange(request)
        if not self._door.knows(request):
            return refused(401, "Open the address that the local cloud has printed")
        match = parse_qs(request.query).get("match", [""])[0]
        if key == ("GET", "/state"):
            return Response.json(self._state(match))
        if key == ("GET", "/items"):
            return self._items(match)
        if request.method == "POST" and request.path in ("/drop", "/kill", "/delay"):
            return self._disturb(request)
        return refused(404, "Not Found")

    # What it shows.

    def _state(self, match: str) -> dict[str, Any]:
        open_connections = self.connections.all() if self.connections is not None else []
        return {
            "functions": [self._function(pool) for pool in self._pools.values()],
            "connections": [
                {
                    "id": connection.id,
                    "about": {
                        name: values[-1] for name, values in connection.caller.query.items() if name in self._variables
                    },
                    "user_agent": connection.caller.user_agent[:200],
                    "connected_at": connection.caller.connected_at,
                    "unsent_bytes": connection.unsent,
                }
                for connection in open_connections
            ],
            "invocations": self._recorder.invocations(match, _MOST_INVOCATIONS),
            "spans": self._traces.newest(match, _MOST_SPANS),
            "lines": self._recorder.lines(match, _MOST_LINES),
        }

    def _function(self, pool: Pool) -> dict[str, Any]:
        name = pool.function.source.name
        faults = self._recorder.faults.get(name, Faults())
        return {
            "name": name,
            "workers": len(pool.workers),
            "open": pool.load,
            "delay_ms": round(faults.delay * 1000),
            "kill_after_ms": None if faults.kill_after is None else round(faults.kill_after * 1000),
        }

    async def _items(self, match: str) -> Response:
        aws = AwsApi(self._emulator.port, self._region, self._emulator.credentials, timeout=10.0)
        try:
            items = await asyncio.to_thread(find_items, aws, match)
        except (OSError, HTTPException, AwsError) as error:
            return refused(502, f"DynamoDB does not answer: {error}")
        finally:
            aws.close()
        return Response(200, json.dumps(items).encode(), headers=dict(_HEADERS))

    # Faults.

    def _disturb(self, request: Request) -> Response:
        command = loads(request.body)
        try:
            if not isinstance(command, dict):
                raise _Invalid("The body must be a JSON object")
            if request.path == "/drop":
                connection = command.get("connection")
                if self.connections is None or not isinstance(connection, str) or not self.connections.drop(connection):
                    raise _Invalid("No open connection has this id")
                return Response(204)
            pool = next(
                (pool for pool in self._pools.values() if pool.function.source.name == command.get("function")), None
            )
            if pool is None:
                raise _Invalid("No function has this name")
            faults = self._recorder.faults.setdefault(pool.function.source.name, Faults())
            if request.path == "/delay":
                faults.delay = _seconds(command, "ms")
            elif "after_ms" not in command:
                return Response.json({"killed": pool.kill_running()})
            else:
                faults.kill_after = None if command["after_ms"] is None else _seconds(command, "after_ms")
        except _Invalid as error:
            return refused(400, str(error))
        return Response(204)


def _seconds(command: dict[str, Any], name: str) -> float:
    value = command.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_MS:
        raise _Invalid(f"{name} must be a number of milliseconds from 0 to {_MOST_MS}")
    return value / 1000
