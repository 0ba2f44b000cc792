"""The functions' processes: `python -m tests.faults.functions ADDRESS`.

The first one has run the init of every handler and never opens a socket; at each line of its input it forks a worker,
which connects to ADDRESS and handles one event after the other with the real handler code, until it is told to die in
the middle of one. Calls of the table go to the emulator that `AWS_ENDPOINT_URL` names; posts and invokes are answered
by whoever started us. (A fork of the test's own process would inherit its threads and sockets.)

Messages, both ways, are tuples. To a worker: an `Order`. From it: ("call", operation, nth), ("post", connection_id,
frame), ("invoke", payload), ("pause", rested_ms), ("done", result), ("failed", text); post, invoke and pause are
answered.
"""

import importlib.util
import itertools
import json
import os
import signal
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

import botocore.endpoint
import codelab.aws.calls
import codelab.delivery.stream as stream
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from codelab import wiring
from codelab.agents import agents
from codelab.aws.connections import Answer, Connections
from codelab.aws.errors import AwsTimeout, AwsUnreachable
from codelab.aws.sdk import s3_client
from codelab.aws.signing import Request
from codelab.delivery.stream import StreamSender
from codelab.llm.client.transport import Call
from codelab.sessions.dynamodb.kept_history import KeptHistory
from codelab_local.host.processes import die_with_parent

from tests.fakes.aws.calls import answer, call_of, is_first, is_last, operation_of
from tests.fakes.model.in_process import Script, ScriptedTransport
from tests.faults.fault import APPEND, INVOKE, POST, READ, TRANSACTION, UPDATE, Fault, Kind

FUNCTIONS = Path(__file__).parents[2] / "functions"
FOLDERS = (
    "connect",
    "disconnect",
    "user_message",
    "tool_result",
    "hitl_decision",
    "switch_agent",
    "control",
    "llm_request",
    "sweep",
)

#: An agent that the tests add, with a model of its own.
OWN_MODEL = "reviewer"
#: And another, whose model is asked for native calls.
NATIVE = "caller"
#: And one whose model wants its reasoning back, too.
THINKER = "thinker"

#: It writes calls as text, too.
_CALLER = {"strategy": "calls", "model": "qwen2.5-coder"}

#: What Lambda's context says is left, in milliseconds.
TIME_LEFT = {"llm_request": 300_000, "sweep": 55_000}
PATIENCE = 60.0
#: Seconds in which a sender that is alive has extended its lease.
_RENEWED_S = 2.0
_LOOK_S = 0.02
#: Seconds of silence before the register is read; by default none of a test's length.
_NEVER = 3600.0


@dataclass(frozen=True, slots=True)
class Order:
    """Handle `event` at `now` (ms); `fault` befalls it. `watch_s` replaces the sender's watch interval; `request_id` is
    Lambda's name for the invocation."""

    folder: str
    event: dict[str, Any]
    now: int
    fault: Fault | None
    script: Script
    watch_s: float | None = None
    request_id: str = ""
    #: Changes when the table goes back to an earlier state. No process remembers what comes after it.
    play: int = 0


class Worker:
    """One process: what it sees of AWS, and what it does to it."""

    def __init__(self) -> None:
        self._channel: Connection
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._changed = threading.Condition()
        self._calls: dict[str, tuple[str, int]] = {}
        self._started: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._posts = itertools.count()
        self._mark = 0
        self._sender_waits = False
        self._senders = 0
        self._play = 0
        self._fault: Fault | None = None
        self._now = 0
        self._transport = ScriptedTransport(mark=self._remember, sent=self._until_sent, pause=self._pause)
        self._handlers: dict[str, Callable[[Any, Any], Any]] = {}
        self._init()

    # -- before the fork -----------------------------------------------------------------------------------------

    def _init(self) -> None:
        agents()[OWN_MODEL] = replace(agents()["ask"], name=OWN_MODEL, model={"temperature": 0.5})
        agents()[NATIVE] = replace(agents()["coder"], name=NATIVE, model=_CALLER)
        keeps = {"strategy": "calls", "past_reasoning": "required"}
        agents()[THINKER] = replace(agents()["coder"], name=THINKER, model=keeps)
        direct = types.SimpleNamespace(DirectTransport=lambda **_: self._transport)
        sys.modules["codelab.llm.client.direct"] = direct  # type: ignore[assignment]
        wiring.ManagementApi = lambda url: _Management(self)  # type: ignore[assignment,attr-defined,misc]
        for folder in FOLDERS:
            spec = importlib.util.spec_from_file_location(f"handler_of_{folder}", FUNCTIONS / folder / "handler.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._handlers[folder] = module.handler
        self._really_send = Connections.send
        Connections.send = lambda connections, request, on_wait=None: self._send(connections, request)  # type: ignore[assignment,method-assign]
        store = s3_client()
        session = store._endpoint.http_session  # type: ignore[attr-defined]
        store.meta.events.register_first(
            "before-send",
            lambda **sent: self._before_send(session, **sent),  # type: ignore[arg-type]
        )
        wiring.engine().clock = lambda: self._now
        really_next = StreamSender._next
        StreamSender._next = lambda sender: self._noted(really_next, sender)  # type: ignore[assignment,method-assign]
        really_start, really_run = StreamSender.start, StreamSender._run
        StreamSender.start = lambda sender, threads: self._begun(really_start, sender, threads)  # type: ignore[assignment,method-assign]
        StreamSender._run = lambda sender: self._run(really_run, sender)  # type: ignore[assignment,method-assign]
        # There is a rest before each retry; nothing is won by waiting for that.
        without_rest = types.SimpleNamespace(sleep=lambda _seconds: None, time=time.time)
        codelab.aws.calls.time = botocore.endpoint.time = without_rest  # type: ignore[assignment,attr-defined]

    # -- after it ------------------------------------------------------------------------------------------------

    def serve(self, address: str) -> None:
        with Client(address) as self._channel:
            while True:
                try:
                    order: Order = self._channel.recv()
                except EOFError:
                    return
                self._handle(order)

    def _handle(self, order: Order) -> None:
        self._calls.clear()
        self._started.clear()
        self._ended.clear()
        self._fault, self._now = order.fault, order.now
        self._transport.script = order.script
        if order.play != self._play:
            self._play = order.play
            wiring.engine().store._kept_history = KeptHistory()  # type: ignore[attr-defined]
        stream.WATCH_S = _NEVER if order.watch_s is None else order.watch_s
        ends = order.now + TIME_LEFT.get(order.folder, 29_000)
        context = types.SimpleNamespace(
            get_remaining_time_in_millis=lambda: ends - self._now, aws_request_id=order.request_id
        )
        try:
            result = self._handlers[order.folder](order.event, context)
        except Exception as error:
            self._tell("failed", repr(error))
        else:
            self._tell("done", result)

    def _tell(self, *message: Any) -> None:
        with self._sending:
            self._channel.send(message)

    def _ask(self, *message: Any) -> Any:
        with self._asking:
            self._tell(*message)
            return self._channel.recv()

    # -- the model -----------------------------------------------------------------------------------------------

    def _remember(self) -> None:
        with self._changed:
            self._mark = self._ended[READ]
            self._appended = self._ended[APPEND]

    def _until_sent(self, call: Call, *, is_text: bool) -> None:
        """Wait until the register was read: after each batch of text that is appended, and in a silence."""
        until = time.monotonic() + PATIENCE
        with self._changed:
            while not self._is_sent(is_text) and not call.cancellation.cancelled:
                assert time.monotonic() < until, "the sender does not send"
                self._changed.wait(_LOOK_S)  # a cancellation notifies nobody here

    def _is_sent(self, is_text: bool) -> bool:
        return self._ended[READ] > self._mark and (not is_text or self._ended[APPEND] > self._appended)

    def _noted(self, really_next: Callable[[StreamSender], str | None], sender: StreamSender) -> str | None:
        """The sender's wait for its next batch, noted."""
        self._sender_waits = True
        try:
            return really_next(sender)
        finally:
            self._sender_waits = False

    def _begun(
        self, really_start: Callable[[StreamSender, Executor], None], sender: StreamSender, threads: Executor
    ) -> None:
        self._senders += 1
        really_start(sender, threads)

    def _run(self, really_run: Callable[[StreamSender], None], sender: StreamSender) -> None:
        try:
            really_run(sender)
        finally:
            self._senders -= 1

    def _pause(self) -> None:
        """The model rests when the step is acquired. A sender that watches meanwhile also extends its lease.

        One that does not watch waits for text before time passes: otherwise it might still extend its lease afterwards.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ended[UPDATE] + self._ended[TRANSACTION] > 0, _RENEWED_S)
        until = time.monotonic() + PATIENCE
        while not self._sender_waits and self._senders and time.monotonic() < until:
            time.sleep(_LOOK_S / 10)
        rested, rests = 0, True
        while rests:
            began, extended = self._now, self._ended[UPDATE] + 1
            self._now, rests = self._ask("pause", rested)
            rested += self._now - began
            if rests and stream.WATCH_S < _NEVER:
                self._until_extended(extended)

    def _until_extended(self, times: int) -> None:
        """Wait until so many leases were extended, or the sender must have stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended[UPDATE] >= times, _RENEWED_S)

    # -- calls of AWS --------------------------------------------------------------------------------------------

    def _send(self, connections: Connections, request: Request) -> Answer:
        """In place of `Connections.send`. Nobody is there to be invoked, so invokes are answered here."""
        operation, first = operation_of(request), is_first(request)
        kind = self._fault_of(operation, call_of(request))
        if kind is Kind.KILLED_BEFORE:
            os._exit(1)
        if kind is Kind.FAILS:
            if is_last(request):
                self._count_end(operation)
            raise AwsUnreachable("refused", never_arrived=True)
        if kind is Kind.CONFLICT and first:
            self._count_end(operation)
            return _conflict(operation)
        if operation == INVOKE:
            self._ask("invoke", json.loads(request.body))
            answered = answer(202)
        else:
            answered = self._really_send(connections, request)
        if kind is Kind.KILLED_AFTER:
            os._exit(1)
        if kind is Kind.ANSWER_LOST and first:
            raise AwsTimeout("the answer was lost")
        if kind is Kind.DENIED and first:
            answered = _conflict(operation)
        self._count_end(operation)
        return answered

    def _before_send(self, session: Any, request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
        """The SDK's hook, for S3."""
        first = _text(request.headers["amz-sdk-request"]).startswith("attempt=1")
        kind = self._fault_of(event_name.rpartition(".")[2], _text(request.headers["amz-sdk-invocation-id"]))
        if kind is Kind.KILLED_BEFORE:
            os._exit(1)
        if kind is Kind.FAILS:
            raise EndpointConnectionError(endpoint_url=request.url)
        if kind is Kind.KILLED_AFTER or (kind is Kind.ANSWER_LOST and first):
            session.send(request)
            if kind is Kind.KILLED_AFTER:
                os._exit(1)
            raise ReadTimeoutError(endpoint_url=request.url)
        return None

    def post(self, connection_id: str, data: bytes) -> int:
        """A post to a connection: each try is a call of its own."""
        kind = self._fault_of(POST, f"post {next(self._posts)}")
        if kind is Kind.KILLED_BEFORE:
            os._exit(1)
        if kind is Kind.FAILS:
            raise AwsUnreachable("refused", never_arrived=True)
        status: int = self._ask("post", connection_id, json.loads(data))
        if kind is Kind.KILLED_AFTER:
            os._exit(1)
        if kind is Kind.ANSWER_LOST:
            raise AwsTimeout("the answer was lost")
        return status

    def _fault_of(self, operation: str, invocation: str) -> Kind | None:
        """The fault of this call; a call keeps its invocation id through all its attempts."""
        with self._changed:
            known = self._calls.get(invocation)
            if known is None:
                self._started[operation] += 1
                known = self._calls[invocation] = (operation, self._started[operation])
                self._tell("call", *known)
        fault = self._fault
        return fault.kind if fault is not None and (fault.operation, fault.nth) == known else None

    def _count_end(self, operation: str) -> None:
        with self._changed:
            self._ended[operation] += 1
            if operation == APPEND:  # the read comes after it
                self._mark = self._ended[READ]
            self._changed.notify_all()


class _Management:
    """The `ManagementApi` of a worker. Nobody is closed in these conversations."""

    def __init__(self, worker: Worker) -> None:
        self.post = worker.post


def _conflict(operation: str) -> Answer:
    if operation == TRANSACTION:
        reasons = [{"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}, {"Code": "None"}]
        return answer(400, {"__type": _TYPE + "TransactionCanceledException", "CancellationReasons": reasons})
    return answer(400, {"__type": _TYPE + "TransactionConflictException", "message": "Transaction is ongoing"})


_TYPE = "com.amazonaws.dynamodb.v20120810#"


def _text(header: str | bytes) -> str:
    return header.decode() if isinstance(header, bytes) else header


def main() -> None:
    address, me = sys.argv[1], os.getpid()
    worker = Worker()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    assert threading.active_count() == 1, "a thread does not survive a fork"
    for _ in sys.stdin:
        if os.fork() == 0:
            die_with_parent(me)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            worker.serve(address)
            os._exit(0)


if __name__ == "__main__":
    main()
