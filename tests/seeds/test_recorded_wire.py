"""What a client that knows only the documents sends and receives stays the same from release to release.

Each dialogue is compared with a recording, `recorded_wire.json`, frame by frame and field by field. Ids are numbered,
sequence numbers and times are left out, and the pieces of a message are put together: a batch ends when it ends.
A change of the recording is a change of the protocol for everybody: record it anew (`RECORD_WIRE=1`) only on purpose.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.ide.ide import Ide, once
from tests.fakes.ide.seed_ide import SeedIde
from tests.seeds.conftest import OpenAt
from tests.seeds.test_scenarios import STATUSES, WRITTEN

RECORDING = Path(__file__).with_name("recorded_wire.json")
#: Fields that differ from run to run. Ids are numbered, and of texts only counts that they are there.
_LEFT_OUT = {"seq", "timestamp", "deadline"}
_IDS = {"call_id", "message_id", "turn_id", "request_id", "connection_id", "requestId", "connectionId"}


def _wrong_frames(ide: SeedIde) -> None:
    for body in ("{", "[]", '{"type": "nothing"}', '{"content": "no type"}'):
        ide.send_raw(body)
        ide.receive()
    for frame in (
        {"type": "user_message"},
        {"type": "user_message", "content": "x" * 10_001},
        {"type": "tool_result", "call_id": "call_unknown", "result": {}},
        {"type": "tool_result", "call_id": "call_unknown"},
        {"type": "hitl_decision", "call_id": "call_unknown", "decision": "approve"},
        {"type": "hitl_decision", "call_id": "call_unknown", "decision": "perhaps"},
        {"type": "switch_agent", "agent_type": "nobody", "content": "x"},
    ):
        ide.send_raw(json.dumps(frame))
        ide.receive()


def _a_failed_call(ide: SeedIde) -> None:
    call = ide.call_for("Read main.py")
    ide.send("tool_result", call_id=call["call_id"], error="File not found")
    ide.idle()


def _a_result_that_comes_twice(ide: SeedIde) -> None:
    call = ide.call_for("Read main.py")
    for _ in range(2):
        ide.send("tool_result", call_id=call["call_id"], result={"content": "print(1)"})
    ide.idle()
    ide.frames = once(ide.frames)


def _another_agent(ide: SeedIde) -> None:
    ide.send("switch_agent", agent_type="coder", content="Hello", reason="because")
    ide.idle()
    if not ide.of_type("agent_switched"):  # Another function posts it.
        ide.expect("agent_switched")


def _a_message_while_the_agent_waits(ide: SeedIde) -> None:
    call = ide.call_for("Create a file test.py")
    with Ide(f"{ide.url}?extensions=1&viewer=1") as another:  # It is told when the message waits.
        ide.say("Hello")
        another.expect("queued")
    ide.send("hitl_decision", call_id=call["call_id"], decision="approve")
    granted = ide.expect("tool_call")
    ide.send("tool_result", call_id=granted["call_id"], result=WRITTEN["result"])
    ide.idle()


DIALOGUES: dict[str, Callable[[SeedIde], None]] = {
    **{play.__name__: play for play in STATUSES},
    "wrong frames": _wrong_frames,
    "a failed call": _a_failed_call,
    "a result that comes twice": _a_result_that_comes_twice,
    "another agent": _another_agent,
    "a message while the agent waits": _a_message_while_the_agent_waits,
}


def _wire(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The logged frames in the log's order, then those that were not logged."""
    numbers: dict[str, str] = {}
    logged = sorted((frame for frame in frames if "seq" in frame), key=lambda frame: frame["seq"])
    found: list[dict[str, Any]] = []
    for frame in [*logged, *(frame for frame in frames if "seq" not in frame)]:
        plain = {name: _plain(name, value, numbers) for name, value in frame.items() if name not in _LEFT_OUT}
        if frame["type"] == "assistant_message":
            assert frame["token"] == frame["content"]
            said = bool(plain["token"])
            if found and found[-1].get("message_id") == plain["message_id"]:
                said = bool(found.pop()["token"]) or said
            plain |= dict.fromkeys(("token", "content"), "text" if said else "")
        elif frame["type"] == "error":
            plain |= dict.fromkeys(("message", "content"), "text")
        found.append(plain)
    return found


def _plain(name: str, value: Any, numbers: dict[str, str]) -> Any:
    if name in _IDS and isinstance(value, str):
        return numbers.setdefault(value, f"{name} {len(numbers)}")
    if isinstance(value, dict):
        return {inner: _plain(inner, content, numbers) for inner, content in value.items() if inner not in _LEFT_OUT}
    return value


@pytest.mark.parametrize("name", DIALOGUES)
def test_a_client_of_the_documents_alone_sees_what_it_has_always_seen(open_at: OpenAt, name: str) -> None:
    ide = open_at("/ws/wire_" + name.replace(" ", "_"))
    DIALOGUES[name](ide)
    wire = _wire(ide.frames)
    recorded = json.loads(RECORDING.read_text(encoding="utf-8")) if RECORDING.exists() else {}
    if os.environ.get("RECORD_WIRE"):
        text = json.dumps({**recorded, name: wire}, indent=1, ensure_ascii=False, sort_keys=True)
        RECORDING.write_text(text + "\n", encoding="utf-8")
        return
    assert wire == recorded[name]
