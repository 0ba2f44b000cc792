"""The sequence diagrams of docs/protocol.md, played against the running system.

A line from the IDE is done; a line from the server must be the next frame: of that type, with those fields. Frames that
are logged are taken in the order of their `seq`, whichever writer posted them first.
"""

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from infra.docs.schemas import frames_of
from tests.conftest import Open
from tests.conversations.test_identity import bearing, guarded, token
from tests.fakes.ide.ide import Ide, put
from tests.fakes.ide.received import Received
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.frames import DOCUMENT
from tests.sampling import sampled
from tests.waiting import until

__all__ = ["guarded"]  # uses guarded_cloud

PAGE = (Path(__file__).parents[2] / "docs/protocol.md").read_text(encoding="utf-8")
_SECTION = re.compile(r"^### (.+?)\n\n```mermaid\n(.+?)```", re.MULTILINE | re.DOTALL)
_MESSAGE = re.compile(r"^  ([IW]->>S|S->>[IW]): (\w+)((?: \w+=\S+)*)( …)?$")
_UPLOAD = "  I->>B: PUT the whole tool_result"

#: An image of one pixel.
SHOT = {
    "type": "image",
    "media_type": "image/png",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
}
WRITE = call("write_file", path="a.py", content="1")
PLAN = call("propose_plan", steps=["Write a.py"])
EDIT = call("edit_file", path="a.py", edits=[{"old": "1", "new": "2"}])


class Line(NamedTuple):
    """An arrow of a diagram, or a note (`kind` is its text). `repeats`: one or more frames of this kind.

    `window`: which client's it is.
    """

    sender: str
    kind: str
    fields: dict[str, Any]
    repeats: bool = False
    window: str = "I"

    def fits(self, frame: dict[str, Any]) -> bool:
        return frame["type"] == self.kind and all(frame.get(name) == value for name, value in self.fields.items())


def lines_of(diagram: str) -> list[Line]:
    """The arrows between the IDE and the server or S3, and the notes over both."""
    found = []
    for line in diagram.splitlines():
        if (match := _MESSAGE.match(line)) is not None:
            arrow, kind, fields, repeats = match.groups()
            pairs = dict(pair.split("=") for pair in fields.split())
            window = arrow.replace("S", "").strip("->")
            sender = "S" if arrow[0] == "S" else "I"
            given = {name: _value(text) for name, text in pairs.items()}
            found.append(Line(sender, kind, given, bool(repeats), window))
        elif line == _UPLOAD:
            found.append(Line("I", "PUT", {}))
        elif line.startswith("  Note over I,S: "):
            found.append(Line("", line.partition(": ")[2], {}))
        else:
            assert not re.match(r"  ([IW]->>S|S->>[IW])", line), line
    return found


def _value(text: str) -> Any:
    return json.loads(text) if re.fullmatch(r"true|false|null|\d+", text) else text


DIAGRAMS = {title: lines_of(diagram) for title, diagram in _SECTION.findall(PAGE)}

#: In these scenarios the model holds an answer back until the server has sent this; None: until the end.
HOLDS = {
    "A message while a turn runs": "queued",
    "A message is withdrawn": "ack",
    "Two windows follow one conversation": None,
}
GO = {title: threading.Event() for title in HOLDS}

DELEGATED = "A part of the work is delegated"
#: The model's answers in each scenario, by message of the user; the subagent's task is the second one.
SCRIPTS: dict[str, list[list[Says]]] = {
    "The first message": [[Says("Hello there")]],
    "A tool call": [[Says("I read it.", [call("read_file", path="a.py")]), Says("That was it.")]],
    "The model thinks": [[Says("It is 4.", thought="Two and two, that is four. ")]],
    "A message with an image": [[Says("A red button.")]],
    "A call that the user approves": [[Says("", [WRITE]), Says("Written.")]],
    "A call that the user edits": [[Says("", [WRITE]), Says("Written as you wish.")]],
    "An edit of a file": [[Says("", [call("read_file", path="a.py")]), Says("", [EDIT]), Says("Edited.")]],
    "A call that the user rejects": [[Says("", [WRITE]), Says("Then not.")]],
    "A plan that the user accepts": [[Says("", [PLAN]), Says("", [WRITE]), Says("Written as planned.")]],
    DELEGATED: [
        [Says("", [call("delegate", agent="explore", task=f"[[scenario {DELEGATED} 1]]")]), Says("There it is.")],
        [Says("Reading.", [call("read_file", path="a.py")]), Says("In a.py.")],
    ],
    "A decision that is remembered": [[Says("", [WRITE]), Says("", [WRITE]), Says("Written twice.")]],
    "The agent is chosen": [[Says("I shall write it.", agent="coder")]],
    "The user switches the agent": [[Says("I shall draw it.")]],
    "The connection breaks": [[Says("", [call("read_file", path="a.py")]), Says("That was it.")]],
    "A command that streams its output": [[Says("", [call("run_command", command="make test")]), Says("All is well.")]],
    "A large result": [[Says("", [call("read_file", path="a.py")]), Says("A long file.")]],
    "The user cancels the turn": [[Says("word " * 2_000, delay=0.01)]],
    "A message while a turn runs": [
        [Says("The first answer", until=GO["A message while a turn runs"])],
        [Says("The second answer")],
    ],
    "A message steers the turn": [[Says("", [call("read_file", path="a.py")])], [Says("That is all.")]],
    "A message is withdrawn": [
        [Says("The only answer", until=GO["A message is withdrawn"])],
        [Says("never asked")],
    ],
    "Two windows follow one conversation": [
        [Says("To both")],
        [Says("To both again", until=GO["Two windows follow one conversation"])],
    ],
    "The token expires": [[Says("never asked")], [Says("Welcome back")]],
    "Something is wrong": [[Says(status=400)]],
}


class Scene:
    """A conversation that follows a diagram, in a session in which `before` was logged."""

    def __init__(self, open_ide: Callable[[], Ide], says: list[str], *before: dict[str, Any]) -> None:
        self._open, self.says = open_ide, deque(says)
        self._received = Received(list(before))
        self._shown, self._replies = len(before), 0
        self._call: dict[str, Any] = {}
        self._repeated: Line | None = None
        self._ide: Ide
        self._upload = b""
        self._ticket: dict[str, Any] = {}
        self.expires = 0

    def play(self, line: Line) -> None:
        if line.sender == "S":
            self._expect(line)
        elif line.sender == "I":
            self._do(line.kind, line.fields)
        elif line.kind == "the connection breaks":
            self._ide.expect("agent_status", status="executing_tool")  # The client loses the frames up to this one.
            self._ide.socket.socket.close()
            self._received, self._replies = Received(self._received.frames[: self._shown]), 0
        else:
            assert line.kind == "the token expires"
            until(lambda: time.time() > self.expires + 0.1)

    def _do(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "connect":
            self._ide = self._open()
        elif kind == "PUT":
            assert put(self._ticket, self._upload) == 200
        elif "payload_ref" in fields:
            self._ide.send(kind, call_id=self._call["call_id"], payload_ref=self._ticket["payload_ref"])
        elif fields.get("content", "") is None:
            self._ide.send_wrong(kind, **fields)
        else:
            if "exit_code" in fields:
                fields = {"result": {"stdout": "Running tests...\n", **fields}}
            if "attachments" in fields:
                fields = {**fields, "attachments": [SHOT]}
            if "tools_supported" in fields:
                fields = {"capabilities": {"tools_supported": fields["tools_supported"].split(",")}}
            if "remember" in fields:
                fields = {**fields, "remember": {"scope": fields["remember"]}}
            self._ide.send(kind, **{**self._needed(kind, fields), **fields})
        if kind == "tool_result" and fields.get("result", {}).get("exit_code", 0) is not None:
            self._call = {}

    def _needed(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields that a diagram leaves out."""
        match kind:
            case "user_message" | "switch_agent":
                return {"content": self.says.popleft()}
            case "tool_result":
                return {"call_id": self._call["call_id"], "result": {"content": "1", "success": True}}
            case "hitl_decision":
                edit = {"modified_arguments": {"path": "b.py", "content": "2"}} if fields["decision"] == "edit" else {}
                return {"call_id": self._call["call_id"], **edit}
            case "upload_request":
                result = {"content": "x" * 200_000}
                frame = {"type": "tool_result", "call_id": self._call["call_id"], "result": result}
                self._upload = json.dumps(frame).encode()
                return {"bytes": len(self._upload)}
            case "refresh_token":
                return {"token": token()}
        return {}

    def _expect(self, line: Line) -> None:
        """The next frame must be this one, after any that repeat the line before."""
        frame = self._next()
        while self._repeated is not None and self._repeated.fits(frame) and not line.fits(frame):
            frame = self._next()
        assert line.fits(frame), f"{frame} where the diagram has {line}"
        self._repeated = line if line.repeats else None
        if frame["type"] == "tool_call":
            assert frame["call_id"] == self._call.get("call_id", frame["call_id"])
            self._call = frame
        elif frame["type"] == "call_update" and frame["call_id"] == self._call.get("call_id"):
            self._call = {}
        elif frame["type"] == "upload_ticket":
            self._ticket = frame

    def _next(self) -> dict[str, Any]:
        received = self._received
        while self._has_shown_all():
            received.take(self._ide.receive())
        if self._replies < len(received.replies):
            self._replies += 1
            return received.replies[self._replies - 1]
        self._shown += 1
        return received.frames[self._shown - 1]

    def at_its_end(self) -> bool:
        return self._has_shown_all() and not self._received.held

    def _has_shown_all(self) -> bool:
        return (self._shown, self._replies) == (self._received.last_seq, len(self._received.replies))


@pytest.mark.parametrize("title", sampled([*DIAGRAMS]))
def test_the_diagram_shows_what_happens(ide: Open, guarded: Open, model: ScriptedModel, title: str) -> None:
    name = f"scenario {title}"
    says = [model.script(f"{name} {n}", *answers) for n, answers in enumerate(SCRIPTS[title])]
    session = f"scenario-{list(DIAGRAMS).index(title)}"
    if title == "The token expires":

        def connect() -> Ide:
            scene.expires = int(time.time()) + 6  # enough to connect
            return guarded(session, extensions=True, options=bearing(token(exp=scene.expires)))

        scene = Scene(connect, says)
    elif title == "The agent is chosen":
        begun = ide(session)
        begun.send("switch_agent", agent_type="orchestrator")  # As in a session with DEFAULT_AGENT.
        scene = Scene(lambda: ide(session, extensions=True), says, begun.expect("agent_switched"))
    else:
        scene = Scene(lambda: ide(session, extensions=True), says)
    scenes = {"I": scene}
    for line in DIAGRAMS[title]:
        if line.window not in scenes:
            scenes[line.window] = Scene(lambda: ide(session, extensions=True), [])
            scenes[line.window].says = scene.says
        scenes[line.window].play(line)
        if title in GO and line.sender == "S" and line.kind == HOLDS[title]:
            GO[title].set()
    assert scene.at_its_end()
    if title in GO:
        GO[title].set()


def test_the_scenarios_show_every_frame_of_the_seed_documents() -> None:
    shown = {line.kind for lines in DIAGRAMS.values() for line in lines}
    assert shown >= {"user_message", "assistant_message", "tool_call", "tool_result", "hitl_decision", "agent_status"}


def test_every_frame_and_every_query_option_is_on_the_page() -> None:
    types = [name for direction in ("ClientFrame", "ServerFrame") for name in frames_of(DOCUMENT, direction)]
    for name in [*types, "extensions=1", "last_seq=", "viewer=1", "profile=args", "token="]:
        assert name in PAGE, name
