"""What a conversation looks like: takes events and the user's lines, and tells a screen what to print."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rich.console import RenderableType

from codelab_client.allowed_commands import RepeatedCommands
from codelab_client.execution import ToolOutcome
from codelab_client.local_executor import LocalExecutor
from codelab_client.project.agents import ProjectAgents
from codelab_client.project.allowed_calls import AllowedCalls
from codelab_client.project.hooks import ProjectHooks
from codelab_client.project.permissions import ProjectPermissions
from codelab_client.safe_text import exact, exact_line, safe, safe_line
from codelab_client.session import Refused, Session
from codelab_client.session import events as on
from codelab_client.session.call_drafts import CallDrafts
from codelab_client.session.gate import denial
from codelab_client.session.journal import state_folder
from codelab_client.session.subagents import Subagent, Subagents
from codelab_client.terminal import cards
from codelab_client.terminal.asked import origin, together
from codelab_client.terminal.call_order import CallOrder
from codelab_client.terminal.local_commands import LocalCommands
from codelab_client.terminal.markdown_blocks import complete_length
from codelab_client.terminal.own_messages import OwnMessage, OwnMessages
from codelab_client.terminal.picker import Choice, Preview
from codelab_client.terminal.subagent_line import subagent_line
from codelab_client.tools.last_state import last_state
from codelab_client.trust import TrustFile
from codelab_client.waiting import Waiting, waiting

if TYPE_CHECKING:
    from codelab_client.checkpoints import Report

#: Lines of a running command's output that are shown live.
_LIVE_LINES = 6
_KEPT_CHARS = 200_000
#: What asks the model to continue a turn that had begun to work when the model failed.
_GO_ON = "Go on."
_COMPACTED = {
    "summarised": "compacted: {event.tokens_before:,} → {event.tokens_after:,} tokens",
    "unchanged": "There was too little to compact",
    "failed": "The model gave no summary; try /compact again later",
}
#: Seconds that a question is on the screen before a line counts as its answer.
_LOOK_S = 0.5
#: Characters of a question's subject that its last line repeats.
_SUBJECT_CHARS = 80
#: Messages that wait that are shown.
_QUEUE_LINES = 3
#: The modes, in the order in which Shift-Tab chooses them.
MODES = ("code", "plan", "ask", "manual", "autonomous")
#: The name of a user's own command among the running calls.
_LOCAL = "!"


class Screen(Protocol):
    """Where a conversation is shown."""

    def show(self, renderable: RenderableType) -> None:
        """Print something that stays."""
        ...

    def changed(self) -> None:
        """What is live has changed: the open text, running calls, questions, the status."""
        ...

    def put(self, text: str) -> None:
        """Put a text into the input, for the user to change and send."""
        ...

    async def pick(self, title: str, choices: Sequence[Choice], preview: Preview | None = None) -> str | None:
        """Let the user choose. Returns the value; None if they choose none."""
        ...

    async def copy(self, text: str) -> str:
        """Copy a text to the user's clipboard. Returns how; empty if there is no way to it. Raises NothingToCopy."""
        ...

    async def lend(self, work: Callable[[], int]) -> int | None:
        """Run another program on the terminal, with its keyboard. Returns what `work` does; None if that cannot be."""
        ...


@dataclass
class Running:
    """A call that this client executes."""

    tool: str
    arguments: Mapping[str, Any]
    start_time: float
    output: str = ""


@dataclass
class Question:
    """A question to the user. `answer` takes a line, and returns why it is not a valid answer, or None.

    show: prints what is asked about. prompt: its last line, which names it. keys: those that answer at once, without
    Enter. asked_at: when it was shown (monotonic).
    """

    show: Callable[[], None]
    prompt: str
    answer: Callable[[str], str | None]
    close: Callable[[], None]
    keys: str = ""
    asked_at: float = field(default_factory=time.monotonic)


class TerminalConversation:
    """The state of the screen, without a terminal. It is the `Dialogue` of the tools that ask the user."""

    def __init__(self, workspace: Path, screen: Screen, permissions: ProjectPermissions | None = None) -> None:
        self.workspace, self.screen = workspace, screen
        self.session: Session
        self.executor: LocalExecutor
        self.tail = ""  # the part of the answer that is still being written
        self.running: dict[str, Running] = {}
        self.approvals: deque[on.ToolCall] = deque()
        self.asked_at = 0.0  # when the first of them was shown (monotonic)
        self.folded: cards.Folded | None = None  # its card, as long as a part of it has not been shown
        self.questions: deque[Question] = deque()
        self._own = OwnMessages()
        self._images_lock = asyncio.Lock()
        self._has_turn = False  # a turn has begun, and has not ended; the status that says so comes later
        self.local_commands = LocalCommands(workspace)
        permissions = permissions or ProjectPermissions(workspace)
        self.repeated_commands = RepeatedCommands(
            workspace, lambda: self.session, lambda: self.executor, self._running_calls, permissions.asks
        )
        self.allowed_commands = self.repeated_commands.allowed
        self.allowed_calls = AllowedCalls(
            permissions, TrustFile(state_folder(), workspace), self.warn, self.allowed_commands
        )
        self.hooks: ProjectHooks | None = None
        self.agents: ProjectAgents | None = None
        self.drafts = CallDrafts()
        self.subagents = Subagents()
        self._order = CallOrder(lambda card: self.screen.show(card))
        self.to_retry = ""  # what tries a failed turn again; empty if none has failed
        self._user_text, self._has_called = "", False  # the turn's message, and whether it has made a call
        self.model = ""
        self.usage: Mapping[str, Any] = {}
        self.cost_usd: float | None = None  # of the turns since this window was opened, as the next two
        self.turns, self.tokens = 0, Counter[str]()
        self._answer: list[str] = []  # the pieces of the last answer
        self.context_used: object = None  # tokens of the newest prompt
        self.pause: Waiting | None = None  # of a session that is not online
        self.thoughts = ""  # the last ones
        self._is_thinking, self._thinks_since = False, 0.0
        self._message_id = ""
        self._printed = False  # a part of the open message
        self._arguments: dict[str, Mapping[str, Any]] = {}
        self._elsewhere: dict[str, str] = {}  # the tools of calls that another client executes
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- the server's side ---------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Show everything until the session ends. Raises SessionError if the server ends it."""
        async for event in self.session.events():
            self.take(event)
            self.screen.changed()

    def take(self, event: on.Event) -> None:
        """Show one event."""
        self.drafts.take(event)
        news = self.subagents.take(event)
        match event:
            case on.AssistantThought():
                self._think(event)
            case on.UserMessage():
                self._begin_turn(event)
            case on.Withdrawn():
                for message_id in event.client_msg_ids:
                    self._give_back(message_id)
            case on.AssistantMessage():
                self._write(event)
            case on.MessageDiscarded():
                self._discard()
            case on.ToolCall():
                self._end_text()
                self._has_called = True
                self._order.begin(event.call_id, event.parent_call_id or "")
                self._arguments[event.call_id] = event.arguments or {}
                self._forget(event.call_id)
                if event.requires_approval and (reason := denial(self.allowed_calls.permissions, event)):
                    self._say(f"{self.summary(event)}: {reason}", "warning")
                    self.start(self.session.reject(event.call_id, reason))
                elif event.requires_approval and self.allowed_commands.covers(event):
                    self.start(self._run_again(event))
                elif event.requires_approval and self.allowed_calls.covers(event):
                    self.start(self.session.approve(event.call_id, tool=event.tool_name, arguments=event.arguments))
                elif event.requires_approval:
                    self._ask(event)
                elif not event.execute:
                    self._elsewhere[event.call_id] = event.tool_name
                    self._say(f"{self.summary(event)}, on another client")
            case on.CallStarted():
                self.running[event.call_id] = Running(event.tool_name, event.arguments, time.monotonic())
            case on.CallOutput():
                if running := self.running.get(event.call_id):
                    running.output = (running.output + event.text)[-_KEPT_CHARS:]
            case on.CallFinished():
                self.running.pop(event.call_id, None)
                self.repeated_commands.forget(event.call_id)
                self._end_call(event.call_id, event.tool_name, event.outcome)
            case on.CallUpdate():
                self._settled(event)
            case on.SubagentUpdate() if event.state != "running":
                self._end_text()
                self._order.close(event.call_id)
                self.screen.show(cards.ended_subagent(news, event.state))
            case on.Compacted():
                self._end_text()
                self._say(_COMPACTED.get(event.outcome, "").format(event=event))
            case on.Plan():
                self._end_text()
                self.screen.show(cards.plan(event.items) if event.items else cards.notice("The plan was removed"))
            case on.AgentSwitched():
                self._end_text()
                self._say(
                    f"agent {safe_line(event.from_agent)} → {safe_line(event.to_agent)}  {safe_line(event.reason)}"
                )
            case on.ModeSwitched():
                self._end_text()
                self._say(f"mode {safe_line(event.from_mode, 20)} → {safe_line(event.to_mode, 20)}")
            case on.Error():
                self._end_text()
                self._say(f"{safe_line(event.error_code)}: {safe(event.message)}", "error")
                if event.seq is not None and event.error_code == "LLM_ERROR":
                    self.to_retry = _GO_ON if self._has_called else self._user_text
                    if self.to_retry:
                        self._say("/retry tries again")
                call = self.session.open_calls.get(event.call_id or "")
                if call is not None and call.requires_approval:  # the decision was refused: ask again
                    self._ask(call)
            case on.TurnEnd():
                self._end_turn(event)
            case on.SessionInfo():
                self.model = event.model or str(event.settings.get("model") or "")
            case on.Connected(again=again):
                self.pause = None
                if again:
                    self._say("connected again")
            case on.Disconnected() | on.Busy():
                self.pause = None if self.session.is_online else waiting(event)
            case on.ResyncRequired():
                self._has_turn = False  # the turn's end may be missing; the status tells whether one runs
                self._say("Frames are missing: the server no longer has them. /resume shows the history.", "warning")
            case on.Ignored():
                self._say(safe(event.why), "warning")

    def _think(self, event: on.AssistantThought) -> None:
        if not self._is_thinking:
            self._end_text()
            self._is_thinking, self.thoughts, self._thinks_since = True, "", time.monotonic()
        self.thoughts = (self.thoughts + safe(event.content))[-_KEPT_CHARS:]

    def _fold(self) -> None:
        """The thoughts are over: one line stays of them."""
        if self._is_thinking:
            self._is_thinking = False
            self._say(f"thought for {time.monotonic() - self._thinks_since:.0f} s · /thoughts shows it")

    def _end_call(self, call_id: str, tool: str, outcome: ToolOutcome) -> None:
        self._end_text()
        arguments = self._arguments.get(call_id, {})
        maker = self.subagents.prefix(call_id)
        card = cards.finished(tool, arguments, outcome, maker)
        self._order.end(call_id, card, f"{maker}{cards.summary(tool, arguments)}")

    def summary(self, call: on.ToolCall) -> str:
        """A call in one line, with whose it is."""
        return f"{self.subagents.prefix(call.call_id)}{cards.summary(call.tool_name, call.arguments or {})}"

    def _begin_turn(self, event: on.UserMessage) -> None:
        """The agent gets a message, of this window or of another one."""
        own = self._own.get(event.client_msg_id)
        self._has_turn = True
        self._has_called, self.to_retry = False, ""
        self._user_text = event.content or (own.content if own is not None else "")
        self.executor.label = (own.text if own is not None else event.content) or self.executor.label
        if own is None:
            self._end_text()
            self.screen.show(cards.user_message(event.content or "(a message that could not be fetched)"))
            return
        own.has_begun = True
        if not own.is_shown:
            self._show_own(own)

    def _show_own(self, message: OwnMessage) -> None:
        self._end_text()
        message.is_shown = True
        self.screen.show(cards.user_message(message.form))
        if message.images:
            self._say(f"with {message.images}")

    def _write(self, event: on.AssistantMessage) -> None:
        self._fold()
        self._order.close()
        if event.message_id != self._message_id:
            self._end_text()
            self._message_id, self._answer = event.message_id, []
        self.tail += safe(event.token)
        self._answer.append(event.token)
        if event.aborted:
            self._discard()
        elif event.is_final:
            self._end_text()
        elif (length := complete_length(self.tail)) > 0:
            self.screen.show(cards.answer(self.tail[:length]))
            self.tail, self._printed = self.tail[length:], True

    @property
    def answer_text(self) -> str:
        """The last answer, as the model has written it."""
        return "".join(self._answer)

    def recall(self, answer: str) -> None:
        """The last answer of a conversation that goes on."""
        self._answer = [answer]

    def _discard(self) -> None:
        self.tail, self._answer = "", []
        if self._printed:
            self._say("The answer above was cut off; another one follows.", "warning")
        self._printed = False

    def _end_text(self) -> None:
        self._fold()
        if self.tail.strip():
            self.screen.show(cards.answer(self.tail))
        self.tail, self._printed = "", False

    def _end_turn(self, event: on.TurnEnd) -> None:
        self._has_turn = False
        self._end_text()
        self.usage = event.usage
        self.context_used = event.frame.get("context_used")
        self.turns += 1
        for name in ("prompt_tokens", "completion_tokens"):
            if isinstance(event.usage.get(name), int):
                self.tokens[name] += event.usage[name]
        if isinstance(cost := event.usage.get("cost_usd"), int | float):
            self.cost_usd = (self.cost_usd or 0.0) + cost
        self._order.close()
        self._own.end_turn()
        for call in [call for call in self.approvals if call.turn_id == event.turn_id]:
            self._forget(call.call_id)
        self._arguments.clear()
        self._elsewhere.clear()
        self.start(self.executor.end_turn())
        if self.hooks is not None:
            self.start(self.hooks.end_turn(event.reason))
        if event.reason != "completed":
            self._say(f"The turn ended: {safe_line(event.reason).replace('_', ' ')}", "warning")

    def _settled(self, event: on.CallUpdate) -> None:
        """Show what became of a call that this client has neither executed nor decided about."""
        tool = self._elsewhere.pop(event.call_id, None)
        self.repeated_commands.forget(event.call_id)
        if event.arguments:
            self._arguments[event.call_id] = event.arguments
        if tool is not None and event.outcome is not None:
            self._end_call(event.call_id, tool, event.outcome)
        approval = next((call for call in self.approvals if call.call_id == event.call_id), None)
        if approval is not None and event.state in ("rejected", "expired"):
            self._say_settled(event.state, approval, event.feedback)
        if event.call_id not in self.running:
            self._order.settle(event.call_id)
        self._forget(event.call_id)

    def _say_settled(self, state: str, call: on.ToolCall, feedback: str | None) -> None:
        reason = f": {safe_line(feedback)}" if feedback else ""
        self._say(f"{state} {self.summary(call)}{reason}")

    def _say(self, text: str, style: str = "quiet") -> None:
        self.screen.show(cards.notice(text, style))

    def show_report(self, report: "Report") -> None:
        """Show what an undo or a rewind does, or has done: every path in one line, whole."""
        self._say(safe_line(report.gist), "")
        for files in report.lists:
            title = f"{files.title}:\n" if files.title else ""
            self._say(title + "\n".join(f"  {exact_line(path)}" for path in files.paths), "warning" if title else "")
        if report.hint:
            self._say(report.hint, "warning")

    def warn(self, text: str) -> None:
        """Tell the user that something is not as it should be."""
        self._say(text, "warning")

    # -- approvals -----------------------------------------------------------------------------------------------

    def _ask(self, call: on.ToolCall) -> None:
        self.repeated_commands.forget(call.call_id)
        self.approvals.append(call)
        if len(self.approvals) == 1 and not self.questions:
            self._show_next()

    def _running_calls(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        return {call_id: (running.tool, running.arguments) for call_id, running in self.running.items()}

    async def _run_again(self, call: on.ToolCall) -> None:
        """Approve a command that the user has allowed for the session; ask about it if it may do something else now."""
        if why := await self.repeated_commands.approve(call):
            self._say(why, "warning")
            self._ask(call)

    async def _allow(self, call: on.ToolCall) -> None:
        """Approve a command, from now on in this session."""
        if not await self.allowed_commands.allow(call):
            self._say("It is approved this once: there is too much here to see when it changes", "warning")
        await self.session.approve(call.call_id, tool=call.tool_name, arguments=call.arguments)

    def _show_next(self) -> None:
        """Show the question that a key or a line answers now: the first of a tool's, else the first call."""
        self.folded = None
        if self.questions:
            self.questions[0].show()
        elif self.approvals:
            call = self.approvals[0]
            with self.executor.showing(call):
                maker = self.subagents.prefix(call.call_id)
                card = cards.asked_call(call.tool_name, call.arguments, self.workspace, maker)
                self.folded = card if isinstance(card, cards.Folded) else None
                self.screen.show(card)
            if isinstance(call, on.CallDecidedElsewhere):
                self._say(origin(call), "warning")
        self.look_again()

    def look_again(self) -> None:
        """What is asked is on the screen only from now on: what was typed before decides nothing."""
        if self.questions:
            self.questions[0].asked_at = time.monotonic()
        else:
            self.asked_at = time.monotonic()

    def unfold(self) -> bool:
        """Print the whole of the call that is asked about, and ask anew. Returns False if all of it has been shown."""
        if self.folded is None:
            return False
        self.screen.show(self.folded.whole)
        self.folded, self.asked_at = None, time.monotonic()
        return True

    def _forget(self, call_id: str) -> None:
        """The call needs no decision any more."""
        was_first = bool(self.approvals) and self.approvals[0].call_id == call_id
        self.approvals = deque(call for call in self.approvals if call.call_id != call_id)
        if was_first and not self.questions:
            self._show_next()

    def approve(
        self, call_id: str, scope: Literal["session", "user", "folder"] | None = None, *, mode: str | None = None
    ) -> None:
        """Approve a call; with a scope, also similar ones from then on.

        `folder`: whatever was approved elsewhere, in this folder. mode: of a carried out plan; None: as before.
        """
        if (call := self._decided(call_id)) is None:
            return
        if call.arguments is None:
            self.start(self.session.reject(call_id, "The client could not show the call"))
        elif scope == "session" and self.allowed_commands.offers(call):
            self.start(self._allow(call))
        else:
            if scope == "folder":
                self.session.elsewhere.allow()
            session_scope = None if scope == "folder" else scope
            tool, arguments = call.tool_name, call.arguments
            self.start(
                self.session.approve(
                    call_id, tool=tool, arguments=arguments, remember=session_scope, mode=mode or self._plan_mode(call)
                )
            )

    def show_together(self) -> list[on.ToolCall]:
        """Print all of the calls that may be approved together, and ask anew. Returns them."""
        calls = together(self.approvals)
        self.unfold()
        for call in calls[1:]:
            with self.executor.showing(call):
                maker = self.subagents.prefix(call.call_id)
                self.screen.show(cards.call(call.tool_name, call.arguments or {}, self.workspace, maker))
        self.asked_at = time.monotonic()
        return calls

    def approve_together(self, calls: Sequence[on.ToolCall]) -> None:
        """Approve the calls that were shown, without those that were settled meanwhile."""
        waiting = [call for call in self.approvals if any(call is shown for shown in calls)]
        self.approvals = deque(call for call in self.approvals if call not in waiting)
        for call in waiting:
            self.start(self.session.approve(call.call_id, tool=call.tool_name, arguments=call.arguments))
        if not self.questions:
            self._show_next()

    def edit(self, call_id: str, arguments: Mapping[str, Any]) -> None:
        """Approve a call with other arguments."""
        if (call := self._decided(call_id)) is not None:
            self.executor.note_edit(call, arguments)
            self.start(self.session.edit(call_id, arguments, mode=self._plan_mode(call)))

    def reject(self, call_id: str, feedback: str) -> None:
        """Reject a call."""
        if (call := self._decided(call_id)) is not None:
            self._say_settled("rejected", call, feedback)
            self.start(self.session.reject(call_id, feedback))

    def _plan_mode(self, call: on.ToolCall) -> str | None:
        """The mode in which a plan is carried out, as the user reads it in the question; None for any other call."""
        return self.session.acting_mode if call.is_plan else None

    def _decided(self, call_id: str) -> on.ToolCall | None:
        """The call that the user decides about, which needs no further decision; None if it was settled."""
        call = next((approval for approval in self.approvals if approval.call_id == call_id), None)
        if call is None:
            self._say("The call was settled in the meantime: nothing was decided.", "warning")
        else:
            self._forget(call_id)
        return call

    # -- questions of tools (codelab_client.tools.dialogue) ------------------------------------------------------

    async def choose(self, message: str, actions: Sequence[str]) -> str | None:
        """See Dialogue."""
        options = [f"  {number} {exact_line(action)}" for number, action in enumerate(actions, 1)]
        text = "\n".join([exact(message), *options])

        def parse(line: str) -> tuple[str | None, str | None]:
            if line.isdecimal() and 1 <= int(line) <= len(actions):
                return actions[int(line) - 1], None
            return (line, None) if line in actions else (None, f"a number from 1 to {len(actions)}")

        prompt = f"{_subject(message)}  Your choice, 1 to {len(actions)}, then Enter"
        choice: str | None = await self._question(lambda: self._say(text, "bold"), prompt, parse)
        return choice

    async def review(self, message: str, diff: str, chunks: int) -> Sequence[int] | None:
        """See Dialogue."""
        title = message or "Which chunks should be applied?"

        def show() -> None:
            self._say(exact(title), "bold")
            self.screen.show(cards.call("apply_patch_review", {"diff": diff}, self.workspace))

        def parse(line: str) -> tuple[list[int] | None, str | None]:
            if line in ("all", "y", "yes"):
                return list(range(1, chunks + 1)), None
            if line in ("none", "n", "no"):
                return [], None
            numbers = line.replace(",", " ").split()
            if numbers and all(number.isdecimal() and 1 <= int(number) <= chunks for number in numbers):
                return [int(number) for number in numbers], None
            return None, f"all, none, or numbers from 1 to {chunks}, such as 1,3"

        numbers: list[int] | None = await self._question(
            show, f"{_subject(title)}  Chunks to apply (all, none, or numbers from 1 to {chunks})", parse
        )
        return numbers

    async def confirm(self, tool: str, arguments: Mapping[str, Any], reason: str) -> bool:
        """See Dialogue."""

        def show() -> None:
            self._say(f"{safe(reason)}. This is what the call changes now:", "warning")
            self.screen.show(cards.call(tool, arguments, self.workspace))

        def parse(line: str) -> tuple[bool, str | None]:
            return line in ("y", "yes"), None if line in ("y", "yes", "n", "no") else "y or n"

        subject = " ".join(filter(None, (tool, str(arguments.get("path") or ""))))
        prompt = f"Make this change ({subject})?  y yes  n no"
        return bool(await self._question(show, prompt, parse, keys="yn"))

    async def _question(
        self,
        show: Callable[[], None],
        prompt: str,
        parse: Callable[[str], tuple[Any, str | None]],
        *,
        keys: str = "",
    ) -> Any:
        """Ask a question when those before it are answered, and not earlier: the text on the screen is its own."""
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answer(line: str) -> str | None:
            value, problem = parse(line.strip())
            if problem is None and keys and time.monotonic() - question.asked_at < _LOOK_S:
                problem = " or ".join(keys) + ", once more: the question has just been shown"
            if problem is None and not result.done():
                result.set_result(value)
            return problem

        def close() -> None:
            if not result.done():
                result.set_result(None)

        question = Question(show, prompt, answer, close, keys)
        self.questions.append(question)
        if len(self.questions) == 1:
            self._show_next()
        self.screen.changed()
        try:
            return await result
        finally:
            was_first = bool(self.questions) and self.questions[0] is question
            if question in self.questions:
                self.questions.remove(question)
            if was_first:
                self._show_next()
            self.screen.changed()

    # -- the user's side -----------------------------------------------------------------------------------------

    def say(self, text: str, form: str = "", *, typed_text: str | None = None, is_shown: bool = False) -> None:
        """Send a message of the user. It is printed when the agent gets it: at once if nothing is going on.

        form: stands for the text on the screen. typed_text: what of it the user has typed; None: all of it.
        is_shown: the user sees the line that was typed.
        """
        is_first = not (self.is_busy or self._has_turn or self.session.queued or self._own.is_any_open)
        message_id, message = self._own.add(
            text, form, text if typed_text is None else typed_text, self.local_commands.take_reports()
        )
        if is_first and is_shown:
            message.is_shown = True
        elif is_first:
            self._show_own(message)
        self.start(self._send(message_id, message))

    async def run_locally(self, command: str) -> None:
        """Run a command of the user. The agent reads its output with the next message."""
        if self.local_commands.is_running:
            self._say("Another command of yours runs: Esc stops it", "warning")
            return
        arguments = {"command": command}
        running = self.running[_LOCAL] = Running(_LOCAL, arguments, time.monotonic())

        def take(text: str) -> None:
            running.output = (running.output + text)[-_KEPT_CHARS:]
            self.screen.changed()

        outcome = await self.local_commands.run(command, take)
        self.running.pop(_LOCAL, None)
        self.screen.show(cards.finished(_LOCAL, arguments, outcome))

    async def next_mode(self) -> str:
        """Choose the next mode, after the last one the first. Returns its name."""
        mode = self.session.mode
        place = MODES.index(mode) if mode in MODES else MODES.index("code")
        await self.session.configure(mode=MODES[(place + 1) % len(MODES)])
        return safe_line(self.session.mode, 20)

    async def _send(self, message_id: str, message: OwnMessage) -> None:
        """Send a message. If it is refused, what is not on the screen goes back into the input."""
        try:
            async with self._images_lock:  # messages are sent in the order in which they were typed
                attachments = await self._images(message)
            await self.session.send(message.content, client_msg_id=message_id, attachments=attachments)
        except Exception:
            self._give_back(message_id)
            if not message.is_shown:
                self.screen.put(message.text)
            raise

    def _give_back(self, message_id: str) -> OwnMessage | None:
        """The agent does not get a message: what would have gone with it goes with the next one."""
        message = self._own.remove(message_id)
        if message is not None:
            self.local_commands.give_back(message.reports)
        return message

    async def _images(self, message: OwnMessage) -> list[dict[str, Any]]:
        """The images whose path is in a message, for a model that takes images. Raises ImageError."""
        from codelab_client.terminal import images

        info = self.session.info
        if info is None:
            return []
        attachments = await asyncio.to_thread(
            images.attached, message.text, self.workspace, info.limits, message.typed_text
        )
        if attachments and any(item.get("name") == self.model and item.get("images") is False for item in info.models):
            self._say(f"{safe_line(self.model)} takes no images: /model lists those that do", "warning")
            return []
        if attachments:
            message.images = ", ".join(item["name"] for item in attachments)
            if message.is_shown:
                self._say(f"with {message.images}")
        return attachments

    @property
    def waiting(self) -> int:
        """How many messages wait for the running turn."""
        return len(self.session.queued)

    async def take_back(self, number: int) -> str | None:
        """Take back a message that waits, by its place in the queue from 1. Returns its text; None if there is none."""
        ids = list(self.session.queued)
        if not 1 <= number <= len(ids):
            return None
        message_id = ids[number - 1]
        message, preview = self._own.get(message_id), self.session.queued[message_id]
        await self.session.withdraw(message_id)
        self._give_back(message_id)
        return preview if message is None else message.text

    def start(self, work: Any) -> None:
        """Run a coroutine beside the others; an error is shown."""
        task = asyncio.ensure_future(self._told(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Stop what was started, and wait for its end: what has the screen gives it back."""
        self.questions.clear()
        self.approvals.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _told(self, work: Any) -> None:
        try:
            await work
        except Refused as refusal:
            after = f" Try again in {refusal.retry_after} s." if refusal.retry_after else ""
            self._say(f"{refusal.code}: {refusal}{after}", "error")
        except Exception as error:
            self._say(str(error) or type(error).__name__, "error")
        self.screen.changed()

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self.session.status not in ("idle", "error")

    @property
    def is_working(self) -> bool:
        """Whether a turn is running, or will: its message is on its way, or the server's word of it."""
        return bool(self.is_busy or self.waiting or self._has_turn or self._own.is_any_open)

    def stop(self) -> None:
        """Stop the turn; without one, the messages that are on their way to the agent."""
        if self.is_busy or self.waiting or self._has_turn:
            self.start(self.session.cancel())
            return
        for message_id in self._own.open_ids:
            self.start(self.session.cancel(message_id))

    def live(self, columns: int = 80) -> list[str]:
        """The lines above the input: running calls with their newest output, the open text, and who else works."""
        lines = self.tail.splitlines()[-_LIVE_LINES:] if self.tail.strip() else []
        if self._is_thinking:
            lines.append(f"thinking: {safe_line(self.thoughts[-300:].rstrip().rpartition(chr(10))[2])}")
        if (draft := self.drafts.newest) is not None:
            lines += [f"  {line}" for line in exact(draft.tail).splitlines()[-_LIVE_LINES:]]
        for call_id, running in self.running.items():
            if self.subagents.maker(call_id) in self.subagents.working:
                continue
            seconds = time.monotonic() - running.start_time
            told = f"{self.subagents.prefix(call_id)}{cards.summary(running.tool, running.arguments)}"
            lines.append(f"◌ {told}  {seconds:.0f} s")
            lines += [f"  {line}" for line in safe(last_state(running.output[-4_000:])).splitlines()[-_LIVE_LINES:]]
        lines += [f"● {summary}" for summary in self._order.held]
        lines += [subagent_line(one, self._doing(one), columns) for one in self.subagents.working.values()]
        queued = self.session.queued
        previews = self._own.previews(queued)
        lines += [f"{number} waits: {safe_line(text)}" for number, text in enumerate(previews[:_QUEUE_LINES], 1)]
        lines += [f"is sent: {safe_line(text)}" for text in self._own.on_their_way(queued)]
        return lines

    def _doing(self, subagent: Subagent) -> str:
        """What a subagent does now: what it asks, its newest call, or what it has written."""
        asked = [call for call in self.approvals if self.subagents.maker(call.call_id) == subagent.call_id]
        if asked:
            return f"asks for {cards.summary(asked[0].tool_name, asked[0].arguments or {})}"
        calls = [call for call_id, call in self.running.items() if self.subagents.maker(call_id) == subagent.call_id]
        return cards.summary(calls[-1].tool, calls[-1].arguments) if calls else subagent.text


def _subject(text: str) -> str:
    """The beginning of what a question is about."""
    first_line = text.strip().partition("\n")[0]
    return first_line if len(first_line) <= _SUBJECT_CHARS else f"{first_line[:_SUBJECT_CHARS]}…"
