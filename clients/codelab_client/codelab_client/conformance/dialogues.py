"""The dialogues of docs/protocol.md that need nothing of the server but an address."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from codelab_client.conformance.rules import RULES
from codelab_client.conformance.window import Frame, Window, opened
from codelab_client.judge.frames import extensions
from codelab_client.judge.rules import Report
from codelab_client.judge.server import NotPlayed
from codelab_client.session.address import Address

#: Seconds in which a server that does what it must not do has done it.
_SHORTLY_S = 0.5
#: Calls of one turn that are answered.
_MOST_CALLS = 50
#: Wrong messages, and the code that refuses each.
_WRONG = {
    "{": "INVALID_FORMAT",
    '{"content": "no type"}': "INVALID_TYPE",
    '{"type": "user_message"}': "MISSING_FIELD",
    '{"type": "user_message", "content": 7}': "INVALID_ARGUMENTS",
    '{"type": "conformance"}': "INVALID_TYPE",
}


@dataclass
class Subject:
    """The server that is judged.

    reading_message, writing_message: on which its model reads, and asks to write, a file.
    """

    address: Address
    token: str = ""
    patience: float = 60.0
    reading_message: str = "Read main.dart"
    writing_message: str = "Create test.py"
    report: Report = field(default_factory=lambda: Report(RULES))

    @contextlib.asynccontextmanager
    async def window(self, session_id: str = "", **query: Any) -> AsyncIterator[Window]:
        """A connection with extensions, to a new session if none is named."""
        options = {"extensions": 1, **query}
        session_id = session_id or new_session()
        async with opened(self.address, self.token, self.report, self.patience, session_id, **options) as window:
            yield window

    def note(self, rule: str, is_held: bool, reason: str, frame: Frame | None = None) -> None:
        """Judge a rule."""
        self.report.note(rule, is_held, reason, frame)

    async def idle(self, window: Window, begin: int) -> None:
        """Wait for the turn's end; answer calls that come until then, and reject those that wait."""
        answer_ids: set[str] = set()
        while await window.frame("agent_status", begin, patience=_SHORTLY_S, status="idle") is None:
            calls = [frame for frame in window.frames[begin:] if frame.get("type") == "tool_call"]
            open_calls = {call_id: call for call in calls if (call_id := str(call.get("call_id"))) not in answer_ids}
            if not open_calls or len(answer_ids) > _MOST_CALLS:
                status = await window.frame("agent_status", begin, status="idle")
                self.note("ends-turns", status is not None, f"no idle within {self.patience:g} s")
                if status is None:
                    raise NotPlayed("the turn does not end")
            for call_id, call in open_calls.items():
                answer_ids.add(call_id)
                if call.get("requires_approval"):
                    await window.send("hitl_decision", call_id=call_id, decision="reject")
                else:
                    await window.send("tool_result", call_id=call_id, error="not now", error_code="EXECUTION_FAILED")
        self.note("ends-turns", True, "")

    async def called(self, window: Window, message: str, option: str, *, approval: bool) -> Frame:
        """Send a message, and wait for the call that it leads to. Raises NotPlayed."""
        await window.send("user_message", content=message, client_msg_id=uuid.uuid4().hex)
        call = await window.frame("tool_call", requires_approval=approval)
        if call is None or "call_id" not in call:
            raise NotPlayed(f"the model makes no such call at “{message}”: name another message with {option}")
        return call


Dialogue = Callable[[Subject], Awaitable[None]]


def new_session() -> str:
    """The id of a session that nobody has."""
    return f"conformance-{uuid.uuid4().hex}"


async def a_greeting(subject: Subject) -> None:
    """a client introduces itself"""
    session_id = new_session()
    async with subject.window(session_id) as window:
        await window.send("hello", request_id="r-1", client={"name": "conformance"}, later_field={"a": [None]})
        info = await window.frame("session_info")
        is_ours = info is not None and info.get("session_id") == session_id
        subject.note("introduces-itself", is_ours, f"hello is not answered with session_info of {session_id}", info)
        await window.send("ping", request_id="r-2", n=[1])
        for answer, request_id in ((info, "r-1"), (await window.frame("pong"), "r-2")):
            is_named = answer is not None and answer.get("request_id") == request_id
            subject.note("answers-requests", is_named, f"the answer has not the request_id {request_id}", answer)


async def wrong_frames(subject: Subject) -> None:
    """frames that are wrong"""
    async with subject.window() as window:
        for text, code in _WRONG.items():
            begin = len(window.frames)
            await window.send_text(text)
            error = await window.frame("error", begin)
            is_refused = error is not None and error.get("error_code") == code and "seq" not in error
            subject.note("refuses", is_refused, f"{text} is not refused with {code}", error)
        begin = len(window.frames)
        await window.send("tool_result", call_id="call_conformance", result={})
        error = await window.frame("error", begin)
        is_named = error is not None and error.get("call_id") == "call_conformance"
        subject.note("names-the-call", is_named, "the error does not name call_conformance", error)
        await window.send("ping")
        subject.note("refuses", await window.frame("pong", begin) is not None, "no pong after wrong frames")


async def a_message(subject: Subject) -> None:
    """a message, sent twice, and replayed"""
    session_id = new_session()
    message = {"content": "Hello!", "client_msg_id": uuid.uuid4().hex}
    async with subject.window(session_id) as window:
        await window.send("user_message", **message)
        await subject.idle(window, 0)
        _judge_pieces(subject, window.logged())
        numbers = [frame["seq"] for frame in window.logged()]
        is_counted = bool(numbers) and numbers == list(range(1, len(numbers) + 1))
        subject.note("numbers", is_counted, f"the numbers are {numbers[:20]}")
        answer = await window.answer("user_message", **message)
        is_repeat = answer is not None and answer.get("outcome") == "repeated"
        subject.note(
            "accepts-once", is_repeat, "the repeated message is not answered with the outcome repeated", answer
        )
    if not is_repeat:
        return  # another turn has begun, whose frames would be replayed too
    frames = [(frame["seq"], frame["type"]) for frame in window.logged()]
    async with subject.window(session_id) as window:
        await window.send("resume", last_seq=2)
        reply = await window.frame("resumed")
        replay = [(frame["seq"], frame["type"]) for frame in window.logged()]
        is_whole = reply is not None and replay == frames[2:]
        subject.note("replays", is_whole, f"after 2 came {replay[:5]} …, before the break {frames[2:7]} …", reply)


def _judge_pieces(subject: Subject, frames: list[Frame]) -> None:
    pieces = [frame for frame in frames if frame["type"] == "assistant_message"]
    messages = dict.fromkeys(piece.get("message_id") for piece in pieces)
    for message_id in messages:
        own = [piece for piece in pieces if piece.get("message_id") == message_id]
        ends = [piece.get("is_final") for piece in own]
        subject.note("ends-messages", ends == [False] * (len(own) - 1) + [True], f"is_final is {ends[-5:]}", own[-1])


async def a_seed_client(subject: Subject) -> None:
    """a client that has not asked for extensions"""
    async with opened(subject.address, subject.token, subject.report, subject.patience, new_session()) as window:
        await window.send("user_message", content="Hello!", role="user")
        await subject.idle(window, 0)
        extras = [frame for frame in window.frames if frame.get("type") in extensions()]
        subject.note("hides-extensions", not extras, "an extension", extras[0] if extras else None)


async def a_call(subject: Subject) -> None:
    """a call, with another window"""
    session_id = new_session()
    async with subject.window(session_id) as window, subject.window(session_id) as other:
        await other.answer("ping")
        call = await subject.called(window, subject.reading_message, "--read", approval=False)
        copy = await other.frame("tool_call", call_id=call["call_id"])
        is_single = call.get("execute", True) and copy is not None and copy.get("execute") is False
        subject.note("one-executor", is_single, "the other window has no copy with execute: false", copy)
        result = {"call_id": call["call_id"], "result": {"content": "void main() {}\n"}}
        await window.answer("tool_result", **result)
        repeat = await window.answer("tool_result", **result)
        second = await window.answer("tool_result", **{**result, "result": {"content": "other"}})
        is_settled = repeat is not None and repeat.get("outcome") == "repeated"
        subject.note("settles-once", is_settled, "the same result again is not answered with repeated", repeat)
        is_refused = second is not None and second.get("error_code") == "INVALID_CALL_ID"
        subject.note("settles-once", is_refused, "another result is not refused with INVALID_CALL_ID", second)
        await subject.idle(window, window.frames.index(call) + 1)


async def an_approval(subject: Subject) -> None:
    """the user approves a call after a reconnect"""
    session_id = new_session()
    async with subject.window(session_id) as window:
        call = await subject.called(window, subject.writing_message, "--write", approval=True)
        await _judge_patience(subject, window, call)
        last_seq = max((frame["seq"] for frame in window.logged()), default=0)
    async with subject.window(session_id) as window:
        await window.send("resume", last_seq=last_seq)
        reply = await window.frame("resumed")
        call_ids = json.dumps((reply or {}).get("open_calls"))
        subject.note("keeps-open-calls", call["call_id"] in call_ids, f"{call['call_id']} is not in open_calls", reply)
        await window.send("hitl_decision", call_id=call["call_id"], decision="approve")
        release = await window.frame("tool_call", call_id=call["call_id"], requires_approval=False)
        is_same = release is not None and release.get("arguments") == call.get("arguments")
        subject.note("releases", is_same, "the call does not come again with its arguments", release)
        await subject.idle(window, 0)


async def an_edit(subject: Subject) -> None:
    """the user edits a call"""
    async with subject.window() as window:
        call = await subject.called(window, subject.writing_message, "--write", approval=True)
        arguments = {**call.get("arguments", {}), "content": "edited\n"}
        await window.send("hitl_decision", call_id=call["call_id"], decision="edit", modified_arguments=arguments)
        release = await window.frame("tool_call", call_id=call["call_id"], requires_approval=False)
        is_edited = release is not None and release.get("arguments") == arguments
        subject.note("returns-the-edit", is_edited, "the call does not come again with the edited arguments", release)
        await subject.idle(window, 0)


async def a_rejection(subject: Subject) -> None:
    """the user rejects a call"""
    async with subject.window() as window:
        call = await subject.called(window, subject.writing_message, "--write", approval=True)
        await window.send("hitl_decision", call_id=call["call_id"], decision="reject")
        release = await window.frame("tool_call", patience=_SHORTLY_S, call_id=call["call_id"], requires_approval=False)
        await subject.idle(window, 0)
        subject.note("obeys-rejection", release is None, "the call was released", release)


async def a_cancel(subject: Subject) -> None:
    """the user cancels the turn while a call waits"""
    async with subject.window() as window:
        call = await subject.called(window, subject.writing_message, "--write", approval=True)
        await window.send("cancel")
        end = await window.frame("turn_end")
        update = await window.frame("call_update", call_id=call["call_id"])
        is_cancelled = end is not None and end.get("reason") == "cancelled" and update is not None
        subject.note("cancels", is_cancelled, "no turn_end with the reason cancelled, or no call_update", end)


async def _judge_patience(subject: Subject, window: Window, call: Frame) -> None:
    await asyncio.sleep(_SHORTLY_S)
    early = await window.frame("tool_call", patience=0, call_id=call["call_id"], requires_approval=False)
    subject.note("waits-for-approval", early is None, "the call was released without a decision", early)


#: Those that need no answer of the model.
WITHOUT_MODEL: tuple[Dialogue, ...] = (a_greeting, wrong_frames)
DIALOGUES: tuple[Dialogue, ...] = (
    a_greeting, wrong_frames, a_message, a_seed_client, a_call, an_approval, an_edit, a_rejection, a_cancel
)  # fmt: skip
