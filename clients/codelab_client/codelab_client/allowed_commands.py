"""Commands that the user has allowed for the session: in the sandbox, exactly the same one runs again unasked.

The client decides, because it alone sees the sandbox and the files. The server says which calls it may decide about
(`repeatable`), and gets an approval for each. What a command runs may be what the agent has just written: the sandbox
bounds what that can do, so without one that holds nothing is allowed. A command is asked about again when what it names
has become something else, or a protected file, which other programs obey.
"""

import asyncio
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client.mcp.config import ServerConfig
from codelab_client.mcp.named_files import Named, named_by
from codelab_client.protected import is_protected
from codelab_client.session.decisions import described, digest
from codelab_client.session.events import ToolCall
from codelab_client.tools.risks import normal_path, risk_of

if TYPE_CHECKING:
    from codelab_client.local_executor import LocalExecutor
    from codelab_client.session import Session

#: Words without a meaning in a shell, and the most characters of them: people must see what they allow.
_PLAIN = re.compile(r"[A-Za-z0-9_./:=@+,-]+(?: +[A-Za-z0-9_./:=@+,-]+)*")
_CHARS = 500
#: Entries of the workspace that are looked at; in a larger one nothing can be allowed.
_MOST_ENTRIES = 50_000
#: Packages that were installed: too many to look at. What a command itself names in them is looked at.
_PACKAGES = frozenset({"node_modules", ".venv", "venv"})
#: What git obeys in its folder. Commands cannot change it in the workspace's own, and users do so all the time.
_GIT = ("config", "config.worktree", "commondir", "hooks", "info")

Key = tuple[str, str]


def is_plain(command: Any, cwd: Any = None) -> bool:
    """Whether a command, and the folder it runs in, are plain words, so that people see what they allow."""
    texts = (command, cwd or ".")
    return all(isinstance(text, str) and len(text) <= _CHARS and _PLAIN.fullmatch(text) for text in texts)


class AllowedCommands:
    """The commands of one session.

    is_confined: whether a sandbox holds whatever a command does here. is_executor: whether calls run here, as far as
    this client can tell: its sandbox and its files say nothing of another's. must_ask: whether the project wants to be
    asked about a call each time.
    """

    def __init__(
        self,
        workspace: Path,
        is_confined: Callable[[], bool],
        is_executor: Callable[[], bool] = lambda: True,
        must_ask: Callable[[ToolCall], bool] = lambda _: False,
    ) -> None:
        self._root, self._is_confined, self._is_executor = workspace.resolve(), is_confined, is_executor
        self._must_ask = must_ask
        self._states: dict[Key, str] = {}  # what each depends on, as it was when the user allowed it

    def offers(self, call: ToolCall) -> bool:
        """Whether the user may allow a call's command. The server may be broken, so its word alone is not enough."""
        runs_here = call.repeatable and call.execute and self._is_executor()
        return runs_here and self._is_confined() and _key(call) is not None and not self._must_ask(call)

    def covers(self, call: ToolCall) -> bool:
        """Whether the user has allowed the command of a call, which runs only if it still `is_unchanged`."""
        return self.offers(call) and _key(call) in self._states

    async def allow(self, call: ToolCall) -> bool:
        """The user allows a command as it is now. Returns False if nobody can tell what it depends on."""
        key = _key(call)
        state = None if key is None else await asyncio.to_thread(_state, self._root, *key)
        if key is None or state is None:
            return False
        self._states[key] = state
        return True

    async def is_unchanged(self, call: ToolCall) -> bool:
        """Whether what an allowed command depends on is as it was; if not, the command is allowed no longer."""
        key = _key(call)
        allowed_state = None if key is None else self._states.get(key)
        if key is None or allowed_state is None:
            return False
        if await asyncio.to_thread(_state, self._root, *key) == allowed_state:
            return self._states.get(key) == allowed_state  # it may have been revoked meanwhile
        self._states.pop(key, None)
        return False

    def forget(self, call: ToolCall) -> None:
        """A command is allowed no longer."""
        if (key := _key(call)) is not None:
            self._states.pop(key, None)

    def listed(self) -> list[str]:
        """The commands, each with the id by which it is revoked."""
        return [
            f"{_rule_id(key)}  allow run_command {described('run_command', _arguments(key))}  (sandbox, this window)"
            for key in self._states
        ]

    def revoke(self, rule_id: str) -> bool:
        """Take back what was allowed, by its id. Returns whether there was such a command."""
        revoked_keys = [key for key in self._states if _rule_id(key) == rule_id]
        for key in revoked_keys:
            del self._states[key]
        return bool(revoked_keys)


class RepeatedCommands:
    """Approves the commands that the user has allowed in a session, when the agent calls them again.

    session, executor: those of the conversation, which may come later. running: the tool and the arguments of what
    runs here, by call. asks: which of the project's permissions has a tool with these arguments asked about each time;
    empty if none does.
    """

    def __init__(
        self,
        workspace: Path,
        session: "Callable[[], Session]",
        executor: "Callable[[], LocalExecutor]",
        running: Callable[[], Mapping[str, tuple[str, Mapping[str, Any]]]],
        asks: Callable[[str, Mapping[str, Any]], str],
    ) -> None:
        self._session, self._executor, self._running = session, executor, running
        self.allowed = AllowedCommands(
            workspace,
            self._may_allow,
            self._is_executor,
            lambda call: bool(asks(call.tool_name, call.arguments or {})),
        )
        self._approved_calls: dict[str, ToolCall] = {}  # approved unasked, without an outcome yet

    async def approve(self, call: ToolCall) -> str:
        """Approve a call that `allowed` covers. Returns why it must be asked about instead; empty if it need not be.

        `may_begin` looks once more just before it begins. What begins later, here or in another window, and a program
        that is not the agent's may still change what the command runs, in the sandbox that holds it.
        """
        is_unchanged = await self.allowed.is_unchanged(call)
        if call.call_id not in self._session().open_calls:
            return ""
        if not is_unchanged:
            return "Allowed until something changes that it runs or that is protected, which is so now:"
        if self._has_other_changes(call.call_id):
            return "Allowed, but something else is open that may change what it runs:"
        if not self.allowed.covers(call):
            return "Commands run unasked no longer:"
        self._approved_calls[call.call_id] = call
        await self._session().approve(call.call_id, tool=call.tool_name, arguments=call.arguments)
        return ""

    async def may_begin(self, call_id: str) -> bool:
        """Whether a call may begin: not a command that was approved unasked, and may do something else by now."""
        call = self._approved_calls.get(call_id)
        if call is None:
            return True
        is_unchanged = await self.allowed.is_unchanged(call)
        return is_unchanged and not self._has_other_changes(call_id, waiting=False)

    def forget(self, call_id: str) -> None:
        """A call has ended, or a person decides about it."""
        self._approved_calls.pop(call_id, None)

    def _may_allow(self) -> bool:
        """Whether a sandbox holds what a command does, and the user decides about commands one by one otherwise."""
        session = self._session()
        is_autonomous = session.info is None or session.acting_mode == "autonomous"
        return not is_autonomous and self._executor().confines_commands

    def _is_executor(self) -> bool:
        """Whether calls run in this window, as far as it can tell: none that is open was given to another one."""
        return all(call.requires_approval or call.execute for call in self._session().open_calls.values())

    def _has_other_changes(self, call_id: str, *, waiting: bool = True) -> bool:
        """Whether something besides a call may change files: another call or a process.

        waiting: also calls that wait for a decision.
        """
        others: list[tuple[str, Mapping[str, Any]]] = [
            (other.tool_name, other.arguments or {})
            for other_id, other in self._session().open_calls.items()
            if other_id != call_id and (waiting or not other.requires_approval)
        ]
        others += [running for other_id, running in self._running().items() if other_id != call_id]
        return self._executor().has_processes or any(risk_of(*other) != "read" for other in others)


def _rule_id(key: Key) -> str:
    return f"allowed-{digest('run_command', _arguments(key))[:8]}"


def _arguments(key: Key) -> dict[str, str]:
    command, cwd = key
    return {"command": command, "cwd": cwd}


def _key(call: ToolCall) -> Key | None:
    """The words of a call's command, and where it runs; None if that is not plain."""
    arguments: Mapping[str, Any] = call.arguments or {}
    if call.tool_name != "run_command" or not arguments.keys() <= {"command", "cwd"}:
        return None
    command, cwd = arguments.get("command"), arguments.get("cwd") or "."
    if not is_plain(command, cwd):
        return None
    return " ".join(str(command).split()), normal_path(cwd)


def _state(root: Path, command: str, cwd: str) -> str | None:
    """What a command depends on, as a text that differs when that does; None if nobody can tell."""
    try:
        folder = (root / cwd).resolve()
        real_programs = [
            (str(path), os.path.realpath(path)) for word in command.split() for path in _programs(word, folder)
        ]
        named = named_in_command(root, command, cwd)
        return json.dumps([str(folder), real_programs, named.digest(), list(_protected(root))])
    except (OSError, ValueError, RuntimeError):
        return None


def named_in_command(root: Path, command: str, cwd: str) -> Named:
    """What the words of a plain command name in the workspace. Raises OSError, ValueError or RuntimeError."""
    words, folder = command.split(), (root / cwd).resolve()
    programs = [str(path) for word in words for path in _programs(word, folder)]
    inside = [path for path in programs if Path(path).is_relative_to(root)]
    return named_by(ServerConfig("command", words[0], (*words[1:], str(folder), *inside)), root)


def _programs(word: str, folder: Path) -> Iterator[Path]:
    """The programs that a word may mean on the PATH of commands, also as one that another program starts.

    All that are there: the sandbox hides folders such as the home directory, so a later one may run.
    """
    if "/" in word:
        return
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = folder / entry / word
        if path.is_file() and os.access(path, os.X_OK):
            yield path


def _protected(root: Path) -> Iterator[tuple[str, ...]]:
    """The protected files of a workspace, each with what changes when it does. Raises ValueError for too many files."""
    pending = [("", "", False)]
    count = 0
    while pending:
        folder, name, is_inside = pending.pop()
        with os.scandir(root / folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                count += 1
                if count > _MOST_ENTRIES:
                    raise ValueError("too many files")
                path = f"{folder}/{entry.name}" if folder else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                in_git = name == ".git" and is_inside
                if in_git and entry.name not in _GIT:
                    continue
                protects = is_inside or _is_protected(f"{name}/{entry.name}")
                if protects:
                    yield path, *(() if is_folder else _status(entry))
                if is_folder and entry.name not in _PACKAGES:
                    pending.append((path, entry.name, protects))


@lru_cache(maxsize=100_000)
def _is_protected(names: str) -> bool:
    """Whether a name is protected in a folder of this name: no pattern has more than two names."""
    return is_protected(names)


def _status(entry: "os.DirEntry[str]") -> tuple[str, ...]:
    status = entry.stat(follow_symlinks=False)
    link = str(Path(entry.path).readlink()) if stat.S_ISLNK(status.st_mode) else ""
    return *map(str, (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)), link
