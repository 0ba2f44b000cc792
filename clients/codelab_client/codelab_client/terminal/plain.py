"""Lines only: no cursor control, no colours, nothing that is written twice. For screen readers and simple terminals."""

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence

from rich.console import RenderableType

from codelab_client.safe_text import exact_line, safe, safe_line
from codelab_client.session import events as on
from codelab_client.terminal import cards
from codelab_client.terminal.asked import WORDS, Numbers, Target, always, parse, target
from codelab_client.terminal.commands import Commands, is_command
from codelab_client.terminal.conversation import Question, TerminalConversation
from codelab_client.terminal.editor import EditError, edited
from codelab_client.terminal.first_lines import first_lines
from codelab_client.terminal.picker import Choice, Preview
from codelab_client.terminal.spacing import Spacing
from codelab_client.waiting import Waiting

#: Two Ctrl-C within this time quit (seconds).
_TWICE_S = 3.0


class PlainScreen:
    """Prints lines and reads lines."""

    conversation: TerminalConversation
    commands: Commands

    def __init__(self) -> None:
        self._lines: asyncio.Queue[tuple[str, Target] | None] = asyncio.Queue()
        self._shown_asked_at = 0.0
        self._shown_question: Question | None = None
        self._numbers = Numbers()
        self._spacing = Spacing()
        self._status = ""
        self._pause: Waiting | None = None
        self._partial_line = b""
        self._always = ""  # the call whose "always" must be confirmed
        self._told_subagents: set[str] = set()

    def show(self, renderable: RenderableType) -> None:
        """See Screen."""
        width = shutil.get_terminal_size().columns
        if isinstance(renderable, cards.Folded) and renderable.is_question:
            renderable = renderable.whole  # there is no key here that unfolds it
        text = cards.rendered(renderable, width, colour=False)
        if isinstance(renderable, cards.Folded):
            text = text.replace(cards.UNFOLDS, "")
        text = self._spacing.spaced(text)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.splitlines()))
        sys.stdout.flush()

    def changed(self) -> None:
        """See Screen. Announces what needs the user, once."""
        conversation = self.conversation
        self._numbers.ask(conversation.approvals[0].call_id if conversation.approvals else "")
        if conversation.approvals and conversation.asked_at != self._shown_asked_at:
            self._shown_asked_at = conversation.asked_at
            self._always = ""
            self.show(cards.notice(self._help()))
        question = conversation.questions[0] if conversation.questions else None
        if question is not self._shown_question:
            self._shown_question = question
            if question is not None:
                self.show(cards.notice(exact_line(question.prompt)))
        if conversation.pause != self._pause:
            self._pause = conversation.pause
            if self._pause is not None:
                self.show(cards.notice(str(self._pause)))
        self._tell_subagents()
        status = "" if conversation.is_busy else "Ready."
        if status != self._status:
            self._status = status
            if status:
                self.show(cards.notice(status))

    def _tell_subagents(self) -> None:
        """Announce those that have begun to work."""
        working = self.conversation.subagents.working
        for call_id, subagent in working.items():
            if call_id not in self._told_subagents:
                self.show(cards.notice(f"{subagent.name} works on: {subagent.task}"))
        self._told_subagents = set(working)

    def put(self, text: str) -> None:
        """See Screen. A line that is being typed cannot be changed here, so the text is only shown."""
        self.show(cards.notice(safe(text)))

    async def pick(self, title: str, choices: Sequence[Choice], preview: Preview | None = None) -> str | None:
        """See Screen. Without a cursor, the rows have numbers."""
        actions = [*(choice.line for choice in choices), "none of them"]
        chosen = await self.conversation.choose(title, actions)
        place = actions.index(chosen) if chosen is not None else len(choices)
        return choices[place].value if place < len(choices) else None

    async def copy(self, text: str) -> str:
        """See Screen."""
        return ""

    async def lend(self, work: Callable[[], int]) -> int | None:
        """See Screen."""
        return None

    async def run(self) -> None:
        """Read lines until the user quits."""
        loop = asyncio.get_running_loop()
        interrupts: asyncio.Queue[None] = asyncio.Queue()
        loop.add_signal_handler(signal.SIGINT, interrupts.put_nowait, None)
        loop.add_reader(sys.stdin.fileno(), self._read)
        self.show(first_lines(self.conversation.session, self.conversation.workspace))
        self.changed()
        interrupted_at = -_TWICE_S
        try:
            while not (self.commands.wants_to_quit or self.commands.switch_to):
                line = asyncio.ensure_future(self._lines.get())
                interrupt = asyncio.ensure_future(interrupts.get())
                switch = asyncio.ensure_future(self.commands.has_switched.wait())
                await asyncio.wait({line, interrupt, switch}, return_when=asyncio.FIRST_COMPLETED)
                interrupt.cancel()
                if switch.done():
                    if line.done() and (unsent_line := line.result()) is not None:
                        self.put(unsent_line[0])  # it was typed in this conversation and belongs in the next one
                    line.cancel()
                    return
                switch.cancel()
                if not line.done():
                    line.cancel()
                    if self.conversation.local_commands.is_running:
                        self.conversation.local_commands.stop()
                        continue
                    if not self.conversation.is_busy or time.monotonic() - interrupted_at < _TWICE_S:
                        return
                    interrupted_at = time.monotonic()
                    self.show(cards.notice("Stopping the turn. Ctrl-C again quits."))
                    self.conversation.start(self.conversation.session.cancel())
                    continue
                text = line.result()
                if text is None:
                    return
                await self._take(*text)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            loop.remove_reader(sys.stdin.fileno())

    def _read(self) -> None:
        """Take what was typed, which may be several lines, or only the beginning of one."""
        data = os.read(sys.stdin.fileno(), 65_536)
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        typed_for = target(self.conversation)
        for line in lines:
            self._lines.put_nowait((line.decode("utf-8", "replace"), typed_for))
        if not data:
            self._lines.put_nowait(None)

    async def _take(self, line: str, typed_for: Target) -> None:
        conversation = self.conversation
        words = line.strip()
        if is_command(words):
            conversation.start(self.commands.run(words))
            await asyncio.sleep(0)
        elif typed_for.kind == "early":
            self.show(cards.notice(f"The question had just come, so nothing was decided. {self._help()}"))
        elif typed_for.kind == "question":
            self._answer(words, typed_for.key)
        elif typed_for.kind == "call" or (parse(words)[0] in WORDS and self._numbers.lost):
            await self._decide(words, typed_for.key)
        elif words.startswith("!") and words[1:].strip() and sys.stdin.isatty():
            conversation.start(self._run_locally(words[1:].strip()))
        elif words:
            self._numbers.take_lost()
            conversation.say(words, is_shown=True)

    async def _run_locally(self, command: str) -> None:
        """Run a command of the user, who confirms it: a line here may be one of a paste."""
        if (
            await self.conversation.choose(f"Run this yourself, without the sandbox?\n$ {command}", ["yes", "no"])
            == "yes"
        ):
            await self.conversation.run_locally(command)

    def _answer(self, words: str, key: str) -> None:
        """Answer the question that was on the screen."""
        first = next(iter(self.conversation.questions), None)
        if first is None or str(id(first)) != key:
            self.show(cards.notice("The question was closed in the meantime: nothing was answered."))
        elif (problem := first.answer(words)) is not None:
            self.show(cards.notice(f"Please answer with {problem}"))

    async def _decide(self, words: str, call_id: str) -> None:
        """Decide about the call that was on the screen."""
        conversation = self.conversation
        word, number, reason = parse(words)
        call = next((approval for approval in conversation.approvals if approval.call_id == call_id), None)
        shown_number, lost_number = self._numbers.number(call_id), self._numbers.lost
        if call is None or number not in (None, shown_number):
            settled_number = number or shown_number or self._numbers.take_lost()
            self.show(
                cards.notice(f"Call #{settled_number} was settled in the meantime: nothing was decided. {self._help()}")
            )
        elif lost_number and number is None and word in WORDS:
            self.show(
                cards.notice(f"Call #{lost_number} was settled, and another waits: nothing was decided. {self._help()}")
            )
        else:
            await self._act(call, word, reason)

    async def _act(self, call: on.ToolCall, word: str, reason: str) -> None:
        conversation, confirms = self.conversation, self._always == call.call_id
        self._always = ""
        if confirms and word in ("y", "yes"):
            self._numbers.decided()
            is_elsewhere = isinstance(call, on.CallDecidedElsewhere)
            conversation.approve(call.call_id, "folder" if is_elsewhere else "session")
        elif word in ("y", "yes") and not confirms:
            self._numbers.decided()
            conversation.approve(call.call_id)
        elif word in ("n", "no") and not confirms:
            self._numbers.decided()
            conversation.reject(call.call_id, reason)
        elif word == "a" and call.is_plan:
            self._numbers.decided()
            conversation.approve(call.call_id, mode="autonomous")
        elif word == "a":
            self._confirm(call)
        elif word == "e" and call.arguments is not None:
            self._edit(call)
        else:
            self.show(cards.notice(self._help()))

    def _confirm(self, call: on.ToolCall) -> None:
        covers = always(call, self.conversation)
        if not covers:
            self.show(cards.notice("Such calls always need your approval."))
            return
        extent = "" if isinstance(call, on.CallDecidedElsewhere) else "in this session, "
        number = self._numbers.number(call.call_id)
        self.show(cards.notice(f"Allow from now on, {extent}{covers}? Type y to confirm, for call #{number} as well."))
        self._always = call.call_id

    def _edit(self, call: on.ToolCall) -> None:
        if isinstance(call, on.CallDecidedElsewhere):
            self.show(cards.notice("It was approved elsewhere, so it cannot be changed any more."))
            return
        try:
            new_arguments = edited(call.tool_name, call.arguments or {})
        except EditError as error:
            self.show(cards.notice(str(error)))
            return
        if new_arguments is None:
            self.show(cards.notice("Nothing was changed."))
        else:
            self._numbers.decided()
            self.conversation.edit(call.call_id, new_arguments)

    def _help(self) -> str:
        """What the user can type now."""
        if not self.conversation.approvals or self.conversation.questions:
            return ""
        call = self.conversation.approvals[0]
        number = self._numbers.number(call.call_id)
        name = f" #{number}" if self._numbers.lost else ""
        maker = self.conversation.subagents.prefix(call.call_id)
        label = f"{maker}Call #{number} ({safe_line(call.call_id, 24)})"
        if isinstance(call, on.CallDecidedElsewhere):
            ever = "" if call.asked_by else f", a{name} to allow whatever was approved elsewhere from now on"
            return f"{label}: type y{name} to let it run here, n{name} or n{name} REASON not to{ever}."
        if call.is_plan:
            mode = self.conversation.session.acting_mode
            return (
                f"{label}: type y{name} to have the plan carried out ({mode}), a{name} to have it carried out "
                f"autonomously, n{name} or n{name} REASON to reject it, e{name} to edit it."
            )
        return (
            f"{label}: type y{name} to approve, n{name} or n{name} REASON to reject, e{name} to edit, a{name} to "
            "approve such calls from now on."
        )
