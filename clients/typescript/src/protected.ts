// Written by `make docs` from the server's codelab.protocol.protected; do not edit.

/** Names anywhere in a path, and only at its end, of files that other programs obey. `*` is any part of a name. */
const ANYWHERE = ".git .gitconfig .gitattributes .gitmodules .config/git .githooks .hg .hgrc .jj .sl .husky .huskyrc* .simple-git-hooks.* simple-git-hooks.* .overcommit.yml .trunk .pre-commit-config.* lefthook.* lefthook-local.* .lefthook* .lintstagedrc* lint-staged.config.* .commitlintrc* commitlint.config.* .editorconfig .vscode .idea .run .vs .fleet .zed .theia .helix .settings .factorypath .externalToolBuilders .bsp .devcontainer .devcontainer.json devfile.yaml .devfile.yaml .gitpod* .codesandbox .stackblitzrc .replit .idx .dir-locals*.el .exrc *vimrc .vim .nvim .nvim.lua .lazy.lua .ycm_extra_conf.py .eslintrc* eslint.config.* .prettierrc* prettier.config.* .stylelintrc* stylelint.config.* tailwind.config.* .pylintrc* pylintrc* .flake8 mypy.ini .mypy.ini .rubocop*.yml .solargraph.yml .formatter.exs .php-cs-fixer* phpstan*.neon* .luacheckrc .luarc.json* svelte.config.* build.rs .bazelrc .bazelversion rust-toolchain* gradle/wrapper .agents .agent AGENTS.md AGENTS.*.md AGENT.md .mcp.json .codelab .cursor .cursorrules .windsurf .windsurfrules .devin .kiro .amazonq .claude .claude-plugin CLAUDE.md CLAUDE.local.md .gemini GEMINI.md .qwen QWEN.md .codex .opencode opencode.json* .crush* crush.json crushrc CRUSH.md .aider* .roo .roomodes .roorules* .kilocode* .clinerules* .continue* .junie .augment* .trae .goose* .openhands* .factory .amp .vibe .pi WARP.md .rules .github/copilot* .github/instructions .github/prompts .github/agents .github/chatmodes .github/skills .github/hooks .github/workflows .github/actions .forgejo .gitea .gitlab-ci* .gitlab/ci .circleci .buildkite .travis.yml .cirrus* .drone* .woodpecker* .semaphore .teamcity .tekton .builds .build.yml .zuul* .appveyor.yml appveyor.yml azure-pipelines* .azure-pipelines bitbucket-pipelines.yml buildspec*.yml cloudbuild*.yaml Jenkinsfile* .ci .envrc flake.nix shell.nix devenv.* .mise* mise.toml mise.*.toml mise/conf* .config/mise .tool-versions .prototools .venv venv/bin venv/lib* venv/Scripts pyvenv.cfg .direnv .pixi node_modules .pnp.* .npmrc .pnpmfile.* .yarnrc* .yarn bunfig.toml .bundle .cargo .mvn conftest.py pytest.ini vitest.config.* vitest.workspace.* jest.config.* playwright.config.* .mocharc* sitecustomize.py usercustomize.py .pdbrc* .irbrc .pryrc .rdbgrc* .iex.exs .ghci .ocamlinit .Rprofile .gdbinit .lldbinit .bashrc .bash_* .profile .zshrc .zshenv .zprofile .zlogin .zlogout .config/fish .ssh";
const AT_THE_END = "HEAD *.code-workspace *.sublime-project *.pth .project";

let pattern: RegExp | undefined;

/** Could a change of this file or directory make a program run code? */
export function isProtected(path: string): boolean {
  const names = namesOf(path);
  pattern ??= new RegExp(`(?:^|/)(?:(?:${anyOf(ANYWHERE)})(?:/|$)|(?:${anyOf(AT_THE_END)})$)`);
  return names.some((name) => /^[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{1,3})?$/.test(name)) || pattern.test(names.join("/"));
}

/** Could this be a directory with such files in it? A name with an extension counts as a file. */
export function mayHoldProtected(path: string): boolean {
  const last = namesOf(path).at(-1);
  return last === undefined || /[/\\]$/.test(path) || !last.replace(/^\.+|\.+$/g, "").includes(".");
}

/** The names in a path as the most tolerant file system compares them: no case, accents, trailing dots or spaces. */
function namesOf(path: string): string[] {
  const plain = path.replace(/[\u200c\u200d\ufe0e\ufe0f]/g, "").normalize("NFKD").replace(/\p{M}/gu, "");
  const folded = plain.toUpperCase().toLowerCase().normalize("NFKD");
  return folded.split(/[/\\]/).map((name) => name.replace(/[. \t]+$/, "")).filter(Boolean);
}

function anyOf(names: string): string {
  const escaped = names.toLowerCase().replace(/[\\^$.|+?()[\]{}]/g, "\\$&").replaceAll("*", "[^/]*");
  return escaped.replaceAll(" ", "|");
}
