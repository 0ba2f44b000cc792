"""The terminal: what is done scrolls up and stays, what is going on is below it, above the input."""

import asyncio
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal, run_in_terminal
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import Style
from rich.console import RenderableType

from codelab_client import private_folder
from codelab_client.private_file import PrivateFileError, append_to
from codelab_client.safe_text import exact_line, safe
from codelab_client.session import events as on
from codelab_client.session.journal import state_folder
from codelab_client.terminal import cards
from codelab_client.terminal.asked import LOOK_S, Target, always, target, together
from codelab_client.terminal.attention import Attention
from codelab_client.terminal.clipboard import copied_by, pasted_image, sequence
from codelab_client.terminal.commands import Commands, is_command
from codelab_client.terminal.completion import Suggestions
from codelab_client.terminal.conversation import TerminalConversation
from codelab_client.terminal.counts import counted
from codelab_client.terminal.editor import EditError, edited
from codelab_client.terminal.first_lines import first_lines
from codelab_client.terminal.keyboard import Keyboard
from codelab_client.terminal.palette import DARK, Palette, prompt_style
from codelab_client.terminal.pastes import Pastes, VisibleCharacters
from codelab_client.terminal.picker import Choice, Preview, pick
from codelab_client.terminal.reflow import erase_what_was_broken
from codelab_client.terminal.spacing import Spacing
from codelab_client.terminal.status_line import status_line
from codelab_client.terminal.wrapping import cut, wrapped

#: Two Ctrl-C within this time quit (seconds).
_TWICE_S = 2.0
#: Esc is a key of its own if nothing follows it within this time (seconds).
_ESCAPE_S = 0.2
#: Folded texts that can be unfolded.
_FOLDED = 50
#: Between two redraws (seconds): a fast answer comes in more pieces than anybody can see.
_REDRAW_S = 0.04
#: Rows below the input that are kept for a menu which is not open yet.
_MENU_ROWS = 4
#: Characters of a path that the line with the keys repeats; the whole is in the card.
_PATH_CHARS = 60
_PLAIN_STYLE = Style.from_dict({"bottom-toolbar": "noreverse", "ask": "bold", "prompt": "bold"})

Mode = Literal["", "feedback", "always", "together"]
_T = TypeVar("_T")


class InlineScreen:
    """Prints above the input with `show`, and draws what is live with `changed`."""

    conversation: TerminalConversation
    commands: Commands

    def __init__(self, workspace: Path, notify: Collection[str] = (), palette: Palette = DARK) -> None:
        self._palette = palette
        self._colour = not os.environ.get("NO_COLOR")
        self._mode: Mode = ""
        self._mode_of = ""  # the call that it is about
        self._together: list[on.ToolCall] = []  # what would be approved at once: all of it has been shown
        self._typed_for: Target | None = None  # what was asked when the user began to type
        self._typed_at = self._interrupted_at = self._escaped_at = 0.0
        self._hint, self._hint_at = "", 0.0
        self._drawn_message: tuple[int, StyleAndTextTuples] | None = None  # in which drawing, and what
        self._waiting: list[str] = []
        self._spacing = Spacing()
        self._folded: deque[RenderableType] = deque(maxlen=_FOLDED)  # what Ctrl-O prints, the newest last
        self._pastes = Pastes()
        self._images: TemporaryDirectory[str] | None = None  # those of the clipboard
        self._printing = asyncio.Lock()
        self._print_task: asyncio.Task[None] | None = None
        self._keyboard = Keyboard(sys.stdin)
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            multiline=True,
            prompt_continuation="  ",
            completer=ThreadedCompleter(Suggestions(workspace, lambda: self.commands.suggested)),
            complete_while_typing=True,
            history=_history(),
            input=self._keyboard,
            input_processors=[VisibleCharacters()],
            key_bindings=self._keys(),
            style=prompt_style(palette) if self._colour else _PLAIN_STYLE,
            color_depth=None if self._colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            reserve_space_for_menu=_MENU_ROWS,
            refresh_interval=0,
        )
        self._attention = Attention(notify, self._control, workspace.name)
        self._prompt.app.min_redraw_interval = _REDRAW_S
        self._prompt.app.timeoutlen = self._prompt.app.ttimeoutlen = _ESCAPE_S
        self._prompt.default_buffer.on_text_changed += lambda _: self._typed()
        self._prompt.default_buffer.on_completions_changed += lambda _: self._make_room_for_menu()
        erase_what_was_broken(self._prompt.app.renderer)

    # -- printing ------------------------------------------------------------------------------------------------

    def show(self, renderable: RenderableType) -> None:
        """See Screen."""
        if isinstance(renderable, cards.Folded):
            self._folded.append(renderable.whole)
        self._waiting.append(self._spacing.spaced(self._rendered(renderable)))
        if self._print_task is None or self._print_task.done():
            self._print_task = asyncio.ensure_future(self._print())

    def _rendered(self, renderable: RenderableType) -> str:
        width = shutil.get_terminal_size().columns
        return cards.rendered(renderable, width, colour=self._colour, palette=self._palette)

    async def _print(self) -> None:
        """Print what waits, above the input. Everything that comes in the meantime is printed at once."""
        async with self._printing:
            while self._waiting:
                text = "".join(self._waiting)
                self._waiting.clear()
                if self._prompt.app.is_running:
                    await run_in_terminal(partial(_write, text))
                else:
                    _write(text)

    def changed(self) -> None:
        """See Screen."""
        approvals = self.conversation.approvals
        if self._mode and self.conversation.questions:
            self._mode = ""  # the question is shown now, so what is typed must not decide about the call
            self._hint_for("A tool asks something first; the call is asked about again after that")
        elif self._mode and not (approvals and approvals[0].call_id == self._mode_of):
            self._mode = ""
            self._hint_for("The call was settled in the meantime: nothing was decided")
        waits = bool(approvals or self.conversation.questions)
        self._attention.update("waiting" if waits else "busy" if self.conversation.is_busy else "idle")
        self._prompt.app.invalidate()

    def put(self, text: str) -> None:
        """See Screen. What others may have written is never a command, whatever it begins with."""
        text = _no_command(text)
        buffer = self._prompt.default_buffer
        buffer.text = f"{text}\n{buffer.text}" if buffer.text else text
        buffer.cursor_position = len(text)

    def type(self, keys: str) -> None:
        """Press keys as soon as there is an input: the user did so before."""
        store_typeahead(self._keyboard, self._keyboard.keys_of(keys))

    async def pick(self, title: str, choices: Sequence[Choice], preview: Preview | None = None) -> str | None:
        """See Screen."""
        app = self._prompt.app
        try:
            async with in_terminal():
                chosen = await pick(
                    title, choices, preview, keyboard=self._keyboard, output=app.output, style=self._prompt.style
                )
        finally:
            self.conversation.look_again()  # the list was in front of what is asked
        app.key_processor.feed_multiple(get_typeahead(self._keyboard))  # what was typed after the choice
        app.key_processor.process_keys()
        return chosen

    async def copy(self, text: str) -> str:
        """See Screen."""
        if program := await asyncio.to_thread(copied_by, text, os.environ, self.conversation.workspace):
            return f"with {program}"
        self._control(sequence(text))
        return "if this terminal lets programs copy (OSC 52)"

    async def lend(self, work: Callable[[], int]) -> int | None:
        """See Screen."""
        return await self._lent(work)

    async def _lent(self, work: Callable[[], _T]) -> _T:
        """Run another program with the keyboard. Keys that it left over decide nothing that was asked meanwhile."""

        def run() -> _T:
            with self._keyboard.lent():
                return work()

        try:
            return await run_in_terminal(run, in_executor=True)
        finally:
            self.conversation.look_again()

    def _control(self, text: str) -> None:
        """Write what the terminal obeys and does not print."""
        output = self._prompt.app.output
        output.write_raw(text)
        output.flush()

    async def run(self) -> None:
        """Read keys until the user quits."""
        self.show(first_lines(self.conversation.session, self.conversation.workspace))
        ticking = asyncio.ensure_future(self._tick())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)  # in the user's editor, Ctrl-C is no key
        try:
            await self._prompt.prompt_async(default=self._prompt.default_buffer.text, handle_sigint=False)
        except (EOFError, KeyboardInterrupt):
            pass
        finally:
            ticking.cancel()
            self._attention.close()
            if self._images is not None:
                self._images.cleanup()
            await self._print()
            loop.remove_signal_handler(signal.SIGINT)

    async def _tick(self) -> None:
        """Let the seconds of running calls go on."""
        while True:
            await asyncio.sleep(1)
            if self.conversation.running or self._hint:
                if self._hint and time.monotonic() - self._hint_at > _TWICE_S:
                    self._hint = ""
                self._prompt.app.invalidate()

    # -- drawing -------------------------------------------------------------------------------------------------

    def _message(self) -> StyleAndTextTuples:
        """What is live, and the prompt in front of the input. The layout asks for it nine times in one drawing."""
        drawing = self._prompt.app.render_counter
        if self._drawn_message is None or self._drawn_message[0] != drawing:
            self._drawn_message = drawing, self._compose()
        return self._drawn_message[1]

    def _compose(self) -> StyleAndTextTuples:
        columns, rows = shutil.get_terminal_size()
        live = [piece for line in self.conversation.live(columns - 1) for piece in wrapped(line, columns - 1)]
        fragments: StyleAndTextTuples = [("class:live", f"{piece}\n") for piece in live[-max(3, rows // 3) :]]
        question = self._asked()
        fragments += [
            ("class:ask", f"{piece}\n")
            for line in question.split("\n")
            if question
            for piece in wrapped(line, columns - 1)
        ]
        fragments.append(("class:prompt", "› "))
        return fragments

    def _asked(self) -> str:
        """The question to the user, if there is one."""
        conversation = self.conversation
        if conversation.questions:
            return exact_line(conversation.questions[0].prompt)
        if not conversation.approvals:
            return ""
        call = conversation.approvals[0]
        if self._mode == "feedback":
            return "Why not? The agent reads it. Enter rejects, Esc goes back."
        is_elsewhere = isinstance(call, on.CallDecidedElsewhere)
        if self._mode == "always":
            users = "  u in all sessions" if "user" in call.scopes else ""
            choices = "f in this folder" if is_elsewhere else f"s in this session{users}"
            return f"Allow from now on: {always(call, conversation)}\n{choices}  Esc back"
        if self._mode == "together":
            names = ", ".join(conversation.summary(one) for one in self._together)
            return f"Run these {counted(len(self._together), 'change')}: {names}?\ny yes, all  Esc back"
        suffix = f" ({len(conversation.approvals) - 1} more)" if len(conversation.approvals) > 1 else ""
        if call.is_plan:
            mode = conversation.session.acting_mode
            return f"Carry out this plan?{suffix}  y yes ({mode})  a yes (autonomous)  e edit  n no"
        edit = "" if is_elsewhere else "  e edit"
        ever = "  a always" if always(call, conversation) else ""
        changes = together(conversation.approvals)
        all_of_them = f"  A {counted(len(changes), 'change')}" if changes else ""
        name = f"{conversation.subagents.prefix(call.call_id)}{exact_line(call.tool_name)}"
        return f"Run {name}{_path_of(call)}?{suffix}  y yes  n no{edit}{ever}{all_of_them}"

    def _make_room_for_menu(self) -> None:
        """Below the input there is room for the menu, as far as half of the screen has it."""
        state, rows = self._prompt.default_buffer.complete_state, shutil.get_terminal_size().lines
        menu_rows = len(state.completions) + 1 if state is not None else 0
        self._prompt.reserve_space_for_menu = max(_MENU_ROWS, min(menu_rows, rows // 2))

    def _toolbar(self) -> str:
        columns = shutil.get_terminal_size().columns
        return cut(self._hint or status_line(self.conversation, columns), columns - 1)

    # -- keys ----------------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._prompt.default_buffer.text)
        may_decide = Condition(lambda: self._may_decide() and not self._mode) & is_empty
        answers = Condition(self._may_answer) & is_empty
        in_mode = Condition(lambda: bool(self._mode))
        chooses_scope = Condition(lambda: self._mode == "always" and self._may_decide()) & is_empty

        approves_together = Condition(lambda: self._mode == "together" and self._may_decide()) & is_empty

        @keys.add("y", filter=may_decide)
        def _(event: KeyPressEvent) -> None:
            if not self._unfold_call():
                self.conversation.approve(self._first.call_id)

        @keys.add("n", filter=may_decide)
        def _(event: KeyPressEvent) -> None:
            self._enter("feedback")

        @keys.add("a", filter=may_decide)
        def _(event: KeyPressEvent) -> None:
            if self._first.is_plan:
                if not self._unfold_call():
                    self.conversation.approve(self._first.call_id, mode="autonomous")
            elif not always(self._first, self.conversation):
                self._hint_for("Such calls always need your approval")
            elif not self._unfold_call():
                self._enter("always")

        @keys.add("A", filter=may_decide)
        def _(event: KeyPressEvent) -> None:
            if together(self.conversation.approvals):
                self._unfold_call()
                self._enter("together")
                self._together = self.conversation.show_together()
            else:
                self._hint_for("Only several changes of files that are not protected can be approved at once")

        @keys.add("y", filter=approves_together)
        def _(event: KeyPressEvent) -> None:
            self._mode = ""
            self.conversation.approve_together(self._together)

        @keys.add("e", filter=may_decide)
        def _(event: KeyPressEvent) -> None:
            self._start(event, self._edit)

        @keys.add("y", filter=answers)
        @keys.add("n", filter=answers)
        def _(event: KeyPressEvent) -> None:
            self._submit(event, event.data, None)

        @keys.add("s", filter=chooses_scope)
        @keys.add("u", filter=chooses_scope)
        @keys.add("f", filter=chooses_scope)
        def _(event: KeyPressEvent) -> None:
            self._choose_scope(event.data)

        @keys.add("escape", filter=in_mode, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._mode = ""

        @keys.add("escape", filter=~in_mode)
        def _(event: KeyPressEvent) -> None:
            self._escape(event)

        @keys.add("s-tab", filter=~has_completions)
        def _(event: KeyPressEvent) -> None:
            self._start(event, self._next_mode)

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            self._start(event, lambda: run_in_terminal(self._suspend))

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
                buffer.complete_state = None
                return
            form, typed_for = buffer.text, self._typed_for
            text = self._pastes.unfolded(form)
            buffer.text = self._unfolded(form)
            buffer.reset(append_to_history=bool(text.strip()) and not self._mode)
            self._typed_for = None
            self._submit(event, text, typed_for, form)

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text(self._pastes.folded(event.data))

        @keys.add("c-v")
        def _(event: KeyPressEvent) -> None:
            self._start(event, self._paste_image)

        @keys.add("c-o")
        def _(event: KeyPressEvent) -> None:
            self._unfold()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            self._interrupt()

        @keys.add("c-d", filter=is_empty)
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=EOFError)

        return keys

    def _typed(self) -> None:
        self._typed_at = time.monotonic()
        if not self._prompt.default_buffer.text:
            self._typed_for = None
        elif self._typed_for is None:
            self._typed_for = self._target()

    def _target(self) -> Target:
        """What a text is for that is typed now: the reason of a rejection, an answer to a tool, or a message."""
        if self._mode == "feedback":
            return Target("call", self._mode_of)
        aim = target(self.conversation)
        return aim if aim.kind == "question" else Target("message")

    @property
    def _first(self) -> on.ToolCall:
        return self.conversation.approvals[0]

    def _enter(self, mode: Mode) -> None:
        self._mode, self._mode_of = mode, self._first.call_id

    def _choose_scope(self, key: str) -> None:
        """What the user allows from now on."""
        call = self._first
        if isinstance(call, on.CallDecidedElsewhere):
            if key == "f":
                self._mode = ""
                self.conversation.approve(call.call_id, "folder")
        elif key == "s" or (key == "u" and "user" in call.scopes):
            self._mode = ""
            self.conversation.approve(call.call_id, "session" if key == "s" else "user")

    def _may_decide(self) -> bool:
        """Whether a key is meant as a decision: the user has seen the call, and is not in the middle of typing."""
        conversation = self.conversation
        if not conversation.approvals or conversation.questions:
            return False
        return time.monotonic() - max(conversation.asked_at, self._typed_at) > LOOK_S

    def _may_answer(self) -> bool:
        """Whether y and n answer a tool's question at once, which the user has seen."""
        questions = self.conversation.questions
        if not questions or "y" not in questions[0].keys:
            return False
        return time.monotonic() - max(questions[0].asked_at, self._typed_at) > LOOK_S

    def _submit(self, event: KeyPressEvent, text: str, typed_for: Target | None, form: str = "") -> None:
        conversation, now = self.conversation, self._target()
        if not self._mode and is_command(form):
            self._start(event, lambda: self._command(event.app, text))
        elif typed_for not in (None, now) or (conversation.questions and now.kind == "message"):
            self.put(text)  # it belongs to something else: the user must see what it would do now
            self._hint_for("What was asked has changed, so nothing was sent: Enter again sends it")
        elif self._mode == "feedback":
            self._mode = ""
            conversation.reject(self._mode_of, text.strip())
        elif self._mode:
            self._mode = ""
        elif conversation.questions:
            if (problem := conversation.questions[0].answer(text)) is not None:
                self._hint_for(f"Please answer with {problem}")
        elif form.startswith("!") and text[1:].strip():
            self._start(event, lambda: conversation.run_locally(text[1:].strip()))
        elif text.strip():
            conversation.say(text.strip(), form.strip())

    def _unfold(self) -> None:
        """Put pasted texts into the input in place of their marks; without any, print what was folded last."""
        buffer = self._prompt.default_buffer
        if (text := self._unfolded(buffer.text)) != buffer.text:
            buffer.text, buffer.cursor_position = text, len(text)
        elif self._unfold_call():
            pass
        elif self._folded:
            self.show(self._folded.pop())
        else:
            self._hint_for("Nothing is folded")

    def _unfolded(self, form: str) -> str:
        """The input with pasted texts in place of their marks. A paste at its beginning makes no command of it."""
        text = self._pastes.unfolded(form)
        return text if form[:1] == text[:1] else _no_command(text)

    def _unfold_call(self) -> bool:
        """Print the whole of the call that is asked about. Returns False if the user has seen all of it."""
        card = self.conversation.folded
        if card is None:
            return False
        if card.whole in self._folded:
            self._folded.remove(card.whole)
        self.conversation.unfold()
        self._hint_for("This is all of it; nothing was decided yet")
        return True

    async def _command(self, app: "Application[str]", line: str) -> None:
        self.show(cards.notice(safe(line)))
        await self.commands.run(line)
        if self.commands.wants_to_quit or self.commands.switch_to is not None:
            await self._print()
            if app.is_running:
                app.exit(result="")

    async def _edit(self) -> None:
        call = self._first
        if call.arguments is None or isinstance(call, on.CallDecidedElsewhere):
            return
        arguments = call.arguments
        try:
            new_arguments = await self._lent(lambda: edited(call.tool_name, arguments))
        except EditError as error:
            self.show(cards.notice(str(error), "error"))
            return
        if not self.conversation.approvals or self.conversation.approvals[0].call_id != call.call_id:
            self.show(cards.notice("The call was settled in the meantime", "warning"))
        elif new_arguments is None:
            self._hint_for("Nothing was changed")
        else:
            maker = self.conversation.subagents.prefix(call.call_id)
            self.show(cards.call(call.tool_name, new_arguments, self.conversation.workspace, maker))
            self.conversation.edit(call.call_id, new_arguments)

    def _interrupt(self) -> None:
        """Ctrl-C: clear the input, close a question, stop what runs; twice: quit. What clears is not the first one."""
        now, app, buffer = time.monotonic(), self._prompt.app, self._prompt.default_buffer
        if buffer.text:
            self._clear()
            return
        is_second, self._interrupted_at = now - self._interrupted_at < _TWICE_S, now
        if not is_second:
            self._stop("Ctrl-C again quits")
        elif app.is_running and not app.is_done:
            app.exit(exception=KeyboardInterrupt)

    def _escape(self, event: KeyPressEvent) -> None:
        """Esc: close the menu or a question, stop what runs; twice when nothing runs: go back to a message."""
        now, buffer = time.monotonic(), self._prompt.default_buffer
        is_second, self._escaped_at = now - self._escaped_at < _TWICE_S, now
        if buffer.complete_state is not None:
            buffer.cancel_completion()
        elif self._stop(""):
            self._escaped_at = 0.0
        elif buffer.text and is_second:
            self._clear()
        elif buffer.text:
            self._hint_for("Esc again clears the input")
        elif is_second:
            self._escaped_at = 0.0
            self._start(event, lambda: self._command(event.app, "/rewind"))
        else:
            self._hint_for("Esc again goes back to one of your messages")

    def _stop(self, hint: str) -> bool:
        """Close a question, or stop the command of the user or the turn. Returns whether there was any."""
        conversation = self.conversation
        self._hint_for(hint)
        if conversation.questions:
            conversation.questions[0].close()
        elif conversation.local_commands.is_running:
            conversation.local_commands.stop()
        elif conversation.is_working:
            self._mode = ""
            self._hint_for("; ".join(filter(None, ("Stopping the turn", hint))))
            conversation.stop()
        else:
            return False
        return True

    def _clear(self) -> None:
        """Clear the input; its text can be brought back as an earlier message can."""
        buffer = self._prompt.default_buffer
        buffer.text = self._unfolded(buffer.text)
        buffer.append_to_history()
        buffer.reset()
        self._interrupted_at = self._escaped_at = 0.0
        self._hint_for("Cleared; ↑ brings it back")

    async def _paste_image(self) -> None:
        """Put the path of the clipboard's image into the input: the image goes with the message that names it."""
        data = await asyncio.to_thread(pasted_image, os.environ, self.conversation.workspace)
        if data is None:
            self._hint_for("There is no image in the clipboard, or no wl-paste, xclip or pngpaste that gives it")
            return
        if self._images is None:
            self._images = TemporaryDirectory(prefix="codelab-images-")
        path = Path(self._images.name) / f"{len(list(Path(self._images.name).iterdir())) + 1}.png"
        path.write_bytes(data)
        self._prompt.default_buffer.insert_text(f"{path} ")

    async def _next_mode(self) -> None:
        self._hint_for(f"mode {await self.conversation.next_mode()}")

    def _suspend(self) -> None:
        with self._keyboard.lent():
            os.kill(0, signal.SIGTSTP)
        self.conversation.look_again()

    def _hint_for(self, text: str) -> None:
        self._hint, self._hint_at = text, time.monotonic()
        self._prompt.app.invalidate()

    def _start(self, event: KeyPressEvent, work: Callable[[], object]) -> None:
        self.conversation.start(work())


def _history() -> History:
    """The lines of earlier sessions, if they can be kept."""
    try:
        file = private_folder.ensure(state_folder()) / "history"
        append_to(file).close()
        return FileHistory(str(file))
    except (OSError, PrivateFileError):
        return InMemoryHistory()


def _no_command(text: str) -> str:
    """A text of others as a message, whatever it begins with."""
    return f" {text}" if text.startswith(("!", "/")) else text


def _path_of(call: on.ToolCall) -> str:
    """The path of the call that a question is about, unless it is long: other calls' outcomes may stand above it."""
    path = (call.arguments or {}).get("path")
    return f" {exact_line(path)}" if isinstance(path, str) and 0 < len(path) <= _PATH_CHARS else ""


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
