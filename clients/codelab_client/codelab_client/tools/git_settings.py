"""The user's own git settings, as git resolves them in a repository: includes, conditions and the system's file.

Git itself reads them, outside the sandbox, because they may be anywhere in the home directory. It reads nothing of the
repository's own settings then, except what the user's may depend on: its remotes, and which files outside it they
include.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.repository import Repository

#: Seconds for git, which reads a few small files.
_PATIENCE = 10
#: Variables that say where a repository is: ours does.
_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE")
#: Who commits, by variables of the environment and by settings.
WHO_VARIABLES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL")
WHO = tuple(f"{role}.{part}" for role in ("user", "author", "committer") for part in ("name", "email"))
#: What a file that the repository's settings include may say.
_OF_INCLUDED = frozenset({*WHO, "commit.gpgsign", "core.hookspath"})
_OWN = ("local", "worktree")

Entries = Sequence[tuple[str, str, str | None]]


@dataclass(frozen=True)
class Settings:
    """Values by name, in lower case but for a middle part; None: a name without a value, which is true.

    own: the repository's. users: the user's and the system's.
    """

    own: Mapping[str, str | None] = field(default_factory=dict)
    users: Mapping[str, str | None] = field(default_factory=dict)

    def value(self, name: str) -> str | None:
        """The value that git uses: the repository's settings come before the user's."""
        return self.own[name] if name in self.own else self.users.get(name)

    def is_true(self, name: str) -> bool:
        """Whether a setting is switched on (git-config(1), boolean)."""
        if name not in self.own and name not in self.users:
            return False
        value = self.value(name)
        return value is None or value.lower() in ("true", "yes", "on") or (value.isdecimal() and int(value) != 0)

    def filters(self) -> frozenset[str]:
        """The names of the filters that convert files."""
        names = [name for name in (*self.own, *self.users) if name.lower().startswith("filter.")]
        return frozenset(name[7:].rpartition(".")[0] for name in names if not name.endswith(".required"))


def entries(output: str) -> Entries:
    """The scope, name and value of each line of `git config --list --show-scope -z`."""
    parts = output.split("\0")[:-1]
    result = []
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        name, has_value, value = entry.partition("\n")
        result.append((scope, name, value if has_value else None))
    return result


def own_values(settings: Entries) -> dict[str, str | None]:
    """The repository's own settings, of all that git listed in it."""
    return {name: value for scope, name, value in settings if scope in _OWN}


def users_values(
    program: str, environment: Mapping[str, str], repository: Repository, own: Entries
) -> dict[str, str | None]:
    """The user's settings in this repository. own: what git listed in it. Raises ToolFailure GIT_ERROR."""
    with tempfile.TemporaryDirectory(prefix="codelab-git-") as name:
        folder = Path(name)
        for part in ("objects", "refs"):
            (folder / part).mkdir()
        (folder / "config").write_text("".join(_copied(own, repository)), "utf-8", "surrogateescape")
        places = {"GIT_DIR": str(repository.git_dir), "GIT_COMMON_DIR": name}
        try:
            process = subprocess.run(
                [program, "config", "--list", "--show-scope", "-z"],
                env={**{key: value for key, value in environment.items() if key not in _PLACES}, **places},
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolFailure("GIT_ERROR", f"The user's git settings cannot be read: {error}") from None
    if process.returncode != 0:
        reason = process.stderr.decode(errors="replace").strip()[-500:].replace(name, "")
        raise ToolFailure("GIT_ERROR", f"The user's git settings cannot be read: {reason}")
    listing = entries(os.fsdecode(process.stdout))
    return {name: value for scope, name, value in listing if scope not in _OWN or name in _OF_INCLUDED}


def _copied(own: Entries, repository: Repository) -> Iterable[str]:
    """The lines of a file of settings with what the user's may depend on."""
    yield "[core]\n\trepositoryformatversion = 0\n"
    for scope, name, value in own:
        if scope not in _OWN or value is None:
            continue
        if name.startswith("remote.") and name.endswith(".url"):
            yield _line(name, value)
        elif name == "include.path" or (name.startswith("includeif.") and name.endswith(".path")):
            path = Path(os.path.realpath(repository.common_dir / value))
            if value.startswith("~") or not path.is_relative_to(repository.top):
                yield _line(name, value if value.startswith("~") else str(path))


def _line(name: str, value: str) -> str:
    section, _, remainder = name.partition(".")
    middle, _, last = remainder.rpartition(".")
    quoted = middle.replace("\\", "\\\\").replace('"', '\\"')
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'[{section} "{quoted}"]\n\t{last} = "{escaped}"\n' if middle else f'[{section}]\n\t{last} = "{escaped}"\n'


def users_file(settings: Settings, name: str, default: str, environment: Mapping[str, str], top: Path) -> Path | None:
    """The file that a setting such as core.excludesFile names, if there is one; else git's own default, if it exists.

    Of the repository's settings only a file in it counts: another one might be anything of the user's.
    """
    home = environment.get("HOME", "")
    if name in settings.own:
        path = Path(os.path.realpath(top / expanded(settings.own[name] or "", home)))
        return path if path.is_relative_to(top) and path.is_file() else None
    if setting := settings.users.get(name):
        path = Path("/", expanded(setting, home))
    else:
        folder = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
        path = Path(folder, "git", default) if folder else Path("/nonexistent")
    path = Path(os.path.realpath(path))
    return path if path.is_file() else None


def expanded(path: str, home: str) -> str:
    """A path with the home directory in place of `~/`."""
    return f"{home}/{path[2:]}" if path.startswith("~/") and home else path
