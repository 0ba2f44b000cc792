"""When the turn of a message is over. No I/O."""

from dataclasses import dataclass

from codelab_client.session.events import (
    AgentStatus,
    Event,
    Queued,
    ResyncRequired,
    SessionInfo,
    TurnEnd,
    UserMessage,
    Withdrawn,
)


@dataclass
class AwaitedTurn:
    """The turn of one message, which may wait for others. Give it all events from before the message was sent."""

    client_msg_id: str
    _turn_id: str = ""
    _turns_left: int = 0
    _status: str = "idle"
    _is_lost: bool = False

    def is_over(self, event: Event) -> bool:
        """Whether this event ends the turn, or tells that it has ended."""
        match event:
            case UserMessage(client_msg_id=message_id, turn_id=turn_id) if message_id == self.client_msg_id:
                self._turn_id = turn_id
            case TurnEnd(turn_id=ended_id) if self._turn_id:
                return ended_id == self._turn_id
            case Withdrawn(client_msg_ids=withdrawn_ids) if self.client_msg_id in withdrawn_ids:
                return True
            case Queued(client_msg_id=queued, position=position) if queued == self.client_msg_id:
                self._turns_left = position + 1
            case AgentStatus(status=status):
                if status == "thinking" and self._status == "idle" and not self._turns_left:
                    self._turns_left = 1
                self._status = status
            case TurnEnd() if self._turns_left:
                self._turns_left -= 1
                return not self._turns_left
            case ResyncRequired():
                self._is_lost = True
            case SessionInfo(status=status) if self._is_lost:
                self._turns_left, self._is_lost = 1, False
                return status == "idle"
        return False
