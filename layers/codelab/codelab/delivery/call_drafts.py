"""The calls that the model is writing, shown before they are made: `tool_call_draft` frames.

They are posted only to connections that asked for them and have nothing waiting, and are not logged. So they cost posts
and nothing else, and each has absolute counts, because any of them may be lost. A call that is written in less than
`_FIRST_S` has none.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic as _monotonic
from typing import Any

from codelab.delivery.fan_out import FanOut
from codelab.llm.call_schema import TOOL
from codelab.llm.outcome import ItemDelta
from codelab.protocol.modes import Mode, mode_of, offers
from codelab.protocol.outgoing import ToolCallDraft
from codelab.protocol.tools import CATALOGUE
from codelab.sessions.items import dumps
from codelab.sessions.register import Register
from codelab.sessions.transition import Transition

#: Seconds from a call's beginning to its first draft, and between two drafts.
_FIRST_S, _PAUSE_S = 0.5, 0.25
#: The most bytes of a frame, and of a path in it; the most characters of its tail and of a tool's name.
DRAFT_BYTES, _PATH_BYTES = 2_000, 1_000
_TAIL_CHARS, _NAME_CHARS = 1_000, 64
#: A commit with one of these frames tells clients that the drafts are over.
_ENDS = frozenset({"tool_call", "turn_end", "agent_status"})


@dataclass(slots=True)
class _Draft:
    """A call as far as it is written. `complete_lines` are those of its texts, of which `tail` is the newest piece."""

    index: int
    begun_at: float
    tool: str = ""
    path: str = ""
    chars: int = 0
    complete_lines: int = 0
    text_name: str = ""
    tail: str = ""

    def take(self, name: str, text: str) -> None:
        if name == TOOL:
            self.tool = (self.tool + text)[:_NAME_CHARS]
            return
        argument, tool = name.partition(".")[0], CATALOGUE.get(self.tool)
        if tool is not None and argument in tool.paths:
            if name == tool.paths[0]:
                self.path = (self.path + text)[:_PATH_BYTES]
            return
        if name != self.text_name:
            self.complete_lines, self.text_name, self.tail = self.lines, name, ""
        self.chars += len(text)
        self.complete_lines += text.count("\n")
        self.tail = (self.tail + text)[-_TAIL_CHARS:]

    @property
    def lines(self) -> int:
        return self.complete_lines + (self.tail != "" and self.tail[-1] != "\n")

    def is_shown(self, mode: Mode) -> bool:
        """Whether clients may see such calls: the server executes some itself, and the mode does not allow others."""
        tool = CATALOGUE.get(self.tool)
        if tool is None:  # a client's own, of which the mode cannot tell yet what it may do
            return self.tool != "" and mode not in ("ask", "plan")
        return not tool.server_side and offers(mode, tool)

    def fields(self) -> dict[str, Any]:
        # A path is complete once a text follows it.
        has_path = self.text_name and self.path and len(dumps(self.path).encode()) <= _PATH_BYTES
        return {
            "tool_name": self.tool,
            "path": self.path if has_path else None,
            "chars": self.chars,
            "lines": self.lines,
            "tail": self.tail or None,
        }


class CallDrafts:
    """The drafts of one message's calls. `take` and `drop` may be called while another thread posts."""

    def __init__(self, fan_out: FanOut, message_id: str) -> None:
        self._fan_out = fan_out
        self._message_id = message_id
        self._lock = threading.Lock()
        self._draft: _Draft | None = None
        self._has_news = False
        self._next_at = 0.0
        #: Clients may show drafts; those that they show are void, and they have not been told.
        self._is_shown = self._is_void = False

    def take(self, delta: ItemDelta) -> None:
        """The model has written more of a call. Only the newest call is posted."""
        with self._lock:
            if self._draft is None or self._draft.index != delta.index:
                now = _monotonic()
                self._draft, self._next_at = _Draft(delta.index, now), max(self._next_at, now + _FIRST_S)
            self._draft.take(delta.name, delta.text)
            self._has_news = True

    def drop(self) -> None:
        """The model is asked once more: what it has written is void."""
        with self._lock:
            self._draft, self._is_void = None, self._is_shown

    def post(self, register: Register, connection_ids: Iterable[str]) -> None:
        """Post what is due to those of the connections that asked for drafts."""
        with self._lock:
            frame = self._due(register.turn_id, mode_of(register.settings))
        if frame is not None and not self._offer(frame, register, connection_ids):
            with self._lock:  # Something waits for all of them: again at the next look.
                if "withdrawn" in frame:
                    self._is_shown = self._is_void = True
                else:
                    self._has_news = True

    def end(self, commit: Transition, connection_ids: Iterable[str]) -> None:
        """The answer is committed: withdraw the drafts, unless frames of the commit end them."""
        ends = any(event.frame["type"] in _ENDS for events in commit.posts for event in events)
        if self._is_shown and not ends:
            self._offer(self._withdrawal(commit.after.turn_id), commit.after, connection_ids)

    def _due(self, turn_id: str, mode: Mode) -> dict[str, Any] | None:
        if self._is_void:
            self._is_shown = self._is_void = False
            return self._withdrawal(turn_id)
        draft, now = self._draft, _monotonic()
        if draft is None or not (self._has_news and draft.is_shown(mode)) or now < self._next_at:
            return None
        self._has_news, self._is_shown, self._next_at = False, True, now + _PAUSE_S
        frame = ToolCallDraft(message_id=self._message_id, turn_id=turn_id, index=draft.index, **draft.fields()).wire()
        while (excess := len(dumps(frame).encode()) - DRAFT_BYTES) > 0:
            # A character has up to 6 bytes in JSON. Without a tail, the frame is never too large.
            frame["tail"] = frame["tail"][-(-excess // 6) :]
        return frame

    def _withdrawal(self, turn_id: str) -> dict[str, Any]:
        return ToolCallDraft(message_id=self._message_id, turn_id=turn_id, index=0, withdrawn=True).wire()

    def _offer(self, frame: dict[str, Any], register: Register, connection_ids: Iterable[str]) -> bool:
        targets = [connection_id for connection_id in connection_ids if register.connections[connection_id].drafts]
        return self._fan_out.offer(frame, register, targets)
