"""What a server's command line names in the workspace: the files that run, and the scripts that say what runs.

The user trusts a server with the content of these files. The search takes rather too much than too little: every word
of the command line that names a file counts, whatever the program makes of it, and in whichever folder that another
word names. What such a file loads in its turn is not searched for; for that, the server runs in the sandbox.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codelab_client.mcp.config import McpConfigError, ServerConfig
from codelab_client.tools.processes import own_path

#: What interpreters add to the name of a script, and what they run of a directory.
_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".rb", ".sh")
_ENTRIES = ("__main__.py", "__init__.py", "index.js", "index.mjs", "index.cjs", "index.ts")
#: What `package.json` calls the file that is run of its folder.
_MAIN = "main file"
_INTERPRETER = re.compile(r"(python|pypy|node|nodejs|bun|deno|ruby|perl|php|uv|tsx|ts-node)[\d.]*", re.IGNORECASE)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
#: Folders from which modules are imported, relative to the folder in which the server runs.
_IMPORTED = ("", "src")
#: Files that tell these programs what to run.
_MANIFESTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("npm", "npx", "pnpm", "pnpx"), (".npmrc",)),
    **dict.fromkeys(("yarn", "yarnpkg"), (".yarnrc", ".yarnrc.yml", ".pnp.cjs")),
    **dict.fromkeys(("bun", "bunx"), ("bunfig.toml",)),
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    "deno": ("deno.json", "deno.jsonc"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "cargo": ("Cargo.toml",),
    "go": ("go.mod", "go.work"),
    "mix": ("mix.exs",),
    "mvn": ("pom.xml",),
    "gradle": ("build.gradle", "build.gradle.kts"),
    "sbt": ("build.sbt",),
    "swift": ("Package.swift",),
    "docker": ("Dockerfile", "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"),
}
_SEPARATORS = re.compile(r"[\s=:;,'\"()|&<>`]+")
_MOST_WORDS, _MOST_CHARS, _MOST_FOLDERS = 1_000, 4_000, 50
_MOST_MANIFEST = 1_000_000
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Named:
    """What a command line names. files: by their names in the workspace, without links. scripts: of manifests.

    leads: where links that leave the workspace lead.
    """

    files: Mapping[str, Path] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    leads: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """A digest that changes with the contents; empty if nothing is named."""
        if not (self.files or self.scripts or self.leads):
            return ""
        contents = {name: [str(path), _content_digest(path)] for name, path in self.files.items()}
        text = json.dumps([contents, dict(self.scripts), dict(self.leads)], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def listed(self) -> list[str]:
        """The names, for the user."""
        return [*self.files, *self.leads, *self.scripts]


def named_by(server: ServerConfig, workspace: Path) -> Named:
    """What the command line of a server names in the workspace, where the server runs."""
    if server.url:
        return Named()
    with contextlib.suppress(McpConfigError):  # It does not start.
        server = server.expanded(workspace=workspace)
    return _Search(workspace.resolve(), server).named_files


class _Search:
    """Collects what words name, and what the scripts name that they name."""

    def __init__(self, root: Path, server: ServerConfig) -> None:
        self._root = root
        self._folders: list[Path] = []
        self._searched_folders: list[Path] = []  # those of them in which all words were looked for
        self._files: dict[str, Path] = {}
        self._scripts: dict[str, str] = {}
        self._leads: dict[str, str] = {}
        self._seen_words: set[str] = set()
        words = [word for text in (server.command, *server.args, *server.env.values()) for word in _words(text)]
        programs = {Path(word).name for word in words}
        self._interprets = any(map(_INTERPRETER.fullmatch, programs))
        if (program := shutil.which(server.command, path=own_path(os.environ, root))) is not None:
            words.append(program)
        self._take(words)
        self._take([name for program in sorted(programs) for name in _MANIFESTS.get(program, ())])
        self._take_scripts(words)
        self.named_files = Named(self._files, self._scripts, self._leads)

    def _take(self, words: Sequence[str]) -> None:
        for word in words:
            if word in self._seen_words or len(word) > _MOST_CHARS:
                continue
            self._seen_words.add(word)
            if len(self._seen_words) > _MOST_WORDS:
                self._give_up()
                return
            for base in (self._root, *self._searched_folders):
                self._look_for(word, base)
        # A program may change into a folder that another word names, and find its files there.
        while len(self._searched_folders) < len(self._folders):
            if len(self._searched_folders) == _MOST_FOLDERS:
                self._give_up()
                return
            base = self._folders[len(self._searched_folders)]
            self._searched_folders.append(base)
            for word in sorted(self._seen_words):
                self._look_for(word, base)

    def _give_up(self) -> None:
        """Nobody could look at all of it: it is another server every time."""
        self._leads["more words than can be looked at"] = secrets.token_hex()

    def _look_for(self, word: str, base: Path) -> None:
        for path in self._meant_by(word, base):
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                self._add(path)

    def _meant_by(self, word: str, base: Path) -> Iterator[Path]:
        """The paths that a word may mean in a folder."""
        path = base / re.sub(r"^/+", "/", word)
        if word.startswith("~/"):
            path = Path.home() / word[2:]
        yield path
        if path.name:
            yield from (path.with_name(path.name + suffix) for suffix in _SUFFIXES)
        yield base / "node_modules" / ".bin" / word
        if self._interprets:
            yield from (path / entry for entry in _ENTRIES)
        if path.parent.name in ("bin", "Scripts"):
            yield path.parent.parent / "pyvenv.cfg"
        if _MODULE.fullmatch(word):
            yield from _modules(word.split("."), base)

    def _add(self, path: Path) -> None:
        """Take a path that is a file. Raises OSError, ValueError or RuntimeError if nobody can read it either."""
        if not os.path.lexists(path):
            return
        real = path.resolve()
        name = _inside(path, self._root) or _inside(real, self._root)
        if name is None:
            return
        if not real.is_relative_to(self._root):
            if real.exists():
                self._leads[name] = str(real)
        elif real.is_file():
            self._files[name] = real
        elif real.is_dir() and real not in self._folders:
            self._folders.append(real)

    def _take_scripts(self, words: Sequence[str]) -> None:
        """Take the scripts that the words name, then those that these scripts name, and so on."""
        names: set[str] = set()
        remaining = set(words)
        while remaining:
            names |= remaining
            folders = dict.fromkeys((self._root, *self._folders))
            scripts = [(manifest, script) for folder in folders for manifest, script in self._scripts_of(folder, names)]
            fresh = [script for manifest, script in scripts if manifest not in self._scripts]
            self._scripts |= dict(scripts)
            words = [word for script in fresh for word in _words(script)]
            self._take(words)
            remaining = set(words) - names

    def _scripts_of(self, folder: Path, names: Set[str]) -> Iterator[tuple[str, str]]:
        for manifest, name, script in _scripts(folder):
            # Package managers run `prebuild` and `postbuild` with `build`.
            is_main = name == _MAIN and self._interprets and folder in self._folders
            if is_main or names & {name, name.removeprefix("pre"), name.removeprefix("post")}:
                yield f"{name} in {_inside(folder / manifest, self._root)}", script


def _modules(parts: Sequence[str], base: Path) -> Iterator[Path]:
    for folder in (base / name for name in _IMPORTED):
        yield from (folder.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts) + 1))
        yield folder.joinpath(*parts, "__main__.py")
        yield folder.joinpath(*parts[:-1], f"{parts[-1]}.py")


def _inside(path: Path, root: Path) -> str | None:
    """The name of a path in the workspace, None if it is outside."""
    try:
        plain = Path(os.path.normpath(path))
        return str(plain.relative_to(root)) if plain != root else "."
    except ValueError:
        return None


def _words(text: str) -> Iterator[str]:
    """The whole text, and all words in it that could name something, also behind a short option."""
    yield text
    for word in _SEPARATORS.split(text):
        if word and "\0" not in word:
            yield word
            if re.match(r"-[A-Za-z].", word):
                yield word[2:]


def _scripts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """What a folder's manifests define to run: in which manifest, by which name, and what."""
    package = _parsed(folder / "package.json", json.loads)
    programs = package.get("bin")
    if isinstance(programs, str):
        programs = {str(package.get("name", "")).rpartition("/")[2]: programs}
    for table in (package.get("scripts"), programs):
        yield from (("package.json", name, script) for name, script in _texts(table))
    if isinstance(main := package.get("main"), str):
        yield "package.json", _MAIN, main
    project = _parsed(folder / "pyproject.toml", tomllib.loads)
    tables = (_inner(project, "project"), _inner(_inner(project, "tool"), "poetry"))
    for table in (*(_inner(table, "scripts") for table in tables), _inner(tables[0], "gui-scripts")):
        yield from (("pyproject.toml", name, script) for name, script in _texts(table))


def _inner(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = table.get(name)
    return inner if isinstance(inner, dict) else {}


def _texts(table: Any) -> list[tuple[str, str]]:
    return [(name, text) for name, text in table.items() if isinstance(text, str)] if isinstance(table, dict) else []


def _parsed(file: Path, parse: Any) -> Mapping[str, Any]:
    """A manifest; empty if there is none, or it cannot be read: then no program reads it either."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return {}
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return {}
        data = stream.read(_MOST_MANIFEST)
    try:
        manifest = parse(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _content_digest(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        return f"unreadable: {error.errno}"
    digest = hashlib.sha256()
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "no file"
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
