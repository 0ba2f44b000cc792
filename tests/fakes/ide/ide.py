"""The helper that speaks the protocol in tests: an IDE on a plain WebSocket client."""

import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.frames import check_received, check_sent
from tests.waiting import PATIENCE

#: What answers a frame that is answered by one frame.
ANSWERS = {
    **dict.fromkeys(("hello", "session_config"), "session_info"),
    "resume": "resumed",
    "switch_agent": "agent_switched",
    "rules": "rules",
    "context_update": "context_updated",
    "upload_request": "upload_ticket",
}

Execute = Callable[[dict[str, Any]], Any]


class Ide:
    """A connection to one session, at `url`. `frames` are all frames received, in order.

    `connect` arguments go to the WebSocket client as they are (headers, subprotocols).
    """

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.frames: list[dict[str, Any]] = []
        # With a bounded queue, a client that reads nothing would not see the answer to its own close.
        self._connecting = connect(url, open_timeout=PATIENCE, max_queue=None, **options)
        self.socket: ClientConnection = self._connecting.__enter__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.socket.close()

    # -- sending -------------------------------------------------------------------------------------------------

    def send(self, frame_type: str, **fields: Any) -> None:
        """Send a frame that is valid for its documented schema."""
        check_sent({"type": frame_type, **fields})
        self.send_wrong(frame_type, **fields)

    def send_wrong(self, frame_type: str, **fields: Any) -> None:
        """Send a frame without checking it."""
        self.send_raw(json.dumps({"type": frame_type, **fields}))

    def send_raw(self, body: str) -> None:
        self.socket.send(body)

    def request(self, frame_type: str, **fields: Any) -> dict[str, Any]:
        """Send a frame and read until its answer."""
        self.send(frame_type, **fields)
        return self.expect(ANSWERS[frame_type])

    def say(self, content: str, **fields: Any) -> None:
        self.send("user_message", content=content, **fields)

    def ask(self, content: str, **fields: Any) -> str:
        """Send a message and read until the turn is over. Returns all text so far."""
        self.say(content, **fields)
        return self.idle()

    def call_for(self, content: str, **fields: Any) -> dict[str, Any]:
        """Send a message and read until the first call of the answer."""
        self.say(content, **fields)
        return self.expect("tool_call")

    def result(self, call: dict[str, Any], result: Any) -> None:
        self.send("tool_result", call_id=call["call_id"], result=result)

    def fail(self, call: dict[str, Any], error: Any) -> None:
        self.send("tool_result", call_id=call["call_id"], error=error)

    def decide(self, call: dict[str, Any], decision: str, **fields: Any) -> None:
        self.send("hitl_decision", call_id=call["call_id"], decision=decision, **fields)

    def ticket(self, size: int) -> dict[str, Any]:
        """A ticket to upload so many bytes."""
        return self.request("upload_request", bytes=size)

    def upload(self, frame_type: str, **fields: Any) -> str:
        """Upload a frame. Returns its reference."""
        body = json.dumps({"type": frame_type, **fields}).encode()
        ticket = self.ticket(len(body))
        assert put(ticket, body) == 200
        reference: str = ticket["payload_ref"]
        return reference

    # -- receiving -----------------------------------------------------------------------------------------------

    def receive(self, timeout: float = PATIENCE) -> dict[str, Any]:
        """The next frame, which must be valid for its documented schema. Raises TimeoutError."""
        frame: dict[str, Any] = json.loads(self.socket.recv(timeout=timeout))
        check_received(frame)
        self.frames.append(frame)
        return frame

    def expect(self, frame_type: str, **fields: Any) -> dict[str, Any]:
        """Read until a frame of this type with these fields comes."""
        while True:
            frame = self.receive()
            if frame["type"] == frame_type and all(frame.get(name) == value for name, value in fields.items()):
                return frame

    def idle(self) -> str:
        """Read until the turn is over. Returns all text so far."""
        self.expect("agent_status", status="idle")
        return self.text()

    def converse(self, content: str, execute: Execute, *, decision: str = "approve", **fields: Any) -> str:
        """Run a whole turn: decide calls that need approval, and execute calls. Returns the turn's text.

        `execute` gets a `tool_call` frame and gives its result; an exception becomes the call's error.
        """
        start = len(self.frames)
        self.say(content)
        while True:
            frame = self.receive()
            if frame["type"] == "tool_call" and frame["requires_approval"]:
                self.decide(frame, decision, **fields)
            elif frame["type"] == "tool_call" and frame.get("execute", True):
                try:
                    self.result(frame, execute(frame))
                except OSError as error:
                    self.fail(frame, {"code": "FILE_NOT_FOUND", "message": str(error)})
            elif frame["type"] == "agent_status" and frame["status"] == "idle":
                return text_of(self.frames[start:])

    def text(self) -> str:
        return text_of(self.frames)

    def of_type(self, frame_type: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == frame_type]


def put(ticket: dict[str, Any], body: bytes, **headers: str) -> int:
    """Upload to a ticket's URL, with its headers or others. Returns the status."""
    return httpx.put(ticket["url"], content=body, headers=headers or ticket["headers"], timeout=PATIENCE).status_code


def fetched(frame: dict[str, Any]) -> Any:
    """The content behind a frame's URL."""
    answer = httpx.get(frame["payload_url"], timeout=PATIENCE)
    assert len(answer.content) == frame["payload_bytes"]
    return answer.json()


def text_of(frames: list[dict[str, Any]]) -> str:
    """The text that the user reads: the tokens of all messages."""
    return "".join(frame["token"] for frame in frames if frame["type"] == "assistant_message")


def once(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The frames of one session without those that were posted again.

    Frames that are not reported as posted are posted again when a client repeats itself, and when a worker was killed.
    """
    return list({frame.get("seq", -n): frame for n, frame in enumerate(frames, 1)}.values())
