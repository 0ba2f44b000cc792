"""The executor: one call in, one outcome out."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client.execution import OnOutput, Stream, ToolCall, ToolOutcome
from codelab_client.sandbox import Sandbox, Unsandboxed
from codelab_client.tools import fingerprints, limits, patches, surroundings
from codelab_client.tools.arguments import ALIASES, ARGUMENTS, checked
from codelab_client.tools.changes import FileChanges, encoded, text_of
from codelab_client.tools.commands import CommandRunner, Commands
from codelab_client.tools.dialogue import Dialogue
from codelab_client.tools.expectations import Expectations, view_of
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.git import Git
from codelab_client.tools.hooks import Hooks
from codelab_client.tools.instructions import project_instructions
from codelab_client.tools.paths import components, joined
from codelab_client.tools.processes import own_path, scrubbed
from codelab_client.tools.ripgrep import Ripgrep
from codelab_client.tools.search import Search
from codelab_client.tools.tree import Names
from codelab_client.tools.workspace import DiskWorkspace, Workspace

if TYPE_CHECKING:
    from codelab_client.tools.web import Web

_log = logging.getLogger(__name__)

_COMMANDS = ("run_command", "run_persistent", "read_process", "kill_process")
_DIALOGUE = ("apply_patch_review", "prompt_user")
#: The tools of `FileChanges`.
_CHANGING = ("write_file", "edit_file", "delete_file", "move_file", "apply_patch")
#: Seconds before a deadline at which a call ends, so that its outcome arrives in time: this share, at most so many.
_MARGIN, _MOST_MARGIN = 0.1, 2.0
#: Seconds between two signs of life of a call that waits for the user, at least and at most.
_LEAST_PAUSE, _PAUSE = 0.2, 30.0
#: A file that was not found is looked for elsewhere: so many places are told, after so many seconds at most.
_PLACES, _LOOKING_S = 3, 2.0
#: Seconds that a look through the whole workspace may take before the first message: a home directory has no end.
_WHOLE_S = 3.0
#: Characters that a glob does not take as themselves.
_SPECIAL = frozenset("*?[]{}!\\")
#: Tools whose method also takes the running call.
_TAKING_RUN = ("run_command", "run_persistent", "git.commit")


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


@dataclass
class _Run:
    """A running call. Times are of the event loop's clock, in seconds."""

    call: ToolCall
    on_output: OnOutput
    allowance: float | None
    begun: float
    due: float | None
    task: "asyncio.Task[Any] | None" = None
    written: str = field(default="", repr=False)

    async def show(self, stream: Stream, text: str) -> None:
        """Send a piece of output, which moves the deadline as it does at the server."""
        await self.on_output(stream, text)
        self.written = (self.written + text)[-limits.LAST_CHARS :]
        if self.allowance is not None and self.due is not None:
            now = asyncio.get_running_loop().time()
            latest = self.begun + limits.PROGRESS_SECONDS
            self.due = max(self.due, min(now + self.allowance, latest) - _margin(self.allowance))

    @asynccontextmanager
    async def asks(self) -> AsyncGenerator[None]:
        """Keep the call open while the user is asked: a person may take longer than its deadline."""
        waiting = asyncio.ensure_future(self._wait())
        try:
            yield
        finally:
            waiting.cancel()

    async def _wait(self) -> None:
        pause = _PAUSE if self.allowance is None else min(max(self.allowance / 2, _LEAST_PAUSE), _PAUSE)
        while True:
            await asyncio.sleep(pause)
            await self.show("stdout", "")


class Executor:
    """Executes the calls of docs/tools.md in a workspace (see `execution.ToolExecutor`).

    dialogue: asks the user; without it, the two tools that ask are not supported. commands: runs commands, in place of
    the package's own in the sandbox. around: entered around every call that may change any file, for undo. environment:
    the client's; commands get a part of it. clock: seconds since the epoch. web: fetches pages; None: as usual.
    expectations: what the model knows and the user has seen; None: nothing yet.
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
    ) -> None:
        self._workspace = workspace
        self._settings = settings or Settings()
        self._dialogue = dialogue
        self._around = around
        self._clock = clock
        self._web = web
        self._running: dict[str, _Run] = {}
        self._expectations = expectations or Expectations()
        self._changes = FileChanges(
            workspace, self._expectations, dialogue, lambda call: self._running[call.call_id].asks()
        )
        self._changing = self._changes.alone
        self._commands: CommandRunner | None = commands
        self._git: Git | None = None
        # Of another's commands nothing is known, such as those in an editor's terminals.
        self._guarantees = (sandbox if sandbox is not None and commands is None else Unsandboxed()).guarantees
        self._search = Search(workspace, None, self._ignored)
        if workspace.root is not None:
            self._add_programs(workspace.root, sandbox or Unsandboxed(), environment)

    def _add_programs(self, root: Path, sandbox: Sandbox, environment: Mapping[str, str]) -> None:
        workspace = self._workspace
        settings, path = self._settings, own_path(environment, root)
        inherited = scrubbed(environment, settings.variables)
        self._commands = self._commands or Commands(
            root,
            sandbox,
            inherited,
            network=settings.network,
            readable=settings.readable,
            changes_git=settings.changes_git,
            protects=settings.protects,
        )
        git, ripgrep = shutil.which("git", path=path), shutil.which("rg", path=path)
        hooks = Hooks(root, sandbox, inherited, settings.readable, network=settings.network, dialogue=self._dialogue)
        self._git = Git(root, git, path, sandbox, environment, hooks)
        hides = isinstance(workspace, DiskWorkspace) and workspace.tree.has_private
        if ripgrep and sandbox.guarantees.writes_only_there and not hides:
            self._search = Search(workspace, Ripgrep(root, ripgrep, path, sandbox, self._git.excludes), self._ignored)

    @property
    def tools_supported(self) -> Sequence[str]:
        """The names of the tools that this executor executes, in the order of docs/tools.md."""
        return [
            name
            for name in ARGUMENTS
            if (self._commands is not None or not name.startswith((*_COMMANDS, "git.")))
            and (self._dialogue is not None or name not in _DIALOGUE)
        ]

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
            run.task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await run.task
            del self._running[call.call_id]

    async def cancel(self, call_id: str) -> None:
        """See ToolExecutor. A change of files that has begun is finished, and its call succeeds."""
        run = self._running.get(call_id)
        if run is not None and run.task is not None:
            run.task.cancel()
            await asyncio.wait({run.task})

    async def instructions(self) -> list[dict[str, str]]:
        """The project's instructions for agents (see `project_instructions`)."""
        return await project_instructions(self._workspace, self._ignored, self._named)

    async def _named(self, name: str) -> Sequence[Names]:
        """The files with a name, none if there is no end of looking for them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_WHOLE_S):
                return await self._search.paths_named(name)
        return ()

    async def environment(self) -> dict[str, str]:
        """Where calls run, as far as it stays the same (see docs/frames.md, `hello`)."""
        told = surroundings.place(self._workspace.root, self._guarantees, network=self._settings.network)
        with suppress(ToolFailure, TimeoutError):
            async with asyncio.timeout(_WHOLE_S):
                found = await self._search.find_files({"path": ".", "glob": "**", "max_results": limits.ENTRIES})
            told |= {"tree": shown} if (shown := surroundings.tree(found["files"])) else {}
        return told

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

    def _run_of(self, call: ToolCall, on_output: OnOutput) -> _Run:
        now = asyncio.get_running_loop().time()
        if call.deadline is None:
            return _Run(call, on_output, None, now, None)
        allowance = max(0.0, call.deadline / 1000 - self._clock())
        return _Run(call, on_output, allowance, now, now + allowance - _margin(allowance))

    async def _outcome(self, run: _Run, task: "asyncio.Task[Any]") -> ToolOutcome:
        """Wait for a call's end, or end it at its deadline."""
        loop = asyncio.get_running_loop()
        is_late = False
        while not task.done() and not is_late:
            left = None if run.due is None else run.due - loop.time()
            is_late = left is not None and left <= 0
            if is_late:
                task.cancel()
            await asyncio.wait({task}, timeout=None if is_late else left)
        try:
            return ToolOutcome(task.result())
        except ToolFailure as failure:
            return ToolOutcome.failed(failure.code, failure.message)
        except asyncio.CancelledError:
            said = f" The last of its output so far:\n{run.written}" if run.written else ""
            if is_late:
                return ToolOutcome.failed("TIMEOUT", f"The call was not done in time and was stopped.{said}")
            return ToolOutcome.failed("CANCELLED", f"The call was cancelled.{said}")
        except Exception as error:  # A mistake here must not end the session, but be seen.
            _log.exception("%s failed", run.call.tool_name)
            return ToolOutcome.failed("EXECUTION_FAILED", f"The client failed: {type(error).__name__}")

    async def _perform(self, tool: str, given: dict[str, Any], run: _Run) -> Any:
        try:
            return await self._performed(tool, given, run)
        except ToolFailure as failure:
            named = given.get("path", given.get("from"))
            if failure.code != "FILE_NOT_FOUND" or not isinstance(named, str):
                raise
            raise ToolFailure(failure.code, failure.message + await self._places(named)) from None

    async def _places(self, path: str) -> str:
        """Where files with the name of this one are, as the end of a message; empty if there are none or too many."""
        name = path.rpartition("/")[2]
        if not name or _SPECIAL.intersection(name):
            return ""
        with suppress(ToolFailure, TimeoutError):
            looking = self._search.find_files({"glob": name, "max_results": _PLACES})
            found = await asyncio.wait_for(looking, _LOOKING_S)
            if found["files"] and not found["truncated"]:
                return f". A path is relative to the workspace, which has: {', '.join(found['files'])}"
        return ""

    async def _performed(self, tool: str, given: dict[str, Any], run: _Run) -> Any:
        if tool in _CHANGING:
            return await getattr(self._changes, tool)(given, replace(run.call, tool_name=tool))
        method = getattr(self, f"_{tool.replace('.', '_')}")
        runs = tool in ("run_command", "run_persistent")
        changes = runs or (tool == "git.branch" and given["action"] == "switch")
        async with self._around(run.call) if changes and self._around is not None else nullcontext():
            return await (method(given, run) if tool in _TAKING_RUN else method(given))

    # -- files -------------------------------------------------------------------------------------------------------

    async def _read_file(self, given: dict[str, Any]) -> dict[str, Any]:
        names = components(given["path"])
        is_part = "offset" in given or "limit" in given
        found = await self._workspace.read(names, limits.READ_BYTES if is_part else limits.FILE_BYTES)
        self._expectations.note_read(names, await asyncio.to_thread(fingerprints.of_data, found.data))
        coded = await asyncio.to_thread(text_of, found.data, names)
        text = coded.text
        total = text.count("\n") + (not text.endswith("\n") and bool(text))
        first = given.get("offset", 1)
        is_beyond = first > max(1, total)
        if is_part:
            text = "" if is_beyond else _part(text, first, given.get("limit"))
        encoded(text, "the part" if is_part else joined(names), limits.FILE_BYTES)
        modified = datetime.fromtimestamp(found.modified, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return {
            "content": text,
            "encoding": coded.encoding,
            "size": len(found.data),
            "modified": modified,
            **({"message": f"{joined(names)} has only {total} lines"} if is_beyond else {"first_line": first}),
            "total_lines": total,
        }

    async def _find_files(self, given: dict[str, Any]) -> dict[str, Any]:
        return await self._search.find_files(given)

    async def _list_files(self, given: dict[str, Any]) -> dict[str, Any]:
        return await self._search.list_files(given)

    async def _search_in_project(self, given: dict[str, Any]) -> dict[str, Any]:
        return await self._search.search_in_project(given)

    async def _create_directory(self, given: dict[str, Any]) -> dict[str, Any]:
        async with self._changing:
            await self._workspace.make_directory(components(given["path"]))
        return {"success": True}

    async def _ignored(self, paths: Sequence[str]) -> set[str]:
        return await self._git.ignored(paths) if self._git is not None else set()

    # -- patches and questions ---------------------------------------------------------------------------------------

    async def _apply_patch_review(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._dialogue is not None
        diff = given["diff"]
        encoded(diff, "diff", limits.DIFF_BYTES)
        files = await asyncio.to_thread(patches.parse, diff)
        total = patches.chunks(files)
        view = await view_of(self._workspace, "apply_patch", {"diff": diff})
        chosen = await self._dialogue.review(given.get("message", ""), diff, total)
        kept = sorted({number for number in chosen or () if 1 <= number <= total})
        filtered = patches.only(files, kept)
        self._expectations.note_review(filtered, view)
        return {
            "action": "apply" if kept else "cancel",
            "filtered_diff": filtered,
            "chunks_selected": kept,
            "chunks_total": total,
        }

    async def _prompt_user(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._dialogue is not None
        action = await self._dialogue.choose(given["message"], given["actions"])
        if action is None:
            raise ToolFailure("EXECUTION_FAILED", "The user closed the question")
        return {"action": action}

    async def _fetch_url(self, given: dict[str, Any]) -> dict[str, Any]:
        from codelab_client.tools.web import Web  # seldom needed

        return await (self._web or Web()).fetch(given["url"])

    # -- commands and git --------------------------------------------------------------------------------------------

    async def _run_command(self, given: dict[str, Any], run: _Run) -> dict[str, Any]:
        assert self._commands is not None
        cwd = await self._directory(given.get("cwd", "."))
        beat = run.allowance / 2 if run.allowance else None
        running = self._commands.run(given["command"], cwd, run.show, beat)
        try:
            return await asyncio.wait_for(running, self._settings.command_seconds)
        except TimeoutError:
            why = f"The command ran longer than {self._settings.command_seconds:g} seconds and was stopped"
            raise ToolFailure("TIMEOUT", why) from None

    async def _run_persistent(self, given: dict[str, Any], run: _Run) -> dict[str, Any]:
        assert self._commands is not None
        cwd = await self._directory(given.get("cwd", "."))
        return await self._commands.start(given["command"], given["process_id"], cwd)

    async def _read_process(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._commands is not None
        return await self._commands.read(given["process_id"])

    async def _kill_process(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._commands is not None
        return await self._commands.kill(given["process_id"])

    async def _directory(self, path: str) -> Path:
        """The path of a directory of the workspace, without links."""
        assert isinstance(self._workspace, DiskWorkspace)
        with self._workspace.tree.directory(components(path)) as (_, found):
            return found

    async def _git_diff(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._git is not None
        return await self._git.diff(components(given["path"]), staged=given.get("staged", False))

    async def _git_status(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._git is not None
        return await self._git.status(components(given.get("path", ".")))

    async def _git_log(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._git is not None
        names = components(given["path"]) if "path" in given else None
        return await self._git.log(names, given.get("limit", 10))

    async def _git_branch(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._git is not None
        async with self._changing:
            return await self._git.branch(given["action"], given.get("name", ""))

    async def _git_commit(self, given: dict[str, Any], run: _Run) -> dict[str, Any]:
        assert self._git is not None
        encoded(given["message"], "message", limits.FILE_BYTES)
        async with run.asks():
            await self._git.allowed_hooks()  # before files are locked, because the user may be asked
        async with self._changing:
            return await self._git.commit(given["message"], [components(path) for path in given.get("files", ())])


def _margin(allowance: float) -> float:
    return min(_MARGIN * allowance, _MOST_MARGIN)


def _part(text: str, first: int, count: int | None) -> str:
    """Lines of a text with their ends, from line `first` on. Only \\n ends a line."""
    lines = text.split("\n")
    last = None if count is None else first - 1 + count
    part = "\n".join(lines[first - 1 : last])
    return part + "\n" if last is not None and last < len(lines) else part
