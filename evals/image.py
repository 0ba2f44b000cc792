"""Makes a task's files from its Dockerfile, without Docker: what COPY, WORKDIR, ENV and RUN leave.

The base image is not there: the machine's own programs are used. Steps that install packages are left out and said in
the notes: whether a task can do without them, its own solution shows.
"""

import fnmatch
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from evals import sandbox
from evals.harbor import Task, TaskError

_INSTRUCTION = re.compile(r"^\s*([A-Za-z]+)\s+(.*)$", re.DOTALL)
_IGNORED = {
    "CMD",
    "ENTRYPOINT",
    "EXPOSE",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
}
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})")
#: A command that brings software from a registry.
_INSTALLS = re.compile(
    r"^\s*(?:apt-get|apt|apk|yum|dnf|curl|wget|(?:python3? -m )?pip3?|uv|npm|pnpm|yarn|rm -rf /var/lib/apt)\b"
)
_RUN_S = 300


@dataclass
class Image:
    """The files of an environment: `root` stands for `/`. notes: what was left out."""

    root: Path
    workdir: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def copy(self, root: Path) -> "Image":
        """The same in another folder, which must not exist."""
        shutil.copytree(self.root, root, symlinks=True)
        return Image(root, self.workdir, dict(self.environment), list(self.notes))

    @property
    def mounts(self) -> sandbox.Mounts:
        """Where its files stand in a sandbox."""
        return sandbox.Mounts(writable=sandbox.of_root(self.root))

    def place(self, path: str) -> Path:
        """Where the file at this absolute path is on this machine."""
        return self.root / path.lstrip("/")


def build(task: Task, root: Path) -> Image:
    """Make the environment in the empty folder `root`. Raises TaskError if it takes more than this can do."""
    image = Image(root, environment=dict(task.environment_env))
    builder = _Builder(task, image)
    try:
        text = task.dockerfile.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{task.name}: {error}") from None
    for name, arguments in _instructions(task.name, text):
        builder.take(name, arguments)
    if image.workdir == "/":
        builder.change_to("/app")
    image.place(image.workdir).mkdir(parents=True, exist_ok=True)
    return image


class _Builder:
    def __init__(self, task: Task, image: Image) -> None:
        self._name, self._image = task.name, image
        self._context = task.dockerfile.parent
        self._arguments: dict[str, str] = {}
        self._stages = 0

    def take(self, name: str, rest: str) -> None:
        if name in _IGNORED:
            return
        method = getattr(self, f"_{name.lower()}", None)
        if method is None:
            raise TaskError(f"{self._name}: {name} in its Dockerfile is not supported without Docker")
        method(rest)

    def change_to(self, path: str) -> None:
        target = self._absolute(path)
        if target != "/" and sandbox.reserved(PurePosixPath(target)):
            raise TaskError(f"{self._name}: files in {target} are the machine's own without Docker")
        self._image.workdir = target

    def _from(self, rest: str) -> None:
        self._stages += 1
        if self._stages > 1:
            raise TaskError(f"{self._name}: an image in several stages is not supported without Docker")
        self._image.notes.append(f"in place of {rest.split()[0]}: this machine's programs")

    def _workdir(self, rest: str) -> None:
        self.change_to(self._expanded(rest.strip()))
        self._image.place(self._image.workdir).mkdir(parents=True, exist_ok=True)

    def _arg(self, rest: str) -> None:
        name, _, default = rest.strip().partition("=")
        self._arguments[name] = self._expanded(default.strip("\"'"))

    def _env(self, rest: str) -> None:
        words = shlex.split(self._expanded(rest))
        if words and "=" not in words[0]:  # the old form, NAME value
            words = [f"{words[0]}={' '.join(words[1:])}"]
        self._image.environment |= dict(word.split("=", 1) for word in words if "=" in word)

    def _copy(self, rest: str) -> None:
        words = shlex.split(self._expanded(rest))
        options = [word for word in words if word.startswith("--")]
        *sources, target = (word for word in words if not word.startswith("--"))
        if any(option.startswith("--from") for option in options):
            self._image.notes.append(f"left out: COPY {rest}")
            return
        is_folder = target.endswith("/") or len(sources) > 1 or target in (".", "./")
        place = self._place(target)
        for source in sources:
            found = self._found(source)
            if not found:
                raise TaskError(f"{self._name}: its Dockerfile copies {source}, which is not in environment/")
            for each in found:
                if each.is_dir():
                    shutil.copytree(each, place, symlinks=True, dirs_exist_ok=True, ignore=self._is_dockerfile)
                    continue
                into = place / each.name if is_folder or place.is_dir() or len(found) > 1 else place
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(each, into, follow_symlinks=False)

    _add = _copy

    def _run(self, rest: str) -> None:
        parts = [part.strip() for part in re.split(r"&&|;|\n", rest) if part.strip()]
        if all(_INSTALLS.match(part) for part in parts):
            self._image.notes.append(f"not installed: {' '.join(rest.split())}")
            return
        environment = self._arguments | self._image.environment
        self._image.place(self._image.workdir).mkdir(parents=True, exist_ok=True)
        done = sandbox.run(["/bin/sh", "-c", rest], self._image.mounts, self._image.workdir, environment, _RUN_S)
        if done.code != 0:
            raise TaskError(f"{self._name}: RUN {rest} failed without Docker: {done.output[-500:]}")

    def _place(self, target: str) -> Path:
        path = self._absolute(target)
        if path != "/" and sandbox.reserved(PurePosixPath(path)):
            raise TaskError(f"{self._name}: files in {path} are the machine's own without Docker")
        return self._image.place(path)

    def _absolute(self, path: str) -> str:
        return os.path.normpath(str(PurePosixPath(self._image.workdir) / path))

    def _found(self, source: str) -> list[Path]:
        """The files of the context that a source names. Nothing outside of it."""
        path = self._context / source.lstrip("/")
        if not path.resolve().is_relative_to(self._context.resolve()):
            return []
        if any(mark in source for mark in "*?["):
            return [each for each in sorted(path.parent.iterdir()) if fnmatch.fnmatch(each.name, path.name)]
        return [path] if path.exists() else []

    def _is_dockerfile(self, folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name == "Dockerfile" and Path(folder) == self._context]

    def _expanded(self, text: str) -> str:
        known = self._arguments | self._image.environment
        return _VARIABLE.sub(lambda match: known.get(match[1] or match[2], match[3] or ""), text)


def _instructions(name: str, text: str) -> Iterator[tuple[str, str]]:
    """The instructions with continued lines as one."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\[ \t]*\n", " ", "\n".join(lines))
    for line in whole.splitlines():
        if not line.strip():
            continue
        match = _INSTRUCTION.match(line)
        if match is None or "<<" in line:
            raise TaskError(f"{name}: this line of its Dockerfile is not supported without Docker: {line.strip()[:80]}")
        yield match[1].upper(), match[2].strip()
