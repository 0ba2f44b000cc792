# Written by `make docs` from the server's codelab.protocol.protected; do not edit.

"""Files whose content other programs execute or obey, such as git hooks, editor tasks and agents' instructions.

Every change to them needs a human's approval. The server does not know which spellings the user's file system treats
as one file, so it compares names as the most tolerant file system would.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

# Listed: what runs or is obeyed without a command of the user, when a folder or file is opened or saved, a shell enters
# it, or a commit, a push or an agent begins. Not listed: what only runs when somebody starts a build or a test, such as
# package.json, pyproject.toml, a Makefile, or the configuration of a bundler. It is edited every day, and every command
# asks.

_AGENT = "its agent: instructions, commands, hooks or servers that it obeys or starts"
_CI = "CI: commands that run with its secrets"
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
    ".jj": "Jujutsu: programs that its config names",
    ".sl": "Sapling: hooks and extensions",
    ".husky": "git hooks of JavaScript projects",
    ".huskyrc*": "git hooks of JavaScript projects",
    ".simple-git-hooks.*": "git hooks of JavaScript projects",
    "simple-git-hooks.*": "git hooks of JavaScript projects",
    ".overcommit.yml": "overcommit: hooks that run with every commit",
    ".trunk": "Trunk: hooks and programs that it starts",
    ".pre-commit-config.*": "pre-commit: hooks that run with every commit",
    "lefthook.*": "lefthook: hooks that run with every commit",
    "lefthook-local.*": "lefthook: hooks that run with every commit",
    ".lefthook*": "lefthook: hooks that run with every commit, and the folders of their scripts",
    ".lintstagedrc*": "lint-staged: commands that run with every commit",
    "lint-staged.config.*": "lint-staged: commands and code that run with every commit",
    ".commitlintrc*": "commitlint: code that runs with every commit",
    "commitlint.config.*": "commitlint: code that runs with every commit",
    ".editorconfig": "editors: how every file is rewritten when it is saved",
    ".vscode": "VS Code: tasks, launch configurations, settings that name programs",
    ".idea": "JetBrains IDEs: run configurations, file watchers",
    ".run": "JetBrains IDEs: run configurations",
    ".vs": "Visual Studio: launch configurations",
    ".fleet": "JetBrains Fleet: run configurations",
    ".zed": "Zed: tasks, settings that name programs",
    ".theia": "Theia: tasks, launch configurations, settings that name programs",
    ".helix": "Helix: the language servers and formatters that it starts",
    ".settings": "Eclipse, VS Code for Java: builders, annotation processors",
    ".factorypath": "Eclipse, VS Code for Java: code that runs while it compiles",
    ".externalToolBuilders": "Eclipse: programs that run with every build",
    ".bsp": "Metals, IntelliJ: the build server that they start unasked",
    ".devcontainer": "editors: commands that run when the folder is opened",
    ".devcontainer.json": "editors: commands that run when the folder is opened",
    "devfile.yaml": "cloud editors: commands that run when the folder is opened",
    ".devfile.yaml": "cloud editors: commands that run when the folder is opened",
    ".gitpod*": "Gitpod: commands that run when the folder is opened",
    ".codesandbox": "CodeSandbox: commands that run when the folder is opened",
    ".stackblitzrc": "StackBlitz: commands that run when the folder is opened",
    ".replit": "Replit: commands that it runs",
    ".idx": "Firebase Studio: commands that run when the folder is opened",
    ".dir-locals*.el": "Emacs: code that is evaluated when a file is visited",
    ".exrc": "Vim: commands that run when it starts here",
    "*vimrc": "Vim, Neovim, plugins for local settings: commands that run when it starts here",
    ".vim": "Vim: language servers and code of its plugins",
    ".nvim": "Neovim: code that runs when it starts here",
    ".nvim.lua": "Neovim: code that runs when it starts here",
    ".lazy.lua": "Neovim (lazy.nvim): code that runs when it starts here",
    ".ycm_extra_conf.py": "YouCompleteMe: code that runs when a file is opened",
    ".eslintrc*": "ESLint in editors: code and plugins that run when a file is opened",
    "eslint.config.*": "ESLint in editors: code and plugins that run when a file is opened",
    ".prettierrc*": "Prettier in editors: code and plugins that run when a file is saved",
    "prettier.config.*": "Prettier in editors: code and plugins that run when a file is saved",
    ".stylelintrc*": "Stylelint in editors: code and plugins that run when a file is opened",
    "stylelint.config.*": "Stylelint in editors: code and plugins that run when a file is opened",
    "tailwind.config.*": "Tailwind CSS in editors: code that runs when the folder is opened",
    ".pylintrc*": "Pylint in editors: code and plugins that run when a file is opened",
    "pylintrc*": "Pylint in editors: code and plugins that run when a file is opened",
    ".flake8": "Flake8 in editors: plugins that run when a file is opened",
    "mypy.ini": "mypy in editors: plugins that run when a file is opened",
    ".mypy.ini": "mypy in editors: plugins that run when a file is opened",
    ".rubocop*.yml": "RuboCop in editors: code that runs when a file is opened",
    ".solargraph.yml": "Solargraph in editors: plugins that run when a file is opened",
    ".formatter.exs": "Elixir in editors: code that runs when a file is saved",
    ".php-cs-fixer*": "PHP CS Fixer in editors: code that runs when a file is saved",
    "phpstan*.neon*": "PHPStan in editors: code that runs when a file is opened",
    ".luacheckrc": "Luacheck in editors: code that runs when a file is opened",
    ".luarc.json*": "Lua's language server: plugins that run when a file is opened",
    "svelte.config.*": "Svelte in editors: code that runs when a file is opened",
    "build.rs": "rust-analyzer: code that runs when the folder is opened or a file is saved",
    ".bazelrc": "Bazel: programs that its options name",
    ".bazelversion": "Bazelisk: the program that it downloads and starts",
    "rust-toolchain*": "rustup, rust-analyzer: a folder whose programs replace the compiler",
    "gradle/wrapper": "Gradle: the program that an IDE downloads and starts unasked",
    ".agents": "agents: skills, instructions and settings that they obey",
    ".agent": "agents: skills, instructions and settings that they obey",
    "AGENTS.md": "agents: instructions that they obey",
    "AGENTS.*.md": "agents: instructions that they obey",
    "AGENT.md": "agents: instructions that they obey",
    ".mcp.json": "agents: MCP servers that they start",
    ".codelab": f"codelab, {_AGENT}",
    ".cursor": "Cursor: servers it starts, hooks, rules for its agent",
    ".cursorrules": f"Cursor, {_AGENT}",
    ".windsurf": "Windsurf: hooks, rules and workflows for its agent",
    ".windsurfrules": f"Windsurf, {_AGENT}",
    ".devin": f"Devin, {_AGENT}",
    ".kiro": "Kiro: hooks, servers that it starts",
    ".amazonq": f"Amazon Q, {_AGENT}",
    ".claude": "Claude Code: hooks and commands that its settings name",
    ".claude-plugin": "Claude Code: hooks, commands and servers of a plugin",
    "CLAUDE.md": f"Claude Code, {_AGENT}",
    "CLAUDE.local.md": f"Claude Code, {_AGENT}",
    ".gemini": "Gemini CLI: hooks, servers that it starts",
    "GEMINI.md": f"Gemini CLI, {_AGENT}",
    ".qwen": f"Qwen Code, {_AGENT}",
    "QWEN.md": f"Qwen Code, {_AGENT}",
    ".codex": "Codex: servers and commands that its config names",
    ".opencode": f"opencode, {_AGENT}",
    "opencode.json*": f"opencode, {_AGENT}",
    ".crush*": f"Crush, {_AGENT}",
    "crush.json": f"Crush, {_AGENT}",
    "crushrc": f"Crush, {_AGENT}",
    "CRUSH.md": f"Crush, {_AGENT}",
    ".aider*": f"Aider, {_AGENT}",
    ".roo": f"Roo Code, {_AGENT}",
    ".roomodes": f"Roo Code, {_AGENT}",
    ".roorules*": f"Roo Code, {_AGENT}",
    ".kilocode*": f"Kilo Code, {_AGENT}",
    ".clinerules*": f"Cline, {_AGENT}",
    ".continue*": f"Continue, {_AGENT}",
    ".junie": f"Junie, {_AGENT}",
    ".augment*": f"Augment, {_AGENT}",
    ".trae": f"Trae, {_AGENT}",
    ".goose*": f"Goose, {_AGENT}",
    ".openhands*": f"OpenHands, {_AGENT}",
    ".factory": f"Factory, {_AGENT}",
    ".amp": f"Amp, {_AGENT}",
    ".vibe": f"Mistral Vibe, {_AGENT}",
    ".pi": f"pi, {_AGENT}",
    "WARP.md": f"Warp, {_AGENT}",
    ".rules": f"Zed, {_AGENT}",
    ".github/copilot*": f"GitHub Copilot, {_AGENT}",
    ".github/instructions": f"GitHub Copilot, {_AGENT}",
    ".github/prompts": f"GitHub Copilot, {_AGENT}",
    ".github/agents": f"GitHub Copilot, {_AGENT}",
    ".github/chatmodes": f"GitHub Copilot, {_AGENT}",
    ".github/skills": f"GitHub Copilot, {_AGENT}",
    ".github/hooks": f"GitHub Copilot, {_AGENT}",
    ".github/workflows": f"GitHub's {_CI}",
    ".github/actions": f"GitHub's {_CI}",
    ".forgejo": f"Forgejo's {_CI}",
    ".gitea": f"Gitea's {_CI}",
    ".gitlab-ci*": f"GitLab's {_CI}",
    ".gitlab/ci": f"GitLab's {_CI}",
    ".circleci": f"CircleCI's {_CI}",
    ".buildkite": f"Buildkite's {_CI}",
    ".travis.yml": f"Travis's {_CI}",
    ".cirrus*": f"Cirrus's {_CI}",
    ".drone*": f"Drone's {_CI}",
    ".woodpecker*": f"Woodpecker's {_CI}",
    ".semaphore": f"Semaphore's {_CI}",
    ".teamcity": f"TeamCity's {_CI}",
    ".tekton": f"Tekton's {_CI}",
    ".builds": f"SourceHut's {_CI}",
    ".build.yml": f"SourceHut's {_CI}",
    ".zuul*": f"Zuul's {_CI}",
    ".appveyor.yml": f"AppVeyor's {_CI}",
    "appveyor.yml": f"AppVeyor's {_CI}",
    "azure-pipelines*": f"Azure's {_CI}",
    ".azure-pipelines": f"Azure's {_CI}",
    "bitbucket-pipelines.yml": f"Bitbucket's {_CI}",
    "buildspec*.yml": f"AWS CodeBuild's {_CI}",
    "cloudbuild*.yaml": f"Google Cloud Build's {_CI}",
    "Jenkinsfile*": f"Jenkins's {_CI}",
    ".ci": f"a usual folder of {_CI}",
    ".envrc": "direnv: a script that runs when a shell enters the folder",
    "flake.nix": "direnv with Nix: a shell that it enters again when the file changes",
    "shell.nix": "direnv with Nix: a shell that it enters again when the file changes",
    "devenv.*": "direnv with devenv: a shell that it enters again when the file changes",
    ".mise*": "mise: hooks and programs for every shell in the folder",
    "mise.toml": "mise: hooks and programs for every shell in the folder",
    "mise.*.toml": "mise: hooks and programs for every shell in the folder",
    "mise/conf*": "mise: hooks and programs for every shell in the folder",
    ".config/mise": "mise: hooks and programs for every shell in the folder",
    ".tool-versions": "asdf, mise: a folder (path:) whose programs replace a language's own",
    ".prototools": "proto: plugins, and programs that replace a language's own",
    ".venv": "editors and agents: the Python, and all it imports, that they start unasked",
    "venv/bin": "editors and agents: the Python, and all it imports, that they start unasked",
    "venv/lib*": "editors and agents: the Python, and all it imports, that they start unasked",
    "venv/Scripts": "editors and agents: the Python, and all it imports, that they start unasked",
    "pyvenv.cfg": "editors and agents: where a Python that they start unasked is",
    ".direnv": "direnv: what it puts into every shell in the folder",
    ".pixi": "pixi: programs for every shell in the folder",
    "node_modules": "editors: compilers, linters and plugins that they start unasked",
    ".pnp.*": "Yarn: code that runs with every Node",
    ".npmrc": "npm: the programs and scripts that it uses",
    ".pnpmfile.*": "pnpm: code that runs with every install",
    ".yarnrc*": "Yarn: the program that replaces it, and plugins",
    ".yarn": "Yarn: the program that replaces it, and plugins",
    "bunfig.toml": "Bun: code that runs with every Bun",
    ".bundle": "Bundler: plugins, and where gems are loaded from",
    ".cargo": "Cargo: wrappers and runners that an IDE's language server starts unasked",
    ".mvn": "Maven: extensions that an IDE loads unasked",
    "conftest.py": "pytest in editors: code that runs when they look for tests",
    "pytest.ini": "pytest in editors: plugins that run when they look for tests",
    "vitest.config.*": "Vitest in editors: code that runs when they look for tests",
    "vitest.workspace.*": "Vitest in editors: code that runs when they look for tests",
    "jest.config.*": "Jest in editors: code that runs when they look for tests",
    "playwright.config.*": "Playwright in editors: code that runs when they look for tests",
    ".mocharc*": "Mocha in editors: code that runs when they look for tests",
    "sitecustomize.py": "Python: code that runs when it starts here",
    "usercustomize.py": "Python: code that runs when it starts here",
    ".pdbrc*": "Python's debugger: commands that run when it starts here",
    ".irbrc": "Ruby's console: code that runs when it starts here",
    ".pryrc": "Ruby's console: code that runs when it starts here",
    ".rdbgrc*": "Ruby's debugger: commands that run when it starts here",
    ".iex.exs": "Elixir's console: code that runs when it starts here",
    ".ghci": "Haskell's console and language server: code that runs when they start here",
    ".ocamlinit": "OCaml's console: code that runs when it starts here",
    ".Rprofile": "R: code that runs when it starts here",
    ".gdbinit": "GDB: commands that run when it starts here",
    ".lldbinit": "LLDB: commands that run when it starts here",
    ".bashrc": "Bash, when it starts",
    ".bash_*": "Bash, when it starts or exits",
    ".profile": "a shell, when it starts",
    ".zshrc": "Zsh, when it starts",
    ".zshenv": "Zsh, when it starts",
    ".zprofile": "Zsh, when it starts",
    ".zlogin": "Zsh, when it starts",
    ".zlogout": "Zsh, when it exits",
    ".config/fish": "fish, when it starts",
    ".ssh": "ssh: trusted keys and hosts, and programs that its config names",
}
#: The same, but only for the last name of a path.
PROTECTED_FILES = {
    "HEAD": "git: turns a folder into a repository, whose config git obeys",
    "*.code-workspace": "VS Code: tasks and settings of a workspace",
    "*.sublime-project": "Sublime Text: build systems, programs that plugins start",
    "*.pth": "Python: code that runs when it starts, in a folder of packages",
    ".project": "Eclipse: programs that run with every build",
}

#: Characters that some file systems drop from names, as far as `workspace_path` lets them pass.
_JOINERS = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
#: A Windows short name, such as `GIT~1` for `.git`: it may stand for any file.
_SHORT_NAME = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{1,3})?")


def is_protected(path: str) -> bool:
    """Could a change of this file or directory make a program run code?"""
    names = _names(path)
    return any(map(_SHORT_NAME.fullmatch, names)) or _protected().search("/".join(names)) is not None


def may_hold_protected(path: str) -> bool:
    """Could this be a directory with protected files in it? A name with an extension (`a.py`) counts as a file."""
    names = _names(path)
    return not names or path.endswith(("/", "\\")) or "." not in names[-1].strip(".")


def _names(path: str) -> list[str]:
    """The names in a path as the most tolerant file system compares them: no case, accents, trailing dots or spaces."""
    folded_path = unicodedata.normalize("NFKD", _JOINERS.sub("", path))
    folded_path = "".join(character for character in folded_path if not unicodedata.combining(character))
    folded_path = unicodedata.normalize("NFKD", folded_path.upper().casefold())
    names = (name.rstrip(". \t") for name in re.split(r"[/\\]", folded_path))
    return [name for name in names if name]


def _any_of(patterns: Iterable[str]) -> str:
    return "|".join(re.escape(pattern.casefold()).replace(r"\*", "[^/]*") for pattern in patterns)


@cache
def _protected() -> re.Pattern[str]:
    """Compiled when it is first needed: it is large, and most processes never look at a path."""
    return re.compile(rf"(?:\A|/)(?:(?:{_any_of(PROTECTED)})(?:/|\Z)|(?:{_any_of(PROTECTED_FILES)})\Z)")
