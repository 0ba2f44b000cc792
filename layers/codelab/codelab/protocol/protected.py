"""Paths that make tools run code: what is written there is executed by somebody who only wanted to look.

A human is asked about each change of them. Which spellings are one file depends on the user's file system, which the
server does not know: names are compared as the most tolerant one would.
"""

import re
import unicodedata
from collections.abc import Iterable

#: A name, or names, anywhere in a path → what runs the code that is written there. `*` is any part of a name: where
#: several files mean the same they have one stem.
PROTECTED = {
    ".git": "git: hooks, and programs that its config names (core.fsmonitor, core.pager, aliases)",
    ".gitconfig": "git: programs that its config names",
    ".gitattributes": "git: which filters and merge drivers run for which files",
    ".gitmodules": "git: where submodules are fetched from, and how",
    ".config/git": "git: programs that its config names, in a home directory",
    ".githooks": "git: a usual folder of hooks",
    ".hg": "Mercurial: hooks and extensions",
    ".hgrc": "Mercurial: hooks and extensions",
    ".husky": "git hooks of JavaScript projects",
    ".pre-commit-config.*": "pre-commit: hooks that run with every commit",
    "lefthook.*": "lefthook: hooks that run with every commit",
    "lefthook-local.*": "lefthook: hooks that run with every commit",
    ".lefthook*": "lefthook: hooks that run with every commit, and the folders of their scripts",
    ".lintstagedrc*": "lint-staged: commands that run with every commit",
    "lint-staged.config.*": "lint-staged: commands, and code, that run with every commit",
    ".editorconfig": "editors: how every file is rewritten when it is saved",
    ".vscode": "VS Code: tasks, launch configurations, settings that name programs",
    ".idea": "JetBrains IDEs: run configurations, file watchers",
    ".vs": "Visual Studio: launch configurations",
    ".fleet": "JetBrains Fleet: run configurations",
    ".zed": "Zed: tasks, settings that name programs",
    ".theia": "Theia: tasks, launch configurations, settings that name programs",
    ".helix": "Helix: the programs that it starts as language servers and formatters",
    ".cursor": "Cursor: servers that it starts, hooks, rules for its agent",
    ".windsurf": "Windsurf: hooks, rules and workflows for its agent",
    ".kiro": "Kiro: hooks, servers that it starts",
    ".claude": "Claude Code: hooks and commands that its settings name",
    ".gemini": "Gemini CLI: hooks, servers that it starts",
    ".codex": "Codex: servers and commands that its config names",
    ".mcp.json": "agents: servers that they start",
    ".devcontainer": "editors: commands that run when the folder is opened",
    ".devcontainer.json": "editors: commands that run when the folder is opened",
    ".dir-locals*.el": "Emacs: code that is evaluated when a file is visited",
    ".exrc": "Vim: commands that run when it starts here",
    "*vimrc": "Vim, Neovim, plugins for local settings: commands that run when it starts here",
    ".nvim.lua": "Neovim: code that runs when it starts here",
    ".envrc": "direnv: a script that runs when a shell enters the folder",
    ".mise*": "mise: hooks and programs for every shell in the folder",
    "mise.toml": "mise: hooks and programs for every shell in the folder",
    "mise.*.toml": "mise: hooks and programs for every shell in the folder",
    "mise/conf*": "mise: hooks and programs for every shell in the folder",
    ".config/mise": "mise: hooks and programs for every shell in the folder",
    ".tool-versions": "asdf, mise: a folder (path:) whose programs run in the place of a language's own",
    ".npmrc": "npm: programs and scripts that it uses",
    ".pnpmfile.*": "pnpm: code that runs with every install",
    ".yarnrc*": "Yarn: the program that runs in its place, and plugins",
    ".yarn": "Yarn: the program that runs in its place, and plugins",
    ".cargo": "Cargo: wrappers and runners, which an IDE's language server starts by itself",
    ".mvn": "Maven: extensions, which an IDE loads by itself",
    ".bashrc": "a shell that starts",
    ".bash_*": "a shell that starts or ends",
    ".profile": "a shell that starts",
    ".zshrc": "a shell that starts",
    ".zshenv": "a shell that starts",
    ".zprofile": "a shell that starts",
    ".zlogin": "a shell that starts",
    ".zlogout": "a shell that ends",
    ".ssh": "ssh: whom it trusts, and programs that its config names",
}
#: The last name of a path → likewise.
PROTECTED_FILES = {
    "HEAD": "git: with it a folder is a repository, whose config git obeys",
    "*.code-workspace": "VS Code: tasks and settings of a workspace",
    "*.sublime-project": "Sublime Text: build systems, programs that plugins start",
}

#: The short name that Windows gives a file whose name is long or unusual, `GIT~1` for `.git`: it may be any file's.
_SHORT_NAME = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{1,3})?")


def is_protected(path: str) -> bool:
    """May a change of this file or directory of the workspace make a tool run code?"""
    names = _names(path)
    return any(map(_SHORT_NAME.fullmatch, names)) or _PROTECTED.search("/".join(names)) is not None


def may_hold_protected(path: str) -> bool:
    """May this be a directory with such files in it? A name with an ending, `a.py`, is taken for a file's."""
    names = _names(path)
    return not names or path.endswith(("/", "\\")) or "." not in names[-1].strip(".")


def _names(path: str) -> list[str]:
    """The names in a path as the most tolerant file system reads them: no case, no accents, nothing behind the name."""
    plain = unicodedata.normalize("NFKD", path)
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    plain = unicodedata.normalize("NFKD", plain.upper().casefold())
    names = (name.rstrip(". \t") for name in re.split(r"[/\\]", plain))
    return [name for name in names if name]


def _any_of(patterns: Iterable[str]) -> str:
    return "|".join(re.escape(pattern.casefold()).replace(r"\*", "[^/]*") for pattern in patterns)


_PROTECTED = re.compile(rf"(?:\A|/)(?:(?:{_any_of(PROTECTED)})(?:/|\Z)|(?:{_any_of(PROTECTED_FILES)})\Z)")
