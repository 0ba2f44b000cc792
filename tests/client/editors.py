"""An editor for tests: speaks the Agent Client Protocol with `codelab acp`, and checks every message that it gets."""

import itertools
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.client.acp_schema import Schema, Witness
from tests.fork_server import CLIENTS

CODELAB = (sys.executable, "-m", "codelab_client.command_line", "acp")
PATIENCE_S = 60.0

#: Answers a request of the agent: gets its params and gives the result; None leaves it open.
Answer = Callable[[dict[str, Any]], Any]


@cache
def schema() -> Schema:
    """ACP's schema, which every editor of a process needs."""
    return Schema.pinned()


class Refusal(Exception):
    """The agent answered a request with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code, self.error = error["code"], error


def allow(params: dict[str, Any], option: str = "allow_once") -> dict[str, Any]:
    """The user chooses an option."""
    assert option in [one["optionId"] for one in params["options"]]
    return {"outcome": {"outcome": "selected", "optionId": option}}


def reject(params: dict[str, Any]) -> dict[str, Any]:
    return allow(params, "reject_once")


class Editor:
    """`with Editor(environment) as editor`. `messages` is everything that came, `updates` those of sessions.

    answers: how it answers the agent's requests, by method.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *options: str,
        answers: Mapping[str, Answer] | None = None,
        offers: Mapping[str, Any] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.answers: dict[str, Answer] = {}
        self.offers = dict(offers or {})
        self.messages: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.renew(answers)
        self._command, self._environment, self._cwd = [*CODELAB, *options], dict(environment), cwd
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._ids = itertools.count(1)
        self._is_initialized = False
        self.witness = Witness(schema(), "own")

    def __enter__(self) -> Self:
        self.process = CLIENTS.popen(self._command, self._environment, self._cwd)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None
            self._reader.join(PATIENCE_S)
            self.witness.keep()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def renew(self, answers: Mapping[str, Answer] | None) -> None:
        """Forget what came, and answer in another way."""
        self.answers = {"session/request_permission": reject, **(answers or {})}
        self.messages.clear()
        self.asked.clear()

    # -- talking -------------------------------------------------------------------------------------------------

    def initialize(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request("initialize", protocolVersion=1, clientCapabilities=self.offers)
        self._is_initialized = True
        return found

    def new(self, folder: Path, **params: Any) -> str:
        """A new session, on a connection that is initialized first if it must be."""
        if not self._is_initialized:
            self.initialize()
        self.messages.clear()
        session: str = self.request("session/new", **{"cwd": str(folder), "mcpServers": [], **params})["sessionId"]
        return session

    def prompt(self, session: str, *blocks: str | dict[str, Any]) -> str:
        """Send a prompt. Returns the stop reason."""
        given = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        reason: str = self.request("session/prompt", sessionId=session, prompt=given)["stopReason"]
        return reason

    def request(self, method: str, **params: Any) -> Any:
        """Send a request, and serve the agent until it is answered. Raises Refusal."""
        return self.answer_to(self.begin(method, **params))

    def begin(self, method: str, **params: Any) -> int:
        """Send a request without waiting for its answer. Returns its id."""
        request_id = next(self._ids)
        self.send({"id": request_id, "method": method, "params": params})
        return request_id

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def send(self, message: dict[str, Any]) -> None:
        if "id" in message or "method" in message:
            self.witness.hear("editor", message)
        self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_raw(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer_to(self, request_id: int | None) -> Any:
        """Serve the agent until this request is answered. Raises Refusal."""
        found = self.until(lambda message: "method" not in message and message.get("id") == request_id)
        if "error" in found:
            raise Refusal(found["error"])
        return found["result"]

    def until(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Serve the agent until a message comes that is wanted. Messages that came before do not count."""
        while True:
            message = self.receive()
            if is_wanted(message):
                return message

    def receive(self) -> dict[str, Any]:
        """The next message, answered if it is a request. Raises queue.Empty and EOFError."""
        line = self._lines.get(timeout=PATIENCE_S)
        if not line:
            raise EOFError
        message: dict[str, Any] = json.loads(line)
        self.witness.hear("agent", message)
        self.messages.append(message)
        if "method" in message and "id" in message:
            self.asked.append((message["method"], message["params"]))
            result = self.answers[message["method"]](message["params"])
            if result is not None:
                self.send({"id": message["id"], "result": result})
        return message

    # -- what came -----------------------------------------------------------------------------------------------

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [one["params"]["update"] for one in self.messages if one.get("method") == "session/update"]

    def of_session(self, session: str) -> list[dict[str, Any]]:
        updates = [one["params"] for one in self.messages if one.get("method") == "session/update"]
        return [one["update"] for one in updates if one["sessionId"] == session]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def text(self) -> str:
        """What the agent said."""
        return "".join(update["content"]["text"] for update in self.of_kind("agent_message_chunk"))

    def call(self, title: str) -> dict[str, Any]:
        """A tool call as the editor shows it: its announcement with all updates."""
        first = next(update for update in self.of_kind("tool_call") if title in update["title"])
        shown = dict(first)
        for update in self.of_kind("tool_call_update"):
            if update["toolCallId"] == first["toolCallId"]:
                shown.update(update)
        return shown
