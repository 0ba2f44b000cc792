"""The executor: one call in, one outcome out."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client.execution import OnOutput, ToolCall, ToolOutcome
from codelab_client.sandbox import Sandbox, Unsandboxed
from codelab_client.tools import limits, surroundings
from codelab_client.tools.arguments import ALIASES, ARGUMENTS, checked
from codelab_client.tools.changes import FileChanges
from codelab_client.tools.commands import CommandRunner, Commands
from codelab_client.tools.dialogue import Dialogue
from codelab_client.tools.expectations import Expectations
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.git import Git
from codelab_client.tools.handlers import Arguments, Handler, simple
from codelab_client.tools.handlers.commands import command_handlers
from codelab_client.tools.handlers.files import file_handlers
from codelab_client.tools.handlers.git import git_handlers
from codelab_client.tools.handlers.questions import question_handlers
from codelab_client.tools.hooks import Hooks
from codelab_client.tools.instructions import project_instructions, with_those_of
from codelab_client.tools.last_state import last_state
from codelab_client.tools.paths import components, joined
from codelab_client.tools.processes import end_tasks, own_path, scrubbed
from codelab_client.tools.recording import running_call
from codelab_client.tools.ripgrep import Ripgrep
from codelab_client.tools.running_call import RunningCall, margin
from codelab_client.tools.search import Search
from codelab_client.tools.tree import Names
from codelab_client.tools.workspace import DiskWorkspace, Workspace

if TYPE_CHECKING:
    from codelab_client.tools.web import Web

_log = logging.getLogger(__name__)

#: A file that was not found is looked for elsewhere: so many places are told, after so many seconds at most.
_PLACES, _LOOKING_S = 3, 2.0
#: Seconds that a look through the whole workspace may take before the first message: a home directory has no end.
_WHOLE_S = 3.0
#: The tools that work in other folders, too: they only read files, and name them by `path`.
_READING = frozenset({"read_file", "list_files", "find_files", "search_in_project"})
#: Characters that a glob does not take as themselves.
_SPECIAL = frozenset("*?[]{}!\\")


@dataclass(frozen=True)
class Settings:
    """What the user decides for a workspace.

    network: whether commands have the network. readable: directories outside the workspace that commands may read, such
    as those of toolchains in the home directory. variables: names of environment variables that commands get besides
    the usual ones. changes_git: whether commands may change `.git`, and so what the user's next git executes.
    command_seconds: how long a command may run, even if the server waits longer. protects: the files of the workspace
    that commands cannot change.
    """

    network: bool = False
    readable: tuple[Path, ...] = ()
    variables: tuple[str, ...] = ()
    changes_git: bool = False
    command_seconds: float = 1800.0
    protects: Callable[[], Sequence[Path]] = tuple


class Executor:
    """Executes the calls of docs/tools.md in a workspace (see `execution.ToolExecutor`).

    dialogue: asks the user; without it, the two tools that ask are not supported. commands: runs commands, in place of
    the package's own in the sandbox. around: entered around every call that may change any file, for undo. environment:
    the client's; commands get a part of it. clock: seconds since the epoch. web: fetches pages; None: as usual.
    expectations: what the model knows and the user has seen; None: nothing yet. other_folders: those that
    calls can only read, by name (see `folders`).
    """

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox | None = None,
        settings: Settings | None = None,
        *,
        dialogue: Dialogue | None = None,
        commands: CommandRunner | None = None,
        around: Callable[[ToolCall], AbstractAsyncContextManager[None]] | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
        web: "Web | None" = None,
        expectations: Expectations | None = None,
        other_folders: Mapping[str, DiskWorkspace] | None = None,
    ) -> None:
        self._workspace = workspace
        self._settings = settings or Settings()
        self._dialogue = dialogue
        self._around = around
        self._clock = clock
        self._web = web
        self._running: dict[str, RunningCall] = {}
        self._expectations = expectations or Expectations()
        self._changes = FileChanges(
            workspace, self._expectations, dialogue, lambda call: self._running[call.call_id].asks()
        )
        self._commands: CommandRunner | None = commands
        self._git: Git | None = None
        # Of another's commands nothing is known, such as those in an editor's terminals.
        self._guarantees = (sandbox if sandbox is not None and commands is None else Unsandboxed()).guarantees
        self._search = Search(workspace, None, self._ignored)
        if workspace.root is not None:
            self._add_programs(workspace.root, sandbox or Unsandboxed(), environment)
        self._handlers = self._make_handlers()
        self._readers = {
            name: Executor(folder, sandbox, settings, environment=environment)
            for name, folder in (other_folders or {}).items()
        }

    def _add_programs(self, root: Path, sandbox: Sandbox, environment: Mapping[str, str]) -> None:
        workspace = self._workspace
        settings, path = self._settings, own_path(environment, root)
        variables = scrubbed(environment, settings.variables)
        self._commands = self._commands or Commands(
            root,
            sandbox,
            variables,
            network=settings.network,
            readable=settings.readable,
            changes_git=settings.changes_git,
            protects=settings.protects,
        )
        git, ripgrep = shutil.which("git", path=path), shutil.which("rg", path=path)
        hooks = Hooks(root, sandbox, variables, settings.readable, network=settings.network, dialogue=self._dialogue)
        self._git = Git(root, git, path, sandbox, environment, hooks)
        hides = isinstance(workspace, DiskWorkspace) and workspace.tree.has_private
        if ripgrep and sandbox.guarantees.writes_only_there and not hides:
            self._search = Search(workspace, Ripgrep(root, ripgrep, path, sandbox, self._git.excludes), self._ignored)

    def _make_handlers(self) -> dict[str, Handler]:
        """The handlers of all tools that this executor has what they need for."""
        handlers = {**file_handlers(self._workspace, self._search, self._changes, self._expectations)}
        handlers["fetch_url"] = simple(self._fetch_url)
        if self._dialogue is not None:
            handlers |= question_handlers(self._dialogue, self._workspace, self._expectations)
        if self._commands is not None:
            handlers |= command_handlers(self._commands, self._directory, self._settings.command_seconds)
        if self._git is not None:
            handlers |= git_handlers(self._git, self._changes.lock)
        return handlers

    @property
    def confines_commands(self) -> bool:
        """Whether a command, whatever it does, changes no more than the workspace without `.git`, and sends nothing."""
        holds, settings = self._guarantees, self._settings
        keeps_git = holds.protects_git and not settings.changes_git
        return holds.writes_only_there and holds.home_hidden and keeps_git and holds.no_network and not settings.network

    @property
    def has_processes(self) -> bool:
        """Whether something still runs that run_persistent has started, as far as is known of what runs commands."""
        return isinstance(self._commands, Commands) and self._commands.has_processes

    @property
    def tools_supported(self) -> Sequence[str]:
        """The names of the tools that this executor executes, in the order of docs/tools.md."""
        return [name for name in ARGUMENTS if name in self._handlers]

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """See ToolExecutor."""
        tool = ALIASES.get(call.tool_name, call.tool_name)
        try:
            if tool not in self.tools_supported:
                raise ToolFailure("TOOL_NOT_FOUND", f"This client does not have the tool {call.tool_name[:64]}")
            if call.requires_approval:
                raise ToolFailure("PERMISSION_DENIED", "The call still needs the user's approval")
            if call.call_id in self._running:
                raise ToolFailure("EXECUTION_FAILED", "The call is running already")
            arguments = checked(tool, call.arguments)
        except ToolFailure as failure:
            return ToolOutcome.failed(failure.code, failure.message)
        run = self._run_of(call, on_output)
        run.task = asyncio.create_task(self._perform(tool, arguments, run))
        self._running[call.call_id] = run
        try:
            return await self._outcome(run, run.task)
        finally:
            try:
                await end_tasks(run.task)
            finally:
                del self._running[call.call_id]

    async def cancel(self, call_id: str) -> None:
        """See ToolExecutor. A change of files that has begun is finished, and its call succeeds."""
        run = self._running.get(call_id)
        if run is not None and run.task is not None:
            run.task.cancel()
            await asyncio.wait({run.task})

    async def instructions(self) -> list[dict[str, str]]:
        """The project's instructions for agents (see `project_instructions`)."""
        files = await project_instructions(self._workspace, self._ignored, self._named)
        for name, reader in self._readers.items():
            with_those_of(name, await reader.instructions(), files)
        return files

    async def _named(self, name: str) -> Sequence[Names]:
        """The files with a name; empty if the search takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_WHOLE_S):
                return await self._search.paths_named(name)
        return ()

    async def environment(self) -> dict[str, str]:
        """Where calls run, as far as it stays the same (see docs/frames.md, `hello`)."""
        folders = {name: reader._workspace.root for name, reader in self._readers.items()}
        network = self._settings.network
        facts = surroundings.place(self._workspace.root, self._guarantees, network=network, other_folders=folders)
        paths = await self._paths()
        for name, reader in self._readers.items():
            paths += [f"{name}/{path}" for path in await reader._paths()]
        return facts | ({"tree": listing} if (listing := surroundings.tree(paths)) else {})

    async def _paths(self) -> list[str]:
        """The files that are found in time."""
        with suppress(ToolFailure, TimeoutError):
            async with asyncio.timeout(_WHOLE_S):
                result = await self._search.find_files({"path": ".", "glob": "**", "max_results": limits.ENTRIES})
            return [*result["files"]]
        return []

    async def situation(self) -> dict[str, str]:
        """How things stand there, as a message tells it (see docs/frames.md, `user_message`)."""
        git = self._git
        return await surroundings.situation(None if git is None else lambda: git.status((), in_folders=False))

    async def aclose(self) -> None:
        """See ToolExecutor."""
        await asyncio.gather(*map(self.cancel, list(self._running)))
        if self._commands is not None:
            await self._commands.aclose()

    # -- one call ----------------------------------------------------------------------------------------------------

    def _run_of(self, call: ToolCall, on_output: OnOutput) -> RunningCall:
        now = asyncio.get_running_loop().time()
        if call.deadline is None:
            return RunningCall(call, on_output, None, now, None)
        allowance = max(0.0, call.deadline / 1000 - self._clock())
        return RunningCall(call, on_output, allowance, now, now + allowance - margin(allowance))

    async def _outcome(self, run: RunningCall, task: "asyncio.Task[Any]") -> ToolOutcome:
        """Wait for a call's end, or end it at its deadline."""
        loop = asyncio.get_running_loop()
        is_late = False
        while not task.done() and not is_late:
            remaining = None if run.due is None else run.due - loop.time()
            is_late = remaining is not None and remaining <= 0
            if is_late:
                task.cancel()
            await asyncio.wait({task}, timeout=None if is_late else remaining)
        try:
            return ToolOutcome(task.result())
        except ToolFailure as failure:
            return ToolOutcome.failed(failure.code, failure.message)
        except asyncio.CancelledError:
            last_output = f" The last of its output so far:\n{last_state(run.last_output)}" if run.last_output else ""
            if is_late:
                return ToolOutcome.failed("TIMEOUT", f"The call was not done in time and was stopped.{last_output}")
            return ToolOutcome.failed("CANCELLED", f"The call was cancelled.{last_output}")
        except Exception as error:  # A mistake here must not end the session, but be seen.
            _log.exception("%s failed", run.call.tool_name)
            return ToolOutcome.failed("EXECUTION_FAILED", f"The client failed: {type(error).__name__}")

    async def _perform(self, tool: str, arguments: dict[str, Any], run: RunningCall) -> Any:
        running_call.set(run.call.own_call_id)  # in the task of this call only
        names = components(arguments.get("path", ".")) if self._readers and tool in _READING else ()
        if names and names[0] in self._readers:
            return await self._read_elsewhere(names[0], tool, {**arguments, "path": joined(names[1:])}, run)
        try:
            return await self._performed(tool, arguments, run)
        except ToolFailure as failure:
            path = arguments.get("path", arguments.get("from"))
            if failure.code != "FILE_NOT_FOUND" or not isinstance(path, str):
                raise
            raise ToolFailure(failure.code, failure.message + await self._places(path)) from None

    async def _read_elsewhere(self, name: str, tool: str, arguments: dict[str, Any], run: RunningCall) -> Any:
        """Read in another folder, and give the paths in the result as calls name them."""
        try:
            result = await self._readers[name]._performed(tool, arguments, run)
        except ToolFailure as failure:
            raise ToolFailure(failure.code, f"In {name}: {failure.message}") from None
        if tool == "find_files":
            return {**result, "files": [f"{name}/{path}" for path in result["files"]]}
        if tool == "search_in_project":
            return {**result, "matches": [{**match, "path": f"{name}/{match['path']}"} for match in result["matches"]]}
        return result

    async def _places(self, path: str) -> str:
        """Where files with the name of this one are, as the end of a message; empty if there are none or too many."""
        name = path.rpartition("/")[2]
        if not name or _SPECIAL.intersection(name):
            return ""
        with suppress(ToolFailure, TimeoutError):
            looking = self._search.find_files({"glob": name, "max_results": _PLACES})
            result = await asyncio.wait_for(looking, _LOOKING_S)
            if result["files"] and not result["truncated"]:
                return f". A path is relative to the workspace, which has: {', '.join(result['files'])}"
        return ""

    async def _performed(self, tool: str, arguments: dict[str, Any], run: RunningCall) -> Any:
        handler = self._handlers[tool]
        may_change = self._around is not None and handler.may_change(arguments)
        async with self._around(run.call) if self._around is not None and may_change else nullcontext():
            return await handler.execute(arguments, run)

    async def _ignored(self, paths: Sequence[str]) -> set[str]:
        return await self._git.ignored(paths) if self._git is not None else set()

    async def _fetch_url(self, arguments: Arguments) -> dict[str, Any]:
        from codelab_client.tools.web import Web  # seldom needed

        return await (self._web or Web()).fetch(arguments["url"])

    async def _directory(self, path: str) -> Path:
        """The path of a directory of the workspace, without links."""
        assert isinstance(self._workspace, DiskWorkspace)
        with self._workspace.tree.directory(components(path)) as (_, directory):
            return directory
