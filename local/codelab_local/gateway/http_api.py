"""The HTTP API (API Gateway v2, payload format 2.0): finds the route, calls its authorizer and its function.

Responses are buffered and errors look like API Gateway's.
"""

import asyncio
import base64
import json
import time
from collections.abc import Awaitable
from typing import Any
from urllib.parse import unquote

from codelab_local.functions.lambda_service import MAX_SYNCHRONOUS, LambdaService
from codelab_local.functions.pool import Result
from codelab_local.gateway.authorizer import allows
from codelab_local.gateway.http_events import HttpEventBuilder
from codelab_local.gateway.throttle import TOO_MANY_REQUESTS, Throttle
from codelab_local.http.protocol import Request, Response, loads
from codelab_local.template.deployment import Api, Authorizer, Route

MAX_BODY = 10 * 1024 * 1024


class HttpGateway:
    """One HTTP API."""

    def __init__(
        self, api: Api, events: HttpEventBuilder, lambdas: LambdaService, *, integration_timeout: float
    ) -> None:
        self._events = events
        self._lambdas = lambdas
        self._integration_timeout = integration_timeout
        self._throttle = Throttle(api.limit, api.limits)
        self._routes = [(_Pattern(route.key), route) for route in api.routes.values()]
        #: Answers of authorizers by function and identity: until when they count (monotonic), and the answer.
        self._answers: dict[tuple[str, ...], tuple[float, dict[str, Any]]] = {}

    def serves(self, method: str, path: str) -> bool:
        return self._match(method, path) is not None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a request; 404 if no route matches."""
        match = self._match(request.method, request.path)
        if match is None:
            return _refusal(404, "Not Found")
        if not self._throttle.admits(match[0].key):
            return _refusal(429, TOO_MANY_REQUESTS)
        if len(request.body) > MAX_BODY:
            return _refusal(413, "Request Entity Too Large")
        route, parameters = match
        return self._run(request, route, parameters)

    def _match(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The most specific route that matches, and the variables of its path."""
        best: tuple[tuple[int, ...], Route, dict[str, str]] | None = None
        for pattern, route in self._routes:
            parameters = pattern.match(method, path)
            if parameters is not None and (best is None or pattern.rank > best[0]):
                best = (pattern.rank, route, parameters)
        return None if best is None else (best[1], best[2])

    async def _run(self, request: Request, route: Route, parameters: dict[str, str]) -> Response:
        context = None
        if route.authorizer is not None:
            authorizer_event = self._events.authorize(request, route.key, parameters)
            allowed = await self._authorize(route.authorizer, authorizer_event)
            if isinstance(allowed, Response):
                return allowed
            context = allowed
        if route.function is None:
            return _refusal(500, "Internal Server Error")
        event = self._events.request(request, route.key, parameters, context)
        payload = json.dumps(event, ensure_ascii=False).encode(errors="replace")
        if len(payload) > MAX_SYNCHRONOUS:  # The API allows 10 MB, but an event only 6.
            return _refusal(413, "Request Entity Too Large")
        running = asyncio.ensure_future(self._lambdas.invoke(route.function, payload))
        finished_tasks, _ = await asyncio.wait({running}, timeout=min(route.timeout, self._integration_timeout))
        return _response(running.result()) if finished_tasks else _refusal(503, "Service Unavailable")

    async def _authorize(self, authorizer: Authorizer, event: dict[str, Any]) -> dict[str, Any] | Response:
        """The authorizer's context, or its refusal."""
        event["identitySource"] = [_identity(event, source) for source in authorizer.identity_source]
        if not all(event["identitySource"]):
            return _refusal(401, "Unauthorized")  # API Gateway does not call the function in this case.
        key, now = (authorizer.function, *event["identitySource"]), time.monotonic()
        end, answer = self._answers.get(key, (now, {}))
        if end <= now:
            result = await self._lambdas.invoke(authorizer.function, json.dumps(event).encode())
            answer = loads(result.payload)
            if result.error is not None or not isinstance(answer, dict):
                return _refusal(500, "Internal Server Error")
            if authorizer.ttl:
                self._answers = {name: entry for name, entry in self._answers.items() if entry[0] > now}
                self._answers[key] = (now + authorizer.ttl, answer)
        if not _is_allowed(authorizer, answer, event["routeArn"]):
            return _refusal(403, "Forbidden")
        return dict(answer.get("context") or {})


def _is_allowed(authorizer: Authorizer, answer: dict[str, Any], arn: str) -> bool:
    if authorizer.simple:
        return answer.get("isAuthorized") is True
    return allows(answer.get("policyDocument") or {}, arn)


class _Pattern:
    """A route key: `GET /things/{id}`, `ANY /api/{proxy+}`, `$default`. A greater `rank` is more specific."""

    def __init__(self, key: str) -> None:
        self.rank: tuple[int, ...] = (0,)
        self._method, _, path = key.partition(" ")
        self._parts = path.split("/")[1:]
        self._is_greedy = path.endswith("+}")
        if key != "$default":
            literal = sum(not part.startswith("{") for part in self._parts)
            self.rank = (1, not self._is_greedy, literal, self._method != "ANY")

    def match(self, method: str, path: str) -> dict[str, str] | None:
        if self._method == "$default":
            return {}
        if self._method not in ("ANY", method):
            return None
        segments = path.split("/")[1:]
        parameters: dict[str, str] = {}
        for index, part in enumerate(self._parts):
            if part.endswith("+}"):
                remainder = unquote("/".join(segments[index:]))
                return {**parameters, part[1:-2]: remainder} if remainder else None
            if index >= len(segments) or not segments[index]:
                return None
            if part.startswith("{"):
                parameters[part[1:-1]] = unquote(segments[index])
            elif part != unquote(segments[index]):
                return None
        return parameters if len(segments) == len(self._parts) else None


def _response(result: Result) -> Response:
    """The function's answer as a response: a proxy response, or anything else as the body of a 200."""
    value = loads(result.payload)
    if result.error is not None or len(result.payload) > MAX_SYNCHRONOUS:
        return _refusal(500, "Internal Server Error")
    if not isinstance(value, dict) or "statusCode" not in value:
        text = value if isinstance(value, str) else json.dumps(value)
        return Response(200, b"" if value is None else text.encode())
    body = value.get("body") or ""
    text = body if isinstance(body, str) else json.dumps(body)
    headers = {str(name).lower(): str(content) for name, content in (value.get("headers") or {}).items()}
    headers.pop("content-length", None)
    try:
        return Response(
            int(value["statusCode"]),
            base64.b64decode(text) if value.get("isBase64Encoded") else text.encode(),
            headers.pop("content-type", "text/plain;charset=UTF-8"),
            headers,
            tuple(str(cookie) for cookie in value.get("cookies") or ()),
        )
    except ValueError:
        return _refusal(500, "Internal Server Error")


def _identity(event: dict[str, Any], source: str) -> str:
    """The value of `$request.header.Name`, `$request.querystring.name`, `$context.name` or `$stageVariables.name`.

    An empty string if it has none.
    """
    kind, place, name = [*source.split(".", 2), "", ""][:3]
    if kind in ("$context", "$stageVariables"):
        values = event["requestContext"] if kind == "$context" else event.get("stageVariables") or {}
        return str(values.get(place, ""))
    if place == "header":
        return str(event["headers"].get(name.lower(), ""))
    return str((event.get("queryStringParameters") or {}).get(name, ""))


def _refusal(status: int, message: str) -> Response:
    return Response.json({"message": message}, status)
