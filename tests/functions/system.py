"""The functions around one table, each loaded as Lambda would load it; a session in a few lines."""

import importlib.util
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

import pytest
from codelab import config, observability, push, turn_log, wiring
from codelab.engine.engine import Engine
from codelab.sessions.dynamodb.values import from_dynamodb, to_dynamodb
from fastapi.testclient import TestClient

from tests.fakes.aws.recorder import Recorder
from tests.fakes.model.in_process import Queued
from tests.functions import events
from tests.functions.template import ROOT, Template
from tests.permissions import grants
from tests.quotas import UNLIMITED
from tests.waiting import until

#: What a process keeps for its life. Lambda gives every function processes of its own. The clients of AWS are shared:
#: they hold nothing of a function, and making them takes longer than most tests.
_PER_PROCESS: tuple[Any, ...] = (
    config.settings,
    observability.logger,
    turn_log.spans,
    turn_log.collector,
    wiring.management_api,
    wiring.engine,
    push.public_key,
    push.identity,
)

JWT_SECRET = events.JWT_SECRET

ROUTES = ("user_message", "tool_result", "hitl_decision", "context_update")


class Context:
    """Lambda's context object."""

    def __init__(self, remaining_ms: int = 120_000, request_id: str = events.REQUEST_ID) -> None:
        self._remaining_ms = remaining_ms
        self.aws_request_id = request_id

    def get_remaining_time_in_millis(self) -> int:
        return self._remaining_ms


class Function:
    """A loaded function. Time passes for it by `clock_ms`, which is added to the real one."""

    def __init__(self, module: ModuleType, running: Callable[[], AbstractContextManager[None]]) -> None:
        self._module = module
        self._running = running
        self.clock_ms = 0
        if wiring.engine.cache_info().currsize:
            self.engine: Engine = wiring.engine()
            real = self.engine.clock
            self.engine.clock = lambda: real() + self.clock_ms

    def __call__(self, event: Mapping[str, Any], context: Context | None = None) -> Any:
        with self._running():
            return self._module.handler(event, context or Context())

    def get(self, path: str, headers: Mapping[str, str]) -> Any:
        """What the function answers that serves HTTP itself (`app`)."""
        with self._running(), TestClient(self._module.app) as client:
            return client.get(path, headers=dict(headers))


@cache
def _handler(folder: str) -> tuple[ModuleSpec, CodeType]:
    """A function's module before it is run, which is read once for all processes of the function."""
    path = ROOT / "functions" / folder / "handler.py"
    loader = SourceFileLoader("handler", str(path))
    spec = importlib.util.spec_from_file_location("handler", path, loader=loader)
    code = loader.get_code("handler")
    assert spec is not None
    assert code is not None
    return spec, code


class System:
    """All functions, the table, and what they did. `environment` is laid over what the template says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, template: Template, recorder: Recorder, table: Any) -> None:
        self._monkeypatch = monkeypatch
        self._template = template
        self._functions: dict[str, Function] = {}
        self._callers: dict[str, dict[str, Any]] = {}
        self.environment: dict[str, str] = {}
        self.aws = recorder
        #: The transport of `llm_request`.
        self.model = Queued(lambda: recorder.note("model"))
        self.transport: Callable[..., Any] = lambda **_: self.model
        self.table = table

    def load(self, folder: str) -> Function:
        """A new process of `functions/{folder}`."""
        for name in config.variables():
            self._monkeypatch.delenv(name, raising=False)
        own = {"DEFAULT_AGENT": "universal", **UNLIMITED, **self.environment}
        for name, value in {**self._template.environment(folder), **own}.items():
            self._monkeypatch.setenv(name, value)
        for kept in _PER_PROCESS:
            kept.cache_clear()
        spec, code = _handler(folder)
        module = importlib.util.module_from_spec(spec)
        with self.aws.run_by(folder), self._monkeypatch.context() as patched:
            patched.setattr("codelab.llm.client.direct.DirectTransport", self.transport)
            exec(code, vars(module))
        return Function(module, lambda: self.aws.run_by(folder))

    def function(self, folder: str) -> Function:
        if folder not in self._functions:
            self._functions[folder] = self.load(folder)
        return self._functions[folder]

    # -- what a client does; each of these is one event --------------------------------------------------------------

    def connect(self, connection: str, session: str = "s1", **caller: Any) -> Any:
        self._callers[connection] = events.authorizer_context(session, **caller)
        with self.aws.paused():  # moto makes a partition when it is first read, which disturbs a transaction beside it
            self.table.get_item(
                TableName="Table", Key=to_dynamodb({"pk": f"USER#{caller.get('user', 'ann')}", "sk": "USER_RULES"})
            )
        return self._handle("connect", events.connect(connection, self._callers[connection]))

    def disconnect(self, connection: str, **how: Any) -> Any:
        return self._handle("disconnect", events.disconnect(connection, self._callers[connection], **how))

    def send(self, connection: str, frame_type: str, **fields: Any) -> Any:
        return self.send_raw(connection, frame_type, json.dumps({"type": frame_type, **fields}))

    def send_raw(self, connection: str, route: str, body: str | None) -> Any:
        """`route` is the function, `unknown_message` for $default."""
        key = route if route in ROUTES else "$default"
        return self._handle(route, events.message(connection, self._callers[connection], key, body))

    def http(self, method: str, path: str, context: Context | None = None, **fields: Any) -> tuple[int, Any]:
        """A request to `/api/v1`; gives the status and the body of the answer."""
        answer = self.answer(method, path, context, **fields)
        return answer["statusCode"], json.loads(answer["body"])

    def answer(self, method: str, path: str, context: Context | None = None, **fields: Any) -> dict[str, Any]:
        """A request to `/api/v1`; gives the whole answer."""
        event = events.http(method, f"/api/v1{path}", **fields)
        answer: dict[str, Any] = self._handle("rest_api", event, context or Context(29_000))
        return answer

    def event(self, connection: str, frame: dict[str, Any]) -> dict[str, Any]:
        """The event of a frame, for one that comes while another is worked on."""
        return events.message(connection, self._callers[connection], frame["type"], json.dumps(frame))

    def run_step(self, context: Context | None = None) -> None:
        """Run `llm_request` as the last asynchronous invoke has asked for."""
        name, payload = self.aws.last_invoke
        assert name == "codelab-llm-request"
        self._handle("llm_request", payload, context)

    def sweep(self, *, later_s: float = 0) -> None:
        self.function("sweep").clock_ms = int(later_s * 1000)
        self._handle("sweep", events.schedule())

    def report_failure(self, payload: dict[str, Any]) -> None:
        """Lambda tells the sweep that the invocation with this payload has failed."""
        self._handle("sweep", events.failed_invocation(payload))

    def check_permissions(self) -> None:
        """Raise AssertionError if a function has made a call that the template does not allow it."""
        granted_to = grants(large_settings="SETTINGS_SECRET_ARN" in self.environment)
        allowed = {(folder, *one) for folder, granted in granted_to.items() for one in granted}
        assert self.aws.used <= allowed, f"AccessDenied in the cloud: {sorted(self.aws.used - allowed)}"

    def _handle(self, folder: str, event: Mapping[str, Any], context: Context | None = None) -> Any:
        function = self.function(folder)
        self.aws.reset()
        return function(event, context)

    # -- a session that has come so far ------------------------------------------------------------------------------

    def ask(self, connection: str, message: str, *calls: dict[str, Any]) -> list[str]:
        """The user has spoken and the model has answered. Returns the ids of its calls."""
        self.model.says(message, *calls)
        return self.say(connection)

    def say(self, connection: str, content: str = "hello") -> list[str]:
        """The user has spoken, and the model has given the answer that was queued. Returns the ids of its calls."""
        self.send(connection, "user_message", content=content)
        self.run_step()
        return list(self.item("REGISTER").get("calls", {}))

    # -- the table -------------------------------------------------------------------------------------------------

    def item(self, sk: str, session: str = "s1", user: str = "ann") -> dict[str, Any]:
        key = {"pk": {"S": f"SESSION#{user}#{session}"}, "sk": {"S": sk}}
        return from_dynamodb(self.table.get_item(TableName="Table", Key=key)["Item"])

    def until_a_step_runs(self) -> None:
        """Wait until the step is acquired, which is done beside the Request to the model."""
        until(lambda: self.item("REGISTER")["phase"] == "running")

    def all_keys(self) -> list[tuple[str, str]]:
        """All keys of the table."""
        return [(item["pk"], item["sk"]) for item in self._items()]

    def _items(self) -> list[dict[str, Any]]:
        items = [from_dynamodb(item) for item in self.table.scan(TableName="Table")["Items"]]
        return sorted(items, key=lambda item: (item["pk"], item["sk"]))

    def history(self) -> list[tuple[str, str]]:
        of_session = [item for item in self._items() if item["pk"] == "SESSION#ann#s1"]
        messages = [item for item in of_session if item["sk"].startswith("MESSAGE#")]
        return [(item["role"], item["content"]) for item in messages]

    def connections(self) -> set[str]:
        return {name.removeprefix("conn#") for name in self.item("REGISTER") if name.startswith("conn#")}
