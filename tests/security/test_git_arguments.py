"""Arguments that a program could take for options, or git for more than a name."""

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.tools import CATALOGUE, KNOWN_TOOLS

from tests.cases import cases
from tests.processes import run
from tests.protocol.test_tools import with_path
from tests.security.test_denials import make
from tests.turns.world import World, refusal

HOOK = ".git/hooks/pre-commit"
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git as an IDE may run it, with only the repository's config."""
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(folder)}
    names = {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return run("git", *arguments, cwd=folder, env={"PATH": os.environ["PATH"], **quiet, **names})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a hook and an uncommitted change."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.py").write_text("one\n")
    git(tmp_path, "add", "a.py")
    assert git(tmp_path, "commit", "--quiet", "--message", "m").returncode == 0
    (tmp_path / "a.py").write_text("touch owned\n")
    (tmp_path / HOOK).parent.mkdir(exist_ok=True)
    (tmp_path / HOOK).write_text("the user's hook\n")
    return tmp_path


def refused(tool: str, /, **arguments: Any) -> tuple[ErrorCode, str]:
    error = refusal(lambda: KNOWN_TOOLS[tool].check(arguments))
    return error.code, error.details["field"]


# ---------------------------------------------------------------- paths

PATHS = ("git.diff", "git.status", "git.log", "git.commit", "search_in_project")
OPTIONS = {
    "an option that writes": f"--output={HOOK}",
    "an option that names more paths": "--pathspec-from-file=x",
    "an option of ripgrep that runs a program": "--pre=evil.sh",
    "a short one": "-O",
    "two dashes": "--",
    "one dash": "-",
    "behind the slash that leniency strips": f"/--output={HOOK}",
    "behind a dot that an IDE strips": f"./--output={HOOK}",
    "behind a dot and slashes": f"././/--output={HOOK}",
    "behind a dot of Windows": ".\\--output=x",
    "behind a space that an IDE strips": f" --output={HOOK}",
    "with a wide dash": "\uff0d\uff0doutput=x",
    "with a dash that Windows makes an ASCII one": "\u2010\u2010output=x",
    "with a minus": "\u2212\u2212output=x",
}  # fmt: skip


@cases("tool", PATHS)
def test_paths_that_look_like_options_are_refused(tool: str) -> None:
    for what, option in OPTIONS.items():
        code, field = refused(tool, **with_path(tool, option))
        assert code is ErrorCode.INVALID_PATH, what
        assert field in KNOWN_TOOLS[tool].paths, what


@cases("tool", PATHS)
def test_pathspec_magic_is_refused(tool: str) -> None:
    for magic in (":(exclude)a", ":!a", ":/", ":(attr:x)", ":"):
        assert refused(tool, **with_path(tool, magic))[0] is ErrorCode.INVALID_PATH, magic


@cases("tool", PATHS)
def test_a_dash_inside_a_path_is_accepted(tool: str) -> None:
    for path in (".", "a-b", "src/-x", "src/--output=x", ".-x", "app/[id]/page.tsx", "\u00fc-x"):
        assert KNOWN_TOOLS[tool].check(with_path(tool, path)) == with_path(tool, path)


def test_file_tools_accept_names_that_begin_with_a_dash() -> None:
    for name, tool in CATALOGUE.items():
        if tool.paths and name not in PATHS and not name.startswith("run_") and not tool.server_side:
            arguments = {
                "content": "",
                "glob": "*",
                "edits": [{"old": "a", "new": "b"}],
                **dict.fromkeys(tool.paths, "-x"),
            }
            given = {key: value for key, value in arguments.items() if key in tool.parameters["properties"]}
            assert tool.check(given) == given


def test_queries_and_messages_may_begin_with_a_dash() -> None:
    for name, arguments in (("search_in_project", {"query": "--output"}), ("git.commit", {"message": "- a list"})):
        assert KNOWN_TOOLS[name].check(arguments) == arguments


def test_every_text_argument_of_git_tools_is_tested() -> None:
    free = {"message"}
    for name, tool in KNOWN_TOOLS.items():
        if name.startswith("git."):
            texts = {
                key
                for key, schema in tool.parameters["properties"].items()
                if (schema.get("items") or schema)["type"] == "string" and "enum" not in schema
            }
            assert texts - free == {*tool.operands, *tool.refs}, name
        assert set(tool.operands) <= set(tool.paths)


@needs_git
@pytest.mark.parametrize("tool", ["git.diff", "git.log"])
def test_the_attack_works_on_git_and_is_refused_by_the_server(tool: str, repository: Path) -> None:
    option = f"--output={HOOK}"
    command = [tool.removeprefix("git."), *(["--patch"] if tool == "git.log" else [])]
    assert git(repository, *command, "--", option).returncode == 0
    assert (repository / HOOK).read_text() == "the user's hook\n", "behind -- it is a path"
    assert git(repository, *command, option).returncode == 0
    assert "diff --git" in (repository / HOOK).read_text(), "git has written over the hook"
    for autonomy in ("manual", "balanced", "autonomous"):
        world = World()
        world.configure(autonomy=autonomy)
        (call_id,) = make(world, (tool, {"path": option}))
        call = world.call_item(call_id)
        assert call["state"] == "failed"
        assert ErrorCode.INVALID_PATH.value in str(call)
        assert not [frame for frame in world.of_type("tool_call") if frame["call_id"] == call_id]


@pytest.mark.parametrize(
    ("tool", "good", "bad", "field"),
    [
        ("git.commit", {"message": "m", "files": ["a.py"]}, {"message": "m", "files": ["--amend"]}, "files"),
        ("git.branch", {"action": "switch", "name": "a"}, {"action": "switch", "name": "--orphan=a"}, "name"),
    ],
)
def test_an_edit_cannot_make_a_path_an_option(tool: str, good: dict[str, Any], bad: dict[str, Any], field: str) -> None:
    world = World()
    (call_id,) = make(world, (tool, good))
    error = refusal(lambda: world.decision(call_id, "edit", modified_arguments=bad))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, f"modified_arguments.{field}")
    assert world.call_item(call_id)["state"] == "awaiting_approval"


def test_calls_over_http_are_refused_as_well() -> None:
    world = World()
    error = refusal(lambda: world.execute("c1", "git.diff", path=f"--output={HOOK}"))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_PATH, "path")


# ---------------------------------------------------------------- branches and remotes

NO_BRANCHES = (
    "--force", "-d", "-", "--upload-pack=evil", "/-x", "\uff0dd", "", "@", "HEAD", "a b", " a", "a\tb", "a\nb", "a\0b",
    "a\x7fb", "a..b", "a~1", "a^", "a:b", "a?b", "a*", "a[b", "a\\b", "a@{1}", "@{-1}", "/a", "a/", "a//b", "a.", ".a",
    "a/.b", "a.lock", "a.lock/b", "\ud800",
)  # fmt: skip
BRANCHES = (
    "main", "feature/new-auth", "fix-1.2", "a/-b", "a@b", "a/@", "#12", "\u0434\u0430", "v1.locks", "a.b", "x{y}",
)  # fmt: skip
REMOTES = (
    "--receive-pack=touch owned; git-receive-pack", "-x", "ext::sh -c touch% owned", "ext::sh", "fd::7", "a::b",
    "https://evil.example/x.git", "ssh://-oProxyCommand=touch/x", "git@evil.example:x", "../x", "/tmp/x",
)  # fmt: skip


@cases("action", ["create", "switch", "delete", "list"])
def test_branches_that_are_options_or_ranges_are_refused(action: str) -> None:
    for name in NO_BRANCHES:
        assert refused("git.branch", action=action, name=name) == (ErrorCode.INVALID_ARGUMENTS, "name"), name


@cases("name", [*NO_BRANCHES, *REMOTES])
def test_remotes_that_are_options_or_addresses_are_refused(name: str) -> None:
    assert refused("git.push", remote=name, branch="main") == (ErrorCode.INVALID_ARGUMENTS, "remote")


@cases("name", NO_BRANCHES)
def test_pushed_branches_that_are_options_or_ranges_are_refused(name: str) -> None:
    assert refused("git.push", remote="origin", branch=name) == (ErrorCode.INVALID_ARGUMENTS, "branch")


@cases("name", BRANCHES)
def test_usual_names_are_accepted(name: str) -> None:
    for tool, arguments in (
        ("git.branch", {"action": "create", "name": name}),
        ("git.push", {"remote": name, "branch": name}),
    ):
        assert KNOWN_TOOLS[tool].check(arguments) == arguments


@needs_git
def test_git_refuses_the_same_names(repository: Path) -> None:
    choose = random.Random(11)
    parts = [*"aaaabbbb-./@{}~^:?*[]\\ \t\u00fc", "..", ".lock", "HEAD"]
    names = {"".join(choose.choices(parts, k=choose.randint(1, 4))) for _ in range(300)}
    names |= {*BRANCHES, *(name for name in NO_BRANCHES if name.isascii() and "\0" not in name)}
    taken = {name for name in names if git(repository, "check-ref-format", "--branch", name).returncode == 0}
    assert 30 < len(taken) < len(names) - 30
    tool, wrong = KNOWN_TOOLS["git.branch"], []
    for name in sorted(names):
        try:
            tool.check({"action": "create", "name": name})
        except ProtocolError:
            wrong += [name] if name in taken else []
        else:
            wrong += [name] if name not in taken else []
    assert wrong == ["@"], "git lets a branch be called so, and reads HEAD where it is named"
