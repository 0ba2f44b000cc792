"""A git repository beside the workspace, which stores states of its files and never touches the workspace's own.

Git finds what changed and stores it. Files are put back by `tools.tree`, which no link leads astray.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from codelab_client import private_file, private_folder
from codelab_client.private_file import PrivateFileError
from codelab_client.sandbox import Access, Sandbox
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.processes import own_path
from codelab_client.tools.repository import read_small
from codelab_client.tools.tree import Names, Tree

#: The repository's core.sharedRepository: nobody else reads what git writes to it, whatever the umask.
_PRIVATE = "0600"
#: Seconds for one run of git: the first checkpoint of a large workspace takes longest.
_PATIENCE = 120
_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.autocrlf": "false",
    "core.excludesFile": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.protectNTFS": "false",  # Odd names are stored like any others.
    "core.protectHFS": "false",
    "core.untrackedCache": "true",
    "core.looseCompression": "0",
    "gc.auto": "0",
}
#: Every file is stored as it is, whatever the workspace's own attributes say.
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding !diff\n"
_SYMLINK = "120000"
_EXECUTABLE = "100755"


class CheckpointFailed(Exception):
    """A checkpoint could not be made or read; the message says why."""


@dataclass(frozen=True)
class Difference:
    """How a file differs between two states. old, new: its blobs, None for no file; modes are git's."""

    path: str
    old: str | None
    new: str | None
    old_mode: str
    new_mode: str

    @property
    def names(self) -> Names:
        """The names in the path."""
        return tuple(self.path.split("/"))

    @property
    def was_link(self) -> bool:
        """Whether the old state is a symbolic link."""
        return self.old_mode == _SYMLINK

    @property
    def was_executable(self) -> bool:
        """Whether the old state is executable."""
        return self.old_mode == _EXECUTABLE


@dataclass(frozen=True)
class State:
    """The files of the workspace at one time. left_out: large files and other repositories, which are not stored."""

    tree: str
    left_out: tuple[str, ...]


class Shadow:
    """The repository in the folder `git_dir`. largest: the bytes of a file that is still stored.

    All methods wait for git, and raise CheckpointFailed.
    """

    def __init__(self, tree: Tree, git_dir: Path, sandbox: Sandbox, largest: int) -> None:
        root = tree.root
        self._tree = tree
        self._root = root
        self._git_dir = git_dir
        self._sandbox = sandbox
        self._largest = largest
        self._path = own_path(os.environ, root)
        program = shutil.which("git", path=self._path)
        if program is None:
            raise CheckpointFailed("git is not installed")
        self._program = program

    def prepare(self) -> None:
        """Create the repository unless it exists."""
        try:
            private_folder.ensure(self._git_dir.parent)
            self._git_dir.mkdir(mode=0o700, exist_ok=True)
            if _PRIVATE not in read_small(self._git_dir / "config"):
                self._run("init", "--quiet", "--template=", f"--shared={_PRIVATE}")
                private_folder.close(self._git_dir)
            (self._git_dir / "info").mkdir(exist_ok=True, mode=0o700)
            private_file.write(self._git_dir / "info/attributes", _ATTRIBUTES)
            private_file.write(self._git_dir / "info/exclude", read_small(self._root / ".git/info/exclude"))
        except (PrivateFileError, OSError) as error:
            raise CheckpointFailed(str(error)) from None

    def state(self) -> State:
        """Store the files as they are now. Ignored files are not stored."""
        listed = self._files("ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard")
        sorted_by: dict[str, list[str]] = {"stored": [], "gone": [], "left_out": []}
        for path in dict.fromkeys(listed):
            sorted_by[self._fate(path)].append(path)
        stored, gone, left_out = sorted_by.values()
        if left_out:  # What was stored may have become too large.
            gone += sorted(set(left_out) & set(self._files("ls-files", "-z")))
        if gone:
            self._update(gone, "--force-remove")
        if stored:
            self._update(stored, "--add", "--remove", "--replace")
        return State(self._run("write-tree").decode().strip(), tuple(path.removesuffix("/") for path in left_out))

    def _fate(self, path: str) -> str:
        """What becomes of a path that has changed: stored, gone or left_out. No link is followed on its way."""
        names = tuple(path.split("/"))
        if names[-1] == "" or any(name.lower() == ".git" for name in names):
            return "left_out"  # Another repository.
        try:
            found = self._tree.status(names)
        except ToolFailure:
            return "gone"
        if stat.S_ISREG(found.st_mode):
            return "stored" if found.st_size <= self._largest else "left_out"
        return "stored" if stat.S_ISLNK(found.st_mode) else "gone"

    def _update(self, paths: Sequence[str], *options: str) -> None:
        given = b"".join(os.fsencode(path) + b"\0" for path in paths)
        self._run("update-index", "-z", *options, "--stdin", given=given)

    def differences(self, old: str, new: str) -> list[Difference]:
        """What differs between two trees."""
        said = self._run("diff-tree", "-r", "-z", "--no-renames", old, new)
        parts = os.fsdecode(said).split("\0")
        found = []
        for head, path in zip(parts[::2], parts[1::2], strict=False):
            old_mode, new_mode, old_blob, new_blob, _ = head.removeprefix(":").split(" ")
            blobs = [blob if blob.strip("0") else None for blob in (old_blob, new_blob)]
            found.append(Difference(path, blobs[0], blobs[1], old_mode, new_mode))
        return found

    def diff(self, old: str, new: str) -> str:
        """A unified diff between two trees."""
        options = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
        return self._run("diff", *options, old, new).decode(errors="replace")

    def contents(self, blobs: Sequence[str]) -> list[bytes]:
        """The contents of blobs."""
        said = self._run("cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs).encode())
        found, at = [], 0
        for _ in blobs:
            end = said.index(b"\n", at)
            size = int(said[at:end].split(b" ")[2])
            found.append(said[end + 1 : end + 1 + size])
            at = end + size + 2
        return found

    # -- references --------------------------------------------------------------------------------------------------

    def keep(self, name: str, tree: str, message: str) -> None:
        """Keep a tree under a name, with a message."""
        commit = self._run("commit-tree", tree, given=message.encode(errors="replace")).decode().strip()
        self._run("update-ref", f"refs/{name}", commit)

    def kept(self) -> list[tuple[str, str, str]]:
        """The name, tree and message of everything that is kept, sorted by name."""
        said = self._run("for-each-ref", "--format=%(refname:lstrip=1)%00%(tree)%00%(contents)%00", "refs/")
        parts = said.decode(errors="replace").split("\0")
        groups = zip(parts[::3], parts[1::3], parts[2::3], strict=False)
        return [(name.strip(), tree, message.strip()) for name, tree, message in groups]

    def drop(self, names: Iterable[str]) -> None:
        """Keep these no longer. `clean` frees their space."""
        self._run("update-ref", "--stdin", given="".join(f"delete refs/{name}\n" for name in names).encode())

    def clean(self) -> None:
        """Free the space of what is not kept, and pack the rest."""
        self._run("gc", "--quiet", "--prune=now")

    # -- running git -------------------------------------------------------------------------------------------------

    def _files(self, *arguments: str) -> list[str]:
        return [path for path in os.fsdecode(self._run(*arguments)).split("\0") if path]

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        environment = {
            "PATH": self._path,
            "HOME": "/nonexistent",
            "XDG_CONFIG_HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_DIR": str(self._git_dir),
            "GIT_WORK_TREE": str(self._root),
            "GIT_CONFIG_COUNT": str(len(_CONFIG)),
            **{f"GIT_CONFIG_KEY_{at}": name for at, name in enumerate(_CONFIG)},
            **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_CONFIG.values())},
            **{f"GIT_{role}_{what}": "codelab" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        # In the sandbox, a file that is swapped for a link while git reads it shows nothing of the user's.
        access = Access(writable=(self._git_dir,), readable=(self._root,))
        launch = self._sandbox.launch((self._program, "--no-pager", *arguments), access, self._root)
        try:
            ran = subprocess.run(
                launch.argv,
                cwd=launch.cwd,
                env={**environment, **launch.env},
                input=given,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CheckpointFailed(f"git {arguments[0]}: {error}") from None
        if ran.returncode != 0:
            raise CheckpointFailed(f"git {arguments[0]}: {ran.stderr.decode(errors='replace').strip()[-500:]}")
        return ran.stdout
