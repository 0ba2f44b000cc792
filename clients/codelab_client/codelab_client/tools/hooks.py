"""The hooks of a commit: the user allows them by name, and they run in the sandbox.

They are programs that whoever writes to the repository may have written. They may do what commands may: with most
sandboxes, `.git` is read-only for them.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codelab_client.sandbox import Access, Sandbox
from codelab_client.tools import limits
from codelab_client.tools.dialogue import Dialogue
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.git_settings import Settings, expanded
from codelab_client.tools.processes import Process
from codelab_client.tools.repository import Repository

#: The hooks of `git commit` in the order in which they run, and those that would run for its parts, which cannot.
_OF_COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
_OF_PARTS = ("reference-transaction", "post-index-change")
_YES, _NO = "Run them, then commit", "Do not commit"


@dataclass(frozen=True)
class Hook:
    """A hook that would run. path: absolute. label: the same for people, below the repository if it is there."""

    name: str
    path: Path
    label: str


def active(
    settings: Settings, repository: Repository, environment: Mapping[str, str], names: Sequence[str]
) -> list[Hook]:
    """The hooks with these names that git would run (githooks(5))."""
    hooks_path = settings.value("core.hookspath")
    home = environment.get("HOME", "")
    folder = repository.common_dir / "hooks" if hooks_path is None else repository.top / expanded(hooks_path, home)
    paths = [(name, folder / name) for name in names]
    return [Hook(name, path, _shown(path, repository.top)) for name, path in paths if _runs(path)]


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _shown(path: Path, top: Path) -> str:
    return os.path.relpath(path, top) if path.is_relative_to(top) else str(path)


class Hooks:
    """Runs the hooks of commits in one workspace.

    environment: what they get, besides what git would set. readable: folders that they may read besides the
    workspace's. dialogue: asks the user; without it, no hook runs, and so there is no commit.
    """

    def __init__(
        self,
        root: Path,
        sandbox: Sandbox,
        environment: Mapping[str, str],
        readable: Sequence[Path] = (),
        *,
        network: bool = False,
        dialogue: Dialogue | None = None,
    ) -> None:
        self._root, self._sandbox, self._environment = root, sandbox, environment
        self._readable, self._network, self._dialogue = tuple(readable), network, dialogue
        self._allowed: set[str] = set()  # by what is in them

    async def allowed(self, settings: Settings, repository: Repository, users: Mapping[str, str]) -> list[Hook]:
        """The hooks of a commit, if the user allows them. Asks about each content of them once.

        users: the user's environment. Raises ToolFailure GIT_ERROR, which says what to do.
        """
        parts = active(settings, repository, users, _OF_PARTS)
        hooks = active(settings, repository, users, _OF_COMMIT)
        labels = ", ".join(hook.label for hook in (*hooks, *parts))
        problem = f"The repository has hooks ({labels}), and a commit must not pass them by"
        if parts:
            raise ToolFailure(
                "GIT_ERROR", f"{problem}. This tool cannot run them: ask the user to commit in a terminal"
            )
        digest = hashlib.sha256(b"".join(_identity(hook) for hook in hooks)).hexdigest()
        if not hooks or digest in self._allowed:
            return hooks
        if self._dialogue is None or not self._sandbox.guarantees.writes_only_there:
            reason = (
                "nobody can be asked here" if self._dialogue is None else "they run only in a sandbox, which is missing"
            )
            raise ToolFailure(
                "GIT_ERROR", f"{problem}. The user must allow them, and {reason}: ask to commit in a terminal"
            )
        lines = "\n".join(hook.label for hook in hooks)
        git = "with `.git` read-only" if self._sandbox.guarantees.protects_git else "which does not protect `.git`"
        question = f"This commit runs the repository's hooks, in the sandbox {self._sandbox.name}, {git}:\n{lines}"
        if await self._dialogue.choose(question, (_YES, _NO)) != _YES:
            raise ToolFailure("GIT_ERROR", f"{problem}. The user did not allow them, so nothing is committed")
        if digest != hashlib.sha256(b"".join(_identity(hook) for hook in hooks)).hexdigest():
            raise ToolFailure("GIT_ERROR", "The hooks changed while the user was asked, so nothing is committed")
        self._allowed.add(digest)
        return hooks

    async def before(self, hooks: Sequence[Hook], repository: Repository, index: Path, message: str) -> str:
        """Run those that come before a commit. Returns its message, which they may change. Raises ToolFailure."""
        by_name = {hook.name: hook for hook in hooks}
        if not by_name.keys() - {"post-commit"}:
            return message
        with tempfile.TemporaryDirectory(prefix="codelab-commit-") as name:
            file = Path(name).resolve() / "COMMIT_EDITMSG"
            file.write_text(f"{message.strip()}\n")
            for hook, arguments in (
                ("pre-commit", ()),
                ("prepare-commit-msg", (str(file), "message")),
                ("commit-msg", (str(file),)),
            ):
                if hook in by_name:
                    await self._run(by_name[hook], arguments, repository, index, file.parent)
            try:
                return file.read_bytes()[: limits.FILE_BYTES].decode(errors="replace")
            except OSError:
                raise ToolFailure("GIT_ERROR", "A hook removed the commit's message") from None

    async def after(self, hooks: Sequence[Hook], repository: Repository) -> None:
        """Run the one that comes after a commit. Whether it fails does not matter (githooks(5))."""
        for hook in hooks:
            if hook.name == "post-commit":
                try:
                    await self._run(hook, (), repository, repository.git_dir / "index", None)
                except ToolFailure:
                    return

    async def _run(
        self, hook: Hook, arguments: Sequence[str], repository: Repository, index: Path, folder: Path | None
    ) -> None:
        argv = ("/bin/sh", "-c", 'exec "$0" "$@"', str(hook.path), *arguments)
        environment = {
            **self._environment,
            "GIT_INDEX_FILE": str(index),
            "GIT_EDITOR": ":",
            "GIT_PREFIX": "",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        launch = self._sandbox.launch(argv, self._access(hook, repository, folder), repository.top)
        try:
            process = await Process.start(launch, environment)
        except OSError as error:
            raise ToolFailure("GIT_ERROR", f"The hook {hook.label} does not start: {error.strerror}") from None
        end = await process.wait()
        if end.exit_code != 0:
            output = (process.stdout.text() + process.stderr.text()).strip()[-limits.GIT_MESSAGE_CHARS :]
            raise ToolFailure("GIT_ERROR", f"Nothing is committed: the hook {hook.label} failed.\n{output}")

    def _access(self, hook: Hook, repository: Repository, folder: Path | None) -> Access:
        """What commands have, and the commit's message."""
        dot_git = self._root / ".git"
        outside = [path for path in (*repository.folders, repository.top) if not path.is_relative_to(self._root)]
        above = [] if hook.path.is_relative_to(repository.top) else [hook.path.parent]
        return Access(
            writable=(self._root, *((folder,) if folder else ())),
            readable=(*outside, *above, *self._readable),
            read_only=(dot_git,) if dot_git.exists() and not dot_git.is_symlink() else (),
            network=self._network,
        )


def _identity(hook: Hook) -> bytes:
    try:
        content = hook.path.read_bytes()
    except OSError:
        content = b""
    return os.fsencode(hook.path) + b"\0" + hashlib.sha256(content).digest()
