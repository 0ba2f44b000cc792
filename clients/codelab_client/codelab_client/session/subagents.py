"""Subagents: who works on a part of the turn, and who makes which call (docs/protocol.md, "Subagents"). No I/O."""

from dataclasses import dataclass

from codelab_client.safe_text import safe_line
from codelab_client.session import events as on

#: Characters of an agent's name.
_NAME_CHARS = 30
#: The name of a subagent of which nothing but a call is known.
_UNKNOWN = "subagent"


@dataclass(frozen=True)
class Subagent:
    """A subagent that works. name: its agent, with a number if the turn has others of it. text: its newest words.

    All of it may be shown as it is.
    """

    call_id: str
    name: str
    task: str
    text: str = ""


class Subagents:
    """Takes all events of a session. `working` are the subagents that work, by their `call_id`, the oldest first."""

    def __init__(self) -> None:
        self.working: dict[str, Subagent] = {}
        self._names: dict[str, str] = {}  # of all subagents of the turn
        self._agents: list[str] = []  # theirs
        self._makers: dict[str, str] = {}  # who makes a call, by its `call_id`
        self._last_seq = 0

    def take(self, event: on.Event) -> str:
        """Take the next event. Returns a line that says which subagent has begun or ended; empty if none has."""
        self._last_seq = max(self._last_seq, event.seq or 0)
        match event:
            case on.SubagentUpdate():
                return self._update(event)
            case on.ToolCall() if event.parent_call_id:
                self._makers[event.call_id] = event.parent_call_id
            case on.SessionInfo() if event.last_seq >= self._last_seq:
                self._take_info(event)
            case on.TurnEnd():
                for memory in (self.working, self._names, self._agents, self._makers):
                    memory.clear()
        return ""

    def maker(self, call_id: str) -> str:
        """The `call_id` of the subagent that makes a call; empty if the agent itself does."""
        return self._makers.get(call_id, "")

    def prefix(self, call_id: str) -> str:
        """What says whose a call is, in front of it; empty for a call of the agent itself."""
        maker = self.maker(call_id)
        return f"{self._names.get(maker, _UNKNOWN)} › " if maker else ""

    def name(self, call_id: str, agent: str) -> str:
        """The name of the subagent `call_id`."""
        if call_id not in self._names:
            shown = safe_line(agent, _NAME_CHARS)
            self._agents.append(shown)
            count = self._agents.count(shown)
            self._names[call_id] = shown if count == 1 else f"{shown} {count}"
        return self._names[call_id]

    def _update(self, event: on.SubagentUpdate) -> str:
        name, task = self.name(event.call_id, event.agent), safe_line(event.task)
        before = self.working.get(event.call_id)
        if event.state != "running":
            self.working.pop(event.call_id, None)
            return f"{name} {safe_line(event.state, 20)}: {task}"
        text = safe_line(event.text or "") or (before.text if before is not None else "")
        self.working[event.call_id] = Subagent(event.call_id, name, task, text)
        return "" if before is not None else f"{name} works on: {task}"

    def _take_info(self, info: on.SessionInfo) -> None:
        """Only those work that the session's state lists. A log that is too short does not have their beginning."""
        before, self.working = self.working, {}
        for item in info.subagents:
            call_id, agent, task = (item.get(name) for name in ("call_id", "agent", "task"))
            if isinstance(call_id, str) and isinstance(agent, str) and isinstance(task, str):
                known = before.get(call_id)
                self.working[call_id] = known or Subagent(call_id, self.name(call_id, agent), safe_line(task))
