"""A git repository beside the workspace, which sees how a command changes files and never touches the workspace's own.

Git finds what changed and stores it for a while; the record keeps it. Nothing in the repository has to last.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from codelab_client import private_file, private_folder
from codelab_client.checkpoints import unstored
from codelab_client.checkpoints.files import (
    ABSENT,
    DIRECTORY,
    EXECUTABLE,
    NOT_EXECUTABLE,
    Captured,
    FileState,
    digest_of,
)
from codelab_client.checkpoints.folder import CheckpointFailed
from codelab_client.sandbox import Access, Sandbox
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.processes import own_path
from codelab_client.tools.repository import read_small
from codelab_client.tools.tree import Names, Tree

#: The repository's core.sharedRepository: nobody else reads what git writes to it, whatever the umask.
_PRIVATE = "0600"
#: Seconds for one run of git: the first look at a large workspace takes longest.
_PATIENCE = 120
#: Contents read at once.
_BATCH = 50
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
#: What differs from the index, `/`, which is no path in the workspace, and what git ignores.
_LISTING = (
    '"$0" ls-files -z --others --modified --deleted --exclude-standard && printf "/\\0"'
    ' && "$0" ls-files -z --others --ignored --directory --exclude-standard'
)
#: A path's mode and blob in a tree.
_Side = tuple[str, str]
_NOTHING: _Side = ("", "")
_TREE = "040000"
_MODES = {"100755": EXECUTABLE, "100644": NOT_EXECUTABLE}


@dataclass(frozen=True)
class State:
    """The workspace at one time. unstored_signs: of what is not in the tree (see `unstored.signs`)."""

    tree: str
    unstored_signs: Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """How a path differs between two states."""

    names: Names
    old: Captured
    new: Captured


class States(Protocol):
    """Sees states of a workspace. Only one session at a time may use it. Raises CheckpointFailed."""

    def state(self) -> State:
        """The files as they are now."""
        ...

    def differences(self, before: str, after: str) -> Iterator[Difference]:
        """What differs between two trees."""
        ...

    def clean(self) -> None:
        """Free the space of all states."""
        ...


class Shadow:
    """The repository in the folder `git_dir`. largest: the bytes of a file that is still stored. See States."""

    def __init__(self, tree: Tree, git_dir: Path, sandbox: Sandbox, largest: int) -> None:
        self._tree, self._root, self._git_dir = tree, tree.root, git_dir
        self._sandbox, self._largest = sandbox, largest
        self._path = own_path(os.environ, self._root)
        self._program = shutil.which("git", path=self._path)
        self._is_prepared = False
        self._last_index: tuple[tuple[int, ...] | None, str] = (None, "")

    def state(self) -> State:
        """Store the files as they are now. What git ignores, large files and other repositories are not stored."""
        self._prepare()
        candidates, ignored_paths = self._listed()
        sorted_by: dict[str, list[str]] = {"stored": [], "gone": [], "left_out": []}
        for path in dict.fromkeys(candidates):
            sorted_by[self._fate(path)].append(path)
        file_paths, deleted_paths, left_out = sorted_by.values()
        if left_out:  # What was stored may have become too large.
            deleted_paths += sorted(set(left_out) & set(self._files()))
        if deleted_paths:
            self._update(deleted_paths, "--force-remove")
        if file_paths:
            self._update(file_paths, "--add", "--remove", "--replace")
        signs = unstored.signs(self._tree, [*left_out, *ignored_paths])
        return State(self._index_tree(), signs)

    def _listed(self) -> tuple[list[str], list[str]]:
        """The paths that differ from the index, and those that git ignores, by one start of the sandbox."""
        paths = self._paths(self._start(("/bin/sh", "-c", _LISTING, self._git()), "ls-files"))
        between = paths.index("/")
        return paths[:between], paths[between + 1 :]

    def _index_tree(self) -> str:
        """The tree of the index; git is asked only if the index has changed since the last time."""
        if self._sign_of_index() is None or self._sign_of_index() != self._last_index[0]:
            tree = self._run("write-tree").decode().strip()
            self._last_index = (self._sign_of_index(), tree)
        return self._last_index[1]

    def _sign_of_index(self) -> tuple[int, ...] | None:
        with suppress(OSError):
            status = (self._git_dir / "index").stat()
            return (status.st_ino, status.st_size, status.st_mtime_ns)
        return None

    def differences(self, before: str, after: str) -> Iterator[Difference]:
        """What differs between two trees, with the contents."""
        output = os.fsdecode(self._run("diff-tree", "-r", "-t", "-z", "--no-renames", before, after)).split("\0")
        sides: dict[str, tuple[_Side, _Side]] = {}
        for head, path in zip(output[::2], output[1::2], strict=False):
            old_mode, new_mode, old_blob, new_blob, _ = head.removeprefix(":").split(" ")
            old, new = sides.get(path, (_NOTHING, _NOTHING))
            # A file that takes a directory's place is told in two lines.
            old = (old_mode, old_blob) if old_blob.strip("0") else old
            new = (new_mode, new_blob) if new_blob.strip("0") else new
            sides[path] = (old, new)
        paths = [path for path, (old, new) in sides.items() if not old[0] == new[0] == _TREE]
        for start in range(0, len(paths), _BATCH):
            batch = paths[start : start + _BATCH]
            blobs = {blob for path in batch for mode, blob in sides[path] if mode not in ("", _TREE)}
            contents = self._contents(sorted(blobs))
            for path in batch:
                old, new = sides[path]
                yield Difference(tuple(path.split("/")), _captured(old, contents), _captured(new, contents))

    def clean(self) -> None:
        """Free the space of all states but the last, and of the checkpoints of older versions."""
        self._prepare()
        refs = self._run("for-each-ref", "--format=delete %(refname)")
        self._run("update-ref", "--stdin", stdin=refs)
        self._run("gc", "--quiet", "--prune=now")

    def _prepare(self) -> None:
        """Create the repository unless it exists. No git of ours runs, because we hold the folder's lock."""
        if self._is_prepared:
            return
        try:
            private_folder.ensure(self._git_dir.parent)
            self._git_dir.mkdir(mode=0o700, exist_ok=True)
            if _PRIVATE not in read_small(self._git_dir / "config"):
                self._run("init", "--quiet", "--template=", f"--shared={_PRIVATE}")
                private_folder.close(self._git_dir)
            (self._git_dir / "index.lock").unlink(missing_ok=True)  # of a git that died
            (self._git_dir / "info").mkdir(exist_ok=True, mode=0o700)
            private_file.write(self._git_dir / "info/attributes", _ATTRIBUTES)
            private_file.write(self._git_dir / "info/exclude", read_small(self._root / ".git/info/exclude"))
        except (private_file.PrivateFileError, OSError) as error:
            raise CheckpointFailed(str(error)) from None
        self._is_prepared = True

    def _fate(self, path: str) -> str:
        """What becomes of a path that has changed: stored, gone or left_out. No link is followed on its way."""
        names = tuple(path.split("/"))
        if names[-1] == "" or any(name.lower() == ".git" for name in names):
            return "left_out"  # Another repository.
        try:
            status = self._tree.status(names)
        except ToolFailure:
            return "gone"
        if stat.S_ISREG(status.st_mode):
            return "stored" if status.st_size <= self._largest else "left_out"
        return "stored" if stat.S_ISLNK(status.st_mode) else "gone"

    def _update(self, paths: Sequence[str], *options: str) -> None:
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        self._run("update-index", "-z", *options, "--stdin", stdin=stdin)

    def _contents(self, blobs: Sequence[str]) -> dict[str, bytes]:
        output = (
            self._run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode()) if blobs else b""
        )
        contents, at = {}, 0
        for blob in blobs:
            end = output.index(b"\n", at)
            size = int(output[at:end].split(b" ")[2])
            contents[blob] = output[end + 1 : end + 1 + size]
            at = end + size + 2
        return contents

    # -- running git -------------------------------------------------------------------------------------------------

    def _files(self) -> list[str]:
        return self._paths(self._run("ls-files", "-z"))

    def _paths(self, output: bytes) -> list[str]:
        return [path for path in os.fsdecode(output).split("\0") if path]

    def _git(self) -> str:
        if self._program is None:
            raise CheckpointFailed("git is not installed")
        return self._program

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self._start((self._git(), "--no-pager", *arguments), arguments[0], stdin)

    def _start(self, argv: Sequence[str], name: str, stdin: bytes = b"") -> bytes:
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
        }
        # In the sandbox, a file that is swapped for a link while git reads it shows nothing of the user's.
        access = Access(writable=(self._git_dir,), readable=(self._root,))
        launch = self._sandbox.launch(tuple(argv), access, self._root)
        try:
            process = subprocess.run(
                launch.argv,
                cwd=launch.cwd,
                env={**environment, **launch.env},
                input=stdin,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
                umask=0o077,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CheckpointFailed(f"git {name}: {error}") from None
        if process.returncode != 0:
            raise CheckpointFailed(f"git {name}: {process.stderr.decode(errors='replace').strip()[-500:]}")
        return process.stdout


def _captured(side: _Side, contents: Mapping[str, bytes]) -> Captured:
    mode, blob = side
    if mode == "":
        return Captured(ABSENT)
    if mode == _TREE:
        return Captured(DIRECTORY)
    data = contents[blob]
    if mode in _MODES:
        return Captured(FileState("file", digest_of(data), _MODES[mode]), data)
    return Captured(FileState("link", digest_of(data)), data)
