"""`.codelab/permissions.toml`: which calls a project denies, asks about, and allows once the user trusts it.

[[deny]]
tool = "*"
path = "secrets/**"

[[ask]]
tool = "run_command"
command = "git push"

[[allow]]
tool = "write_file"
path = "docs/**/*.md"

An entry that allows is one of a policy (`codelab_client.policy`), and matches too little rather than too much. One that
denies or asks is the other way round: what it does not name may be anything, one path of a call is enough, and neither
case nor links make another file of it.
"""

import fnmatch
import json
import os
import posixpath
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from codelab_client.allowed_commands import is_plain
from codelab_client.config import ConfigError
from codelab_client.policy import ACTING, Policy, problem_of
from codelab_client.safe_text import exact_line
from codelab_client.tools import limits, patches
from codelab_client.tools.arguments import ALIASES, ARGUMENTS
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.globs import matches
from codelab_client.tools.tree import Tree

FILE = ".codelab/permissions.toml"
Effect = Literal["deny", "ask", "allow"]
_EFFECTS: tuple[Effect, ...] = ("deny", "ask", "allow")
_MOST_BYTES = 100_000
_MOST_ENTRIES = 200
#: Characters of a pattern, and names in one.
_CHARS, _NAMES = 500, 32
#: Paths of one call that are looked at; of more, nobody can tell.
_MOST_PATHS = 1_000
#: Arguments of the catalogue that are paths, those of a diff among them, and tools that take everything in a folder.
_PATHS = ("path", "from", "to", "cwd", "files")
_DIFFS = ("apply_patch", "apply_patch_review")
_TREES = frozenset({"delete_file", "move_file", "search_in_project", "git.diff", "git.commit"})
#: What separates the words of a command for a shell. Quotes separate nothing: `g'i't` is `git`.
_SEPARATORS = re.compile(r"[\s;&|<>(){}$`]+")
_QUOTES = re.compile(r"['\"\\]")


@dataclass(frozen=True)
class Entry:
    """What the file says of some calls. fields: `tool`, and arguments with what they must be."""

    effect: Effect
    fields: Mapping[str, Any]

    def described(self) -> str:
        """The entry in a line, for people who decide about it."""
        arguments = (f"{name}={_text(value)}" for name, value in self.fields.items() if name != "tool")
        return exact_line(" ".join([self.effect, _text(self.fields["tool"]), *arguments]))


@dataclass(frozen=True)
class ProjectPermissions:
    """The permissions of a workspace, as they were when they were read. content: the file's; empty if there is none."""

    root: Path
    entries: tuple[Entry, ...] = ()
    content: bytes = b""

    @classmethod
    def load(cls, workspace: Path) -> "ProjectPermissions":
        """Read the file. Raises ConfigError: what it denies must not be lost because nobody can read it."""
        tree = Tree(workspace)
        names = tuple(FILE.split("/"))
        try:
            data = tree.read(names, _MOST_BYTES).data
            if tree.real(names) != names:
                raise ToolFailure("INVALID_PATH", "it must not be a link, nor in a folder that is one")
        except ToolFailure as failure:
            if failure.code == "FILE_NOT_FOUND":
                return cls(tree.root)
            raise ConfigError(f"{workspace / FILE}: {failure.message}") from None
        finally:
            tree.close()
        try:
            return cls(tree.root, tuple(_entries(tomllib.loads(data.decode()))), data)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{workspace / FILE}: {error}") from None

    def denies(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The entry that denies a call, in words; empty if none does."""
        return self._first("deny", tool, arguments)

    def asks(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The entry that asks about a call, in words; empty if none does."""
        return self._first("ask", tool, arguments)

    def allows(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether an entry allows a call, and none asks about it or denies it. Commands are allowed otherwise."""
        if self.denies(tool, arguments) or self.asks(tool, arguments) or _canonical(tool) == "run_command":
            return False
        try:
            return Policy(tuple(entry.fields for entry in self.of("allow"))).allows(tool, arguments)
        except RecursionError:
            return False

    def commands(self) -> list[Mapping[str, Any]]:
        """The arguments of the commands that entries allow."""
        entries = [entry.fields for entry in self.of("allow") if _canonical(entry.fields["tool"]) == "run_command"]
        return [{name: value for name, value in fields.items() if name != "tool"} for fields in entries]

    def of(self, effect: Effect) -> list[Entry]:
        """The entries with this effect, in the order of the file."""
        return [entry for entry in self.entries if entry.effect == effect]

    def _first(self, effect: Effect, tool: str, arguments: Mapping[str, Any]) -> str:
        entries = self.of(effect)
        if not entries:
            return ""
        call = _Call.of(self.root, tool, arguments)
        return next((entry.described() for entry in entries if call.is_met_by(entry.fields)), "")


@dataclass(frozen=True)
class _Call:
    """A call as entries that deny or ask see it.

    paths: by argument, the names of each path, as it is written and without links; under `path` all of them.
    None: nobody can tell, so every pattern meets it.
    """

    tool: str
    arguments: Mapping[str, Any]
    paths: Mapping[str, Sequence[Sequence[str]]] | None

    @classmethod
    def of(cls, root: Path, tool: str, arguments: Mapping[str, Any]) -> "_Call":
        name = _canonical(tool)
        try:
            pairs = list(islice(_paths(name, arguments), _MOST_PATHS + 1))
        except (ToolFailure, RecursionError):
            return cls(name, arguments, None)
        if len(pairs) > _MOST_PATHS:
            return cls(name, arguments, None)
        paths: dict[str, list[Sequence[str]]] = {"path": []}
        for argument, path in pairs:
            spellings = [*_spellings(root, path)]
            paths["path"] += spellings
            if argument != "path":
                paths.setdefault(argument, []).extend(spellings)
        return cls(name, arguments, paths)

    def is_met_by(self, fields: Mapping[str, Any]) -> bool:
        """Whether an entry's patterns meet the call."""
        tool = fields["tool"]
        if not _like(_canonical(tool), self.tool):
            return False
        return all(self._meets(name, pattern) for name, pattern in fields.items() if name != "tool")

    def _meets(self, name: str, pattern: Any) -> bool:
        patterns = pattern if isinstance(pattern, list) else [pattern]
        if name in _PATHS:
            paths = None if self.paths is None else self.paths.get(name, ())
            takes_all = self.tool in _TREES
            return paths is None or any(
                _touches(glob, path, takes_all=takes_all) for glob in patterns for path in paths
            )
        try:
            return self._meets_value(name, patterns)
        except RecursionError:  # nobody can tell
            return True

    def _meets_value(self, name: str, patterns: Sequence[Any]) -> bool:
        value = self.arguments.get(name)
        if name == "command":
            return isinstance(value, str) and any(_runs(prefix, value) for prefix in patterns)
        if isinstance(value, str):
            return any(isinstance(glob, str) and _like(glob, value) for glob in patterns)
        return any(json.dumps(value, sort_keys=True) == json.dumps(item, sort_keys=True) for item in patterns)


def _canonical(tool: str) -> str:
    return ALIASES.get(tool, tool)


def _folded(text: str) -> str:
    """A text as the most tolerant file system compares it."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _like(glob: str, text: str) -> bool:
    """`*` and `?` stand for any characters, and nothing else for others."""
    return fnmatch.fnmatchcase(_folded(text), _folded(glob).replace("[", "[[]"))


def _names(path: str) -> list[str]:
    names = (name.rstrip(". ") for name in re.split(r"[/\\]", _folded(path)))
    return [name for name in names if name]


def _paths(tool: str, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The paths that a call names, each with its argument. Raises ToolFailure for a diff that cannot be read."""
    if tool in _DIFFS:
        for file in patches.parse(str(arguments.get("diff", ""))):
            yield from (("path", "/".join(names)) for names in (file.old, file.new) if names)
    elif tool not in ARGUMENTS:  # which of its arguments are paths, nobody knows
        yield from (("path", text) for text in _texts(arguments) if len(text) <= limits.PATH_CHARS)
    else:
        values = [(name, arguments.get(name)) for name in _PATHS]
        pairs = [(name, item) for name, value in values for item in (value if isinstance(value, list) else [value])]
        named_paths = [(name, item) for name, item in pairs if isinstance(item, str)]
        yield from named_paths or ([(ACTING[tool][0], ".")] if tool in _TREES else [])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _spellings(root: Path, path: str) -> Iterator[list[str]]:
    """The names in a path: as it is written, and where its links lead in the workspace."""
    yield _names(path)
    try:
        plain_path = posixpath.normpath(os.path.join(root, path))  # noqa: PTH118 - also an absolute one of another's tool
        for place in (plain_path, _without_links(plain_path)):
            if f"{place}/".startswith(f"{root}/"):  # pathlib takes long for a path of many names
                yield _names(place[len(str(root)) :])
    except (OSError, ValueError):
        return


def _without_links(path: str) -> str:
    """Where a whole path leads. What does not exist has no links in it, however long it is."""
    names = path.split("/")
    present = next((n for n in range(1, len(names)) if not os.path.lexists("/".join(names[: n + 1]))), len(names))
    return "/".join([os.path.realpath("/".join(names[:present]) or "/"), *names[present:]])


def _touches(glob: Any, names: Sequence[str], *, takes_all: bool) -> bool:
    """Whether a path is one that a glob means, or in a folder that it means; takes_all: or a folder above that.

    A glob without a slash means such a name in every folder.
    """
    if not isinstance(glob, str):
        return False
    parts = [part for part in _folded(glob).replace("[", "[[]").split("/") if part not in ("", ".")]
    while parts and parts[-1] == "**":
        parts.pop()
    if not parts:
        return True
    if "/" not in glob:
        parts = ["**", *parts]
    if not names:
        return takes_all
    if matches("/" + "/".join([*parts, "**"]), names):
        return True
    return takes_all and _may_be_below(parts, names)


def _may_be_below(parts: Sequence[str], names: Sequence[str]) -> bool:
    for part, name in zip(parts, names, strict=False):
        if part == "**":
            return True
        if not fnmatch.fnmatchcase(name, part):
            return False
    return True


def _runs(prefix: Any, command: str) -> bool:
    """Whether the words of a command have these words, one after the other, anywhere."""
    if not isinstance(prefix, str):
        return False
    prefix_words = _words(prefix)
    if prefix_words and prefix_words[-1] == "*":
        prefix_words.pop()
    words = _words(command)
    starts = range(len(words) - len(prefix_words) + 1)
    return any(all(_like(want, words[at + i]) for i, want in enumerate(prefix_words)) for at in starts)


def _words(command: str) -> list[str]:
    words = [word for word in _SEPARATORS.split(_QUOTES.sub("", command)) if word]
    return [word.rpartition("/")[2] or word for word in words]


def _entries(content: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries of the file. Raises ValueError."""
    count = 0
    for effect, tables in content.items():
        if effect not in _EFFECTS:
            raise ValueError(f"unknown key {effect[:40]!r}; there are [[deny]], [[ask]] and [[allow]]")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ValueError(f"`{effect}` must be a list of tables: [[{effect}]]")
        for table in tables:
            count += 1
            if count > _MOST_ENTRIES:
                raise ValueError(f"more than {_MOST_ENTRIES} entries")
            problem = _allow_problem(table) if effect == "allow" else _narrow_problem(table)
            if problem := _size_problem(table) or problem:
                raise ValueError(f"[[{effect}]]: {problem}")
            yield Entry(effect, table)


def _size_problem(table: Mapping[str, Any]) -> str:
    """Why an entry is too large to be read by people; empty if it is not."""
    texts = [*table, *_texts(table)]
    if len(texts) > 100 or any(len(text) > _CHARS or text.count("/") >= _NAMES for text in texts):
        return f"a pattern has at most {_CHARS} characters and {_NAMES} names, and an entry 100 of them"
    return ""


def _allow_problem(table: Mapping[str, Any]) -> str:
    """Why an entry cannot allow anything, or more than "always" allows at a question; empty if it can."""
    if problem := problem_of(table):
        return problem
    tool = _canonical(table["tool"])
    if "*" in tool or "?" in tool:
        return "an entry that allows names one tool"
    if any(isinstance(value, dict) for value in table.values()):
        return f"{tool}: `{{ any = true }}` is for a policy of your own"
    if tool == "run_persistent":
        return f"{tool} cannot be allowed: each of its calls is asked about"
    if tool == "run_command" and not is_plain(table.get("command"), table.get("cwd")):
        return f"{tool}: only a whole command of plain words can be allowed: no quotes, operators, variables, wildcards"
    return ""


def _narrow_problem(table: Mapping[str, Any]) -> str:
    """Why an entry would not do what it seems to say; empty if it does."""
    tool = table.get("tool")
    if not isinstance(tool, str) or not tool:
        return 'every entry needs a tool; "*" is every tool'
    name = _canonical(tool)
    if name in ARGUMENTS:
        argument_names = {*ARGUMENTS[name], *ACTING.get(name, ()), *(["path"] if _takes_paths(name) else [])}
        for argument in table:
            if argument != "tool" and argument not in argument_names:
                return f"{tool} has no argument {argument[:40]!r}; it has {', '.join(sorted(argument_names))}"
    elif suggestion := problem_of({"tool": tool}):
        return suggestion
    for argument, pattern in table.items():
        items = pattern if isinstance(pattern, list) else [pattern]
        if not items or not all(isinstance(item, str | int | float | bool) for item in items):
            return f"`{argument[:40]}` must be a text, a number, true or false, or a list of them"
        if argument in (*_PATHS, "command") and not all(isinstance(item, str) for item in items):
            return f"`{argument}` must be a text, or a list of texts"
    return ""


def _takes_paths(tool: str) -> bool:
    return tool in _DIFFS or any(name in ARGUMENTS[tool] for name in _PATHS)


def _text(value: Any) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"\S+", value) else json.dumps(value, ensure_ascii=False)
