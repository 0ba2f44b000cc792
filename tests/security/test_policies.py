"""A policy file of `codelab exec` allows what it reads as, and nothing beside it."""

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from codelab_client.policy import ACTING, PAYLOAD, Policy, PolicyError
from codelab_client.tools.arguments import ARGUMENTS

Call = tuple[str, dict[str, Any]]
Entry = Mapping[str, Any]

HUNK = "@@ -1 +1 @@\n-one\n+two\n"


def write(path: str) -> Call:
    return ("write_file", {"path": path, "content": "all: ; touch /tmp/owned"})


def edit(path: str) -> Call:
    return ("edit_file", {"path": path, "edits": [{"old": "a", "new": "b"}]})


def move(source: str, target: str) -> Call:
    return ("move_file", {"from": source, "to": target})


def run(command: str, **how: Any) -> Call:
    return ("run_command", {"command": command, **how})


def start(command: str, name: str, **how: Any) -> Call:
    return ("run_persistent", {"command": command, "process_id": name, **how})


def patch(*paths: str) -> Call:
    return ("apply_patch", {"diff": "".join(f"--- a/{path}\n+++ b/{path}\n{HUNK}" for path in paths)})


def renaming(source: str, target: str) -> Call:
    diff = f"diff --git a/{source} b/{target}\nrename from {source}\nrename to {target}\n"
    return ("apply_patch", {"diff": diff})


def commit(*files: str) -> Call:
    return ("git.commit", {"message": "m", "files": list(files)})


def branch(action: str, name: str | None = None) -> Call:
    return ("git.branch", {"action": action, **({"name": name} if name else {})})


ANY = {"any": True}

#: A policy's entry, calls that it allows, and attacks beside those that are made from these calls.
POLICIES: list[tuple[Entry, list[Call], list[Call]]] = [
    (
        {"tool": "write_file", "path": "docs/**"},
        [write("docs/a.md"), write("docs/b/c.md"), write("./docs//a.md")],
        [write("docs"), write("documents/a"), write("Makefile"), write("docs/.git/config"), write("src/docs/a.md")],
    ),
    (
        {"tool": "write_file", "path": "docs/**/*.md"},
        [write("docs/a.md"), write("docs/b/c.md")],
        [write("docs/Makefile"), write("docs/a.md/x"), write("docs/.mdx"), write("docs/CLAUDE.md")],
    ),
    ({"tool": "write_file", "path": "*.py"}, [write("a.py")], [write("src/a.py"), write("a.pyc"), write("a.PY")]),
    (
        {"tool": "write_file", "path": "**/*.py"},
        [write("a.py"), write("src/deep/a.py")],
        [write("a.py/b"), write(".venv/lib/a.py"), write("conftest.pyx")],
    ),
    (
        {"tool": "write_file", "path": "**"},
        [write("a"), write("src/a.py")],
        [write(".git/hooks/pre-commit"), write(".vscode/tasks.json"), write(".envrc"), write(".GIT/config")],
    ),
    ({"tool": "write_file", "path": "README.md"}, [write("README.md")], [write("docs/README.md"), write("readme.md")]),
    (
        {"tool": "write_file", "path": "src/[id]/page.tsx"},
        [write("src/[id]/page.tsx")],
        [write("src/i/page.tsx"), write("src/d/page.tsx")],
    ),
    ({"tool": "write_file", "path": "a?.txt"}, [write("ab.txt")], [write("a.txt"), write("a/.txt"), write("abc.txt")]),
    (
        {"tool": "write_file", "path": "src/**/gen/*.ts"},
        [write("src/gen/a.ts"), write("src/x/y/gen/a.ts")],
        [write("src/gen/x/a.ts"), write("gen/a.ts")],
    ),
    (
        {"tool": "write_file", "path": "a.md", "content": "x"},
        [("write_file", {"path": "a.md", "content": "x"})],
        [("write_file", {"path": "a.md", "content": "y"})],
    ),
    ({"tool": "edit_file", "path": "src/**"}, [edit("src/a.py")], [edit("a.py"), edit("src/.idea/a.xml")]),
    ({"tool": "edit_file", "path": "CHANGELOG.md"}, [edit("CHANGELOG.md")], [edit("x/CHANGELOG.md")]),
    (
        {"tool": "create_directory", "path": "build/**"},
        [("create_directory", {"path": "build/out"})],
        [("create_directory", {"path": "build/.git"}), ("create_directory", {"path": "src"})],
    ),
    (
        {"tool": "delete_file", "path": "tmp/**"},
        [("delete_file", {"path": "tmp/a.txt"})],
        [("delete_file", {"path": "tmp"}), ("delete_file", {"path": "tmp/folder"}), ("delete_file", {"path": "."})],
    ),
    (
        {"tool": "delete_file", "path": "**/*.bak"},
        [("delete_file", {"path": "a/b.bak"})],
        [("delete_file", {"path": "a/b.py"}), ("delete_file", {"path": ".git/a.bak"})],
    ),
    (
        {"tool": "move_file", "from": "src/*.py", "to": "src/*.py"},
        [move("src/a.py", "src/b.py")],
        [move("src/a.py", ".git/hooks/pre-commit.py"), move("src/a.py", "b.py"), move("b.py", "src/a.py")],
    ),
    (
        {"tool": "move_file", "from": "**", "to": "lib/**"},
        [move("a.py", "lib/a.py")],
        [move("a.py", "a.py"), move("src", "lib/src"), move("a.py", "lib/.vscode/a.json"), move(".npmrc", "lib/a.py")],
    ),
    (
        {"tool": "move_file", "from": "a.txt", "to": ANY},
        [move("a.txt", "anything.txt")],
        [move("a.txt", ".envrc"), move("a.txt", "folder"), move("b.txt", "c.txt")],
    ),
    (
        {"tool": "run_command", "command": "make test"},
        [run("make test"), run("make test", cwd="."), run("make test", cwd="./")],
        [run("make test", cwd="docs"), run("make test "), run("make test; id"), run("make test", cwd="docs/..")],
    ),
    (
        {"tool": "run_command", "command": "npm test", "cwd": "web"},
        [run("npm test", cwd="web"), run("npm test", cwd="web/.")],
        [run("npm test"), run("npm test", cwd="."), run("npm test", cwd="web/evil"), run("npm test", cwd="/web")],
    ),
    (
        {"tool": "run_command", "command": "npm test", "cwd": "packages/*"},
        [run("npm test", cwd="packages/a")],
        [run("npm test", cwd="packages"), run("npm test", cwd="packages/a/b"), run("npm test", cwd="packages/.git")],
    ),
    ({"tool": "run_command", "command": "ls", "cwd": "**"}, [run("ls"), run("ls", cwd="a/b")], [run("ls", cwd="../a")]),
    ({"tool": "run_command", "command": ANY}, [run("id"), run("make")], [run("id", cwd="docs")]),
    (
        {"tool": "execute_command", "command": "make lint"},
        [run("make lint"), ("execute_command", {"command": "make lint"})],
        [run("make test"), ("execute_command", {"command": "make lint", "cwd": "docs"})],
    ),
    ({"tool": "run_command", "command": "make  test"}, [run("make  test")], [run("make test"), run("make  test &")]),
    (
        {"tool": "run_persistent", "command": "npm run dev", "process_id": "dev"},
        [start("npm run dev", "dev")],
        [start("npm run dev", "other"), start("npm run dev", "dev", cwd="web"), start("id", "dev")],
    ),
    (
        {"tool": "kill_process", "process_id": "dev"},
        [("kill_process", {"process_id": "dev"})],
        [("kill_process", {"process_id": "db"}), ("kill_process", {"process_id": "dev", "signal": "KILL"})],
    ),
    ({"tool": "git.commit"}, [("git.commit", {"message": "m"})], [commit("a.py"), commit(".husky/pre-commit")]),
    (
        {"tool": "git.commit", "files": "docs/**"},
        [commit("docs/a.md"), commit("docs/a.md", "docs/b.md")],
        [commit("docs/a.md", "a.py"), commit("docs/.vscode/a"), ("git.commit", {"message": "m"}), commit()],
    ),
    ({"tool": "git.commit", "files": ["*.md", "docs/**"]}, [commit("a.md", "docs/x.py")], [commit("a.md", "a.py")]),
    ({"tool": "git.branch", "action": "list"}, [branch("list")], [branch("create", "x"), branch("list", "x")]),
    ({"tool": "git.branch", "action": "create", "name": ANY}, [branch("create", "x")], [branch("delete", "x")]),
    (
        {"tool": "git.branch", "action": "switch", "name": "main"},
        [branch("switch", "main")],
        [branch("switch", "evil")],
    ),
    (
        {"tool": "apply_patch", "path": "**"},
        [patch("a.py"), patch("a.py", "src/b.py"), renaming("a.py", "b.py")],
        [
            patch(".git/config"),
            patch("a.py", ".vscode/tasks.json"),
            renaming("a.py", ".envrc"),
            ("apply_patch", {"diff": "x"}),
        ],
    ),
    (
        {"tool": "apply_patch", "path": "docs/**"},
        [patch("docs/a.md")],
        [
            patch("docs/a.md", "Makefile"),
            renaming("docs/a.md", "Makefile"),
            renaming("Makefile", "docs/a.md"),
            ("apply_patch", {}),
        ],
    ),
    (
        {"tool": "fetch_url", "url": "https://example.com/a"},
        [("fetch_url", {"url": "https://example.com/a"})],
        [("fetch_url", {"url": "https://example.com/ab"}), ("fetch_url", {"url": "http://169.254.169.254/"})],
    ),
    (
        {"tool": "read_file", "path": "src/**"},
        [("read_file", {"path": "src/a", "offset": 2})],
        [("read_file", {"path": "secret"})],
    ),
    (
        {"tool": "tickets.create", "title": ANY},
        [("tickets.create", {"title": "x"}), ("tickets.create", {})],
        [("tickets.create", {"title": "x", "project": "other"}), ("tickets.delete", {"title": "x"})],
    ),
    (
        {"tool": "deploy.run", "stage": "test", "count": 1, "force": False},
        [("deploy.run", {"stage": "test", "count": 1, "force": False})],
        [
            ("deploy.run", {"stage": "prod", "count": 1, "force": False}),
            ("deploy.run", {"stage": "test", "count": True, "force": False}),
            ("deploy.run", {"stage": "test", "count": 1, "force": 0}),
            ("deploy.run", {"stage": "test", "count": 1.0, "force": False}),
        ],
    ),
    (
        {"tool": "deploy.list", "filter": {"stages": ["a", 1]}},
        [("deploy.list", {"filter": {"stages": ["a", 1]}})],
        [("deploy.list", {"filter": {"stages": ["a", True]}}), ("deploy.list", {"filter": {"stages": ["a", 1, 2]}})],
    ),
]

#: Arguments that no policy above names, and which a tool may have tomorrow.
ADDED = ({"env": {"PATH": "."}}, {"shell": "bash"}, {"timeout": 1}, {"cwd": "evil"}, {"root": "/"}, {"overwrite": True},
         {"executable": "x"}, {"tool": "write_file"}, {"any": True}, {"stdin": ""})  # fmt: skip
#: Ways to lead a path elsewhere.
ELSEWHERE = ("../{0}", "/{0}", "{0}/../../x", "~/{0}", "C:/{0}", ".git/../{0}", "{0}\n", "{0}\u200b", ".git/{0}",
             "{0}/.git/config", "GIT~1/{0}", "\uff0egit/{0}", "..\\{0}", "")  # fmt: skip
PATHS = ("path", "from", "to", "cwd")


def attacks(allowed: Call, entry: Entry) -> Iterator[Call]:
    """What a model may make of a call that the policy allows."""
    tool, arguments = allowed
    for added in ADDED:
        (name,) = added
        if name not in entry:
            yield tool, {**arguments, **added}
    for name in PATHS:
        if isinstance(path := arguments.get(name), str):
            yield from (
                (tool, {**arguments, name: form.format(path)}) for form in ELSEWHERE if not tool.startswith("read")
            )
            yield from ((tool, {**arguments, name: value}) for value in (7, [path, "/etc/passwd"], {"path": path}))
    yield f"{tool}2", arguments
    yield tool.upper(), arguments


def test_forty_policies_allow_nothing_beside_what_they_name() -> None:
    tried = allowed = refused = 0
    wrong: list[str] = []
    for entry, good, bad in POLICIES:
        policy = Policy((entry,))
        for call in good:
            allowed += 1
            if not policy.allows(*call):
                wrong.append(f"{entry} refuses {call}")
        for attack in (*bad, *(made for call in good for made in attacks(call, entry))):
            tried += 1
            if policy.allows(*attack):
                wrong.append(f"{entry} allows {attack}")
            else:
                refused += 1
    sys.stdout.write(
        f"{len(POLICIES)} policies: {allowed} calls allowed, {refused} of {tried} attacks refused, {len(wrong)} wrong\n"
    )
    assert len(POLICIES) == 40
    assert wrong == []


def test_a_file_that_one_entry_allows_is_not_run_by_another_elsewhere() -> None:
    policy = Policy(({"tool": "write_file", "path": "docs/**"}, {"tool": "run_command", "command": "make test"}))
    assert policy.allows(*write("docs/Makefile"))
    assert not policy.allows(*run("make test", cwd="docs"))
    assert policy.allows(*run("make test"))


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("**/" * 12 + "x", "a/" * 400 + "y"),
        ("**/*a" * 40 + "/x", "a/" * 400 + "y"),
        ("*a" * 120 + "b", "a" * 255),
        ("?*" * 100 + "b", "a" * 255),
        ("**/*a*a*a*a*a*a*b/" * 8 + "x", ("a" * 200 + "/") * 15),
        ("*" * 500 + "b", "a" * 255),
    ],
    ids=["many folders", "folders and stars", "stars", "stars and marks", "both", "only stars"],
)
def test_no_glob_makes_the_client_hang(glob: str, path: str) -> None:
    glob = glob if "**" not in glob.replace("**/", "") else glob.replace("**", "*")
    began = time.process_time()
    assert not Policy(({"tool": "write_file", "path": glob},)).allows(*write(path))
    assert time.process_time() - began < 5  # exponential ones take years


def load(tmp_path: Path, text: str) -> Policy:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    return Policy.load(file)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('tool = "move_file"\nfrom = "docs/**"', "move_file needs `to`"),
        ('tool = "write_file"', 'write_file needs `path`, or no call matches; `path = "**"` allows everything'),
        ('tool = "run_command"', "run_command needs `command`, or no call matches; `command = { any = true }`"),
        ('tool = "execute_command"', "run_command needs `command`"),
        ('tool = "apply_patch"', "apply_patch needs `path`"),
        ('tool = "run_persistent"\ncommand = "x"', "run_persistent needs `process_id`"),
        ('tool = "write_file"\npath = "docs/**.md"', "must stand alone between slashes"),
        ('tool = "write_file"\npath = "a**/b"', "must stand alone between slashes"),
        ('tool = "x.y"\nday = 2026-01-01', "`day` is no value that an argument can have"),
        ("path = 'a'", "every [[allow]] needs a tool"),
        ('tool = "write_fiel"\npath = "**"', "there is no tool 'write_fiel'; did you mean 'write_file'?"),
        ('tool = "write_file"\npaht = "**"', "write_file has no argument 'paht'; it has content, path"),
        ('tool = "run_command"\ncommand = "x"\nmessage = "y"', "run_command has no argument 'message'"),
    ],
)
def test_an_entry_that_matches_no_call_or_not_as_it_reads_is_refused(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(PolicyError) as refusal:
        load(tmp_path, f"[[allow]]\n{entry}\n")
    assert message in str(refusal.value)


@pytest.mark.parametrize("tool", ["fs.read_file", "git.git_status", "files.write_file"])
def test_a_tool_of_an_mcp_server_is_no_mistyped_one(tmp_path: Path, tool: str) -> None:
    assert load(tmp_path, f'[[allow]]\ntool = "{tool}"\npath = "a"\n').allows(tool, {"path": "a"})


def test_the_examples_of_the_documentation_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/client.md").read_text()
    policy = load(tmp_path, "# Every key" + page.partition("```toml\n# Every key")[2].partition("```")[0])
    assert policy.allows(*write("docs/a/b.md"))
    assert not policy.allows(*write("docs/Makefile"))
    assert policy.allows(*run("make test"))


def test_every_argument_of_every_tool_is_in_the_table() -> None:
    assert ACTING.keys() == ARGUMENTS.keys() >= PAYLOAD.keys(), "see ACTING and PAYLOAD of policy.py"
    for tool, arguments in ARGUMENTS.items():
        named = [*ACTING[tool], *PAYLOAD.get(tool, ())]
        assert set(arguments) == set(named) - ({"path"} if tool == "apply_patch" else set()), tool
        assert len(named) == len(set(named)), tool
