"""What happens in a session, as ACP's updates. It sends them through a function and does no I/O itself."""

import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from codelab_client.acp import tool_calls
from codelab_client.acp.params import Editor
from codelab_client.folders import Folders
from codelab_client.safe_text import safe, safe_line
from codelab_client.session import events as on
from codelab_client.session.subagents import Subagent, Subagents
from codelab_client.waiting import notice

#: Sends a `session/update` with this update.
Send = Callable[[dict[str, Any]], None]

#: Seconds between two updates with a command's output, and characters of it that are shown.
_OUTPUT_S = 0.3
_OUTPUT_CHARS = 8_000
#: Calls that are remembered after their end, so that a late frame does not announce them again.
_KEPT_CALLS = 1_000
#: Seconds of the shortest pause that is told: ACP has no status line, and a text stays.
_NOTICED_S = 2.0
_COMPACTING = "The model writes a summary of the conversation …"
_COMPACTED = {
    "summarised": "A summary replaces the conversation: {event.tokens_before:,} → {event.tokens_after:,} tokens",
    "unchanged": "There was too little to compact",
}
_NOT_COMPACTED = "The model gave no summary; try /compact again later"
#: The agent has one plan, which each new one replaces.
_PLAN_ID = "plan"
_CUT_OFF = "*The answer above was cut off; another one follows.*"


@dataclass
class _Shown:
    """A call that the editor knows. content: what stays when it has ended: its diffs and its terminal."""

    turn_id: str | None
    is_rejected: bool = False
    waits: bool = False  # for the user
    content: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""
    output_at: float = 0.0


class Updates:
    """Translates the events of one session. folders: the session's. editor: what it takes."""

    def __init__(self, folders: Folders, send: Send, editor: Editor) -> None:
        self._folders, self._send, self._editor = folders, send, editor
        self.subagents = Subagents()
        self._calls: dict[str, _Shown] = {}
        self._ended_call_ids: deque[str] = deque(maxlen=_KEPT_CALLS)
        self._message_id = ""
        self._has_text = False  # of the open message, or of one before it that nothing has followed yet
        self._title = ""
        self._cost = 0.0
        self._compaction_id = ""  # of the one that runs, if the editor shows compactions

    def take(self, event: on.Event) -> None:
        """Tell the editor what happened."""
        self.subagents.take(event)
        match event:
            case on.AssistantMessage():
                self._write(event)
            case on.AssistantThought():
                self._think(event)
            case on.MessageDiscarded():
                self._cut_off()
            case on.ToolCall():
                self.call(event)
            case on.Ignored():
                self.tell(safe_line(event.why, 500), "warning")
            case on.CallStarted():
                if (call := self._calls.get(event.call_id)) is not None and call.waits:
                    call.waits = False
                    self._update(event.call_id, {"status": "in_progress"})
            case on.CallOutput():
                self._output(event)
            case on.CallFinished():
                if (call := self._calls.get(event.call_id)) is not None:
                    self._end(event.call_id, tool_calls.finished(event.outcome, call.content))
            case on.CallUpdate():
                if (call := self._calls.get(event.call_id)) is not None:
                    self._end(event.call_id, tool_calls.settled(event, call.content))
            case on.Plan():
                self._plan([_entry(item) for item in event.items])
            case on.Compacted():
                self._compacted(event)
            case on.TurnEnd():
                self._end_turn(event)
            case on.SubagentUpdate():
                self._subagent(event)
            case on.SessionInfo():
                self.entitle(event.title)
                for subagent in self.subagents.working.values():
                    self._begin_subagent(subagent, event.turn_id)
            case on.Busy() | on.Disconnected() if event.retry_in >= _NOTICED_S:
                self.tell(notice(event), "warning")
            case on.ResyncRequired():
                self.tell("Some updates are missing: the server no longer has them. Load the session again.", "warning")

    def say(self, text: str) -> None:
        """Show a paragraph of the client itself."""
        self._chunk(f"\n\n{text}\n\n" if self._has_text else f"{text}\n\n", None)
        self._has_text = False

    def tell(self, text: str, severity: str = "info") -> None:
        """Tell the user a sentence that is no part of the conversation. severity: info, warning or error."""
        if self._editor.notices:
            title, _, details = text.strip().partition("\n")
            description_field = {"description": details} if details else {}
            self._send(
                {"sessionUpdate": "notice", "severity": severity, "title": title or "CodeLab", **description_field}
            )
        else:
            self.say(f"*{text}*")

    def compacting(self) -> None:
        """A compaction has begun that this user wants."""
        if self._editor.compactions:
            self._compaction_id = uuid.uuid4().hex
            self._compaction("in_progress")
        else:
            self.say(_COMPACTING)

    def user(self, event: on.UserMessage) -> None:
        """Show what the user has said in another window."""
        content = {"type": "text", "text": safe(event.content or "…")}
        self._send({"sessionUpdate": "user_message_chunk", "content": content, "messageId": event.client_msg_id})

    def call(self, call: on.ToolCall) -> None:
        """Announce a call, or that an announced one may run now."""
        status = "pending" if call.requires_approval else "in_progress"
        maker = self.subagents.prefix(call.call_id)
        fields = tool_calls.announced(call.tool_name, call.arguments or {}, self._folders, maker)
        if call.parent_call_id:
            fields["_meta"] = {"parent_call_id": call.parent_call_id}
        if call.call_id in self._ended_call_ids:
            return
        if call.call_id in self._calls:
            self._calls[call.call_id].is_rejected = False
            self._calls[call.call_id].waits = call.requires_approval
            self._update(call.call_id, {**fields, "status": status})
            return
        self._calls[call.call_id] = _Shown(call.turn_id)
        self._has_text = False
        self._send({"sessionUpdate": "tool_call", "toolCallId": call.call_id, "status": status, **fields})

    def edited(self, call_id: str, path: str, before: str | None, after: str) -> None:
        """A call has changed a text."""
        if (call := self._calls.get(call_id)) is not None:
            call.content = [block for block in call.content if block.get("path") != path]
            call.content.append({"type": "diff", "path": path, "oldText": before, "newText": after})

    def runs_in(self, call_id: str, terminal: str) -> None:
        """A call's command runs in a terminal of the editor."""
        if (call := self._calls.get(call_id)) is not None:
            call.content.append({"type": "terminal", "terminalId": terminal})
            self._update(call_id, {"content": call.content})

    def rejected(self, call_id: str) -> None:
        """The user has rejected a call. The server may still ask again, if it does not accept that."""
        if (call := self._calls.get(call_id)) is not None:
            call.is_rejected = True
            self._update(call_id, {"status": "failed"})

    def content(self, call_id: str, content: list[dict[str, Any]]) -> None:
        """Show what a call that waits for approval would do."""
        if call_id in self._calls:
            self._update(call_id, {"content": content})

    # -- parts ---------------------------------------------------------------------------------------------------

    def _subagent(self, event: on.SubagentUpdate) -> None:
        """Show a subagent as a call: ACP's own subagents are sessions, which ours has not."""
        working = self.subagents.working.get(event.call_id)
        if working is not None:
            self._begin_subagent(working, event.turn_id)
        if (shown := self._calls.get(event.call_id)) is None:
            return
        if event.text:
            shown.content = [tool_calls.shown(safe(event.text))]
            self._update(event.call_id, {"content": shown.content})
        if working is None:
            self._end(event.call_id, tool_calls.ended_elsewhere(event.state))

    def _begin_subagent(self, subagent: Subagent, turn_id: str | None) -> None:
        call_id = subagent.call_id
        if call_id in self._calls or call_id in self._ended_call_ids:
            return
        self._calls[call_id] = _Shown(turn_id)
        self._has_text = False
        fields = tool_calls.announced("delegate", {"agent": subagent.name, "task": subagent.task}, self._folders)
        self._send({"sessionUpdate": "tool_call", "toolCallId": call_id, "status": "in_progress", **fields})

    def _plan(self, entries: list[dict[str, Any]]) -> None:
        if self._editor.plans:
            plan = {"type": "items", "planId": _PLAN_ID, "entries": entries}
            self._send({"sessionUpdate": "plan_update", "plan": plan})
        else:
            self._send({"sessionUpdate": "plan", "entries": entries})

    def _compacted(self, event: on.Compacted) -> None:
        text = _COMPACTED.get(event.outcome, _NOT_COMPACTED).format(event=event)
        if not self._editor.compactions:
            self.say(text)
        elif event.outcome in _COMPACTED:
            self._compaction("completed", summary=[{"type": "text", "text": text}])
        else:
            self._compaction("failed", error=text)

    def _compaction(self, status: str, **fields: Any) -> None:
        compaction_id = self._compaction_id or uuid.uuid4().hex
        self._compaction_id = compaction_id if status == "in_progress" else ""
        self._send({"sessionUpdate": "compaction_update", "compactionId": compaction_id, "status": status, **fields})

    def _write(self, event: on.AssistantMessage) -> None:
        text = safe(event.token)
        if text:
            is_next = event.message_id != self._message_id and self._has_text
            self._message_id = event.message_id
            # Editors that do not know messageId would run two messages together.
            self._chunk(f"\n\n{text}" if is_next else text, event.message_id)
            self._has_text = True
        if event.aborted:
            self._cut_off()

    def _think(self, event: on.AssistantThought) -> None:
        if text := safe(event.content):
            content = {"type": "text", "text": text}
            message_id = f"{event.message_id}-thoughts"
            self._send({"sessionUpdate": "agent_thought_chunk", "content": content, "messageId": message_id})

    def _cut_off(self) -> None:
        """ACP cannot take text back."""
        if self._has_text:
            self.say(_CUT_OFF)

    def _chunk(self, text: str, message_id: str | None) -> None:
        message_field = {} if message_id is None else {"messageId": message_id}
        content = {"type": "text", "text": text}
        self._send({"sessionUpdate": "agent_message_chunk", "content": content, **message_field})

    def _output(self, event: on.CallOutput) -> None:
        call = self._calls.get(event.call_id)
        if call is None or any(block["type"] == "terminal" for block in call.content):
            return
        call.output = (call.output + event.text)[-_OUTPUT_CHARS:]
        now = time.monotonic()
        if event.text and now - call.output_at >= _OUTPUT_S:
            call.output_at = now
            text = tool_calls.shown(tool_calls.fenced(safe(call.output)))
            self._update(event.call_id, {"content": [*call.content, text]})

    def _end(self, call_id: str, fields: Mapping[str, Any]) -> None:
        call = self._calls.pop(call_id, None)
        if call is not None:
            self._ended_call_ids.append(call_id)
            self._update(call_id, fields)

    def _update(self, call_id: str, fields: Mapping[str, Any]) -> None:
        self._send({"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields})

    def _end_turn(self, event: on.TurnEnd) -> None:
        for call_id, call in list(self._calls.items()):
            if call.turn_id == event.turn_id and call.is_rejected:
                del self._calls[call_id]
            elif call.turn_id == event.turn_id:
                self._end(call_id, tool_calls.ended_elsewhere(event.reason))
        self._has_text = False
        self.entitle(event.title)

    def entitle(self, title: str) -> None:
        """The session has this title, which may be new."""
        title = safe_line(title)
        if title and title != self._title:
            self._title = title
            self._send({"sessionUpdate": "session_info_update", "title": title})

    def usage(self, event: on.TurnEnd, size: int | None) -> None:
        """Tell how full the context is. size: the most tokens that it can have, if that is known."""
        token_count, cost = _used(event), event.usage.get("cost_usd")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0:
            self._cost += cost
        if token_count is not None and size is not None:
            cost_field = {"cost": {"amount": self._cost, "currency": "USD"}} if self._cost else {}
            self._send({"sessionUpdate": "usage_update", "used": token_count, "size": size, **cost_field})


def _used(event: on.TurnEnd) -> int | None:
    """Tokens in the model's context at the end of a turn."""
    token_count = event.frame.get("context_used")
    prompt, calls = event.usage.get("prompt_tokens"), event.usage.get("llm_calls")
    if token_count is None and isinstance(prompt, int) and isinstance(calls, int) and calls > 0:
        token_count = prompt // calls
    return (
        token_count if isinstance(token_count, int) and not isinstance(token_count, bool) and token_count >= 0 else None
    )


def _entry(item: Mapping[str, Any]) -> dict[str, Any]:
    status = item.get("status")
    return {
        "content": safe_line(item.get("text", ""), 1_000),
        "priority": "medium",
        "status": status if status in ("pending", "in_progress") else "completed",
    }
