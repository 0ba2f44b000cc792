"""The keyboard of a terminal whose screen we write to at the same time."""

from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress

from codelab_client.terminal.background import without_answers


class Keyboard(Vt100Input):
    """It stays ours while something is printed above the input.

    prompt_toolkit would return it to the terminal, which changes Enter into Ctrl-J (a new line) and holds others back.
    """

    def cooked_mode(self) -> AbstractContextManager[None]:
        """See Input."""
        return nullcontext()

    def lent(self) -> AbstractContextManager[None]:
        """For another program."""
        return super().cooked_mode()

    def read_keys(self) -> list[KeyPress]:
        """See Input. A late answer of the terminal about its background is none: its Esc would stop a turn."""
        self.vt100_parser.feed(without_answers(self.stdin_reader.read()))
        keys, self._buffer = self._buffer, []
        return keys
