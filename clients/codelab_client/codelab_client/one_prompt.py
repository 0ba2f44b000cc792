"""`codelab exec`: one prompt, one answer, an exit code."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from codelab_client.line_input import ask
from codelab_client.policy import Policy
from codelab_client.project.permissions import ProjectPermissions
from codelab_client.safe_text import exact, exact_line, safe, safe_line
from codelab_client.session import Refused, Session
from codelab_client.session import events as on
from codelab_client.session.gate import denial
from codelab_client.session.subagents import Subagents

#: The exit codes, which `codelab exec --help` and docs/client.md list.
COMPLETED, FAILED, USAGE, NO_SERVER, UNAUTHORIZED, CALLS_REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

#: Seconds that a user needs at least to see a question.
_LOOK_S = 0.5
#: Seconds that Ctrl-C waits for the turn to end.
_STOP_S = 5.0

_NOBODY = (
    "Nobody can approve this call: `codelab exec` runs without a user, and its policy file does not allow the call."
)
_ELSEWHERE = "it was approved elsewhere, or by nobody; --decided-elsewhere or --policy FILE allows such calls"


async def run(
    session: Session, prompt: str, policy: Policy, permissions: ProjectPermissions, *, as_json: bool, ask: bool
) -> int:
    """Send a prompt, and write the answer to stdout. Returns the exit code.

    permissions: the project's. What they allow does not count here: the policy is the user's.

    as_json: write every event as a line of JSON instead. ask: ask on the terminal for calls that the policy does not
    allow; otherwise they are rejected.
    """
    turn = asyncio.ensure_future(_Turn(session, policy, permissions, as_json=as_json, ask=ask).run(prompt))
    try:
        return await asyncio.shield(turn)
    except asyncio.CancelledError:
        # The turn goes on until it is stopped: while its message is on the way, there is nothing to stop yet.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await session.cancel()
                await turn
        raise


class _Turn:
    def __init__(
        self, session: Session, policy: Policy, permissions: ProjectPermissions, *, as_json: bool, ask: bool
    ) -> None:
        self._session, self._policy, self._permissions = session, policy, permissions
        self._as_json, self._ask = as_json, ask
        self._texts: dict[str, str] = {}
        self._subagents = Subagents()
        if session.info is not None:
            self._subagents.take(session.info)
        self._refused = False
        self._reason = ""

    async def run(self, prompt: str) -> int:
        async for event in self._session.prompt(prompt):
            if self._as_json:
                _write(sys.stdout, json.dumps(on.as_json(event)))
            await self._take(event)
        if not self._as_json:
            answer = next(reversed(self._texts.values()), "")
            if answer:
                _write(sys.stdout, safe(answer))
        if self._reason != "completed":
            say(f"The turn ended: {safe_line(self._reason)}")
            return FAILED
        return CALLS_REFUSED if self._refused else COMPLETED

    async def _take(self, event: on.Event) -> None:
        if news := self._subagents.take(event):
            say(news)
            self._texts.clear()  # it was said on the way to the answer
        match event:
            case on.AssistantMessage():
                self._texts[event.message_id] = self._texts.get(event.message_id, "") + event.token
                if event.aborted:
                    del self._texts[event.message_id]
            case on.MessageDiscarded():
                self._texts.pop(event.message_id, None)
            case on.ToolCall(requires_approval=True):
                await self._decide(event)
            case on.CallStarted():
                say(self._told(event.call_id, event.tool_name, event.arguments))
                self._texts.clear()
            case on.CallFinished() if event.outcome.error is not None:
                prefix = self._subagents.prefix(event.call_id)
                say(f"{prefix}{event.tool_name} failed: {safe_line(event.outcome.error.message)}")
            case on.Error():
                say(f"{event.error_code}: {safe_line(event.message, 1_000)}")
            case on.Ignored(why=reason):
                say(safe_line(reason))
            case on.TurnEnd():
                self._reason = event.reason

    async def _decide(self, call: on.ToolCall) -> None:
        arguments = call.arguments or {}
        told = self._told(call.call_id, call.tool_name, arguments)
        if reason := denial(self._permissions, call):
            self._refused = True
            say(f"refused {told}: {reason}")
            await self._session.reject(call.call_id, reason)
        elif call.arguments is not None and self._policy.allows(call.tool_name, arguments):
            await self._approve(call, arguments)
        elif self._ask and call.arguments is not None:
            await self._ask_about(call, arguments)
        else:
            self._refused = True
            reason = _elsewhere(call) or "nobody can approve it; --policy FILE allows calls"
            reason = "a human's decision alone accepts a plan" if call.is_plan else reason
            say(f"refused {told}: {reason}")
            await self._session.reject(call.call_id, _NOBODY)

    def _told(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """A call in one line, with whose it is."""
        return f"{self._subagents.prefix(call_id)}{tool} {_shown(arguments)}"

    async def _approve(self, call: on.ToolCall, arguments: Mapping[str, Any]) -> None:
        try:
            await self._session.approve(call.call_id, tool=call.tool_name, arguments=arguments)
        except Refused as refusal:  # another call has come under its id, and its own event follows
            say(f"{self._told(call.call_id, call.tool_name, arguments)}: {refusal}")

    async def _ask_about(self, call: on.ToolCall, arguments: Mapping[str, Any]) -> None:
        """Ask on the terminal."""
        text = exact(json.dumps(arguments, indent=2, ensure_ascii=False))
        _write(sys.stderr, f"{self._subagents.prefix(call.call_id)}{exact_line(call.tool_name)}\n{text}")
        prompt = "it was approved elsewhere, or by nobody; run it here?"
        if isinstance(call, on.CallDecidedElsewhere) and call.asked_by:
            prompt = f"the project's permissions ask about it ({call.asked_by}); run it?"
        answer = await _answer(f"{prompt if isinstance(call, on.CallDecidedElsewhere) else 'approve?'} [y/N] ")
        if answer.strip().lower() in ("y", "yes"):
            await self._approve(call, arguments)
        else:
            await self._session.reject(call.call_id)


def _elsewhere(call: on.ToolCall) -> str:
    """Why a released call is refused; empty for a call that waits for approval."""
    if not isinstance(call, on.CallDecidedElsewhere):
        return ""
    question = f"the project's permissions ask about it ({call.asked_by}); --policy FILE allows such calls"
    return question if call.asked_by else _ELSEWHERE


async def _answer(question: str) -> str:
    """A line that the user typed after seeing the question. A line typed earlier answers an earlier question."""
    while True:
        shown_at = time.monotonic()
        answer = await ask(question)
        if not answer or time.monotonic() - shown_at > _LOOK_S:
            return answer
        say("The question had just come, so nothing was decided.")


def say(text: str) -> None:
    """What happens on the way goes to stderr."""
    _write(sys.stderr, safe(text))


def _shown(arguments: Mapping[str, Any]) -> str:
    """The argument that says most."""
    for name in ("command", "path", "from", "query", "action"):
        if name in arguments:
            return safe_line(arguments[name])
    return ""


def _write(stream: Any, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()
