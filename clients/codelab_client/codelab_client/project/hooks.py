"""`.codelab/hooks.toml`: programs of a project that run before a call, after it, and at the end of a turn.

[[before_call]]
tool = "run_command"
command = ["python3", ".codelab/check.py"]

They run in the commands' sandbox, each once the user has trusted it with the content of the files that it runs. A hook
denies a call or adds words to its result; it allows nothing, and its words are data.
"""

import asyncio
import fnmatch
import hashlib
import json
import os
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from codelab_client.config import ConfigError, load
from codelab_client.execution import DeclaredTool, OnOutput, ToolCall, ToolOutcome
from codelab_client.mcp.config import McpConfigError, ServerConfig
from codelab_client.mcp.confinement import Confinement
from codelab_client.mcp.trust import Subject, Trust
from codelab_client.own_tools import WithOwnTools
from codelab_client.safe_text import exact_line, safe, shortened
from codelab_client.sandbox import Sandbox, choose
from codelab_client.tools.arguments import ALIASES
from codelab_client.tools.dialogue import Dialogue
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.last_state import last_state
from codelab_client.tools.processes import Process, scrubbed
from codelab_client.tools.tree import Tree

FILE = ".codelab/hooks.toml"
Event = Literal["before_call", "after_call", "end_of_turn"]
_EVENTS: tuple[Event, ...] = ("before_call", "after_call", "end_of_turn")
_KEYS = frozenset({"command", "tool", "timeout", "network", "writable"})
_MOST_BYTES, _MOST_HOOKS, _MOST_WORDS, _WORD_CHARS = 100_000, 20, 50, 1_000
#: Seconds that a hook may take, unless it says otherwise, and at most.
_TIMEOUT, _LONGEST_TIMEOUT = 10, 60
#: Characters of a hook's words that count.
_OUTPUT_CHARS = 10_000
#: Seconds between two signs of life, which keep a call open.
_BEAT_S = 5.0
_TRUST, _LATER, _NEVER = "run them, now and from now on", "not now", "never"


@dataclass(frozen=True)
class ProjectHook:
    """A hook. tool: of the calls, with `*`. program: what it runs, and what that may reach. timeout: seconds."""

    event: Event
    tool: str
    program: ServerConfig
    timeout: int

    @property
    def label(self) -> str:
        """The hook in a line, for people and the model."""
        tool = f" {exact_line(self.tool)}" if self.event != "end_of_turn" else ""
        return f"{self.event}{tool}: {shortened(self.program.described(), 200)}"


@dataclass(frozen=True)
class _Run:
    """What a hook did. problem: why it has no exit code."""

    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    problem: str = ""

    @property
    def words(self) -> str:
        """All that it says."""
        failure = self.problem or (f"exit code {self.exit_code}" if self.exit_code else "")
        return "\n".join(filter(None, (self.stdout.strip(), self.stderr.strip(), failure)))[:_OUTPUT_CHARS]


def hooks_of(workspace: Path) -> list[ProjectHook]:
    """The hooks of a workspace. Nothing is run. Raises ConfigError."""
    tree, names = Tree(workspace), tuple(FILE.split("/"))
    try:
        data = tree.read(names, _MOST_BYTES).data
        if tree.real(names) != names:
            raise ConfigError(f"{FILE} must not be a link, nor in a folder that is one")
        return list(_parsed(tomllib.loads(data.decode())))
    except ToolFailure as failure:
        if failure.code == "FILE_NOT_FOUND":
            return []
        raise ConfigError(f"{FILE}: {failure.message}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{FILE}: {error}") from None
    finally:
        tree.close()


class ProjectHooks:
    """The hooks of one conversation, as they were when it began.

    state: where the user's decisions are. say: tells the user something. around: entered around a hook that may change
    files, besides that of a turn's end.
    """

    def __init__(
        self,
        workspace: Path,
        state: Path,
        say: Callable[[str], None],
        around: Callable[[ToolCall], AbstractAsyncContextManager[None]] | None = None,
    ) -> None:
        self._root, self._trust, self._say, self._around = workspace.resolve(), Trust(state, workspace), say, around
        self._sandbox: Sandbox | None = None
        self._notices: set[str] = set()
        try:
            self.hooks: Sequence[ProjectHook] = hooks_of(workspace)
        except ConfigError as error:
            self.hooks = []
            say(f"No hooks run: {error}")

    async def start(self, dialogue: Dialogue | None, *, again: bool = False) -> None:
        """Ask the user about the hooks that they have not decided about; again: also those that never run.

        Without a dialogue, they are only told.
        """
        subjects = await self.subjects()
        asks_about = (None, "denied") if again else (None,)
        undecided_subjects = [subject for subject in subjects if self._trust.decision(subject) in asks_about]
        if not undecided_subjects:
            return
        if dialogue is None:
            self._say(f"{FILE} names programs that you have not trusted, so they do not run: /hooks shows them")
            return
        choice = await dialogue.choose(await self.question(undecided_subjects), (_TRUST, _LATER, _NEVER))
        if choice == _TRUST:
            await self.trust(undecided_subjects)
        elif choice == _NEVER:
            for subject in undecided_subjects:
                self._trust.decide(subject, "denied")

    async def subjects(self) -> list[Subject]:
        """What the hooks run, as it is now."""
        return [await asyncio.to_thread(self._trust.subject, hook.program) for hook in self.hooks]

    async def trust(self, subjects: Sequence[Subject]) -> bool:
        """The user trusts these programs, all as they were shown. Returns False if one is another by now."""
        now = await self.subjects()
        if not all(subject in now for subject in subjects):
            self._say(f"What {FILE} runs has changed meanwhile: nothing of it is trusted")
            return False
        for subject in subjects:
            self._trust.decide(subject, "trusted")
        return True

    async def question(self, subjects: Sequence[Subject]) -> str:
        """What the user decides about."""
        lines = [f"{FILE} of this workspace wants to run these programs:"]
        for hook in self.hooks:
            for subject in subjects:
                if subject.server == hook.program:
                    occasion = hook.event if hook.event == "end_of_turn" else f"{hook.event} {exact_line(hook.tool)}"
                    lines += [f"{occasion}  {hook.program.described()}"]
                    lines += [f"  runs {exact_line(name)}, as it is now" for name in subject.files.listed()]
                    lines += [f"  {(await self._confinement(hook)).described()}"]
        return "\n".join(lines)

    async def listed(self) -> list[str]:
        """A line for each hook, with what the user has decided."""
        states = [self._trust.decision(subject) or "not trusted" for subject in await self.subjects()]
        return [f"{hook.label}  ({state})" for hook, state in zip(self.hooks, states, strict=True)]

    async def before(self, call: ToolCall) -> str:
        """Run the hooks before a call. Returns why one of them denies it; empty if none does."""
        for hook in self._for("before_call", call.tool_name):
            run = await self._run(hook, _description(hook, call), call)
            if run is not None and (reason := _denial(run)) is not None:
                return f"The project's hook ({hook.label}) denies this call: {safe(reason)}"
        return ""

    async def after(self, call: ToolCall, outcome: ToolOutcome) -> ToolOutcome:
        """Run the hooks after a call. Returns the outcome, with what they say."""
        notes: list[dict[str, str]] = []
        for hook in self._for("after_call", call.tool_name):
            run = await self._run(hook, {**_description(hook, call), **outcome.fields()}, call)
            if run is not None and run.words:
                notes.append({"hook": hook.label, "output": safe(run.words)})
        if not notes:
            return outcome
        if outcome.error is not None:
            texts = "\n".join(f"[{note['hook']}]\n{note['output']}" for note in notes)
            return replace(outcome, error=replace(outcome.error, message=f"{outcome.error.message}\n{texts}"))
        result = outcome.result if isinstance(outcome.result, dict) else {"result": outcome.result}
        return ToolOutcome({**result, "hooks": notes})

    async def end_turn(self, reason: str) -> None:
        """Run the hooks at the end of a turn, and tell the user what they say."""
        for hook in self._for("end_of_turn", ""):
            run = await self._run(hook, {"event": hook.event, "reason": reason}, None)
            if run is not None and run.words:
                self._say(f"{hook.label}\n{safe(run.words)}")

    def _for(self, event: Event, tool: str) -> list[ProjectHook]:
        name = ALIASES.get(tool, tool)
        return [
            hook
            for hook in self.hooks
            if hook.event == event
            and (event == "end_of_turn" or fnmatch.fnmatchcase(name, ALIASES.get(hook.tool, hook.tool)))
        ]

    async def _run(self, hook: ProjectHook, description: Mapping[str, Any], call: ToolCall | None) -> _Run | None:
        """Run a hook; None if it is not to run: nobody has trusted it as it is, or there is no sandbox."""
        try:
            async with asyncio.timeout(hook.timeout):  # the files may be on a mount that does not answer
                subject = await asyncio.to_thread(self._trust.subject, hook.program)
        except TimeoutError:
            self._say_once(f"The hook ({hook.label}) does not run: what it runs cannot be read in time")
            return None
        if (decision := self._trust.decision(subject)) == "denied":
            return None
        if decision is None:
            reason = "it is not what you trusted any more" if self._trust.knows(hook.program) else "it is not trusted"
            self._say_once(f"The hook ({hook.label}) does not run: {reason}. /hooks shows it")
            return None
        confinement = await self._confinement(hook)
        if not confinement.sandbox.guarantees.writes_only_there:
            self._say_once("No hooks run: there is no sandbox here that holds them")
            return None
        around = self._around if hook.program.writable else None
        async with around(call) if around is not None and call is not None else nullcontext():
            return await _ended(confinement, json.dumps(description).encode(), hook.timeout)

    async def _confinement(self, hook: ProjectHook) -> Confinement:
        if self._sandbox is None:
            self._sandbox = (await asyncio.to_thread(choose)).sandbox
        return Confinement(hook.program, self._root, self._sandbox, load(self._root).sandbox)

    def _say_once(self, text: str) -> None:
        if text not in self._notices:
            self._notices.add(text)
            self._say(text)


class WithHooks:
    """A `ToolExecutor` that runs hooks around the calls of another one."""

    def __init__(self, executor: WithOwnTools, hooks: ProjectHooks) -> None:
        self._executor, self._hooks = executor, hooks
        self._running: dict[str, asyncio.Future[Any]] = {}

    @property
    def tools_supported(self) -> Sequence[str]:
        """See ToolExecutor."""
        return self._executor.tools_supported

    @property
    def declared_tools(self) -> Sequence[DeclaredTool]:
        """See DeclaresTools."""
        return self._executor.declared_tools

    @property
    def offered_tools(self) -> Sequence[DeclaredTool]:
        """See OffersMoreTools."""
        return self._executor.offered_tools

    @property
    def declare(self) -> Callable[[], Awaitable[Mapping[str, str]]] | None:
        """See OffersMoreTools."""
        return self._executor.declare

    @declare.setter
    def declare(self, declare: Callable[[], Awaitable[Mapping[str, str]]] | None) -> None:
        self._executor.declare = declare

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """See ToolExecutor."""
        if not self._hooks.hooks:
            return await self._executor.execute(call, on_output)
        reason = await self._unless_cancelled(call, self._hooks.before(call), on_output)
        if reason is None:
            return ToolOutcome.failed("CANCELLED", "The call was cancelled before it began")
        if reason:
            return ToolOutcome.failed("PERMISSION_DENIED", reason)
        outcome = await self._executor.execute(call, on_output)
        with_words = await self._unless_cancelled(call, self._hooks.after(call, outcome), on_output)
        return outcome if with_words is None else with_words

    async def cancel(self, call_id: str) -> None:
        """See ToolExecutor."""
        if (work := self._running.get(call_id)) is not None:
            work.cancel()
            await asyncio.wait({work})
        else:
            await self._executor.cancel(call_id)

    async def aclose(self) -> None:
        """See ToolExecutor."""
        await asyncio.gather(*map(self.cancel, list(self._running)))
        await self._executor.aclose()

    async def _unless_cancelled(self, call: ToolCall, work: Any, on_output: OnOutput) -> Any:
        """The result of the work of hooks; None if the call was cancelled meanwhile."""
        task = self._running[call.call_id] = asyncio.ensure_future(work)
        try:
            async with _beating(on_output):
                await asyncio.wait({task})
        finally:
            task.cancel()
            await asyncio.wait({task})
            del self._running[call.call_id]
        return None if task.cancelled() else task.result()


@asynccontextmanager
async def _beating(on_output: OnOutput) -> AsyncIterator[None]:
    async def beat() -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            await on_output("stdout", "")

    task = asyncio.ensure_future(beat())
    try:
        yield
    finally:
        task.cancel()


async def _ended(confinement: Confinement, stdin: bytes, timeout: float) -> _Run:
    try:
        launch = await asyncio.to_thread(confinement.launch)
        process = await Process.start(launch, scrubbed(os.environ, confinement.allowed.variables), stdin)
    except (OSError, ValueError, McpConfigError) as error:
        return _Run(None, problem=f"it does not start: {error}")
    try:
        async with asyncio.timeout(timeout):
            end = await process.wait()
    except TimeoutError:
        return _Run(None, problem=f"it was not done in {timeout:.0f} s, and was stopped")
    stdout, stderr = (last_state(output.text())[:_OUTPUT_CHARS] for output in (process.stdout, process.stderr))
    return _Run(end.exit_code, stdout, stderr, "" if end.signal is None else f"it was ended by {end.signal}")


def _denial(run: _Run) -> str | None:
    """Why a hook denies a call; None if it does not. A check that could not be made has not been passed."""
    if run.exit_code != 0:
        return run.stderr.strip() if run.exit_code == 2 and run.stderr.strip() else run.words
    try:
        answer = json.loads(run.stdout)
    except (ValueError, RecursionError):
        return None
    if isinstance(answer, dict) and answer.get("decision") == "deny":
        return str(answer.get("reason") or "it gives no reason")[:_OUTPUT_CHARS]
    return None


def _description(hook: ProjectHook, call: ToolCall) -> dict[str, Any]:
    """A call as a hook reads it."""
    fields = {"call_id": call.call_id, "tool_name": call.tool_name, "arguments": dict(call.arguments)}
    return {"event": hook.event, **fields}


def _parsed(content: Mapping[str, Any]) -> Iterator[ProjectHook]:
    """The hooks of the file. Raises ValueError."""
    count = 0
    for event in content:
        if event not in _EVENTS:
            raise ValueError(f"unknown key {event[:40]!r}; there are {', '.join(f'[[{name}]]' for name in _EVENTS)}")
    for event in _EVENTS:
        tables = content.get(event, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ValueError(f"`{event}` must be a list of tables: [[{event}]]")
        for table in tables:
            count += 1
            if count > _MOST_HOOKS:
                raise ValueError(f"more than {_MOST_HOOKS} hooks")
            yield _hook(event, count, table)


def _hook(event: Event, number: int, table: Mapping[str, Any]) -> ProjectHook:
    for name in table:
        if name not in _KEYS or (event == "end_of_turn" and name in ("tool", "writable")):
            raise ValueError(f"[[{event}]] has no {name[:40]!r}")
    command, tool, timeout = table.get("command"), table.get("tool", "*"), table.get("timeout", _TIMEOUT)
    if (
        not isinstance(command, list)
        or not 1 <= len(command) <= _MOST_WORDS
        or not all(isinstance(word, str) and len(word) <= _WORD_CHARS and "\0" not in word for word in command)
        or not command[0]
    ):
        raise ValueError(f"[[{event}]] needs a `command`: a list of texts, the program and its arguments")
    if not isinstance(tool, str) or not 1 <= len(tool) <= 200:
        raise ValueError(f"[[{event}]]: `tool` must be a tool's name, or a pattern with *")
    if type(timeout) is not int or not 1 <= timeout <= _LONGEST_TIMEOUT:
        raise ValueError(f"[[{event}]]: `timeout` must be 1 to {_LONGEST_TIMEOUT} seconds")
    flags = {name: table.get(name, False) for name in ("network", "writable")}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise ValueError(f"[[{event}]]: `network` and `writable` must be true or false")
    # A part of its name, so that the same program for other calls is another one.
    place = hashlib.sha256(json.dumps([event, tool]).encode()).hexdigest()[:8]
    program = ServerConfig(f"{FILE} {number} {place}", command[0], tuple(command[1:]), sandboxed=True, **flags)
    return ProjectHook(event, tool, program, timeout)
