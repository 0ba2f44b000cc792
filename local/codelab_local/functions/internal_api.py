"""The internal port, for functions and their runtime. Listens only on the loopback interface.

It can invoke functions with any event and any user, so every path begins with a secret of this run. The secret is part
of the address because the Runtime API's client cannot send headers. Only the functions' environment contains it, not
command lines, which other users of the machine can read. Web pages must not use this port, so requests with an `Origin`
are refused.

/worker/{id}/2018-06-01/runtime/…   the Lambda Runtime API, one address per worker
/2015-03-31/functions/{name}/…      Lambda's Invoke
/{stage}/@connections/{id}          API Gateway's management of WebSocket connections
/s3/{bucket}/…                      S3 for functions, which know it by its public address
/_local/functions                   the running processes (for tests)
"""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable

from codelab_local.emulator import object_store
from codelab_local.functions import lambda_service
from codelab_local.functions.lambda_service import LambdaService
from codelab_local.http.protocol import HttpProtocol, Request, Response

_RUNTIME = "2018-06-01/runtime/"


class InternalApi:
    """Routes by the first letters of the path, because nine out of ten requests come from workers."""

    def __init__(self) -> None:
        self.lambdas: LambdaService
        self.connections: Callable[[Request], Response | Awaitable[Response]]
        self.objects: Callable[[Request], Awaitable[Response]]
        self._secret = f"/{secrets.token_hex(32)}"
        self._protocols: set[HttpProtocol] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The address, including the secret."""
        return f"http://127.0.0.1:{self._port}{self._secret}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: HttpProtocol(self._handle, self._protocols), "127.0.0.1", 0, backlog=1024
        )
        self._port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for protocol in list(self._protocols):
            protocol.transport.abort()

    def _handle(self, request: Request) -> Response | Awaitable[Response]:
        secret, path = request.path[: len(self._secret)], request.path[len(self._secret) :]
        if "origin" in request.headers or not hmac.compare_digest(secret.encode(), self._secret.encode()):
            return Response.json({"message": "Forbidden"}, 403, x_amzn_ErrorType="ForbiddenException")
        request.path = path
        if path.startswith("/worker/"):
            return self._runtime(request)
        if path.startswith(lambda_service.PATH):
            return self.lambdas.handle(request)
        if path.startswith(f"{object_store.PREFIX}/"):
            return self.objects(request)
        if path == "/_local/functions":
            return self._describe()
        return self.connections(request)

    def _runtime(self, request: Request) -> Response | Awaitable[Response]:
        worker, _, operation = request.path[len("/worker/") :].partition("/")
        operation = operation.removeprefix(_RUNTIME)
        pool = next((p for p in self.lambdas.pools.values() if worker in p.workers), None)
        if pool is None:
            return Response.json({"errorMessage": "unknown worker"}, 403)
        if operation == "invocation/next":
            return pool.next(worker)
        _, request_id, outcome = operation.split("/")
        error = None
        if outcome == "error":
            error = request.headers.get("lambda-runtime-function-error-type") or "Unhandled"
            error = "Handled" if error == "Handled" else "Unhandled"
        return pool.answer(worker, request_id, request.body, error)

    def _describe(self) -> Response:
        functions = {}
        for pool in self.lambdas.pools.values():
            request_counts = {
                worker.pid: worker.request_count for worker in pool.workers.values() if worker.pid and worker.seen
            }
            name = pool.function.source.name
            functions[name] = {
                "name": pool.function.name,
                "workers": [*request_counts],
                "served": [*request_counts.values()],
            }
        return Response.json(functions)
