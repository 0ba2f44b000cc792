"""The way of the data through our modules, in the events of a turn whose one call a human approves.

    python -m benchmarks.way_of_the_data        # Python 3.12 or later
    python -m benchmarks.way_of_the_data cpu    # only the CPU time, to be compared by turns with another checkout's
    python -m benchmarks.way_of_the_data cpu traces    # the same with spans, which the process beside this one takes

The handlers run in this process on the local cloud's DynamoDB; Lambda, `@connections` and the model, which streams one
piece at a time, are another process. A change of module is a call, a return or a resumption of a generator that takes
a thread's execution from one module of ours to another, whatever lies between them. CPU time is this process's, and is
measured without counting.
"""

import asyncio
import importlib.util
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from codelab_local.emulator.server import Emulator

from benchmarks.rig import ROOT
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.template import REGION, Template
from tests.quotas import UNLIMITED

#: The sessions in which CPU time is measured, and those in which changes are counted.
TIMED, COUNTED = 12, 3
#: The turns of a session. The first one is not measured.
TURNS = 4
#: The pieces of an answer's text, and the seconds between two of them: a hundred tokens a second.
PIECES, PIECE_S = 30, 0.01
#: The pairs of modules that are printed.
PAIRS = 12

_LAST_INVOKE = "/last-invoke"
_MESSAGE = "Write a.py, please."
_CALL = call("write_file", path="a.py", content="x = 1\n")


# -- The process beside this one: Lambda, @connections, the model ----------------------------------------------------


def _answer(status: str, body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _chunk(choice: Mapping[str, Any], **fields: Any) -> bytes:
    event = b"data: " + json.dumps({"choices": [choice], **fields}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def _pieces(calls: list[Any]) -> Iterator[str]:
    yield '{"message": "'
    for number in range(PIECES):
        yield f"word{number} "
    yield f'", "calls": {json.dumps(calls)}}}'


async def _stream(writer: asyncio.StreamWriter, request: Mapping[str, Any]) -> None:
    """The answer to the user is a text and a call, the answer to a result only a text."""
    calls = [_CALL] if request["messages"][-1]["content"] == _MESSAGE else []
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in _pieces(calls):
        writer.write(_chunk({"index": 0, "delta": {"content": piece}, "finish_reason": None}))
        await asyncio.sleep(PIECE_S)
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    end = _chunk({"index": 0, "delta": {}, "finish_reason": "stop"}, usage=usage)
    writer.write(end + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def _serve(listener: socket.socket) -> None:
    last_invoke = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal last_invoke
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                path = head.split(" ", 2)[1]
                if path.endswith("/chat/completions"):
                    await _stream(writer, json.loads(body))
                elif path.endswith("/invocations"):
                    last_invoke = body
                    writer.write(_answer("202 Accepted"))
                else:
                    writer.write(_answer("200 OK", last_invoke if path == _LAST_INVOKE else b""))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, sock=listener)
        await server.serve_forever()

    asyncio.run(run())


# -- The functions, in this process ----------------------------------------------------------------------------------

FUNCTIONS = ("connect", "user_message", "llm_request", "hitl_decision", "tool_result")

#: Of an event and Lambda's context.
Handler = Callable[[Any, Any], Any]


class Context:
    """Lambda's context object."""

    aws_request_id = events.REQUEST_ID

    def get_remaining_time_in_millis(self) -> int:
        return 120_000


@contextmanager
def surroundings() -> Iterator[str]:
    """What the functions call, and the environment that says so. Gives the URL of the process beside this one."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        emulator = Emulator(Path(folder), REGION, None)
        server = multiprocessing.get_context("fork").Process(target=_serve, args=(listener,), daemon=True)
        server.start()
        try:
            emulator.start(["dynamodb", "s3"])
            template, url = Template(), f"http://127.0.0.1:{listener.getsockname()[1]}"
            for function in FUNCTIONS:
                os.environ.update(template.environment(function))
            os.environ.update(
                {
                    **UNLIMITED,
                    "AWS_ACCESS_KEY_ID": emulator.credentials.key_id,
                    "AWS_SECRET_ACCESS_KEY": emulator.credentials.secret,
                    "AWS_DEFAULT_REGION": REGION,
                    "AWS_LAMBDA_FUNCTION_NAME": "codelab",
                    "AWS_CONFIG_FILE": os.devnull,
                    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
                    "AWS_ENDPOINT_URL": url,
                    "AWS_ENDPOINT_URL_DYNAMODB": emulator.url,
                    "CONNECTIONS_URL": url,
                    "DEFAULT_AGENT": "universal",
                    "JWT_SECRET": events.JWT_SECRET,
                    "LLM_API_KEY": "key",
                    "LLM_BASE_URL": f"{url}/v1",
                    "LLM_MODEL": "instant",
                    "LLM_PROVIDER": "openai",
                    "LOG_LEVEL": "ERROR",
                }
            )
            api = emulator.wait()
            target = {"X-Amz-Target": "DynamoDB_20120810.CreateTable", "Content-Type": "application/x-amz-json-1.0"}
            api.request("dynamodb", "POST", "/", json.dumps(template.table()).encode(), target)
            yield url
        finally:
            emulator.stop()
            server.kill()
            server.join()


def load(folder: str) -> Handler:
    """The handler of `functions/{folder}`."""
    spec = importlib.util.spec_from_file_location(f"functions.{folder}", ROOT / "functions" / folder / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    handler: Handler = module.handler
    return handler


Measure = Callable[[str, Callable[[], object]], None]


class Conversation:
    """A connection to a new session, whose turns are all the same."""

    def __init__(self, handlers: Mapping[str, Handler], url: str, session_id: str) -> None:
        self._handlers, self._url, self._session_id = handlers, url, session_id
        self._caller = events.authorizer_context(session_id, extensions=True)
        handlers["connect"](events.connect("c1", self._caller), Context())

    def turn(self, measure: Measure) -> None:
        """A message, a step with a call, its approval and result, and the step that ends the turn."""
        measure("user_message", self._frame("user_message", content=_MESSAGE))
        step = self._last_invoke()
        measure("llm_request: a text and a call", lambda: self._handlers["llm_request"](step, Context()))
        call_id = self._open_call()
        measure("hitl_decision: approve", self._frame("hitl_decision", call_id=call_id, decision="approve"))
        measure("tool_result", self._frame("tool_result", call_id=call_id, result={"success": True}))
        step = self._last_invoke()
        measure("llm_request: a text", lambda: self._handlers["llm_request"](step, Context()))

    def _frame(self, kind: str, **fields: Any) -> Callable[[], object]:
        event = events.message("c1", self._caller, kind, json.dumps({"type": kind, **fields}))
        return lambda: self._handlers[kind](event, Context())

    def _last_invoke(self) -> Any:
        with urllib.request.urlopen(self._url + _LAST_INVOKE) as answer:
            return json.load(answer)

    def _open_call(self) -> str:
        from codelab import wiring

        register = wiring.engine().store.read(f"SESSION#ann#{self._session_id}")
        assert register is not None
        (call_id,) = register.open_calls
        return call_id


# -- The measures ----------------------------------------------------------------------------------------------------


@dataclass
class Way:
    """The changes of module of one event: by pairs of modules."""

    changes: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def modules(self) -> set[str]:
        return {module for pair in self.changes for module in pair}


class Counting:
    """Counts the changes of module in all threads of this process while an event is handled."""

    def __init__(self) -> None:
        self.ways: dict[str, list[Way]] = {}
        self._way: Way | None = None
        self._module = threading.local()

    def __call__(self, name: str, handle: Callable[[], object]) -> None:
        self._way = Way()
        self.ways.setdefault(name, []).append(self._way)
        threading.setprofile_all_threads(self._profile)
        try:
            handle()
        finally:
            threading.setprofile_all_threads(None)
            self._way, self._module = None, threading.local()

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        module = _module_of(frame if event == "call" else frame.f_back)
        before, self._module.name = getattr(self._module, "name", ""), module
        if self._way is not None and module and before and module != before:
            self._way.changes[before, module] += 1


def _module_of(frame: FrameType | None) -> str:
    """The innermost module of ours that a stack is in; empty if there is none."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(("codelab.", "functions.")):
            return name.removeprefix("codelab.")
        frame = frame.f_back
    return ""


class Timing:
    """Measures the CPU time of this process while an event is handled, in milliseconds."""

    def __init__(self) -> None:
        self.cpu_ms: dict[str, list[float]] = {}

    def __call__(self, name: str, handle: Callable[[], object]) -> None:
        began = time.process_time()
        handle()
        self.cpu_ms.setdefault(name, []).append(1000 * (time.process_time() - began))


def _not_measured(_: str, handle: Callable[[], object]) -> None:
    handle()


def main(what: str = "all", traces: str = "") -> None:
    with surroundings() as url:
        if traces:
            os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{url}/v1/traces"
        handlers = {function: load(function) for function in FUNCTIONS}
        timing, counting = Timing(), Counting()
        sessions: list[Measure] = [timing] * TIMED + [counting] * (0 if what == "cpu" else COUNTED)
        for number, measure in enumerate(sessions):
            conversation = Conversation(handlers, url, f"s{number}")
            conversation.turn(_not_measured)
            for _ in range(TURNS - 1):
                conversation.turn(measure)
    for name, times in timing.cpu_ms.items():
        print(f"{name}: {statistics.median(times):.2f} ms of CPU")
    for name, ways in counting.ways.items():
        median = sorted(ways, key=lambda way: way.changes.total())[len(ways) // 2]
        print(f"\n{name}: {median.changes.total()} changes of module, {len(median.modules)} modules")
        for (before, after), count in median.changes.most_common(PAIRS):
            print(f"{count:6}  {before} → {after}")


if __name__ == "__main__":
    main(*sys.argv[1:])
