"""`GET /health`: checks the functions' dependencies."""

import asyncio
import json
import time
from collections.abc import Awaitable
from urllib.parse import urlsplit

from codelab_local.emulator import Emulator
from codelab_local.http_protocol import Request, Response
from codelab_local.signatures import sign

CACHE_SECONDS = 3.0
CHECK_TIMEOUT = 2.0


class Health:
    """Runs the checks on request, and caches the result for a few seconds."""

    def __init__(self, service: str, version: str, emulator: Emulator, region: str, llm_url: str | None) -> None:
        self._service = service
        self._version = version
        self._emulator = emulator
        self._region = region
        self._llm_url = llm_url
        self._checked_at = -CACHE_SECONDS
        self._check: asyncio.Task[dict[str, str]] | None = None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        if request.method != "GET":
            return Response.json({"message": "Method Not Allowed"}, 405, Allow="GET")
        return self._answer()

    async def _answer(self) -> Response:
        if self._check is None or (self._check.done() and time.monotonic() - self._checked_at > CACHE_SECONDS):
            self._check = asyncio.get_running_loop().create_task(self._dependencies())
        dependencies = await asyncio.shield(self._check)
        good = all(state in ("connected", "available") for state in dependencies.values())
        status = "healthy" if good else "degraded"
        answer = {"status": status, "service": self._service, "version": self._version, "dependencies": dependencies}
        return Response.json(answer)

    async def _dependencies(self) -> dict[str, str]:
        dynamodb, llm = await asyncio.gather(self._dynamodb(), self.model_answers())
        self._checked_at = time.monotonic()
        found = {"dynamodb": "connected" if dynamodb else "disconnected"}
        if self._llm_url is not None:
            found["llm"] = "available" if llm else "unavailable"
        return found

    async def _dynamodb(self) -> bool:
        body = json.dumps({"Limit": 1}).encode()
        headers = {
            "Host": "127.0.0.1",
            "X-Amz-Target": "DynamoDB_20120810.ListTables",
            "Content-Type": "application/x-amz-json-1.0",
        }
        signed = sign(self._emulator.credentials, self._region, "dynamodb", "POST", "/", headers, body)
        signed |= {"connection": "close", "content-length": str(len(body))}
        lines = ["POST / HTTP/1.1", *(f"{name}: {value}" for name, value in signed.items()), "", ""]
        answer = await _exchange("127.0.0.1", self._emulator.port, "\r\n".join(lines).encode() + body)
        return answer.startswith(b"HTTP/1.1 200")

    async def model_answers(self) -> bool:
        """Whether something listens at the address. A real request would need a key and could cost money."""
        parts = urlsplit(self._llm_url or "")
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return False
        return parts.hostname is not None and await _exchange(parts.hostname, port, None) == b"connected"


async def _exchange(host: str, port: int, data: bytes | None) -> bytes:
    """Connect, send `data` if given, and return the answer's first line; empty on failure."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                if data is None:
                    return b"connected"
                writer.write(data)
                return await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""
