"""Changes of protected paths always need approval."""

import json
from typing import Any

from codelab.protocol.errors import ErrorCode
from codelab.protocol.protected import PROTECTED, PROTECTED_FILES
from codelab.protocol.tools import CATALOGUE

from tests.cases import cases
from tests.security.test_denials import Call, make, remember, states
from tests.turns.world import World, refusal

HUNK = "@@ -1 +1 @@\n-one\n+evil\n"
NEW = "@@ -0,0 +1 @@\n+evil\n"


def write(path: str) -> Call:
    return ("write_file", {"path": path, "content": "[core]\n\tfsmonitor = touch /tmp/owned"})


def move(source: str, destination: str) -> Call:
    return ("move_file", {"from": source, "to": destination})


def patch(diff: str) -> Call:
    return ("apply_patch", {"diff": diff})


def autonomous(**settings: Any) -> World:
    world = World(**settings)
    world.configure(autonomy="autonomous")
    return world


ATTACKS: dict[str, Call] = {
    "a config of git that names a program": write(".git/config"),
    "a hook of git": write(".git/hooks/pre-commit"),
    "a submodule's git": write("vendor/lib/.git/config"),
    "the file that stands for the folder": write(".git"),
    "a task of VS Code": write(".vscode/tasks.json"),
    "a workspace of VS Code": write("my.code-workspace"),
    "a run configuration of JetBrains": write("sub/.idea/runConfigurations/a.xml"),
    "a hook of husky": write(".husky/pre-commit"),
    "a folder that git takes for a repository": write("assets/HEAD"),
    "the editors' config": write(".editorconfig"),
    "the attributes of git": write("src/.gitattributes"),
    "capitals": write(".GIT/config"),
    "capitals in the middle": write(".VsCode/settings.json"),
    "a long s, which folds to s": write(".hu\u017fky/pre-commit"),
    "a Kelvin sign, which folds to k": write(".hus\u212ay/pre-commit"),
    "a capital I with a dot": write(".g\u0130t/config"),
    "a small i without a dot": write(".g\u0131t/config"),
    "wide letters": write("\uff0e\uff47\uff49\uff54/config"),
    "a wide slash": write("a\uff0f.git\uff0fconfig"),
    "a backslash": write("a\\.git\\config"),
    "dots behind the name, which Windows leaves out": write(".git./config"),
    "a space behind the name, which Windows leaves out": write(".git /config"),
    "the short name of Windows": write("GIT~1/config"),
    "the short name of any of them": write("VSCODE~1/tasks.json"),
    "a hashed short name": write("GI7EBA~1"),
    "a dot before it": write("./.git/config"),
    "two slashes": write("a//.git/config"),
    "a leading slash": write("/.git/config"),
    "creating it": ("create_directory", {"path": ".git"}),
    "deleting it": ("delete_file", {"path": ".git/hooks/pre-commit"}),
    "deleting a folder that it may be in": ("delete_file", {"path": "vendor"}),
    "deleting the workspace": ("delete_file", {"path": "."}),
    "moving it away": move(".vscode/settings.json", "a.json"),
    "moving something onto it": move("a.txt", ".git/config"),
    "moving a folder that it may be in": move("templates/evil", "app"),
    "moving a folder over the workspace": move("templates", "."),
    "moving a folder that ends in a slash": move("a.d/", "b.d/"),
    "a patch": patch(f"--- a/.git/config\n+++ b/.git/config\n{HUNK}"),
    "a patch with a new file": patch(f"--- /dev/null\n+++ b/.git/hooks/post-checkout\n{NEW}"),
    "a patch that renames": patch("diff --git a/x.txt b/.git/config\nrename from x.txt\nrename to .git/config\n"),
    "a patch that copies": patch("diff --git a/x.txt b/.envrc\ncopy from x.txt\ncopy to .envrc\n"),
    "a patch of many files": patch(f"--- a/a.py\n+++ b/a.py\n{HUNK}--- a/.VSCODE/x\n+++ b/.VSCODE/x\n{HUNK}"),
    "a patch with a quoted name": patch(f'--- "a/\\056git/config"\n+++ "b/\\056git/config"\n{HUNK}'),
    "committing a hook": ("git.commit", {"message": "m", "files": [".husky/pre-commit"]}),
    "instructions of every agent": write("AGENTS.md"),
    "instructions in a folder below": write("packages/a/agents.md"),
    "a skill of ours": write(".agents/skills/deploy/SKILL.md"),
    "settings of ours": write(".codelab/config.toml"),
    "a workflow of CI": write(".github/workflows/ci.yml"),
    "a pipeline of CI": write("sub/.gitlab-ci.yml"),
    "a linter that is code": write("eslint.config.mjs"),
    "code that pytest imports": write("tests/conftest.py"),
    "the Python of the editor": write(".venv/lib/python3.13/site-packages/a.py"),
}  # fmt: skip


@cases("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_autonomous_session_asks_for_protected_paths(attack: Call) -> None:
    assert states(autonomous(), attack) == ["awaiting_approval"]


@cases(
    "settings",
    [{"hitl_enabled": False}, {"hitl_dangerous_tools": "read_file"}, {"hitl_dangerous_tools": "+read_file"}],
    ids=str,
)
@cases("autonomy", ["manual", "balanced", "autonomous"])
def test_no_setting_turns_the_approval_off(settings: dict[str, Any], autonomy: str) -> None:
    world = World(**settings)
    world.configure(autonomy=autonomy)
    assert states(world, write(".git/config"), move("a.txt", ".git/config")) == ["awaiting_approval"] * 2


@cases("scope", ["session", "user"])
@cases("pattern", ["**", ".git/**", "*", None])
def test_no_rule_allows_it(scope: str, pattern: str | None) -> None:
    world = World()
    (call_id,) = make(world, write(".git/config"))
    wish = {"scope": scope, **({"pattern": pattern} if pattern else {})}
    error = refusal(lambda: world.decision(call_id, "approve", remember=wish))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "remember")
    world.cancel()
    if pattern not in (None, ".git/**"):
        remember(world, "approve", write("a.py"), **wish)
        assert states(world, write("b.py"), write(".git/config")) == ["executing", "awaiting_approval"]


def test_an_existing_rule_does_not_allow_it() -> None:
    world = World()
    remember(world, "approve", write("a.py"), pattern="**")
    (rule,) = json.loads(world.table["RULES"]["rules"])
    world.table["RULES"]["rules"] = json.dumps([rule, {**rule, "rule_id": "old", "pattern": ".git/**"}])
    assert states(world, write(".git/config")) == ["awaiting_approval"]


def test_a_denial_still_applies() -> None:
    world = World()
    remember(world, "reject", write(".git/config"))
    assert states(world, write(".GIT/config")) == ["rejected"]


def test_calls_over_http_ask_too() -> None:
    world = autonomous()
    world.execute("c1", "write_file", path=".git/config", content="x")
    assert world.call_item("c1")["state"] == "awaiting_approval"


def test_similar_paths_do_not_ask() -> None:
    calls = [
        *(write(path) for path in ("a.py", ".gitignore", ".github/FUNDING.yml", "src/git/config", "head.js")),
        *(write(path) for path in ("overhead/a.py", "my.git.md", "vscode/a", "a~b", "docs/HEAD.md", ".env")),
        move("src/a.py", "lib/a.py"),
        ("delete_file", {"path": "src/a.py"}),
        ("create_directory", {"path": "src/lib"}),
        patch(f"--- a/a.py\n+++ b/a.py\n{HUNK}"),
    ]
    assert set(states(autonomous(), *calls)) == {"executing"}


def test_reading_does_not_ask() -> None:
    assert states(autonomous(), ("read_file", {"path": ".git/config"})) == ["executing"]


def test_every_protected_path_has_a_reason_and_is_normalized() -> None:
    for name, reason in {**PROTECTED, **PROTECTED_FILES}.items():
        assert len(reason) > 10, name
        assert is_protected(f"a/{name.upper().replace('*', 'x')}"), name


FAMILIES = (
    *(f"{stem}.{ending}" for stem in ("lefthook", ".lefthook", "lefthook-local", ".lefthook-local")
      for ending in ("yml", "yaml", "toml", "json", "jsonc")),
    ".config/lefthook.toml", ".lefthook/pre-commit/a.sh", ".lefthook-local/pre-commit/a.sh",
    *(f".lintstagedrc{ending}" for ending in ("", ".json", ".yaml", ".yml", ".js", ".mjs", ".cjs", ".ts")),
    *(f"lint-staged.config.{ending}" for ending in ("js", "mjs", "cjs", "ts", "mts")),
    ".pre-commit-config.yml", ".hgrc", ".hg/hgrc", ".config/git/config", ".config/git/hooks/pre-commit",
    "home/.config/git/attributes",
    ".bash_login", ".bash_logout", ".bash_aliases", ".zprofile", ".zlogin", ".zlogout",
    ".vimrc", ".nvimrc", ".exrc", ".lvimrc", ".gvimrc", "_vimrc", ".local.vimrc", ".dir-locals.el", ".dir-locals-2.el",
    "my.sublime-project", ".theia/tasks.json", ".helix/languages.toml", ".zed/tasks.json", ".fleet/run.json",
    ".devcontainer/devcontainer.json", ".devcontainer/python/devcontainer.json", ".devcontainer.json",
    ".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".cursor/mcp.json", ".windsurf/hooks.json",
    ".kiro/hooks/a.kiro.hook", ".gemini/settings.json", ".codex/config.toml",
    "mise.toml", ".mise.toml", "mise.local.toml", ".mise.dev.toml", "mise/config.toml", ".mise/config.toml",
    ".config/mise.toml", ".config/mise/config.toml", ".config/mise/conf.d/a.toml", ".tool-versions",
    ".pnpmfile.mjs", ".yarnrc.yaml",
    "AGENTS.md", "AGENTS.override.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md",
    "CRUSH.md", "WARP.md",
    ".agents/skills/a/SKILL.md", ".agent/rules/a.md", ".codelab/skills/a/SKILL.md", ".rules",
    "opencode.json", "opencode.jsonc", ".opencode/agent/a.md", "crush.json", ".crush.json", ".crushrc",
    ".aider.conf.yml", ".aiderignore", ".roo/rules/a.md", ".roomodes", ".roorules-code", ".kilocode/rules/a.md",
    ".kilocodemodes",
    ".clinerules", ".clinerules/a.md", ".cursorrules", ".windsurfrules", ".amazonq/rules/a.md", ".qwen/settings.json",
    ".continue/config.yaml", ".continuerules", ".junie/guidelines.md", ".augment/rules/a.md", ".goosehints",
    ".openhands/setup.sh",
    ".factory/droids/a.md", ".trae/rules/a.md", ".amp/settings.json", ".claude-plugin/plugin.json",
    *(f".github/{name}" for name in ("copilot-instructions.md", "copilot-setup-steps.yml", "instructions/a.md",
    "prompts/a.md",
      "agents/a.md", "chatmodes/a.md", "skills/a/SKILL.md", "hooks/a.json", "workflows/a.yml", "actions/a/action.yml")),
    ".gitlab-ci.yml", ".gitlab/ci/a.yml", ".circleci/config.yml", ".buildkite/pipeline.yml", ".travis.yml",
    ".cirrus.star",
    ".drone.yml", ".woodpecker.yml", ".woodpecker/a.yml", ".forgejo/workflows/a.yml", ".gitea/workflows/a.yml",
    "Jenkinsfile",
    "Jenkinsfile.release", "azure-pipelines.yml", "azure-pipelines-release.yml", "bitbucket-pipelines.yml",
    "buildspec.yml",
    "cloudbuild.yaml", "appveyor.yml", ".ci/run", ".teamcity/settings.kts", ".tekton/a.yaml", ".zuul.yaml",
    *(f"eslint.config.{ending}" for ending in ("js", "mjs", "cjs", "ts", "mts", "cts")),
    *(f".eslintrc{ending}" for ending in ("", ".js", ".cjs", ".json", ".yml")), ".prettierrc", ".prettierrc.mjs",
    "prettier.config.ts", "stylelint.config.js", ".stylelintrc.json", "tailwind.config.ts", "commitlint.config.js",
    ".pylintrc", "pylintrc", ".pylintrc.toml", "pylintrc.toml", ".flake8", "mypy.ini", ".mypy.ini",
    ".rubocop.yml", ".rubocop_todo.yml", ".formatter.exs", ".php-cs-fixer.dist.php", "phpstan.neon.dist", ".luacheckrc",
    "vitest.config.ts", "vitest.workspace.json", "jest.config.cjs", "playwright.config.ts", ".mocharc.yml",
    "svelte.config.js", ".luarc.json", ".luarc.jsonc", "build.rs",
    "conftest.py", "pytest.ini", "sitecustomize.py", "usercustomize.py", "a.pth", ".pdbrc", ".irbrc", ".Rprofile",
    ".gdbinit", ".ghci",
    ".venv/bin/python", "venv/bin/activate", "venv/lib/python3.13/a.py", "venv/lib64/a", "venv/Scripts/a.exe",
    "pyvenv.cfg",
    "node_modules/typescript/lib/tsserver.js", ".pnp.cjs", ".pnp.loader.mjs", "bunfig.toml", ".bundle/config",
    ".direnv/bin/a",
    "flake.nix", "shell.nix", "devenv.nix", "rust-toolchain.toml", "rust-toolchain",
    "gradle/wrapper/gradle-wrapper.properties",
    ".bazelrc", ".bazelversion", ".bsp/a.json", ".factorypath", ".project", ".settings/a.prefs", ".run/a.run.xml",
    ".vim/coc-settings.json",
    ".lazy.lua", ".ycm_extra_conf.py", ".jj/repo/config.toml", ".huskyrc.js", "simple-git-hooks.cjs",
    ".trunk/trunk.yaml",
    ".gitpod.yml", ".codesandbox/tasks.json", ".stackblitzrc", ".idx/dev.nix", "devfile.yaml",
    ".config/fish/config.fish",
)  # fmt: skip


def is_protected(path: str) -> bool:
    tool, arguments = write(path)
    return bool(CATALOGUE[tool].makes_tools_run_code(arguments))


def test_every_variant_of_a_pattern_asks() -> None:
    for path in FAMILIES:
        for spelling in (path, f"sub/{path}", path.upper(), path.replace("/", "\\"), path.replace("/", "/./")):
            assert is_protected(spelling), spelling


NEIGHBOURS = (
    "src/lefthook/a.py", "docs/my-lefthook.yml", "lint-staged.md", "lint-staged.config", "config/git/a",
    ".config/gitea/a", ".config/app/git/a", ".config", "src/mise/en_scene.py", "miserable.toml", "vimrc.md",
    "a.sublime-project/a", "tool-versions", "claude/settings.json", "mcp.json", "bash_login", "dir-locals.el",
    "HEAD/a", "a.code-workspace.md",
    "package.json", "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "Makefile", "vite.config.ts",
    "Dockerfile", "tsconfig.json",
    ".github/FUNDING.yml", ".github/ISSUE_TEMPLATE/bug.md", ".gitlab/a.md", "agents/a.py", "src/agents.py",
    "docs/my-agents.md",
    "claude.py", ".rooted", "eslint.md", "eslint-config/a.js", "src/prettier.ts", "tests/test_conftest.py",
    "conftest.pyx", "src/vitest.ts", "jest.md", "src/build.rs.txt", "luarc.json", "build.gradle", "CMakeLists.txt",
    "venv/README.md", "src/venv.py", "node_modules.md", "src/ci/a.py", "flake.lock", "a.project", "toolchain.toml",
    "gradle/a.kts",
    "jenkins/file.groovy", "pytest.md", ".env", ".nvmrc", ".python-version", ".dockerignore", ".prettierignore",
    ".eslintignore",
)  # fmt: skip


def test_names_that_only_look_alike_do_not_ask() -> None:
    assert [path for path in NEIGHBOURS if is_protected(path)] == []
