"""Lambda's Invoke: synchronous, and asynchronous with retries and destinations.

Lambda developer guide, "Asynchronous invocation" and its destinations' records; API reference, "Invoke".
"""

import asyncio
import base64
import json
import time
import uuid
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

from codelab_local.functions.event_journal import EventJournal
from codelab_local.functions.pool import Pool, Result
from codelab_local.host.notices import notice
from codelab_local.http.protocol import Request, Response
from codelab_local.template.deployment import Function, function_name

PATH = "/2015-03-31/functions/"
MAX_SYNCHRONOUS = 6 * 1024 * 1024
MAX_ASYNCHRONOUS = 1024 * 1024
_DIED = Result(b'{"errorType": "Runtime.ExitError", "errorMessage": "The local cloud was killed"}', "Unhandled")


class LambdaService:
    """All functions. `retry_minute` is the number of seconds that stand for Lambda's minute between retries.

    With a `journal`, asynchronous events outlive this process.
    """

    def __init__(self, pools: dict[str, Pool], retry_minute: float) -> None:
        self.pools = pools
        self._retry_minute = retry_minute
        self._events: set[asyncio.Task[None]] = set()
        self.journal: EventJournal | None = None

    def find(self, reference: str) -> Pool | None:
        """Find a function by name, (partial) ARN or the name of its source folder."""
        name = function_name(reference)
        pool = self.pools.get(name)
        if pool is None:
            pool = next((p for p in self.pools.values() if p.function.source.name == name), None)
        return pool

    async def invoke(self, name: str, payload: bytes) -> Result:
        """Run a function for API Gateway. Waits for a worker instead of throttling: this machine has few cores."""
        pool = self.find(name)
        if pool is None:
            return Result(json.dumps({"errorMessage": f"Function not found: {name}"}).encode(), "Unhandled")
        return await pool.invoke(payload)

    def send(self, name: str, payload: bytes) -> str:
        """Accept an asynchronous event. Returns its request id."""
        pool = self.find(name)
        request_id = str(uuid.uuid4())
        if pool is not None:
            if self.journal is not None:
                self.journal.accepted(request_id, pool.function.name, payload)
            self._begin(pool, payload, request_id)
        return request_id

    def resume(self) -> None:
        """Go on with the journal's unfinished events: run those that waited, and take those that ran for failed."""
        for event in list(self.journal.unfinished.values()) if self.journal is not None else ():
            pool = self.find(event.function)
            if pool is None:
                notice(f"an event of {event.function} is dropped: the template has no such function any more")
                self._end(event.request_id)
            else:
                self._begin(pool, event.payload, event.request_id, died=event.started)

    def close(self) -> None:
        for task in self._events:
            task.cancel()

    def _begin(self, pool: Pool, payload: bytes, request_id: str, *, died: bool = False) -> None:
        task = asyncio.get_running_loop().create_task(self._deliver(pool, payload, request_id, died=died))
        self._events.add(task)
        task.add_done_callback(self._events.discard)

    def _end(self, request_id: str) -> None:
        if self.journal is not None:
            self.journal.ended(request_id)

    async def _deliver(self, pool: Pool, payload: bytes, request_id: str, *, died: bool) -> None:
        """`died` means that the first attempt ended with the last run of the local cloud."""
        on_start = None if self.journal is None else partial(self.journal.started, request_id)
        function, accepted_at = pool.function, time.monotonic()
        attempt, condition = 0, ""
        while not condition:
            attempt += 1
            result = _DIED if died and attempt == 1 else await pool.invoke(payload, request_id, on_start=on_start)
            if result.error is None:
                condition = "Success"
            elif attempt > function.retries:
                condition = "RetriesExhausted"
            else:
                await asyncio.sleep(self._retry_minute * attempt)  # One minute, then two.
                if time.monotonic() - accepted_at > function.max_age:
                    condition = "EventAgeExceeded"
        destination = function.on_success if result.error is None else function.on_failure
        context = {"requestId": request_id, "condition": condition, "approximateInvokeCount": attempt}
        if destination is not None and ":function:" in destination:
            self.send(destination, _record(function, payload, context, result))
        elif destination is not None:
            notice(f"the destination {destination} of {function.source.name} is not a Lambda function: skipped")
        self._end(request_id)

    # The HTTP API.

    def handle(self, request: Request) -> "Response | asyncio.Future[Response]":
        """`POST /2015-03-31/functions/{name}/invocations`, the only supported operation of the Lambda API."""
        name, _, operation = unquote(request.path[len(PATH) :]).rpartition("/")
        if request.method != "POST" or operation not in ("invocations", "invoke-async"):
            return _refusal(404, "ResourceNotFoundException", "The local cloud supports only Invoke")
        pool = self.find(name)
        if pool is None:
            return _refusal(404, "ResourceNotFoundException", f"Function not found: {name}")
        kind = request.headers.get("x-amz-invocation-type", "RequestResponse")
        payload = request.body or b"{}"
        limit = MAX_ASYNCHRONOUS if kind == "Event" else MAX_SYNCHRONOUS
        if len(payload) > limit:
            return _refusal(413, "RequestTooLargeException", f"Request must be smaller than {limit} bytes")
        try:
            json.loads(payload)
        except ValueError as error:
            return _refusal(400, "InvalidRequestContentException", f"Could not parse request body into json: {error}")
        if kind == "DryRun":
            return Response(204)
        if kind == "Event":
            return Response(202, headers={"x-amzn-RequestId": self.send(name, payload)})
        if pool.load >= pool.limit:
            return _refusal(
                429, "TooManyRequestsException", "Rate Exceeded.", Reason="ConcurrentInvocationLimitExceeded"
            )
        context = request.headers.get("x-amz-client-context")
        request_id = str(uuid.uuid4())
        running = pool.invoke(payload, request_id, base64.b64decode(context).decode() if context else None)
        return asyncio.ensure_future(_respond(running, request_id))


def _record(function: Function, payload: bytes, context: dict[str, Any], result: Result) -> bytes:
    """The event for a destination."""
    error_field = {"functionError": result.error} if result.error is not None else {}
    record = {
        "version": "1.0",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "requestContext": {**context, "functionArn": f"{function.arn}:$LATEST"},
        "requestPayload": json.loads(payload or b"{}"),
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", **error_field},
        "responsePayload": _json_or_text(result.payload),
    }
    return json.dumps(record).encode()


async def _respond(running: "asyncio.Future[Result]", request_id: str) -> Response:
    result = await running
    headers = {"x-amzn-RequestId": request_id, "X-Amz-Executed-Version": "$LATEST"}
    if result.error is not None:
        headers["X-Amz-Function-Error"] = result.error
    if len(result.payload) > MAX_SYNCHRONOUS:
        headers["X-Amz-Function-Error"] = "Unhandled"
        message = f"Response payload size exceeded maximum allowed payload size ({MAX_SYNCHRONOUS} bytes)."
        body = json.dumps({"errorMessage": message, "errorType": "Function.ResponseSizeTooLarge"}).encode()
        return Response(200, body, headers=headers)
    return Response(200, result.payload, headers=headers)


def _refusal(status: int, kind: str, message: str, **fields: str) -> Response:
    body = {"Type": "User", "Message": message, "message": message, **fields}
    return Response(status, json.dumps(body).encode(), headers={"x-amzn-ErrorType": kind})


def _json_or_text(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode("utf-8", "replace")
