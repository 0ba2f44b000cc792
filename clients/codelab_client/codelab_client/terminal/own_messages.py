"""The messages that were sent from this window: which are on the screen, and which are on their way to the agent."""

import uuid
from collections.abc import Container, Mapping
from dataclasses import dataclass


@dataclass
class OwnMessage:
    """text: the message. typed_text: what of it the user typed. form: stands for it on the screen.

    reports: what goes with it to the agent.

    images: the names of its images. has_begun: the agent has it.
    """

    text: str
    form: str
    typed_text: str
    reports: str = ""
    images: str = ""
    is_shown: bool = False
    has_begun: bool = False

    @property
    def content(self) -> str:
        """What the agent gets."""
        return f"{self.text}\n\n{self.reports}" if self.reports else self.text


class OwnMessages:
    """The messages by their `client_msg_id`."""

    def __init__(self) -> None:
        self._messages: dict[str, OwnMessage] = {}

    def add(self, text: str, form: str, typed_text: str, reports: str) -> tuple[str, OwnMessage]:
        """A message that will be sent. Returns its id and itself."""
        message_id = uuid.uuid4().hex
        message = self._messages[message_id] = OwnMessage(text, form or text, typed_text, reports)
        return message_id, message

    def get(self, message_id: str) -> OwnMessage | None:
        """A message; None if it is of another window."""
        return self._messages.get(message_id)

    def remove(self, message_id: str) -> OwnMessage | None:
        """A message that will not reach the agent: it was refused or taken back."""
        return self._messages.pop(message_id, None)

    def end_turn(self) -> None:
        """A turn has ended: what is on the screen was answered, whatever the server has said of its beginning."""
        for message in self._messages.values():
            message.has_begun |= message.is_shown

    @property
    def is_any_open(self) -> bool:
        """Whether there is a message that the agent does not have yet."""
        return bool(self.open_ids)

    @property
    def open_ids(self) -> list[str]:
        """The messages that the agent does not have yet, the oldest first."""
        return [message_id for message_id, message in self._messages.items() if not message.has_begun]

    def previews(self, queued: Mapping[str, str]) -> list[str]:
        """The texts of messages that wait. queued: all of them, with the beginnings of their texts."""
        return [self._messages[key].form if key in self._messages else text for key, text in queued.items()]

    def on_their_way(self, queued: Container[str]) -> list[str]:
        """The texts of those that are neither on the screen nor known to wait."""
        return [
            message.form
            for key, message in self._messages.items()
            if not (message.has_begun or message.is_shown or key in queued)
        ]
