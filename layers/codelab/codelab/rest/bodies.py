"""JSON bodies, parsed like WebSocket frames: values that cannot be stored or sent back are refused."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import parse_json
from codelab.rest.routes import DirectRoute

_JSON = (b"content-type", b"application/json")


class Body(BaseModel):
    """Base of all request bodies. Fields of later versions are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class JsonRoute(DirectRoute):
    """A route that reads its body as JSON whatever its Content-Type, because curl sends a form's by default."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read(request: Request) -> Response:
            if not await request.body():
                return await handle(request)
            headers = [header for header in request.scope["headers"] if header[0] != b"content-type"]
            json_request = Request({**request.scope, "headers": [*headers, _JSON]}, request.receive)
            json_request._json = _parsed(await request.body())
            json_request._body = await request.body()
            return await handle(json_request)

        return read


def _parsed(body: bytes) -> Any:
    try:
        return parse_json(body.decode())
    except UnicodeDecodeError:
        raise ProtocolError(ErrorCode.INVALID_FORMAT, "The body is not valid UTF-8") from None


def with_example(**fields: Any) -> ConfigDict:
    """The configuration of a model whose JSON Schema has an example."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


def timestamp(ms: int) -> str:
    """Milliseconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
