"""The keyboard of a terminal whose screen we write to at the same time."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress

from codelab_client.terminal.background import without_answers

_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"


class Keyboard(Vt100Input):
    """It stays ours while something is printed above the input.

    prompt_toolkit would return it to the terminal, which changes Enter into Ctrl-J (a new line) and holds others back.
    """

    _is_paste = False
    _tail = ""  # the end of what was read since the last mark, which may begin the next one

    def cooked_mode(self) -> AbstractContextManager[None]:
        """See Input."""
        return nullcontext()

    def lent(self) -> AbstractContextManager[None]:
        """For another program."""
        return super().cooked_mode()

    def read_keys(self) -> list[KeyPress]:
        """See Input. A late answer of the terminal about its background is none: its Esc would stop a turn."""
        self.vt100_parser.feed("".join(self._pieces(self.stdin_reader.read())))
        keys, self._buffer = self._buffer, []
        return keys

    def keys_of(self, text: str) -> list[KeyPress]:
        """The keys that are pressed to type a text; "\\r" is Enter."""
        self.vt100_parser.feed(text)
        keys, self._buffer = self._buffer, []
        return keys

    def _pieces(self, text: str) -> Iterator[str]:
        """What was read, without answers. In a paste all is text: without an answer there, it could end too early."""
        while text:
            mark = _PASTE_ENDS if self._is_paste else _PASTE_BEGINS
            place = (self._tail + text).find(mark)
            length = place + len(mark) - len(self._tail) if place >= 0 else len(text)
            piece, text = text[:length], text[length:]
            yield piece if self._is_paste else without_answers(piece)
            if place >= 0:
                self._is_paste, self._tail = not self._is_paste, ""
            else:
                self._tail = (self._tail + piece)[1 - len(mark) :]
