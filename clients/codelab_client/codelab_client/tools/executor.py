"""The executor: one call in, one outcome out."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client.execution import OnOutput, Stream, ToolCall, ToolOutcome
from codelab_client.sandbox import Sandbox, Unsandboxed
from codelab_client.tools import edits, limits, patches
from codelab_client.tools.arguments import ALIASES, ARGUMENTS, checked
from codelab_client.tools.commands import CommandRunner, Commands
from codelab_client.tools.dialogue import Dialogue
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.git import Git
from codelab_client.tools.hooks import Hooks
from codelab_client.tools.instructions import project_instructions
from codelab_client.tools.paths import components, joined
from codelab_client.tools.processes import own_path, scrubbed
from codelab_client.tools.ripgrep import Ripgrep
from codelab_client.tools.search import Search
from codelab_client.tools.tree import Change, Names
from codelab_client.tools.workspace import DiskWorkspace, Workspace

if TYPE_CHECKING:
    from codelab_client.tools.web import Web

_log = logging.getLogger(__name__)

_COMMANDS = ("run_command", "run_persistent", "read_process", "kill_process")
_DIALOGUE = ("apply_patch_review", "prompt_user")
#: Seconds before a deadline at which a call ends, so that its outcome arrives in time: this share, at most so many.
_MARGIN, _MOST_MARGIN = 0.1, 2.0


@dataclass(frozen=True)
class Settings:
    """What the user decides for a workspace.

    network: whether commands have the network. readable: directories outside the workspace that commands may read, such
    as those of toolchains in the home directory. variables: names of environment variables that commands get besides
    the usual ones. changes_git: whether commands may change `.git`, and so what the user's next git executes.
    command_seconds: how long a command may run, even if the server waits longer.
    """

    network: bool = False
    readable: tuple[Path, ...] = ()
    variables: tuple[str, ...] = ()
    changes_git: bool = False
    command_seconds: float = 1800.0


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


class Executor:
    """Executes the calls of docs/tools.md in a workspace (see `execution.ToolExecutor`).

    dialogue: asks the user; without it, the two tools that ask are not supported. commands: runs commands, in place of
    the package's own in the sandbox. before_command: awaited before every command, for a checkpoint. environment: the
    client's; commands get a part of it. clock: seconds since the epoch. web: fetches pages; None: as usual.
    """

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox | None = None,
        settings: Settings | None = None,
        *,
        dialogue: Dialogue | None = None,
        commands: CommandRunner | None = None,
        before_command: Callable[[ToolCall], Awaitable[None]] | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
        web: "Web | None" = None,
    ) -> None:
        self._workspace = workspace
        self._settings = settings or Settings()
        self._dialogue = dialogue
        self._before_command = before_command
        self._clock = clock
        self._web = web
        self._running: dict[str, _Run] = {}
        self._changing = asyncio.Lock()
        self._commands: CommandRunner | None = commands
        self._git: Git | None = None
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
        return await project_instructions(self._workspace, self._ignored, self._search.paths_named)

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
        method = getattr(self, f"_{tool.replace('.', '_')}")
        if tool in ("run_command", "run_persistent"):
            if self._before_command is not None:
                await self._before_command(run.call)
            return await method(given, run)
        return await method(given)

    # -- files -------------------------------------------------------------------------------------------------------

    async def _read_file(self, given: dict[str, Any]) -> dict[str, Any]:
        names = components(given["path"])
        is_part = "offset" in given or "limit" in given
        found = await self._workspace.read(names, limits.READ_BYTES if is_part else limits.FILE_BYTES)
        text = _decoded(found.data, names)
        total = text.count("\n") + (not text.endswith("\n") and bool(text))
        first = given.get("offset", 1)
        if is_part:
            if first > max(1, total):
                raise ToolFailure("INVALID_ARGUMENTS", f"offset: {joined(names)} has only {total} lines")
            text = _part(text, first, given.get("limit"))
            _encoded(text, "the part", limits.FILE_BYTES)
        modified = datetime.fromtimestamp(found.modified, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return {
            "content": text,
            "encoding": "utf-8",
            "size": len(found.data),
            "modified": modified,
            "first_line": first,
            "total_lines": total,
        }

    async def _edit_file(self, given: dict[str, Any]) -> dict[str, Any]:
        names = components(given["path"])
        wanted = [edits.Edit(one["old"], one["new"], one.get("replace_all", False)) for one in given["edits"]]
        async with self._changing:
            found = await self._workspace.read(names, limits.FILE_BYTES)
            text = _decoded(found.data, names)
            edited, count = await asyncio.to_thread(edits.apply, text, wanted, joined(names))
            data = _encoded(edited, joined(names), limits.FILE_BYTES)
            await self._workspace.apply([Change(names, data, expected=found.version)])
        return {"success": True, "replacements": count}

    async def _find_files(self, given: dict[str, Any]) -> dict[str, Any]:
        return await self._search.find_files(given)

    async def _write_file(self, given: dict[str, Any]) -> dict[str, Any]:
        names = components(given["path"])
        data = _encoded(given["content"], "content", limits.FILE_BYTES)
        async with self._changing:
            await self._workspace.apply([Change(names, data)])
        return {"success": True, "bytes_written": len(data)}

    async def _list_files(self, given: dict[str, Any]) -> dict[str, Any]:
        return await self._search.list_files(given)

    async def _search_in_project(self, given: dict[str, Any]) -> dict[str, Any]:
        return await self._search.search_in_project(given)

    async def _create_directory(self, given: dict[str, Any]) -> dict[str, Any]:
        async with self._changing:
            await self._workspace.make_directory(components(given["path"]))
        return {"success": True}

    async def _delete_file(self, given: dict[str, Any]) -> dict[str, Any]:
        async with self._changing:
            await self._workspace.delete(components(given["path"]))
        return {"success": True}

    async def _move_file(self, given: dict[str, Any]) -> dict[str, Any]:
        async with self._changing:
            await self._workspace.move(components(given["from"]), components(given["to"]))
        return {"success": True}

    async def _ignored(self, paths: Sequence[str]) -> set[str]:
        return await self._git.ignored(paths) if self._git is not None else set()

    # -- patches and questions ---------------------------------------------------------------------------------------

    async def _apply_patch(self, given: dict[str, Any]) -> dict[str, Any]:
        _encoded(given["diff"], "diff", limits.DIFF_BYTES)
        files = await asyncio.to_thread(patches.parse, given["diff"])
        async with self._changing:
            before = {names: await self._text(names) for file in files for names in (file.old, file.new) if names}
            after = await asyncio.to_thread(patches.apply, files, lambda names: before[names][0])
            changes = [
                Change(
                    names,
                    None if patched.text is None else patched.text.encode(errors="surrogateescape"),
                    patched.mode if patched.mode != before[names][0].mode else None,
                    before[names][1],
                )
                for names, patched in after.items()
                if patched != before[names][0]
            ]
            # What is removed comes first: a file may take the place of a directory that becomes empty, or the reverse.
            await self._workspace.apply(sorted(changes, key=lambda change: change.data is not None))
        return {"success": True, "files_modified": [joined(change.names) for change in changes]}

    async def _text(self, names: Names) -> tuple[patches.Patched, tuple[int, ...] | None]:
        """A file's text with what is not UTF-8 as surrogates, and its version; no text and None if there is none."""
        try:
            found = await self._workspace.read(names, limits.DIFF_BYTES)
        except ToolFailure as failure:
            if failure.code == "FILE_NOT_FOUND":
                return patches.Patched(None), None
            raise
        return patches.Patched(found.data.decode(errors="surrogateescape"), found.mode), found.version

    async def _apply_patch_review(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._dialogue is not None
        diff = given["diff"]
        _encoded(diff, "diff", limits.DIFF_BYTES)
        files = await asyncio.to_thread(patches.parse, diff)
        total = patches.chunks(files)
        chosen = await self._dialogue.review(given.get("message", ""), diff, total)
        kept = sorted({number for number in chosen or () if 1 <= number <= total})
        return {
            "action": "apply" if kept else "cancel",
            "filtered_diff": patches.only(files, kept),
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

    async def _git_commit(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._git is not None
        _encoded(given["message"], "message", limits.FILE_BYTES)
        await self._git.allowed_hooks()  # before files are locked, because the user may be asked
        async with self._changing:
            return await self._git.commit(given["message"], [components(path) for path in given.get("files", ())])


def _margin(allowance: float) -> float:
    return min(_MARGIN * allowance, _MOST_MARGIN)


def _decoded(data: bytes, names: Names) -> str:
    """The text of a file. Raises ToolFailure ENCODING_ERROR."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolFailure("ENCODING_ERROR", f"{joined(names)} is not UTF-8 text")
    return text


def _part(text: str, first: int, count: int | None) -> str:
    """Lines of a text with their ends, from line `first` on. Only \\n ends a line."""
    lines = text.split("\n")
    last = None if count is None else first - 1 + count
    part = "\n".join(lines[first - 1 : last])
    return part + "\n" if last is not None and last < len(lines) else part


def _encoded(text: str, name: str, most: int) -> bytes:
    """A text as UTF-8. Raises ToolFailure: ENCODING_ERROR or FILE_TOO_LARGE."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ToolFailure("ENCODING_ERROR", f"{name} cannot be encoded as UTF-8") from None
    if len(data) > most:
        raise ToolFailure("FILE_TOO_LARGE", f"{name} has {len(data)} bytes; at most {most} are allowed")
    return data
