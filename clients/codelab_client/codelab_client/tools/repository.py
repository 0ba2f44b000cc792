"""Finds the workspace's git repository, and refuses one whose files lead elsewhere.

Git follows links inside `.git`, and files there name other folders: a commit in a hostile workspace could write to any
file of the user. A folder outside the workspace is used only if it names this workspace as its own: the repository that
a `git worktree` belongs to.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codelab_client.tools.failure import ToolFailure

_HOOKS = "hooks"
_SHORT = 16_384


@dataclass(frozen=True)
class Repository:
    """A git repository. top: its working tree, which may be a directory above the workspace."""

    top: Path
    git_dir: Path
    common_dir: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where git keeps its data."""
        return tuple(dict.fromkeys((self.common_dir, self.git_dir)))


def find(root: Path) -> Repository:
    """The repository of the workspace `root` (absolute, without links).

    Raises ToolFailure: GIT_NOT_INITIALIZED, or GIT_ERROR if it leads out of the workspace.
    """
    for folder in (root, *root.parents):
        dot_git = folder / ".git"
        try:
            mode = dot_git.lstat().st_mode
        except OSError:
            continue
        if folder != root and dot_git.lstat().st_uid != os.getuid():
            continue  # Somebody else's, such as /tmp/.git.
        if stat.S_ISLNK(mode):
            raise _leads_out(".git is a symbolic link")
        if stat.S_ISDIR(mode) and (dot_git / "HEAD").exists():
            repository = Repository(folder, dot_git, dot_git)
            _check(repository, dot_git)
            return repository
        if stat.S_ISREG(mode):
            return _worktree(folder, dot_git)
    raise ToolFailure("GIT_NOT_INITIALIZED", "The workspace is not a git repository")


def _worktree(folder: Path, dot_git: Path) -> Repository:
    """The repository that a file `.git` names, if it has this working tree."""
    first_line = _first_line(dot_git)
    if not first_line.startswith("gitdir: "):
        raise _leads_out(".git is not a repository")
    git_dir = (folder / first_line.removeprefix("gitdir: ")).resolve()
    back = _first_line(git_dir / "gitdir")
    if not back or (git_dir / back).resolve() != dot_git:
        raise _leads_out(".git names a folder that does not know this working tree")
    common_dir = (git_dir / (_first_line(git_dir / "commondir") or ".")).resolve()
    if git_dir.parent.parent != common_dir:
        raise _leads_out(".git names a folder that is no working tree's")
    return Repository(folder, git_dir, common_dir)


def _check(repository: Repository, dot_git: Path) -> None:
    """Refuse links, and files that name other folders, inside `.git`."""
    if (dot_git / "commondir").exists():
        raise _leads_out(".git/commondir names another folder")
    alternates = dot_git / "objects" / "info" / "alternates"
    lines = read_small(alternates).splitlines() or ["/"]
    objects = dot_git / "objects"
    if os.path.lexists(alternates) and not all((objects / line).resolve().is_relative_to(dot_git) for line in lines):
        raise _leads_out(".git/objects/info/alternates names another repository")
    for link in _links(dot_git):
        if not link.resolve().is_relative_to(dot_git):
            raise _leads_out(f"{link.relative_to(repository.top)} is a symbolic link")


def _links(dot_git: Path) -> Iterator[Path]:
    """The symbolic links in `.git`, but not hooks, which do not run, and not single objects, which git checks."""
    todo = [dot_git]
    while todo:
        folder = todo.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                path = folder / entry.name
                if entry.is_symlink():
                    yield path
                elif entry.is_dir(follow_symlinks=False) and not (
                    path == dot_git / _HOOKS or (folder.name == "objects" and len(entry.name) == 2)
                ):
                    todo.append(path)


def read_small(file: Path) -> str:
    """The beginning of a small text file; empty if it is none. A FIFO is not waited for, and a link not followed."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            return stream.read(_SHORT).decode() if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _first_line(file: Path) -> str:
    return read_small(file).split("\n")[0].rstrip("\r")


def _leads_out(reason: str) -> ToolFailure:
    return ToolFailure("GIT_ERROR", f"This repository leads out of the workspace, so git is not used: {reason}")
