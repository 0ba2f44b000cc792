"""The git tools, by the program `git`.

A repository's own settings name programs that git would run: filters, hooks, pagers, monitors, diff programs. Here they
are overridden, so that a hostile `.git/config` runs nothing; and git itself runs in the sandbox, if there is one.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codelab_client.sandbox import Access, Sandbox
from codelab_client.tools import limits
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import joined
from codelab_client.tools.processes import Process
from codelab_client.tools.repository import Repository, find

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
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.quotePath": "false",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "commit.gpgSign": "false",
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
_STATES = {
    "M": "modified",
    "T": "modified",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "added",
    "U": "modified",
}


@dataclass(frozen=True)
class Identity:
    """Who commits: the user's name and e-mail address, as the user's own settings have them; empty if unknown."""

    name: str = ""
    email: str = ""


@dataclass(frozen=True)
class _Answer:
    code: int | None
    out: str
    error: str


class Git:
    """git for one workspace. Every method raises ToolFailure: GIT_NOT_INITIALIZED, GIT_ERROR or FILE_NOT_FOUND.

    program: the path of git, or None if it is not installed. path: the PATH that git gets. identity: who commits, asked
    for each commit.
    """

    def __init__(
        self,
        root: Path,
        program: str | None,
        path: str,
        sandbox: Sandbox,
        identity: Callable[[], Identity],
    ) -> None:
        self._root = root
        self._program = program
        self._path = path
        self._sandbox = sandbox
        self._identity = identity

    async def diff(self, names: tuple[str, ...], *, staged: bool) -> dict[str, Any]:
        """The result of git.diff."""
        staging = ["--cached"] if staged else []
        options = ["--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", "--relative"]
        prefixes = ["--src-prefix=a/", "--dst-prefix=b/"]
        answer = await self._checked("diff", *options, *prefixes, *staging, "--", joined(names), most=limits.DIFF_BYTES)
        if len(answer.out.encode()) > limits.DIFF_BYTES:
            raise ToolFailure("GIT_ERROR", f"The diff has more than {limits.DIFF_BYTES} bytes; name a path")
        return {"diff": answer.out}

    async def status(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The result of git.status."""
        options = ["--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=all"]
        answer = await self._checked("status", *options, "--", joined(names))
        prefix = self._prefix(find(self._root))
        branch, files = "", []
        records = iter(answer.out.split("\0"))
        for record in records:
            kind, _, rest = record.partition(" ")
            if record.startswith("# branch.head "):
                branch = record.removeprefix("# branch.head ")
            elif kind in ("1", "2", "u"):
                parts = rest.split(" ", {"1": 7, "2": 8, "u": 9}[kind])
                if kind == "2":
                    next(records, "")  # the old name
                files += [(parts[-1], state, at == 0) for at, state in enumerate(parts[0]) if state != "."]
            elif kind == "?":
                files.append((rest, "?", False))
        shown = [
            {"path": path.removeprefix(prefix), "status": _STATES.get(state, "untracked"), "staged": staged}
            for path, state, staged in files
            if path.startswith(prefix)
        ]
        more = {"truncated": True} if len(shown) > limits.ENTRIES else {}
        return {"branch": branch, "files": shown[: limits.ENTRIES], **more}

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
            listed = await self._checked("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
            head = await self._run("symbolic-ref", "--quiet", "--short", "HEAD")
            current = {"current": head.out.strip()} if head.code == 0 else {}
            return {"branches": listed.out.split()[: limits.ENTRIES], **current}
        if not name or _NOT_A_BRANCH.search(name):
            raise ToolFailure("INVALID_ARGUMENTS", "Not a valid name of a branch (see git check-ref-format)")
        if action == "switch":
            if find(self._root).top != self._root:
                why = "The workspace is a part of a repository, and switching would change files outside it"
                raise ToolFailure("PERMISSION_DENIED", why)
            options = ["switch", "--quiet", "--no-guess", "--no-recurse-submodules", "--no-progress", name]
        else:
            options = ["branch", "--quiet", "--no-track", name] if action == "create" else ["branch", "-d", name]
        answer = await self._checked(*options, writes=True, writes_files=action == "switch")
        return {"success": True, "message": (answer.out + answer.error).strip()}

    async def commit(self, message: str, files: Sequence[tuple[str, ...]]) -> dict[str, Any]:
        """The result of git.commit.

        `git commit` would look into submodules, whose own settings name programs, too. So the commit is put together
        from its parts: the tree, the commit, the branch.
        """
        if (await asyncio.to_thread(find, self._root)).git_dir.joinpath("MERGE_HEAD").exists():
            raise ToolFailure("GIT_ERROR", "A merge is not finished, and this tool cannot finish it")
        head = await self._run("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
        parent = head.out.strip() if head.code == 0 else ""
        tree = await (self._tree_of(files, parent) if files else self._checked("write-tree", writes=True))
        before = (await self._checked("rev-parse", f"{parent}^{{tree}}")).out if parent else ""
        if tree.out == before:
            raise ToolFailure("GIT_ERROR", "There is nothing to commit")
        text = f"{message.strip()}\n".encode()
        parents = ("-p", parent) if parent else ()
        made = (await self._checked("commit-tree", tree.out.strip(), *parents, writes=True, stdin=text)).out.strip()
        why = f"commit: {message.strip().splitlines()[0]}" if message.strip() else "commit"
        await self._checked("update-ref", "-m", why, "HEAD", made, parent or "0" * len(made), writes=True)
        return {"success": True, "hash": made}

    async def _tree_of(self, files: Sequence[tuple[str, ...]], parent: str) -> _Answer:
        """Stage these files, and write a tree that has them as they are and everything else as in the last commit."""
        for names in files:
            known = await self._checked(
                "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", joined(names)
            )
            staged = await self._staged([joined(names)], parent)
            if not known.out and not staged:
                raise ToolFailure("FILE_NOT_FOUND", f"{joined(names)} does not exist, or git ignores it")
        paths = list(map(joined, files))
        options = ("-z", "--others", "--modified", "--deleted", "--exclude-standard")
        changed = (await self._checked("ls-files", *options, "--", *paths)).out.split("\0")
        wanted = dict.fromkeys(
            path.removesuffix("/") for path in (*changed, *await self._staged(paths, parent)) if path
        )
        given = b"".join(os.fsencode(path) + b"\0" for path in wanted)
        index = f"codelab-index-{secrets.token_hex(8)}"
        updating = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        await self._checked(*updating, writes=True, stdin=given)
        try:
            await self._checked("read-tree", parent or "--empty", writes=True, index=index)
            await self._checked(*updating, writes=True, stdin=given, index=index)
            return await self._checked("write-tree", writes=True, index=index)
        finally:
            repository = await asyncio.to_thread(find, self._root)
            (repository.git_dir / index).unlink(missing_ok=True)

    async def _staged(self, paths: Sequence[str], parent: str) -> list[str]:
        """The files that are staged, below these paths."""
        options = ("-z", "--cached", "--name-only", "--no-renames", "--ignore-submodules=all", "--relative")
        if not parent:
            return (await self._checked("ls-files", "-z", "--cached", "--", *paths)).out.split("\0")[:-1]
        return (await self._checked("diff-index", *options, parent, "--", *paths)).out.split("\0")[:-1]

    async def ignored(self, paths: Sequence[str]) -> set[str]:
        """Which of these paths git ignores; none if there is no repository."""
        asked = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)  # "./": never a pattern or an option
        try:
            repository = await asyncio.to_thread(find, self._root)
            reading = Access(readable=(repository.top, *repository.folders))
            arguments = ("check-ignore", "-z", "--stdin")
            answer = await self._start(repository, reading, _HARMLESS, arguments, asked)
        except ToolFailure:
            return set()
        return {path.removeprefix("./") for path in answer.out.split("\0")} if answer.code == 0 else set()

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
        said = (answer.error.strip() or answer.out.strip())[-limits.GIT_MESSAGE_CHARS :]
        return said or f"git ended with exit code {answer.code}"

    async def _run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        writes: bool = False,
        writes_files: bool = False,
        index: str = "index",
        most: int = 2 * limits.DIFF_BYTES,
    ) -> _Answer:
        """Run git. writes: it may change the repository. writes_files: also the working tree. most: its output."""
        repository = await asyncio.to_thread(find, self._root)
        reading = Access(readable=(repository.top, *repository.folders))
        settings = _HARMLESS
        listed = await self._start(repository, reading, settings, ("config", "--list", "--name-only", "-z"))
        named = dict.fromkeys(filter(_NAMED.fullmatch, listed.out.split("\0")), "")
        named |= {name: "false" for name in named if name.endswith(".required")}
        if arguments[0] == "commit-tree":
            identity, known = self._identity(), set(listed.out.split("\0"))
            user = {"user.name": identity.name, "user.email": identity.email}
            settings = {**settings, **{name: said for name, said in user.items() if said and name not in known}}
        settings = {**settings, **named}
        access = Access(
            readable=reading.readable,
            writable=(*((repository.top,) if writes_files else ()), *(repository.folders if writes else ())),
        )
        return await self._start(repository, access, settings, arguments, stdin, most, index)

    async def _start(
        self,
        repository: Repository,
        access: Access,
        settings: Mapping[str, str],
        arguments: Sequence[str],
        stdin: bytes | None = None,
        most: int = limits.DIFF_BYTES,
        index: str = "index",
    ) -> _Answer:
        if self._program is None:
            raise ToolFailure("GIT_ERROR", "git is not installed")
        argv = (self._program, "--no-pager", *arguments)
        environment = {
            **_ENVIRONMENT,
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
            process = await Process.start(self._sandbox.launch(argv, access, self._root), environment, stdin, most)
        except OSError as error:
            raise ToolFailure("GIT_ERROR", f"git does not start: {error.strerror}") from None
        ended = await process.wait()
        return _Answer(ended.exit_code, process.stdout.text(), process.stderr.text())
