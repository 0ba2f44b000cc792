"""Asks the user, through the editor, about calls that need approval, and the questions of tools."""

import contextlib
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codelab_client.acp import forms, tool_calls
from codelab_client.acp.jsonrpc import Peer, RpcError
from codelab_client.acp.running_call import running_call
from codelab_client.folders import Folders
from codelab_client.safe_text import exact, exact_line, shortened
from codelab_client.session import events as on
from codelab_client.session.decisions import described
from codelab_client.session.session import Scope

#: What a call would change, as the content of a question.
Preview = Callable[[str, Mapping[str, Any]], Awaitable[list[dict[str, Any]]]]
#: Actions of one question; more make no sense on buttons.
_MOST_ACTIONS = 20
#: Characters of a question of an MCP server.
_MESSAGE_CHARS = 4_000


@dataclass(frozen=True)
class Decision:
    """What the user decided. always: about such calls as well. cancels: the user stops the whole turn."""

    approves: bool
    always: bool = False
    feedback: str = ""
    cancels: bool = False


#: Editors choose an option by its kind, so there is one of each kind, and it is the narrow one.
_ONCE, _ALWAYS, _REJECT = "allow_once", "allow_always", "reject_once"
_ELSEWHERE = (
    "{server} says that this call was approved elsewhere: in another window, over HTTP, by a rule or by the session's "
    "mode. This client cannot tell whether anybody has approved it."
)
_UNSHOWN = Decision(False, feedback="The client could not fetch the call's arguments, so nobody could decide about it.")


class Permissions:
    """Asks with `session/request_permission`. It is the `Dialogue` of the tools that ask the user.

    preview: what a call would change now; without it, the call is shown as the agent wrote it. shows_forms: the editor
    does, so a tool asks its questions in them.
    """

    def __init__(
        self,
        peer: Peer,
        session_id: str,
        folders: Folders,
        preview: Preview | None = None,
        *,
        shows_forms: bool = False,
    ) -> None:
        self._peer, self._session_id, self._folders, self._shows_forms = peer, session_id, folders, shows_forms
        self._preview = preview or _described

    async def decide(
        self,
        call: on.ToolCall,
        content: list[dict[str, Any]],
        scope: Scope = "session",
        server: str = "The server",
        *,
        is_allowable: bool = False,
        maker: str = "",
    ) -> Decision:
        """Ask about a call. Anything but a clear yes is a no. If the waiting task is cancelled, the question goes away.

        scope: where "always" counts. server: who says that a call was approved elsewhere, for the user. is_allowable:
        whether "always" lets the same command run again in the sandbox (see `AllowedCommands`). maker: whose call it
        is, if not the agent's.
        """
        if call.arguments is None:
            return _UNSHOWN
        announcement = tool_calls.announced(call.tool_name, call.arguments, self._folders, maker)
        if isinstance(call, on.CallDecidedElsewhere):
            content = [tool_calls.shown(_origin(call, server)), *content]
        tool_call = {"toolCallId": call.call_id, "status": "pending", **announcement, "content": content}
        always = _allowed(call) if is_allowable else _always(call, scope, server, self._folders.root)
        try:
            option_id = await self._ask(tool_call, _options(call, always))
        except RpcError as error:
            return Decision(False, feedback=f"The editor could not ask the user: {error.message[:300]}")
        if option_id is None:
            return Decision(False, cancels=True)
        return Decision(option_id in (_ONCE, _ALWAYS), always=option_id == _ALWAYS)

    async def choose(self, message: str, actions: Sequence[str]) -> str | None:
        """See Dialogue."""
        labels = list(actions)[:_MOST_ACTIONS]
        if self._shows_forms:
            with contextlib.suppress(RpcError):  # then the buttons ask
                return await self._ask_in_form(message, labels)
        options = [_option(str(number), "allow_once", action) for number, action in enumerate(labels)]
        option_id = await self._question(message, [], [*options, _option("none", "reject_once", "None of these")])
        number = int(option_id) if option_id is not None and option_id.isdecimal() else len(labels)
        return labels[number] if number < len(labels) else None

    async def _ask_in_form(self, message: str, labels: Sequence[str]) -> str | None:
        """The label that the user chooses; None if none. Raises RpcError."""
        choices = [{"const": str(number), "title": exact_line(label)} for number, label in enumerate(labels)]
        field = {"type": "string", "title": "Answer", "oneOf": choices}
        form_schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        call_id = running_call.get()
        content = await self._fill_in(message, form_schema, **({"toolCallId": call_id} if call_id else {}))
        return None if content is None else labels[int(content["answer"])]

    async def ask_for(self, server: str, message: str, schema: Any) -> dict[str, Any] | None:
        """What the user answers to an MCP server, as its schema wants it; None if nothing."""
        form_schema = forms.form(schema)
        if form_schema is None or len(message) > _MESSAGE_CHARS:
            return None
        try:
            return await self._fill_in(f"The MCP server {server} asks: {message}", form_schema)
        except RpcError:
            return None

    async def _fill_in(self, message: str, form_schema: dict[str, Any], **scope: str) -> dict[str, Any] | None:
        """The content of a form; None if the user does not fill it in. Raises RpcError."""
        form = {"mode": "form", "message": exact(message), "requestedSchema": form_schema}
        answer = await self._peer.request("elicitation/create", {"sessionId": self._session_id, **scope, **form})
        is_accepted = isinstance(answer, dict) and answer.get("action") == "accept"
        return forms.answer(answer.get("content"), form_schema) if is_accepted else None

    async def review(self, message: str, diff: str, chunks: int) -> Sequence[int] | None:
        """See Dialogue. An editor's buttons cannot choose chunks: all or none."""
        options = [
            _option("all", "allow_once", f"Apply all {chunks} changes" if chunks > 1 else "Apply it"),
            _option("none", "reject_once", "Apply nothing"),
        ]
        content = tool_calls.described("apply_patch", {"diff": diff})
        option_id = await self._question(message or "Apply this patch?", content, options)
        return list(range(1, chunks + 1)) if option_id == "all" else None

    async def confirm(self, tool: str, arguments: Mapping[str, Any], reason: str) -> bool:
        """See Dialogue."""
        content = await self._preview(tool, arguments)
        options = [_option("yes", "allow_once", "Make this change"), _option("no", "reject_once", "Do not change it")]
        return await self._question(f"{reason}. Is this change still wanted?", content, options) == "yes"

    async def _question(
        self, message: str, content: list[dict[str, Any]], options: Sequence[Mapping[str, Any]]
    ) -> str | None:
        title = shortened(exact_line(message), 300)
        text = [] if title == message else [tool_calls.shown(exact(message))]
        tool_call = {"toolCallId": f"question-{uuid.uuid4().hex}", "title": title, "kind": "other", "status": "pending"}
        try:
            return await self._ask({**tool_call, "content": [*text, *content]}, options)
        except RpcError:
            return None

    async def _ask(self, call: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> str | None:
        """The id of the chosen option; None if the turn is cancelled. Raises RpcError."""
        params = {"sessionId": self._session_id, "toolCall": call, "options": options}
        answer = await self._peer.request("session/request_permission", params)
        outcome = answer.get("outcome") if isinstance(answer, dict) else None
        if not isinstance(outcome, dict):
            return ""
        if outcome.get("outcome") == "cancelled":
            return None
        return str(outcome.get("optionId")) if outcome.get("outcome") == "selected" else ""


async def _described(tool: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    return tool_calls.described(tool, arguments)


def _origin(call: on.CallDecidedElsewhere, server: str) -> str:
    """Why a released call is asked about."""
    return (
        f"The project's permissions ask about it: {call.asked_by}"
        if call.asked_by
        else _ELSEWHERE.format(server=server)
    )


def _options(call: on.ToolCall, always: str) -> list[dict[str, str]]:
    """The ways to decide. always: what "always" would allow; empty if nothing."""
    run = "Run it" if isinstance(call, on.CallDecidedElsewhere) else "Allow"
    if call.is_plan:
        run = "Carry it out"
    return [
        _option(_ONCE, "allow_once", run),
        *([_option(_ALWAYS, "allow_always", always)] if always else []),
        _option(_REJECT, "reject_once", "Reject"),
    ]


def _allowed(call: on.ToolCall) -> str:
    """What is allowed from then on about a command that the sandbox holds, in the words of the button."""
    extent = "in the sandbox, until what it names or a protected file changes"
    return f"Always in this session: {call.tool_name} {described(call.tool_name, call.arguments or {})}, {extent}"


def _always(call: on.ToolCall, scope: Scope, server: str, root: Path) -> str:
    """What is allowed from then on, in the words of the button."""
    if isinstance(call, on.CallDecidedElsewhere):
        if call.asked_by:
            return ""
        return f"Always, until the agent ends: run what {server} says was approved elsewhere, in {root}"
    if call.is_plan:
        return "Carry it out; only commands and protected files ask"
    if "session" not in call.scopes:
        return ""
    place = "in all my sessions" if scope == "user" and "user" in call.scopes else "in this session"
    return f"Always {place}: {call.tool_name} {described(call.tool_name, call.arguments or {})}"


def _option(option_id: str, kind: str, name: str) -> dict[str, str]:
    return {"optionId": option_id, "kind": kind, "name": exact_line(name)}
