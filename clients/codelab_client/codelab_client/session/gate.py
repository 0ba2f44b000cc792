"""The gate before the executor: a released call passes if this client's user has decided so, or is asked about it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from codelab_client.execution import ToolOutcome
from codelab_client.session.decisions import Decisions, Verdict, digest
from codelab_client.session.errors import JournalError
from codelab_client.session.events import CallDecidedElsewhere, Event, ToolCall

#: Seconds between two signs of life, which keep the call open while the user thinks, at most.
_LONGEST_PAUSE_S = 30.0
_SILENCE = {"stdout": "", "stderr": "", "exit_code": None}
_REFUSALS = {
    Verdict.CHANGED: "The call was not executed: it is not the one that the user has approved",
    Verdict.REJECTED: "The call was not executed: the user has rejected it",
}
_UNWANTED = "The call was approved elsewhere, and the user of the client that executes calls did not let it run here"
_UNWANTED_ASKED = "The user did not let the call run, about which the project's permissions ask"


class Restrictions(Protocol):
    """What a project says about calls besides its user: it only narrows. Both give the entry in words, or nothing."""

    def denies(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Why a call must not be executed, whoever approves it."""
        ...

    def asks(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Why this client's user must decide about a call, whoever else has."""
        ...


def denial(restrictions: Restrictions, call: ToolCall) -> str:
    """Why the project denies a call, for the model and its user; empty if it does not."""
    entry = "" if call.arguments is None else restrictions.denies(call.tool_name, call.arguments)
    return f"The project's permissions deny this call: {entry}" if entry else ""


class Unrestricted:
    """There are none."""

    def denies(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """See Restrictions."""
        return ""

    def asks(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """See Restrictions."""
        return ""


@dataclass(frozen=True)
class Passage:
    """A call, with the deadline that it has now, and why it must not be executed, or None."""

    call: ToolCall
    refusal: ToolOutcome | None = None


@dataclass
class _Question:
    """A call that waits at the gate. answer: whether it runs and what the user says; None if that does not matter."""

    call: ToolCall
    answer: "asyncio.Future[tuple[bool, str] | None]"


class Gate:
    """The gate of one session.

    send: sends a frame. show: shows an event to the user. is_online: whether it is known which calls are open.
    restrictions: the project's.
    """

    def __init__(
        self,
        decisions: Decisions,
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
        show: Callable[[Event], None],
        is_online: Callable[[], bool],
        restrictions: Restrictions,
    ) -> None:
        self._restrictions = restrictions
        self._decisions, self._send, self._show, self._is_online = decisions, send, show, is_online
        self._questions: dict[str, _Question] = {}
        self._arrived_call_ids: set[str] = set()  # calls that the server has given to this connection

    def came(self, call_id: str) -> None:
        """The server gives a call to this connection."""
        self._arrived_call_ids.add(call_id)

    def connected(self) -> None:
        """There is a new connection: the server gives it the calls that it is to execute."""
        self._arrived_call_ids.clear()

    async def passage(self, call: ToolCall) -> Passage | None:
        """Wait until it is clear whether a call may be executed; None if this client must not answer it (any more)."""
        if call.arguments is None:
            return Passage(call)  # the executor cannot do anything with it
        if reason := denial(self._restrictions, call):
            return Passage(call, ToolOutcome.failed("PERMISSION_DENIED", reason))
        self._decisions.released(call.call_id)
        try:
            verdict = self._decisions.verdict(call)
        except JournalError:
            raise
        except Exception as error:  # Nobody can have decided about what cannot be compared.
            reason = f"The call was not executed: it cannot be compared with what was approved ({type(error).__name__})"
            return Passage(call, ToolOutcome.failed("PERMISSION_DENIED", reason))
        if verdict in _REFUSALS:
            return Passage(call, ToolOutcome.failed("PERMISSION_DENIED", _REFUSALS[verdict]))
        entry = self._restrictions.asks(call.tool_name, call.arguments)
        if verdict is Verdict.ELSEWHERE or (entry and not self._decisions.is_decided(call.call_id)):
            return await self._ask(call, entry)
        self._decisions.begins(call)
        return Passage(call)

    def answer(self, call_id: str, *, runs: bool, feedback: str = "") -> bool:
        """The user says whether a call that waits here may run. Returns whether there is such a call."""
        question = self._questions.get(call_id)
        if question is None or question.answer.done():
            return False
        if runs:
            self._decisions.approved(call_id, question.call.tool_name, question.call.arguments or {})
        question.answer.set_result((runs, feedback))
        return True

    def asks_about(self, call_id: str) -> bool:
        """Whether a call waits here."""
        return call_id in self._questions

    def asks_about_this(self, call_id: str, tool: str | None, arguments: Mapping[str, Any] | None) -> bool:
        """Whether the call that waits under the id, if one does, is this one. tool, arguments: None matches any."""
        question = self._questions.get(call_id)
        if question is None:
            return True
        waits, arguments_shown = question.call.tool_name, question.call.arguments or {}
        seen_digest = digest(waits if tool is None else tool, arguments_shown if arguments is None else arguments)
        return seen_digest == digest(waits, arguments_shown)

    def close(self, call_id: str) -> None:
        """A call needs no answer any more."""
        question = self._questions.get(call_id)
        if question is not None and not question.answer.done():
            question.answer.set_result(None)

    def close_all(self) -> None:
        """No call needs an answer any more."""
        for call_id in list(self._questions):
            self.close(call_id)

    def reconcile(self, last_seq: int, open_calls: Mapping[str, str]) -> None:
        """Compare with the server's open calls, which are all those up to `last_seq`: states by `call_id`."""
        for call_id, question in list(self._questions.items()):
            if call_id not in open_calls and (question.call.seq or 0) <= last_seq:
                self.close(call_id)

    async def _ask(self, call: ToolCall, entry: str) -> Passage | None:
        start = time.monotonic()
        question = self._questions[call.call_id] = _Question(call, asyncio.get_running_loop().create_future())
        self._show(CallDecidedElsewhere.of(call, asked_by=entry))
        try:
            answer = await self._answered(question)
        finally:
            del self._questions[call.call_id]
        if answer is None:
            return None
        call = _later(call, time.monotonic() - start)
        runs, feedback = answer
        if not runs:
            statement = _UNWANTED_ASKED if entry else _UNWANTED
            reason = f"{statement}: {feedback}" if feedback else statement
            return Passage(call, ToolOutcome.failed("PERMISSION_DENIED", reason))
        while not self._is_online():  # somebody else may have settled the call in the meantime
            await asyncio.sleep(0.05)
        if call.call_id not in self._arrived_call_ids:
            return None  # it passes when the server gives it to this connection again
        self._decisions.begins(call)
        return Passage(call)

    async def _answered(self, question: _Question) -> tuple[bool, str] | None:
        """The user's answer. Until it comes, and once more then, the server hears that the call is not forgotten."""
        call = question.call
        remaining = _LONGEST_PAUSE_S if call.deadline is None else (call.deadline / 1000 - time.time()) / 2
        pause = min(max(remaining, 1.0), _LONGEST_PAUSE_S)
        while not question.answer.done():
            await asyncio.wait({question.answer}, timeout=pause)
            if not question.answer.done() or question.answer.result() is not None:
                await self._send({"type": "tool_result", "call_id": call.call_id, "result": _SILENCE, "partial": True})
        return question.answer.result()


def _later(call: ToolCall, seconds: float) -> ToolCall:
    """The call with the deadline that it has after signs of life for so long."""
    if call.deadline is None:
        return call
    deadline = call.deadline + int(seconds * 1000)
    return replace(call, deadline=deadline, frame={**call.frame, "deadline": deadline})
