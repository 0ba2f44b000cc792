"""The WebSocket API: the life cycle of a connection, as in API Gateway.

`$connect` (authorizer, then integration) runs before the upgrade is answered, so the connection does not exist until
it returns. Messages are dispatched concurrently. A function's failure does not close the connection. The close codes
are API Gateway's: 1009 too large, 1003 binary, 1001 idle or too old.
"""

import asyncio
import json
import random
import time
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from codelab_local.functions.lambda_service import LambdaService
from codelab_local.functions.pool import Result
from codelab_local.gateway.authorizer import Refused, authorize
from codelab_local.gateway.connections import Connection, Connections
from codelab_local.gateway.events import Caller, EventBuilder, new_connection_id, new_request_id
from codelab_local.gateway.paths import PathForms
from codelab_local.gateway.route_selection import RouteSelection
from codelab_local.gateway.throttle import TOO_MANY_REQUESTS, Throttle
from codelab_local.http.protocol import loads
from codelab_local.settings.settings import Settings
from codelab_local.template.deployment import Api, Route

MAX_URL = 4096
SHUFFLE_DELAY = 0.02  # The longest delay of a message in shuffle mode.


class Gateway:
    """One API. The `websockets` server calls the public methods."""

    def __init__(
        self,
        api: Api,
        events: EventBuilder,
        lambdas: LambdaService,
        connections: Connections,
        paths: PathForms,
        settings: Settings,
    ) -> None:
        self._api = api
        self._events = events
        self._lambdas = lambdas
        self._connections = connections
        self._paths = paths
        self._settings = settings
        self._shuffle = None if settings.shuffle_seed is None else random.Random(settings.shuffle_seed)
        self._selection = RouteSelection(api.selection)
        self._throttle = Throttle(api.limit, api.limits)
        self._accepted_callers: dict[ServerConnection, tuple[Caller, str | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self, socket: ServerConnection, request: Request) -> Response | None:
        """Run `$connect`. A response refuses the upgrade."""
        try:
            await self._connect(socket, request)
        except Refused as refusal:
            caller = self._accepted_callers.pop(socket, (None, None))[0]
            body = {"message": str(refusal), "connectionId": caller.connection_id if caller else new_connection_id()}
            return http_response(refusal.status, json.dumps({**body, "requestId": new_request_id()}))
        return None

    def select_subprotocol(self, socket: ServerConnection, _subprotocols: Any) -> Any:
        """Echo the subprotocol that `$connect` returned."""
        return self._accepted_callers[socket][1]

    async def serve(self, socket: ServerConnection) -> None:
        """Serve a connection from the upgrade to its end."""
        caller, _ = self._accepted_callers.pop(socket)
        connection = self._connections.open(caller, socket)
        timers = asyncio.get_running_loop().create_task(self._watch_limits(connection))
        try:
            while True:
                body = await socket.recv()
                connection.touch()
                if isinstance(body, bytes):
                    await socket.close(1003, "Binary frames are not supported")
                    break
                await connection.turns.acquire()
                self._run(self._dispatch(connection, body)).add_done_callback(lambda _: connection.turns.release())
        except ConnectionClosed:
            pass
        finally:
            timers.cancel()
            self._connections.forget(connection)
            self._disconnected(connection)

    async def stop(self, seconds: float) -> None:
        """Wait up to `seconds` for running functions, above all `$disconnect`."""
        if self._tasks and seconds:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()

    # $connect

    async def _connect(self, socket: ServerConnection, request: Request) -> None:
        match = self._paths.match(request.path)
        if len(request.path) > MAX_URL:
            raise Refused(414, "URI Too Long")
        if match is None:
            raise Refused(403, "Forbidden")
        headers: dict[str, list[str]] = {}
        for name, value in request.headers.raw_items():
            headers.setdefault(name, []).append(value)
        now = int(time.time() * 1000)
        peer = socket.remote_address[0] if socket.remote_address else ""
        # API Gateway sets these and overrides the client's.
        headers |= {"X-Forwarded-For": [peer], "X-Forwarded-Port": ["443"], "X-Forwarded-Proto": ["https"]}
        caller = Caller(new_connection_id(), peer, request.headers.get("User-Agent", ""), now, headers, match)
        self._accepted_callers[socket] = (caller, None)
        if not self._throttle.admits("$connect"):
            raise Refused(429, TOO_MANY_REQUESTS)
        route = self._api.routes.get("$connect")
        if route is None:
            return
        if route.authorizer is not None:
            event = self._events.authorize(caller, route.key)
            caller.authorizer = await authorize(route.authorizer, event, caller, self._lambdas.invoke)
        if route.function is None:
            return
        answer = await self._integrate(route, self._events.connect(caller))
        self._accepted_callers[socket] = (caller, self._accept(answer, request.headers))

    def _accept(self, answer: Result | None, request_headers: Headers) -> str | None:
        """Interpret the `$connect` integration's answer: refuse, or return the subprotocol to echo."""
        if answer is None:
            raise Refused(504, "Endpoint request timed out")
        value = loads(answer.payload)
        if answer.error is not None or not isinstance(value, dict) or not isinstance(value.get("statusCode"), int):
            raise Refused(502, "Internal server error")  # A malformed proxy response.
        if value["statusCode"] >= 300:
            body = loads(str(value.get("body") or "").encode())
            message = body.get("message") if isinstance(body, dict) else value.get("body")
            raise Refused(value["statusCode"], str(message or HTTPStatus(value["statusCode"]).phrase))
        for name, values in {**(value.get("headers") or {}), **(value.get("multiValueHeaders") or {})}.items():
            if name.lower() == "sec-websocket-protocol":
                subprotocol = str(values[0] if isinstance(values, list) else values)
                return subprotocol if request_headers.get_all("Sec-WebSocket-Protocol") else None
        return None

    # Messages

    async def _dispatch(self, connection: Connection, body: str) -> None:
        if self._shuffle is not None:
            await asyncio.sleep(self._shuffle.random() * SHUFFLE_DELAY)
        route = self._api.routes.get(self._selection.key_of(body) or "") or self._api.routes.get("$default")
        if route is None or route.function is None:
            await self._send_error(connection, "Forbidden", new_request_id())
            return
        if not self._throttle.admits(route.key):
            await self._send_error(connection, TOO_MANY_REQUESTS, new_request_id())
            return
        event = self._events.message(connection.caller, route.key, body)
        answer = await self._integrate(route, event)
        request_id = event["requestContext"]["requestId"]
        if answer is None:
            await self._send_error(connection, "Endpoint request timed out", request_id)
        elif answer.error is not None:
            await self._send_error(connection, "Internal server error", request_id)
        elif route.replies:
            value = loads(answer.payload)
            reply = value.get("body") if isinstance(value, dict) else None
            if reply:
                await connection.send(str(reply).encode())

    async def _integrate(self, route: Route, event: dict[str, Any]) -> Result | None:
        """Run a route's function. None after the integration timeout; the function keeps running."""
        assert route.function is not None
        running = asyncio.ensure_future(self._lambdas.invoke(route.function, json.dumps(event).encode()))
        limit = min(route.timeout, self._settings.integration_timeout)
        finished_tasks, _ = await asyncio.wait({running}, timeout=limit)
        return running.result() if finished_tasks else None

    async def _send_error(self, connection: Connection, message: str, request_id: str) -> None:
        frame = {"message": message, "connectionId": connection.id, "requestId": request_id}
        await connection.send(json.dumps(frame).encode())

    # The end

    async def _watch_limits(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.connection_limit
        while True:
            idle_end = connection.active_at + self._settings.idle_timeout
            wait = min(end, idle_end) - loop.time()
            if wait <= 0:
                await connection.socket.close(1001, "Going away")
                return
            await asyncio.sleep(wait)

    def _disconnected(self, connection: Connection) -> None:
        route = self._api.routes.get("$disconnect")
        if route is None or route.function is None:
            return
        event = self._events.disconnect(connection.caller, *_why_closed(connection.socket))
        self._run(self._notify(route.function, event))

    async def _notify(self, function: str, event: dict[str, Any]) -> None:
        await self._lambdas.invoke(function, json.dumps(event).encode())

    def _run(self, work: Any) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _why_closed(socket: ServerConnection) -> tuple[int, str]:
    """The code and reason of the side that closed first; the gateway's also if the client never answered them."""
    closing = socket.protocol.close_sent
    if closing is not None and not socket.protocol.close_rcvd_then_sent:
        return closing.code, closing.reason
    return socket.close_code or 1006, socket.close_reason or ""


def http_response(status: int, body: str) -> Response:
    """A response that refuses the upgrade; `body` is JSON."""
    data = body.encode()
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Refused"
    headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(data)), "Connection": "close"})
    return Response(status, phrase, headers, data)
