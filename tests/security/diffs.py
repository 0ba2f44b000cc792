"""Valid and invalid diffs of all kinds, and what git and patch(1) do with them."""

import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.processes import run

#: All files have the same lines, so a hunk applies to any of them, and only names decide which file changes.
LINES = ["one", "two", "three", "four", "five", "six"]
FILES = ("src/a.py", "src/b.py", "README.md", "docs/plan.md", ".env", ".git_/config", "my file.txt", "да.py", "x/.env")

#: Lines to replace lines of a diff, or to insert between them.
HOSTILE_LINES = (
    "index 1234567..89abcde 100644", "index 0000000..89abcde", "index 89abcde..0000000", "index 1..2 120000",
    "Index: .env", "Index: src/a.py", "Prereq: one", "Prereq: none", "*** a/.env", "*** .env\t2024-01-01", "--- .env",
    "--- a/.env", "+++ b/.env", "+++ .env", "--- a/.env\t", "*** 1,3 ****", "--- 1,3 ----", "***************",
    "rename from src/a.py", "rename to .env", "copy from src/a.py", "copy to .env", "rename old .env",
    "diff --git a/.env b/.env", "diff --git a/src/a.py b/.env", "diff -u a/.env b/.env", "diff --git a/x b/x b/x",
    "new file mode 100644", "new file mode 120000", "deleted file mode 100644", "old mode 100644", "new mode 100755",
    "old mode 120000", "new mode 120000", "similarity index 90%", "dissimilarity index 90%", "GIT binary patch",
    "literal 0", "Binary files a/.env and b/.env differ", "@@ -1 +1 @@", "@@ -1,3 +1,3 @@", "@@ -0,0 +1 @@",
    "@@ -1,6 +0,0 @@", "1d", "1c", "1,2c1,2", "2a", "s/one/two/", "w .env", ".", "< one", "> evil", "---", "-- ", "+",
    "-one", "+evil", " one", "", "\t", "\r", "\\ No newline at end of file", "From: Ann", "Only in a: x", "```diff",
    "=== modified file '.env'", "--- /dev/null", "+++ /dev/null", "mode change", "deleted file mode 120000",
)  # fmt: skip
HOSTILE_NAMES = (
    ".env", "a/.env", "b/.env", "a/src/../.env", "b/./.env", "b//.env", '"b/.env"', '"b/\\056env"', "b/.env\t",
    "b/.env\t1970-01-01 00:00:00.000000000 +0000", "b/.env\t2024-01-09", "b/src/a.py\r", "b/.env\f", "/dev/null",
    "/dev/null\t1970-01-01", "b/x/.env", "c/.env", "b/../.env", "a/.git_/config", "b/my file.txt", "b/my",
    "b/src/a.py b/.env", "b\\.env", "B/.ENV", "b/src/a.py/", "", "b/", "b", "b/\u200b.env", "/b/.env", "a/b/.env",
    "b/my file.txt\t", '"b/\\320\\264\\320\\260.py"', "b/да.py", '"b/da', "dev/null", "b/src/a.py.orig", "b/.env\v",
)  # fmt: skip


@dataclass(frozen=True)
class Diff:
    """A diff. `is_plain`: it is unmodified and must be accepted; `changes` are the files that it changes then."""

    text: str
    is_plain: bool
    changes: frozenset[str]


def diffs(seed: int, count: int) -> list[Diff]:
    choose = random.Random(seed)
    return [_diff(choose) for _ in range(count)]


def _diff(choose: random.Random) -> Diff:
    names = choose.sample(FILES, choose.choice((1, 1, 1, 2, 3)))
    sections: list[str] = []
    changes = set[str]()
    for n, name in enumerate(names):
        section = choose.choice(SECTIONS)
        if sections and "@@" not in sections[-1]:  # The next lines would be taken for its names.
            section = _changed
        text, changed = section(choose, name, f"new/{n}.py")
        sections.append(text)
        changes |= changed
    text = "".join(sections)
    if choose.random() < 0.2:
        return Diff(text, is_plain=True, changes=frozenset(changes))
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        text = choose.choice(MUTATIONS)(choose, text)
    return Diff(text, is_plain=False, changes=frozenset())


# -- valid diffs -----------------------------------------------------------------------------------------------------

Section = Callable[[random.Random, str, str], tuple[str, set[str]]]


def _hunk(choose: random.Random) -> str:
    at = choose.randrange(1, 5)
    before, old, after = LINES[at - 1], LINES[at], LINES[at + 1 : at + 2]
    new = choose.choice((["evil"], [old, "evil"], [], ["--- a/.env", "+++ b/.env"], ["-- .env", "+ b/.env"]))
    body = [f" {before}", f"-{old}", *(f"+{line}" for line in new), *(f" {line}" for line in after)]
    size = 2 + len(after)
    section = choose.choice(("", "def f():"))
    return f"@@ -{at},{size} +{at},{size - 1 + len(new)} @@ {section}\n" + "\n".join(body) + "\n"


def _names(name: str) -> str:
    end = "\t" if " " in name else ""
    return f"--- a/{name}{end}\n+++ b/{name}{end}\n"


def _git(name: str, other: str = "") -> str:
    """git does not quote spaces, which is ambiguous; here such a name is quoted."""
    both = (f"a/{name}", f"b/{other or name}")
    return "diff --git " + " ".join(f'"{it}"' if " " in it else it for it in both) + "\n"


def _plain(choose: random.Random, name: str, _: str) -> tuple[str, set[str]]:
    return _names(name) + _hunk(choose), {name}


def _changed(choose: random.Random, name: str, _: str) -> tuple[str, set[str]]:
    index = choose.choice(("", "index 1234567..89abcde 100644\n", "index 1234567..89abcde\n"))
    return _git(name) + index + _names(name) + _hunk(choose), {name}


def _quoted(choose: random.Random, name: str, _: str) -> tuple[str, set[str]]:
    text = "".join(f"\\{byte:03o}" if byte > 126 else chr(byte) for byte in name.encode())
    return f'diff --git "a/{text}" "b/{text}"\n--- "a/{text}"\n+++ "b/{text}"\n' + _hunk(choose), {name}


def _new(choose: random.Random, _: str, new: str) -> tuple[str, set[str]]:
    header = choose.choice(("", f"diff --git a/{new} b/{new}\nnew file mode 100644\nindex 0000000..89abcde\n"))
    return f"{header}--- /dev/null\n+++ b/{new}\n@@ -0,0 +1,2 @@\n+one\n+two\n", {new}


def _deleted(choose: random.Random, name: str, _: str) -> tuple[str, set[str]]:
    header = choose.choice(("", f"{_git(name)}deleted file mode 100644\nindex 1234567..0000000\n"))
    body = "".join(f"-{line}\n" for line in LINES)
    return header + _names(name).splitlines()[0] + f"\n+++ /dev/null\n@@ -1,6 +0,0 @@\n{body}", {name}


def _moved(kind: str) -> Section:
    def section(choose: random.Random, name: str, new: str) -> tuple[str, set[str]]:
        moved = f"{_git(name, new)}similarity index 90%\n{kind} from {name}\n{kind} to {new}\n"
        if choose.random() < 0.5:
            moved += _names(name).splitlines()[0] + f"\n+++ b/{new}\n" + _hunk(choose)
        return moved, {name, new} if kind == "rename" else {new}

    return section


def _mode(choose: random.Random, name: str, _: str) -> tuple[str, set[str]]:
    modes = f"{_git(name)}old mode 100644\nnew mode 100755\n"
    return modes + choose.choice(("", _names(name) + _hunk(choose))), {name}


SECTIONS: tuple[Section, ...] = (
    _plain, _plain, _changed, _changed, _quoted, _new, _deleted, _moved("rename"), _moved("copy"), _mode,
)  # fmt: skip

# -- invalid diffs ---------------------------------------------------------------------------------------------------

Mutation = Callable[[random.Random, str], str]


def _at_a_line(change: Callable[[random.Random, list[str], int], None]) -> Mutation:
    def mutation(choose: random.Random, text: str) -> str:
        lines = text.split("\n")
        change(choose, lines, choose.randrange(len(lines)))
        return "\n".join(lines)

    return mutation


def _insert(choose: random.Random, lines: list[str], at: int) -> None:
    lines.insert(at, choose.choice(HOSTILE_LINES))


def _between_names(choose: random.Random, lines: list[str], at: int) -> None:
    found = [n for n, line in enumerate(lines) if line.startswith("+++ ")]
    lines.insert(choose.choice(found) if found else at, choose.choice(HOSTILE_LINES))


def _replace(choose: random.Random, lines: list[str], at: int) -> None:
    lines[at] = choose.choice(HOSTILE_LINES)


def _drop(_: random.Random, lines: list[str], at: int) -> None:
    del lines[at]


def _twice(_: random.Random, lines: list[str], at: int) -> None:
    lines.insert(at, lines[at])


def _swap(_: random.Random, lines: list[str], at: int) -> None:
    lines[at : at + 2] = reversed(lines[at : at + 2])


def _rename(choose: random.Random, lines: list[str], at: int) -> None:
    found = [n for n, line in enumerate(lines) if line.startswith(("--- ", "+++ ", "rename", "copy", "diff --git "))]
    if found:
        at = choose.choice(found)
        start, _, _ = lines[at].rpartition(" ")
        lines[at] = f"{start} {choose.choice(HOSTILE_NAMES)}"


def _rename_everywhere(choose: random.Random, text: str) -> str:
    name = choose.choice(FILES)
    return text.replace(name, choose.choice(HOSTILE_NAMES).removeprefix("b/"))


def _end(choose: random.Random, lines: list[str], at: int) -> None:
    ends = ("\r", "\t", " ", "\t2024-01-09 10:00:00", "\t1970-01-01 00:00:00 +0000", "\0", " x", "\f")
    lines[at] += choose.choice(ends)


def _count(choose: random.Random, text: str) -> str:
    old, new = choose.choice((",3 ", ",2 ", "-1,", "+1,")), choose.choice((",4 ", ",1 ", "-0,", "+0,", ",0 "))
    return text.replace(old, new, 1)


def _prefix(choose: random.Random, text: str) -> str:
    for one, other in choose.choice(((("a/", ""), ("b/", "")), (("a/", "i/"), ("b/", "w/")), (("a/", "a/a/"),))):
        text = text.replace(f" {one}", f" {other}")
    return text


def _context(choose: random.Random, text: str) -> str:
    name = choose.choice(FILES)
    context = f"*** a/{name}\n--- b/{name}\n***************\n*** 1,2 ****\n! one\n  two\n--- 1,2 ----\n! evil\n  two\n"
    return choose.choice((context + text, text + context, context))


def _ed(choose: random.Random, text: str) -> str:
    script = f"Index: {choose.choice(FILES)}\n" + choose.choice(("1c\nevil\n.\n", "1d\n", "1c1\n< one\n---\n> evil\n"))
    return choose.choice((script + text, text + script, script))


def _binary(choose: random.Random, text: str) -> str:
    name = choose.choice(FILES)
    header = f"diff --git a/{name} b/{name}\nindex 1234567..e69de29 100644\n"
    binary = f"{header}GIT binary patch\nliteral 0\nHcmV?d00001\n\n"
    return choose.choice((binary + text, text + binary, binary))


MUTATIONS: tuple[Mutation, ...] = (
    *map(_at_a_line, (_insert, _insert, _between_names, _replace, _drop, _twice, _swap, _rename, _rename, _end)),
    _rename_everywhere,
    _count,
    _prefix,
    _context,
    _ed,
    _binary,
    lambda _, text: text.replace("\n", "\r\n"),
    lambda _, text: text.rstrip("\n"),
    lambda _, text: "Here is the diff:\n\n" + text,
    lambda _, text: text.replace(".git_", ".."),
    lambda choose, text: text + text[: choose.randrange(len(text))] if text else text,
    lambda _, text: text.replace("100644", "120000"),
)

# -- applying them ---------------------------------------------------------------------------------------------------

GIT = ("git", "apply")
PATCH = ("patch", "-p1", "--batch", "--no-backup-if-mismatch", "--reject-file=-")

_QUIET = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
_ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **_QUIET}

Content = Mapping[str, tuple[int, bytes]]


class Workspace:
    """A folder with FILES for applying patches. It is restored before each use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = dict.fromkeys(FILES, (0o644, ("\n".join(LINES) + "\n").encode()))
        self._restore({})

    def changed_by(self, command: tuple[str, ...], diff: str) -> tuple[bool, set[str]]:
        """Apply `diff`. Returns whether it was accepted, and the changed files."""
        environment = {**_ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)}
        done = run(*command, cwd=self.folder, input=diff.encode(), text=False, env=environment)
        found = self._content()
        changed = {name for name in {*found, *self.files} if found.get(name) != self.files.get(name)}
        if changed:
            self._restore(found)
        return done.returncode == 0, changed

    def _content(self) -> Content:
        found = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder, name)
                content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
                found[str(path.relative_to(self.folder))] = (path.lstat().st_mode & 0o777, content)
        return found

    def _restore(self, found: Content) -> None:
        for name in found.keys() - self.files.keys():
            (self.folder / name).unlink()
        for folder in list(self.folder.iterdir()):
            if folder.is_dir() and not any(name.startswith(f"{folder.name}/") for name in self.files):
                shutil.rmtree(folder)
        for name, (mode, content) in self.files.items():
            if found.get(name) != (mode, content):
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(mode)
