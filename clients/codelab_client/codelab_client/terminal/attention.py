"""Tells the user that the agent waits for them or has finished: a bell, the window's title, a notification."""

from collections.abc import Callable, Collection
from typing import Literal

from codelab_client.safe_text import safe_line

State = Literal["idle", "busy", "waiting"]
_SAVE_TITLE, _RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"


def desktop_sequence(text: str) -> str:
    """What has terminals show a notification, in the two ways that they know. text: one safe line."""
    text = text.replace(";", ",")
    return f"\x1b]9;{text}\x07\x1b]777;notify;codelab;{text}\x07"


class Attention:
    """Follows what the agent does.

    ways: those that `notify` of config.toml names. write: gets sequences for the terminal. name: of the conversation.
    """

    def __init__(self, ways: Collection[str], write: Callable[[str], None], name: str) -> None:
        self._ways, self._write, self._name = ways, write, safe_line(name, 60).replace(";", ",")
        self._state: State = "idle"
        if "title" in ways:
            write(_SAVE_TITLE)
            self._title("")

    def update(self, state: State) -> None:
        """The state now. A change to waiting, and the end of work, call the user."""
        before, self._state = self._state, state
        if state == before:
            return
        self._title({"busy": "working", "waiting": "waits for you", "idle": ""}[state])
        if state == "waiting":
            self._call("waits for you")
        elif state == "idle":
            self._call("has finished")

    def close(self) -> None:
        """Give the window its title back."""
        if "title" in self._ways:
            self._write(_RESTORE_TITLE)

    def _title(self, what: str) -> None:
        if "title" in self._ways:
            self._write(f"\x1b]2;{what + ': ' if what else ''}codelab {self._name}\x07")

    def _call(self, what: str) -> None:
        text = f"codelab {what}: {self._name}"
        if "desktop" in self._ways:
            self._write(desktop_sequence(text))
        if "bell" in self._ways:
            self._write("\x07")
