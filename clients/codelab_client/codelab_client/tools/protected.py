# Written by `make docs` from the server's module; do not edit.
"""Files whose content other programs execute, such as git hooks and editor tasks.

Every change to them needs a human's approval. The server does not know which spellings the user's file system treats
as one file, so it compares names as the most tolerant file system would.
"""

import re
import unicodedata
from collections.abc import Iterable

#: One or more names anywhere in a path → the program that runs what is written there. `*` matches any part of a name.
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
    "lint-staged.config.*": "lint-staged: commands and code that run with every commit",
    ".editorconfig": "editors: how every file is rewritten when it is saved",
    ".vscode": "VS Code: tasks, launch configurations, settings that name programs",
    ".idea": "JetBrains IDEs: run configurations, file watchers",
    ".vs": "Visual Studio: launch configurations",
    ".fleet": "JetBrains Fleet: run configurations",
    ".zed": "Zed: tasks, settings that name programs",
    ".theia": "Theia: tasks, launch configurations, settings that name programs",
    ".helix": "Helix: the language servers and formatters that it starts",
    ".cursor": "Cursor: servers it starts, hooks, rules for its agent",
    ".windsurf": "Windsurf: hooks, rules and workflows for its agent",
    ".kiro": "Kiro: hooks, servers that it starts",
    ".claude": "Claude Code: hooks and commands that its settings name",
    ".gemini": "Gemini CLI: hooks, servers that it starts",
    ".codex": "Codex: servers and commands that its config names",
    ".mcp.json": "agents: MCP servers that they start",
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
    ".tool-versions": "asdf, mise: a folder (path:) whose programs replace a language's own",
    ".npmrc": "npm: the programs and scripts that it uses",
    ".pnpmfile.*": "pnpm: code that runs with every install",
    ".yarnrc*": "Yarn: the program that replaces it, and plugins",
    ".yarn": "Yarn: the program that replaces it, and plugins",
    ".cargo": "Cargo: wrappers and runners that an IDE's language server starts unasked",
    ".mvn": "Maven: extensions that an IDE loads unasked",
    ".bashrc": "Bash, when it starts",
    ".bash_*": "Bash, when it starts or exits",
    ".profile": "a shell, when it starts",
    ".zshrc": "Zsh, when it starts",
    ".zshenv": "Zsh, when it starts",
    ".zprofile": "Zsh, when it starts",
    ".zlogin": "Zsh, when it starts",
    ".zlogout": "Zsh, when it exits",
    ".ssh": "ssh: trusted keys and hosts, and programs that its config names",
}
#: The same, but only for the last name of a path.
PROTECTED_FILES = {
    "HEAD": "git: turns a folder into a repository, whose config git obeys",
    "*.code-workspace": "VS Code: tasks and settings of a workspace",
    "*.sublime-project": "Sublime Text: build systems, programs that plugins start",
}

#: A Windows short name, such as `GIT~1` for `.git`: it may stand for any file.
_SHORT_NAME = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{1,3})?")


def is_protected(path: str) -> bool:
    """Could a change of this file or directory make a program run code?"""
    names = _names(path)
    return any(map(_SHORT_NAME.fullmatch, names)) or _PROTECTED.search("/".join(names)) is not None


def may_hold_protected(path: str) -> bool:
    """Could this be a directory with protected files in it? A name with an extension (`a.py`) counts as a file."""
    names = _names(path)
    return not names or path.endswith(("/", "\\")) or "." not in names[-1].strip(".")


def _names(path: str) -> list[str]:
    """The names in a path as the most tolerant file system compares them: no case, accents, trailing dots or spaces."""
    plain = unicodedata.normalize("NFKD", path)
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    plain = unicodedata.normalize("NFKD", plain.upper().casefold())
    names = (name.rstrip(". \t") for name in re.split(r"[/\\]", plain))
    return [name for name in names if name]


def _any_of(patterns: Iterable[str]) -> str:
    return "|".join(re.escape(pattern.casefold()).replace(r"\*", "[^/]*") for pattern in patterns)


_PROTECTED = re.compile(rf"(?:\A|/)(?:(?:{_any_of(PROTECTED)})(?:/|\Z)|(?:{_any_of(PROTECTED_FILES)})\Z)")
