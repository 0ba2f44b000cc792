"""The calls that the model is writing (docs/protocol.md, "Calls that are being written"). No I/O."""

from codelab_client.session import events as on


class CallDrafts:
    """Takes all events of a session. `shown` are the drafts that are to be shown, by their index."""

    def __init__(self) -> None:
        self.shown: dict[int, on.ToolCallDraft] = {}
        self._message_id = self._turn_id = self._over_id = ""

    @property
    def newest(self) -> on.ToolCallDraft | None:
        """The draft of the call that is being written now."""
        return self.shown[max(self.shown)] if self.shown else None

    def take(self, event: on.Event) -> None:
        """Take the next event."""
        if isinstance(event, on.ToolCallDraft):
            self._take_draft(event)
        elif isinstance(event, on.Disconnected | on.Busy):
            self.shown.clear()
        elif self._message_id and self._ends(event):
            self.shown.clear()
            self._over_id, self._message_id = self._message_id, ""

    def _take_draft(self, draft: on.ToolCallDraft) -> None:
        if draft.message_id == self._over_id:
            return  # it is late
        if draft.message_id != self._message_id:
            self.shown.clear()
            self._message_id, self._turn_id = draft.message_id, draft.turn_id
        self.shown = {index: shown for index, shown in self.shown.items() if index < draft.index}
        if not draft.withdrawn:
            self.shown[draft.index] = draft

    def _ends(self, event: on.Event) -> bool:
        """Does an event tell more than the drafts, or that their answer is void?"""
        match event:
            case on.ToolCall() | on.TurnEnd():
                return event.turn_id == self._turn_id
            case on.AgentStatus():
                return event.status != "thinking"
            case on.MessageDiscarded():
                return event.message_id == self._message_id
            case on.AssistantMessage() | on.AssistantThought():
                return event.message_id != self._message_id
        return False
