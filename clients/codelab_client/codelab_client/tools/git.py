"""The git tools, by the program `git`.

A repository's own settings name programs that git would run: filters, hooks, pagers, monitors, diff programs. Here they
are overridden, so that a hostile `.git/config` runs nothing; and git itself runs in the sandbox, if there is one. What
that leaves out and a commit needs, hooks, signatures and filters, is not skipped: the hooks run by themselves after the
user has allowed them (`hooks`), and a commit that needs the others is refused.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codelab_client.sandbox import Access, Sandbox
from codelab_client.tools import limits
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.git_settings import (
    WHO,
    WHO_VARIABLES,
    Entries,
    Settings,
    entries,
    own_values,
    users_file,
    users_values,
)
from codelab_client.tools.hooks import Hook, Hooks, active
from codelab_client.tools.paths import joined
from codelab_client.tools.processes import Process
from codelab_client.tools.repository import Repository, find, read_small

#: Settings that would run a program or reach out, and what they are set to instead.
_HARMLESS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "core.askPass": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.alternateRefsCommand": "",
    "core.attributesFile": "/dev/null",  # unless the user has one, which then comes here
    "core.excludesFile": "/dev/null",
    "core.quotePath": "false",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "commit.gpgSign": "false",
    "user.useConfigOnly": "true",  # Nobody commits as root of the sandbox.
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "log.mailmap": "false",
    "i18n.logOutputEncoding": "UTF-8",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.directory": "*",  # Its owner does not matter, because nothing of it runs.
}
#: Settings with a name of the repository's choice in them.
_NAMED = re.compile(
    r"(?:filter\..*\.(?:clean|smudge|process|required)|diff\..*\.(?:command|textconv)|merge\..*\.driver"
    r"|credential\..*\.helper|protocol\..*\.allow|pager\..*|alias\..*|gpg\..*\.program)",
    re.DOTALL | re.IGNORECASE,
)
_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "LC_ALL": "C",
    "TERM": "dumb",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "false",
}
#: What git-check-ref-format(1) forbids in a name, and names that look like an option or stand for a commit.
_NOT_A_BRANCH = re.compile(
    r"[\0-\x20\x7f~^:?*\[\\\ud800-\udfff]|\.\.|@\{|//|\A/|/\Z|\.\Z|(?:\A|/)\.|\.lock(?:/|\Z)|\A-|\A(?:@|HEAD)\Z"
)
_UPDATING = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
_STATES = {
    "M": "modified",
    "T": "modified",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "added",
    "U": "modified",
}


#: Settings of the user that count in a repository that does not say otherwise.
_USERS = (*WHO, "core.autocrlf", "core.eol", "core.safecrlf")
_SIGNED = (
    "commit.gpgSign is set, and this tool cannot sign: the user's key is not in the sandbox. Nothing is committed. Ask"
    " the user to commit in a terminal, or to switch it off for this repository: git config commit.gpgSign false"
)
_WHO_IS_IT = (
    "Git does not know who commits here, so nothing is committed. Ask the user to set it: git config user.name NAME,"
    " and git config user.email ADDRESS"
)


@dataclass(frozen=True)
class _Answer:
    code: int | None
    out: str
    error: str


class Git:
    """git for one workspace. Every method raises ToolFailure: GIT_NOT_INITIALIZED, GIT_ERROR or FILE_NOT_FOUND.

    program: the path of git, or None if it is not installed. path: the PATH that git gets. environment: the user's, by
    which the user's own settings are found. hooks: runs those of commits.
    """

    def __init__(
        self,
        root: Path,
        program: str | None,
        path: str,
        sandbox: Sandbox,
        environment: Mapping[str, str],
        hooks: Hooks,
    ) -> None:
        self._root = root
        self._program = program
        self._path = path
        self._sandbox = sandbox
        self._environment = environment
        self._hooks = hooks
        self._user_values: Mapping[str, str | None] | None = None

    async def diff(self, names: tuple[str, ...], *, staged: bool) -> dict[str, Any]:
        """The result of git.diff."""
        staging = ["--cached"] if staged else []
        options = ["--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", "--relative"]
        prefixes = ["--src-prefix=a/", "--dst-prefix=b/"]
        answer = await self._checked(
            "diff", *options, *prefixes, *staging, "--", joined(names), limit=limits.DIFF_BYTES
        )
        if len(answer.out.encode()) > limits.DIFF_BYTES:
            raise ToolFailure("GIT_ERROR", f"The diff has more than {limits.DIFF_BYTES} bytes; name a path")
        return {"diff": answer.out}

    async def status(self, names: tuple[str, ...], *, in_folders: bool = True) -> dict[str, Any]:
        """The result of git.status. in_folders: name the files of an untracked folder, and not only the folder."""
        self._user_values = None  # They may have changed.
        untracked = "all" if in_folders else "normal"
        options = ["--porcelain=v2", "-z", "--branch", f"--untracked-files={untracked}", "--ignore-submodules=all"]
        answer = await self._checked("status", *options, "--", joined(names))
        prefix = self._prefix(find(self._root))
        branch, files = "", []
        records = iter(answer.out.split("\0"))
        for record in records:
            kind, _, fields = record.partition(" ")
            if record.startswith("# branch.head "):
                branch = record.removeprefix("# branch.head ")
            elif kind in ("1", "2", "u"):
                parts = fields.split(" ", {"1": 7, "2": 8, "u": 9}[kind])
                if kind == "2":
                    next(records, "")  # the old name
                files += [(parts[-1], state, at == 0) for at, state in enumerate(parts[0]) if state != "."]
            elif kind == "?":
                files.append((fields, "?", False))
        entries = [
            {"path": path.removeprefix(prefix), "status": _STATES.get(state, "untracked"), "staged": staged}
            for path, state, staged in files
            if path.startswith(prefix)
        ]
        truncation = {"truncated": True} if len(entries) > limits.ENTRIES else {}
        return {"branch": branch, "files": entries[: limits.ENTRIES], **truncation}

    async def log(self, names: tuple[str, ...] | None, limit: int) -> dict[str, Any]:
        """The result of git.log."""
        path = ["--", joined(names)] if names is not None else []
        form = "--format=%H%x00%an%x00%aI%x00%B"
        answer = await self._run("log", "-z", "--no-show-signature", "--no-color", f"--max-count={limit}", form, *path)
        if answer.code != 0 and "does not have any commits" in answer.error:
            return {"commits": []}
        self._check(answer)
        parts = answer.out.removesuffix("\0").split("\0")
        fields = zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=False)
        return {
            "commits": [
                {"hash": digest, "author": author, "date": date, "message": message.rstrip("\n")[: limits.COMMIT_CHARS]}
                for digest, author, date, message in fields
            ]
        }

    async def branch(self, action: str, name: str) -> dict[str, Any]:
        """The result of git.branch. Also raises ToolFailure INVALID_ARGUMENTS or PERMISSION_DENIED."""
        if action == "list":
            refs = await self._checked("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
            head = await self._run("symbolic-ref", "--quiet", "--short", "HEAD")
            current = {"current": head.out.strip()} if head.code == 0 else {}
            return {"branches": refs.out.split()[: limits.ENTRIES], **current}
        if not name or _NOT_A_BRANCH.search(name):
            raise ToolFailure("INVALID_ARGUMENTS", "Not a valid name of a branch (see git check-ref-format)")
        if action == "switch":
            if find(self._root).top != self._root:
                reason = "The workspace is a part of a repository, and switching would change files outside it"
                raise ToolFailure("PERMISSION_DENIED", reason)
            await self._check_switch()
            options = ["switch", "--quiet", "--no-guess", "--no-recurse-submodules", "--no-progress", name]
        else:
            options = ["branch", "--quiet", "--no-track", name] if action == "create" else ["branch", "-d", name]
        answer = await self._checked(*options, writes=True, writes_files=action == "switch")
        skip_note = await self._skipped() if action == "switch" else ""
        return {"success": True, "message": (answer.out + answer.error + skip_note).strip()}

    async def allowed_hooks(self) -> tuple[Sequence[Hook], Settings]:
        """The hooks of the next commit, and the settings that it has.

        Asks the user about hooks that were not allowed before. Raises ToolFailure if there cannot be a commit.
        """
        repository = await asyncio.to_thread(find, self._root)
        if repository.git_dir.joinpath("MERGE_HEAD").exists():
            raise ToolFailure("GIT_ERROR", "A merge is not finished, and this tool cannot finish it")
        self._user_values = None  # They may have changed.
        settings = await self._settings(repository, requires_user_values=True)
        if settings.is_true("commit.gpgsign"):
            raise ToolFailure("GIT_ERROR", _SIGNED)
        self._check_excludes(settings, repository)
        return await self._hooks.allowed(settings, repository, self._environment), settings

    async def commit(self, message: str, files: Sequence[tuple[str, ...]]) -> dict[str, Any]:
        """The result of git.commit.

        `git commit` would look into submodules, whose own settings name programs, too. So the commit is put together
        from its parts: the tree, the commit, the branch. The settings are read once, and again after a question and
        after hooks.
        """
        repository = await asyncio.to_thread(find, self._root)
        hooks, settings = await self.allowed_hooks()
        if hooks:  # The user may have been asked about them for minutes.
            settings = await self._settings(repository)
        head = await self._run("rev-parse", "--quiet", "--verify", "HEAD^{commit}", settings=settings)
        parent = head.out.strip() if head.code == 0 else ""
        last_tree = (await self._checked("rev-parse", f"{parent}^{{tree}}", settings=settings)).out if parent else ""
        index = f"codelab-index-{secrets.token_hex(8)}" if files else "index"
        try:
            staged = await self._staged_for(files, parent, index, settings) if files else b""
            tree = await self._checked("write-tree", writes=True, index=index, settings=settings)
            if tree.out == last_tree:
                raise ToolFailure("GIT_ERROR", "There is nothing to commit")
            message = await self._hooks.before(hooks, repository, repository.git_dir / index, message)
            if not message.strip():
                raise ToolFailure("GIT_ERROR", "A hook left the commit without a message")
        finally:
            if files:
                (repository.git_dir / index).unlink(missing_ok=True)
        if hooks:
            settings = await self._settings(repository)
        text = f"{message.strip()}\n".encode()
        parents = ("-p", parent) if parent else ()
        commit_tree = await self._run(
            "commit-tree", tree.out.strip(), *parents, writes=True, stdin=text, settings=settings
        )
        if commit_tree.code != 0 and "auto-detection is disabled" in commit_tree.error:
            raise ToolFailure("GIT_ERROR", _WHO_IS_IT)
        self._check(commit_tree)
        commit_id = commit_tree.out.strip()
        if staged:
            await self._checked(*_UPDATING, writes=True, stdin=staged, settings=settings)
        reason = f"commit: {message.strip().splitlines()[0]}" if message.strip() else "commit"
        expected = parent or "0" * len(commit_id)
        await self._checked("update-ref", "-m", reason, "HEAD", commit_id, expected, writes=True, settings=settings)
        await self._hooks.after(hooks, repository)
        return {"success": True, "hash": commit_id}

    async def _staged_for(self, files: Sequence[tuple[str, ...]], parent: str, index: str, settings: Settings) -> bytes:
        """Make an index that has these files as they are and everything else as in the last commit.

        Returns the paths, for `git update-index -z --stdin`. Raises ToolFailure if a filter converts one of them.
        """
        for names in files:
            known = ("-z", "--cached", "--others", "--exclude-standard")
            entry = await self._checked("ls-files", *known, "--", joined(names), settings=settings)
            staged = await self._staged([joined(names)], parent, settings)
            if not entry.out and not staged:
                raise ToolFailure("FILE_NOT_FOUND", f"{joined(names)} does not exist, or git ignores it")
        paths = list(map(joined, files))
        options = ("-z", "--others", "--modified", "--deleted", "--exclude-standard")
        changed_paths = (await self._checked("ls-files", *options, "--", *paths, settings=settings)).out.split("\0")
        staged_paths = await self._staged(paths, parent, settings)
        path_set = dict.fromkeys(path.removesuffix("/") for path in (*changed_paths, *staged_paths) if path)
        stdin = b"".join(os.fsencode(path) + b"\0" for path in path_set)
        await self._check_filters(stdin, settings)
        await self._checked("read-tree", parent or "--empty", writes=True, index=index, settings=settings)
        await self._checked(*_UPDATING, writes=True, stdin=stdin, index=index, settings=settings)
        return stdin

    def _check_excludes(self, settings: Settings, repository: Repository) -> None:
        """Raise ToolFailure if the repository's settings name a list of files to ignore that is not read here."""
        excludes_file = settings.own.get("core.excludesfile")
        if excludes_file and "core.excludesFile" not in self._users_files(settings, repository):
            reason = f"core.excludesFile of this repository is {excludes_file}, which is no file in the repository"
            raise ToolFailure("GIT_ERROR", f"{reason}, so nothing is committed: ask the user to commit in a terminal")

    async def _check_filters(self, paths: bytes, settings: Settings) -> None:
        """Raise ToolFailure if a filter would convert one of these files, as git-lfs does: it does not run here."""
        if not settings.filters():
            return
        answer = await self._checked("check-attr", "-z", "--stdin", "filter", stdin=paths, settings=settings)
        parts = answer.out.split("\0")
        for path, filter_name in zip(parts[::3], parts[2::3], strict=False):
            if filter_name in settings.filters():
                reason = f"{path} is converted by the filter {filter_name}, which does not run in this tool"
                raise ToolFailure(
                    "GIT_ERROR", f"{reason}, so nothing is committed: ask the user to commit in a terminal"
                )

    async def _check_switch(self) -> None:
        """Raise ToolFailure if files of another branch would lack what a filter makes of them."""
        repository = await asyncio.to_thread(find, self._root)
        settings = await self._settings(repository, requires_user_values=True)
        if settings.filters() and "filter=" in read_small(repository.top / ".gitattributes"):
            reason = "Filters convert files of this repository (.gitattributes), and they do not run in this tool"
            raise ToolFailure("GIT_ERROR", f"{reason}: ask the user to switch in a terminal")

    async def _skipped(self) -> str:
        """What a switch of the branch has left out; empty if nothing."""
        repository = await asyncio.to_thread(find, self._root)
        settings = await self._settings(repository)
        hooks = active(settings, repository, self._environment, ("post-checkout",))
        return "".join(f"\nThe hook {hook.label} was not run." for hook in hooks)

    async def _staged(self, paths: Sequence[str], parent: str, settings: Settings) -> list[str]:
        """The files that are staged, below these paths."""
        options = ("-z", "--cached", "--name-only", "--no-renames", "--ignore-submodules=all", "--relative")
        if not parent:
            listing = await self._checked("ls-files", "-z", "--cached", "--", *paths, settings=settings)
        else:
            listing = await self._checked("diff-index", *options, parent, "--", *paths, settings=settings)
        return listing.out.split("\0")[:-1]

    async def ignored(self, paths: Sequence[str]) -> set[str]:
        """Which of these paths git ignores; none if there is no repository."""
        stdin = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)  # "./": never a pattern or an option
        try:
            repository = await asyncio.to_thread(find, self._root)
            settings = await self._settings(repository)
            files = self._users_files(settings, repository)
            reading = Access(readable=(repository.top, *repository.folders, *files.values()))
            harmless = {**_HARMLESS, **{name: str(path) for name, path in files.items()}}
            arguments = ("check-ignore", "-z", "--stdin")
            answer = await self._start(repository, reading, harmless, arguments, stdin)
        except ToolFailure:
            return set()
        return {path.removeprefix("./") for path in answer.out.split("\0")} if answer.code == 0 else set()

    async def excludes(self) -> Path | None:
        """The user's own list of files to ignore in this repository; None if there is none."""
        try:
            repository = await asyncio.to_thread(find, self._root)
            settings = await self._settings(repository)
        except ToolFailure:
            return None
        return self._users_files(settings, repository).get("core.excludesFile")

    # -- settings ----------------------------------------------------------------------------------------------------

    async def _settings(self, repository: Repository, *, requires_user_values: bool = False) -> Settings:
        """The repository's settings and the user's.

        requires_user_values: raise ToolFailure if the user's cannot be read.
        """
        entries = await self._entries(repository)
        if self._user_values is None:
            try:
                self._user_values = await asyncio.to_thread(
                    users_values, self._program or "git", self._environment, repository, entries
                )
            except ToolFailure:
                if requires_user_values:
                    raise
                return Settings(own_values(entries))
        return Settings(own_values(entries), self._user_values)

    async def _entries(self, repository: Repository) -> Entries:
        reading = Access(readable=(repository.top, *repository.folders))
        arguments = ("config", "--list", "--show-scope", "-z")
        return entries((await self._start(repository, reading, {}, arguments)).out)

    def _users_files(self, settings: Settings, repository: Repository) -> dict[str, Path]:
        """The files that the user keeps for all repositories: what to ignore, and attributes."""
        names = (("core.excludesFile", "ignore"), ("core.attributesFile", "attributes"))
        files = {
            name: users_file(settings, name.lower(), default, self._environment, repository.top)
            for name, default in names
        }
        return {name: path for name, path in files.items() if path is not None}

    # -- running git -------------------------------------------------------------------------------------------------

    def _prefix(self, repository: Repository) -> str:
        below = self._root.relative_to(repository.top).as_posix()
        return "" if below == "." else f"{below}/"

    async def _checked(self, *arguments: str, **options: Any) -> _Answer:
        answer = await self._run(*arguments, **options)
        self._check(answer)
        return answer

    def _check(self, answer: _Answer) -> None:
        if answer.code != 0:
            raise ToolFailure("GIT_ERROR", self._said(answer))

    def _said(self, answer: _Answer) -> str:
        message = (answer.error.strip() or answer.out.strip())[-limits.GIT_MESSAGE_CHARS :]
        return message or f"git ended with exit code {answer.code}"

    async def _run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        writes: bool = False,
        writes_files: bool = False,
        index: str = "index",
        limit: int = 2 * limits.DIFF_BYTES,
        settings: Settings | None = None,
    ) -> _Answer:
        """Run git. writes: it may change the repository. writes_files: and the working tree. limit: of its output.

        settings: as they were read just before; None: they are read now.
        """
        repository = await asyncio.to_thread(find, self._root)
        git_settings = settings or await self._settings(repository)
        overrides = dict.fromkeys(filter(_NAMED.fullmatch, git_settings.own), "")
        overrides |= {name: "false" for name in overrides if name.endswith(".required")}
        users = {
            name: git_settings.users[name] or ""
            for name in _USERS
            if name in git_settings.users and name not in git_settings.own
        }
        files = self._users_files(git_settings, repository)
        values = {**_HARMLESS, **users, **{name: str(path) for name, path in files.items()}, **overrides}
        access = Access(
            readable=(repository.top, *repository.folders, *files.values()),
            writable=(*((repository.top,) if writes_files else ()), *(repository.folders if writes else ())),
        )
        return await self._start(repository, access, values, arguments, stdin, limit, index)

    async def _start(
        self,
        repository: Repository,
        access: Access,
        settings: Mapping[str, str],
        arguments: Sequence[str],
        stdin: bytes | None = None,
        limit: int = limits.DIFF_BYTES,
        index: str = "index",
    ) -> _Answer:
        if self._program is None:
            raise ToolFailure("GIT_ERROR", "git is not installed")
        argv = (self._program, "--no-pager", *arguments)
        environment = {
            **_ENVIRONMENT,
            **{name: self._environment[name] for name in WHO_VARIABLES if name in self._environment},
            "PATH": self._path,
            "GIT_DIR": str(repository.git_dir),
            "GIT_COMMON_DIR": str(repository.common_dir),
            "GIT_WORK_TREE": str(repository.top),
            "GIT_INDEX_FILE": str(repository.git_dir / index),
            "GIT_LITERAL_PATHSPECS": "0" if arguments[0] == "check-ignore" else "1",  # which refuses it
            "GIT_CONFIG_COUNT": str(len(settings)),
            **{f"GIT_CONFIG_KEY_{at}": name for at, name in enumerate(settings)},
            **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(settings.values())},
        }
        try:
            process = await Process.start(self._sandbox.launch(argv, access, self._root), environment, stdin, limit)
        except OSError as error:
            raise ToolFailure("GIT_ERROR", f"git does not start: {error.strerror}") from None
        end = await process.wait()
        return _Answer(end.exit_code, process.stdout.text(), process.stderr.text())
