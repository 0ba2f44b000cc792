"""Lines only: no cursor control, no colours, nothing that is written twice. For screen readers and simple terminals."""

import asyncio
import os
import shutil
import signal
import sys
import time

from rich.console import RenderableType

from codelab_client.safe_text import safe
from codelab_client.terminal import cards
from codelab_client.terminal.commands import Commands, is_command
from codelab_client.terminal.conversation import Conversation
from codelab_client.terminal.editor import EditError, edited
from codelab_client.waiting import Waiting

#: Two Ctrl-C within this time quit (seconds).
_TWICE_S = 3.0
_HELP = "Type y to approve, n or n REASON to reject, e to edit, a to approve such calls from now on."


class PlainScreen:
    """Prints lines and reads lines."""

    conversation: Conversation
    commands: Commands

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._shown_asked_at = 0.0
        self._status = ""
        self._pause: Waiting | None = None
        self._begun = b""
        self._always = False

    def show(self, renderable: RenderableType) -> None:
        """See Screen."""
        width = shutil.get_terminal_size().columns
        text = cards.rendered(renderable, width, colour=False)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.removesuffix("\n").split("\n")))
        sys.stdout.flush()

    def changed(self) -> None:
        """See Screen. Announces what needs the user, once."""
        conversation = self.conversation
        if conversation.approvals and conversation.asked_at != self._shown_asked_at:
            self._shown_asked_at = conversation.asked_at
            self.show(cards.notice(_HELP))
        if conversation.pause != self._pause:
            self._pause = conversation.pause
            if self._pause is not None:
                self.show(cards.notice(str(self._pause)))
        status = "" if conversation.is_busy else "Ready."
        if status != self._status:
            self._status = status
            if status:
                self.show(cards.notice(status))

    def put(self, text: str) -> None:
        """See Screen. A line that is being typed cannot be changed here, so the text is only shown."""
        self.show(cards.notice(safe(text)))

    async def run(self) -> None:
        """Read lines until the user quits."""
        loop = asyncio.get_running_loop()
        interrupts: asyncio.Queue[None] = asyncio.Queue()
        loop.add_signal_handler(signal.SIGINT, interrupts.put_nowait, None)
        loop.add_reader(sys.stdin.fileno(), self._read)
        self.show(cards.notice(f"Session {self.conversation.session.session_id}. /help lists the commands."))
        self.changed()
        interrupted_at = -_TWICE_S
        try:
            while not (self.commands.wants_to_quit or self.commands.switch_to):
                line = asyncio.ensure_future(self._lines.get())
                interrupt = asyncio.ensure_future(interrupts.get())
                await asyncio.wait({line, interrupt}, return_when=asyncio.FIRST_COMPLETED)
                interrupt.cancel()
                if not line.done():
                    line.cancel()
                    if not self.conversation.is_busy or time.monotonic() - interrupted_at < _TWICE_S:
                        return
                    interrupted_at = time.monotonic()
                    self.show(cards.notice("Stopping the turn. Ctrl-C again quits."))
                    self.conversation.start(self.conversation.session.cancel())
                    continue
                text = line.result()
                if text is None:
                    return
                await self._take(text)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            loop.remove_reader(sys.stdin.fileno())

    def _read(self) -> None:
        """Take what was typed, which may be several lines, or only the beginning of one."""
        typed = os.read(sys.stdin.fileno(), 65_536)
        *lines, self._begun = (self._begun + typed).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode("utf-8", "replace"))
        if not typed:
            self._lines.put_nowait(None)

    async def _take(self, line: str) -> None:
        conversation = self.conversation
        words = line.strip()
        if is_command(words):
            conversation.start(self.commands.run(words))
            await asyncio.sleep(0)
        elif conversation.questions:
            if (why := conversation.questions[0].answer(words)) is not None:
                self.show(cards.notice(f"Please answer with {why}"))
        elif conversation.approvals:
            await self._decide(words)
        elif words:
            conversation.start(conversation.send(words))

    async def _decide(self, words: str) -> None:
        conversation = self.conversation
        call = conversation.approvals[0]
        word, _, reason = words.partition(" ")
        if self._always:
            self._always = False
            if word in ("y", "yes"):
                conversation.approve("session")
            else:
                self.show(cards.notice(_HELP))
        elif word in ("y", "yes"):
            conversation.approve()
        elif word in ("n", "no"):
            conversation.reject(reason)
        elif word == "a" and call.remember:
            self.show(cards.notice(f"Allow from now on, in this session: {cards.rule(call)}. Type y to confirm."))
            self._always = True
        elif word == "a":
            self.show(cards.notice("Such calls always need your approval."))
        elif word == "e" and call.arguments is not None:
            try:
                changed = edited(call.tool_name, call.arguments)
            except EditError as error:
                self.show(cards.notice(str(error)))
                return
            conversation.edit(changed) if changed is not None else self.show(cards.notice("Nothing was changed."))
        else:
            self.show(cards.notice(_HELP))
