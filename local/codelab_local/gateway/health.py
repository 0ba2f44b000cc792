"""`GET /health`: checks the functions' dependencies."""

import asyncio
import time
from collections.abc import Awaitable
from http.client import HTTPException
from urllib.parse import urlsplit

from codelab_local.emulator.aws_api import AwsApi, AwsError
from codelab_local.emulator.server import Emulator
from codelab_local.http.protocol import Request, Response
from codelab_local.settings.settings import Settings

CACHE_SECONDS = 3.0
CHECK_TIMEOUT = 2.0


class Health:
    """Runs the checks on request, and caches the result for a few seconds."""

    def __init__(self, settings: Settings, emulator: Emulator) -> None:
        self._settings = settings
        self._emulator = emulator
        #: The address of the model; None without one.
        self.model_url: str | None = None
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
        identity = {"service": self._settings.service, "version": self._settings.version}
        return Response.json({"status": "healthy" if good else "degraded", **identity, "dependencies": dependencies})

    async def _dependencies(self) -> dict[str, str]:
        dynamodb, llm = await asyncio.gather(self._dynamodb(), self.model_answers())
        self._checked_at = time.monotonic()
        states = {"dynamodb": "connected" if dynamodb else "disconnected"}
        if self.model_url is not None:
            states["llm"] = "available" if llm else "unavailable"
        return states

    async def _dynamodb(self) -> bool:
        aws = AwsApi(self._emulator.port, self._settings.region, self._emulator.credentials, CHECK_TIMEOUT)
        try:
            await asyncio.to_thread(aws.target, "dynamodb", "DynamoDB_20120810.ListTables", {"Limit": 1})
        except (OSError, HTTPException, AwsError):
            return False
        finally:
            aws.close()
        return True

    async def model_answers(self) -> bool:
        """Whether something listens at the address. A real request would need a key and could cost money."""
        parts = urlsplit(self.model_url or "")
        if parts.hostname is None:
            return False
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            async with asyncio.timeout(CHECK_TIMEOUT):
                _, writer = await asyncio.open_connection(parts.hostname, port)
        except (OSError, TimeoutError, ValueError):
            return False
        writer.close()
        return True
