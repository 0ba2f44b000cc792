"""A function's workers: one request at a time each, real timeouts, at most `limit` workers.

As in Lambda, a request takes an idle worker or a new one. Unlike in Lambda, workers start one after the other (a few at
once if a start takes a second). A burst of short requests is then served by a few workers instead of a hundred forks on
two cores, and a burst of long requests still gets its workers, a few milliseconds apart.

AWS has machines of its own for API Gateway and DynamoDB. Here, hundreds of workers would leave the gateway and the
emulator so little of the processors that the workers' calls time out. So workers beyond the number of processors have a
lower priority, and get a request only if the others are busy.
"""

import asyncio
import itertools
import json
import os
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from codelab_local.functions.zygotes import InitFailed, Processes, ThreadsInInit
from codelab_local.http.protocol import Response
from codelab_local.template.deployment import Function

#: Added to the niceness of a function's workers beyond the first ones, of which there are as many as processors.
NICENESS = 10
_FIRST = os.cpu_count() or 1


@dataclass(slots=True)
class Result:
    """The result of an invocation. `error` is the value of X-Amz-Function-Error, or None."""

    payload: bytes
    error: str | None = None


class Trace(Protocol):
    """Looks on at one invocation, and may disturb it: see `cloud_view`."""

    #: Seconds to wait before the invocation begins.
    delay: float

    def began(self, *, cold: bool) -> float | None:
        """A worker has it. After the returned seconds, if any, the worker is killed."""

    def ended(self, result: Result) -> None: ...


@dataclass(slots=True)
class Invocation:
    """One request on its way through a worker."""

    payload: bytes
    result: "asyncio.Future[Result]"
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    client_context: str | None = None
    on_start: Callable[[], None] | None = None
    deadline: asyncio.TimerHandle | None = None
    trace: Trace | None = None


@dataclass(slots=True, eq=False)
class Worker:
    """One worker process, from the request to start it."""

    name: str
    processes: Processes
    steps_back: bool = False
    pid: int | None = None
    poll: "asyncio.Future[Response] | None" = None
    invocation: Invocation | None = None
    idle_since: float = 0.0
    seen: bool = False
    request_count: int = 0


class Pool:
    """The workers of one function. Used only in the event loop's thread."""

    _names = itertools.count(1)

    def __init__(
        self,
        function: Function,
        limit: int,
        make_processes: Callable[["Pool"], Processes],
        report: Callable[[str], None],
        trace: Callable[[str, Function, bytes], Trace] | None = None,
    ) -> None:
        self.function = function
        self.limit = limit
        self.workers: dict[str, Worker] = {}
        self._make = make_processes
        self._report = report
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Invocation] = deque()
        self._idle: list[Worker] = []
        self._running = 0
        self._processes: Processes | None = None
        self._changing: asyncio.Task[None] | None = None
        self._change_again = False
        self._closed = False
        self.changed = False
        self.cold = False
        self._first: asyncio.Future[None] | None = None

    # Requests.

    @property
    def load(self) -> int:
        """The number of running and waiting requests."""
        return self._running + len(self._queue)

    def invoke(
        self,
        payload: bytes,
        request_id: str | None = None,
        client_context: str | None = None,
        on_start: Callable[[], None] | None = None,
    ) -> "asyncio.Future[Result]":
        """Run the function. Waits for a worker if all are busy, and calls `on_start` before one gets the request.

        Never raises; failures are results.
        """
        invocation = Invocation(payload, self._loop.create_future(), client_context=client_context, on_start=on_start)
        if request_id is not None:
            invocation.request_id = request_id
        if self._trace is not None:
            trace = invocation.trace = self._trace(invocation.request_id, self.function, payload)
            if trace.delay:
                self._loop.call_later(trace.delay, self._enqueue, invocation)
                return invocation.result
        self._enqueue(invocation)
        return invocation.result

    def _enqueue(self, invocation: Invocation) -> None:
        self._queue.append(invocation)
        if self._processes is None and not self._closed:
            self.change()  # Its code could not be loaded before, so try again.
        self._dispatch()

    def _dispatch(self) -> None:
        if self._closed or self._processes is None or self._changing is not None:
            return  # The code is being reloaded, and this request must run the new code.
        while self._queue and self._idle:
            worker = self._preferred()
            self._idle.remove(worker)
            assert worker.poll is not None
            poll, worker.poll = worker.poll, None
            if not poll.done():
                poll.set_result(self._hand_over(worker))
        starting = sum(not worker.seen for worker in self.workers.values()) if self._queue else 0
        target = min(len(self._queue), self.limit - len(self.workers) + starting, self._processes.starts_at_once)
        for _ in range(target - starting):
            self._start_worker()

    def _preferred(self) -> Worker:
        """The idle worker that gets the next request: the last one used, of those of full priority if there are any."""
        return max(reversed(self._idle), key=lambda worker: not worker.steps_back)

    def _hand_over(self, worker: Worker) -> Response:
        """Answer `invocation/next` with the oldest waiting request, and start its timeout."""
        invocation = self._queue.popleft()
        worker.invocation = invocation
        if invocation.on_start is not None:
            invocation.on_start()
        self._running += 1
        timeout = self.function.timeout
        if invocation.trace is not None:
            kill_after = invocation.trace.began(cold=not worker.request_count)
            if kill_after is not None:
                self._loop.call_later(kill_after, self._kill, worker, invocation)
        invocation.deadline = self._loop.call_later(timeout, self._time_out, worker, invocation)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + timeout) * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": self.function.arn,
            "Lambda-Runtime-Trace-Id": _trace_id(invocation.request_id),
        }
        if invocation.client_context is not None:
            headers["Lambda-Runtime-Client-Context"] = invocation.client_context
        return Response(200, invocation.payload, headers=headers)

    def _time_out(self, worker: Worker, invocation: Invocation) -> None:
        if worker.invocation is not invocation:
            return
        # Lambda kills the execution environment.
        worker.processes.kill(worker.name)
        message = f"RequestId: {invocation.request_id} Error: Task timed out after {self.function.timeout:.2f} seconds"
        self._report(f"Task timed out after {self.function.timeout:.2f} seconds")
        self._finish(worker, _failure("Sandbox.Timedout", message))

    def kill_running(self) -> int:
        """Kill the workers that run a request, as when out of memory. Returns their number."""
        busy = [worker for worker in self.workers.values() if worker.invocation is not None]
        for worker in busy:
            worker.processes.kill(worker.name)
        return len(busy)

    def _kill(self, worker: Worker, invocation: Invocation) -> None:
        if worker.invocation is invocation:
            worker.processes.kill(worker.name)

    def _finish(self, worker: Worker, result: Result) -> None:
        invocation, worker.invocation = worker.invocation, None
        if invocation is None:
            return
        self._running -= 1
        worker.request_count += 1
        if invocation.deadline is not None:
            invocation.deadline.cancel()
        _settle(invocation, result)

    # The Runtime API for workers.

    def next(self, name: str) -> "Response | asyncio.Future[Response]":
        """`GET /runtime/invocation/next`: waits for a request."""
        worker = self.workers.get(name)
        if worker is None:
            return Response.json({"errorMessage": "unknown worker"}, 403)
        worker.seen = True
        if self._first is not None and not self._first.done():
            self._first.set_result(None)
        if worker.processes is not self._processes:  # The code changed after its start.
            worker.processes.kill(name)
        elif self._queue and not self._idle and self._changing is None:
            answer = self._hand_over(worker)
            self._dispatch()
            return answer
        else:
            worker.idle_since = self._loop.time()
            self._idle.append(worker)
        worker.poll = self._loop.create_future()
        poll = worker.poll
        self._dispatch()
        return poll

    def answer(self, name: str, request_id: str, payload: bytes, error: str | None) -> Response:
        """`POST /runtime/invocation/{id}/response` or `/error`."""
        worker = self.workers.get(name)
        if worker is None or worker.invocation is None or worker.invocation.request_id != request_id:
            return Response.json({"errorMessage": "InvalidRequestID"}, 400)  # It came after the deadline.
        self._finish(worker, Result(payload, error))
        return Response.json({"status": "OK"}, 202)

    # The end of workers.

    def _start_worker(self) -> None:
        assert self._processes is not None
        steps_back = sum(not worker.steps_back for worker in self.workers.values()) >= _FIRST
        worker = Worker(str(next(self._names)), self._processes, steps_back)
        self.workers[worker.name] = worker
        self._processes.start(worker.name, NICENESS if steps_back else 0)

    def worker_started(self, name: str, pid: int) -> None:
        if name in self.workers:
            self.workers[name].pid = pid

    def worker_failed(self, name: str, error: InitFailed) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_exception(error)
        self._fail_oldest(error)

    def worker_exited(self, name: str, status: int) -> None:
        worker = self.workers.pop(name, None)
        if worker is None:
            return
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.poll is not None:
            worker.poll.cancel()
        if worker.invocation is not None:
            cause = _exit_text(status)
            self._report(f"worker {worker.pid} ended during a request: {cause}")
            text = f"RequestId: {worker.invocation.request_id} Error: Runtime exited with error: {cause}"
            self._finish(worker, _failure("Runtime.ExitError", text))
        self._close_if_unused(worker.processes)
        self._dispatch()

    def processes_lost(self, processes: Processes) -> None:
        """The zygote and its workers ended."""
        for worker in [w for w in self.workers.values() if w.processes is processes]:
            self.worker_exited(worker.name, 9)
        if processes is self._processes and not self._closed:
            self._processes = None
            self.change()

    def _close_if_unused(self, processes: Processes) -> None:
        if processes is not self._processes and all(w.processes is not processes for w in self.workers.values()):
            processes.close()

    def _fail_oldest(self, error: InitFailed) -> None:
        if self._queue:
            _settle(self._queue.popleft(), _failure("Runtime.UserCodeError", str(error)))

    # Code.

    async def start(self, wait_for_worker: bool = False) -> None:
        """Load the code and start one worker. Raises :class:`InitFailed`."""
        self._processes = await self._load()
        self._first = self._loop.create_future()
        self._start_worker()
        if wait_for_worker or self.cold:  # A cold start runs the handler's init only now.
            await self._first

    async def _load(self) -> Processes:
        processes = self._make(self)
        try:
            await processes.ready()
        except ThreadsInInit:
            processes.close()
            self._report("its init starts a thread, so it cannot be forked: every worker is a cold start")
            self.cold = True
            return await self._load()
        except InitFailed:
            processes.close()
            raise
        return processes

    def change(self) -> "asyncio.Task[None]":
        """Reload the changed source. Requests wait meanwhile. If loading fails, keep the old code."""
        self.changed = True
        return self.reload()

    def reload(self) -> "asyncio.Task[None]":
        """The same for a source that has not changed: the function's environment has."""
        if self._changing is not None:
            self._change_again = True
            return self._changing
        self._changing = self._loop.create_task(self._change())
        return self._changing

    async def _change(self) -> None:
        while True:
            self._change_again = False
            try:
                processes = await self._load()
            except InitFailed as error:
                if not self._change_again:
                    self._keep_old_code(error)
                    break
            else:
                old, self._processes = self._processes, processes
                if old is not None:
                    self._retire(old)
                if not self._change_again:
                    break
        self._changing = None
        if self._processes is not None and not self.workers:
            self._start_worker()
        self._dispatch()

    def _keep_old_code(self, error: InitFailed) -> None:
        if self._processes is not None:
            self._report(f"cannot load the changed code, keeping the previous version: {error}")
            return
        self._report(f"cannot start: {error}")
        while self._queue:
            self._fail_oldest(error)

    def _retire(self, processes: Processes) -> None:
        """Let the busy workers of an old version finish, and end the others."""
        self._idle = [worker for worker in self._idle if worker.processes is not processes]
        for worker in self.workers.values():
            if worker.processes is processes and worker.invocation is None:
                processes.kill(worker.name)
        self._close_if_unused(processes)

    def reap(self, idle_seconds: float) -> None:
        """End workers that were idle for `seconds`, but keep one."""
        before = self._loop.time() - idle_seconds
        next_worker = self._preferred() if self._idle else None
        for worker in self._idle.copy():
            if worker is not next_worker and worker.idle_since < before:
                self._idle.remove(worker)
                worker.processes.kill(worker.name)

    def close(self) -> None:
        self._closed = True
        if self._changing is not None:
            self._changing.cancel()
        for processes in {id(w.processes): w.processes for w in self.workers.values()}.values():
            if processes is not self._processes:
                processes.close()
        if self._processes is not None:
            self._processes.close()


def _settle(invocation: Invocation, result: Result) -> None:
    if invocation.trace is not None:
        invocation.trace.ended(result)
    if not invocation.result.done():
        invocation.result.set_result(result)


def _failure(kind: str, message: str) -> Result:
    return Result(json.dumps({"errorType": kind, "errorMessage": message}).encode(), "Unhandled")


def _trace_id(request_id: str) -> str:
    return f"Root=1-{int(time.time()):08x}-{request_id.replace('-', '')[:24]};Sampled=0"


def _exit_text(status: int) -> str:
    if os.WIFSIGNALED(status):
        signal_number = os.WTERMSIG(status)
        return "signal: killed" if signal_number == 9 else f"signal: {signal_number}"
    return f"exit status {os.WEXITSTATUS(status)}"
