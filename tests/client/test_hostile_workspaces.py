"""No call leads out of a workspace that an attacker made: nothing outside is read, changed or executed.

Every case compares all files outside the workspace before and after. Git runs without a sandbox here, so that what its
settings would execute does leave a trace.
"""

import contextlib
import itertools
import json
import os
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab_client.execution import ToolOutcome
from codelab_client.tools.executor import Executor
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.repository import find, read_small
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import error_code, execute, git, repository, snapshot
from tests.sampling import sampled

SECRET = "the user's private key"


class Place:
    """A workspace, and beside it what an attacker wants: a secret, a repository, and a trace of execution."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outside = folder / "outside"
        self.workspace = folder / "ws"
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(f"{SECRET}\n")
        (self.outside / "dir").mkdir()
        (self.outside / "dir/inner.txt").write_text(f"{SECRET}\n")
        self.workspace.mkdir()
        (self.workspace / "a.txt").write_text("inside\n")
        (self.workspace / "sub").mkdir()
        (self.workspace / "sub/b.txt").write_text("inside\n")
        self.executor = Executor(DiskWorkspace(self.workspace), environment={"PATH": os.environ["PATH"]})
        self.before: dict[str, Any] = {}

    def begin(self) -> None:
        self.before = snapshot(self.outside)

    def call(self, tool: str, **arguments: Any) -> ToolOutcome:
        outcome = execute(self.executor, tool, **arguments)
        said = json.dumps(outcome.fields())
        assert SECRET not in said, f"{tool} read the secret"
        return outcome

    def check(self) -> None:
        assert snapshot(self.outside) == self.before, "something outside changed"
        assert sorted(path.name for path in self.folder.iterdir()) == ["outside", "ws"], "something was added beside"

    @property
    def trap(self) -> str:
        """A program that leaves a trace outside."""
        program = self.outside / "trap.sh"
        if not program.exists():
            program.write_text(f"#!/bin/sh\necho executed >> {self.outside}/executed\ncat\n")
            program.chmod(0o755)
        return str(program)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.check()


# -- paths and links ---------------------------------------------------------------------------------------------------

#: Links of the workspace and where they lead; {outside} and {workspace} stand for the absolute paths.
LINKS = {
    "directory": "../outside",
    "absolute": "{outside}",
    "file": "../outside/secret.txt",
    "absolute_file": "{outside}/secret.txt",
    "dangling": "../outside/new.txt",
    "absolute_dangling": "{outside}/new.txt",
    "chain": "directory",
    "chained_file": "chain/secret.txt",
    "up": "..",
    "above": "{workspace}/../outside",
    "winding": "sub/../../outside",
    "doubled": "sub//..//..//outside",
    "root": "/",
    "process": "/proc/self/cwd/../outside",
    "process_root": "/proc/self/root{outside}",
    "descriptor": "/proc/self/fd",
    "device": "/dev/zero",
    "loop": "loop",
    "loop_a": "loop_b",
    "loop_b": "loop_a",
    "lookalike": "{workspace}-evil",
    "sub/deep": "../../outside",
}
#: Paths that name something outside, by themselves or through those links.
PATHS = [
    "../outside/secret.txt",
    "..",
    "sub/../../outside/secret.txt",
    "./../outside/secret.txt",
    "{outside}/secret.txt",
    "/{outside}/secret.txt",
    "//{outside}/secret.txt",
    "~/secret.txt",
    "~root/secret.txt",
    "C:\\secret.txt",
    "c:/secret.txt",
    "\\\\host\\secret.txt",
    "..\\outside\\secret.txt",
    "sub\\..\\..\\outside",
    ".. /outside/secret.txt",
    "... /outside",
    "..../outside",
    "\uff0e\uff0e/outside/secret.txt",
    "\u2024\u2024/outside/secret.txt",
    "..\u2215outside\u2215secret.txt",
    "..\uff0foutside",
    "%2e%2e/outside/secret.txt",
    ".\u200b./outside",
    "sub/\u202e../outside",
    "secret.txt\0.py",
    "a\nb",
    "a:b",
    "\ud800",
    "",
    "x" * 256,
    "sub/" * 63 + "deep",
    "directory/secret.txt",
    "directory/new.txt",
    "directory/dir",
    "directory",
    "absolute/secret.txt",
    "absolute/dir/inner.txt",
    "file",
    "absolute_file",
    "dangling",
    "absolute_dangling",
    "chain/secret.txt",
    "chained_file",
    "up/outside/secret.txt",
    "above/secret.txt",
    "winding/secret.txt",
    "doubled/secret.txt",
    "root{outside}/secret.txt",
    "process/secret.txt",
    "process_root/secret.txt",
    "descriptor/0",
    "device",
    "loop",
    "loop_a/x",
    "lookalike/x",
    "sub/deep/secret.txt",
    "sub/deep/dir/inner.txt",
    "DIRECTORY/secret.txt",
    "--output=x",
    "-rf",
    ":(top)..",
    ":/",
]
#: What each tool is called with for such a path.
ATTACKS: dict[str, Callable[[str], dict[str, Any]]] = {
    "read_file": lambda path: {"path": path},
    "write_file": lambda path: {"path": path, "content": "written by the attacker"},
    "list_files": lambda path: {"path": path, "recursive": True},
    "search_in_project": lambda path: {"path": path, "query": "private"},
    "create_directory": lambda path: {"path": f"{path}/made"},
    "delete_file": lambda path: {"path": path},
    "move_from": lambda path: {"from": path, "to": "moved"},
    "move_to": lambda path: {"from": "a.txt", "to": path},
    "run_command": lambda path: {"command": "cat secret.txt; echo x > written", "cwd": path},
    "patch_new": lambda path: {"diff": f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"},
    "patch_change": lambda path: {"diff": f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{SECRET}\n+x\n"},
    "patch_delete": lambda path: {"diff": f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{SECRET}\n"},
    "patch_copy": lambda path: {"diff": f"diff --git a/{path} b/copied\ncopy from {path}\ncopy to copied\n"},
    "patch_rename": lambda path: {"diff": f"diff --git a/a.txt b/{path}\nrename from a.txt\nrename to {path}\n"},
}
KINDS = {
    "reading": ("read_file", "list_files", "search_in_project"),
    "writing": ("write_file", "create_directory", "run_command", "delete_file"),
    "moving": ("move_to", "move_from"),
    "patching": ("patch_new", "patch_change", "patch_copy", "patch_rename", "patch_delete"),
}


def tool_of(attack: str) -> str:
    kind, _, _ = attack.partition("_")
    return {"move": "move_file", "patch": "apply_patch"}.get(kind, attack)


def add_links(place: Place) -> None:
    for name, target in LINKS.items():
        (place.workspace / name).symlink_to(target.format(outside=place.outside, workspace=place.workspace))


@pytest.mark.parametrize("kind", ["reading", "writing", "moving", "patching"])
@pytest.mark.parametrize("path", sampled(PATHS))
def test_no_path_leads_out(place: Place, kind: str, path: str) -> None:
    add_links(place)
    place.begin()
    given = path.replace("{outside}", str(place.outside))
    for attack in KINDS[kind]:
        place.call(tool_of(attack), **ATTACKS[attack](given))
    assert b"private key" not in b"".join(
        (place.workspace / name).read_bytes()
        for name in ("moved", "copied")
        if (place.workspace / name).is_file() and not (place.workspace / name).is_symlink()
    )


GIT_PATHS = [
    "directory/secret.txt",
    "directory",
    "file",
    "winding",
    "dangling",
    "process_root/secret.txt",
    "root",
    "up",
]
GIT_PATHS += ["--output=../outside/x", ":(top)..", ":/", "../outside", "{outside}/secret.txt", "sub/deep/dir/inner.txt"]


@pytest.mark.parametrize("path", sampled(GIT_PATHS))
def test_no_path_of_a_git_tool_leads_out(place: Place, path: str) -> None:
    repository(place.workspace)
    add_links(place)
    place.begin()
    given = path.replace("{outside}", str(place.outside))
    for tool in ("git.diff", "git.status", "git.log"):
        place.call(tool, path=given)
    place.call("git.commit", message="--amend", files=[given])


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../outside/secret.txt", "PATH_OUTSIDE_WORKSPACE"),
        ("/etc/passwd", "PATH_OUTSIDE_WORKSPACE"),
        ("directory/secret.txt", "PATH_OUTSIDE_WORKSPACE"),
        ("file", "PATH_OUTSIDE_WORKSPACE"),
        ("dangling", "PATH_OUTSIDE_WORKSPACE"),
        ("winding/secret.txt", "PATH_OUTSIDE_WORKSPACE"),
        ("lookalike/x", "PATH_OUTSIDE_WORKSPACE"),
        ("loop", "PERMISSION_DENIED"),
        ("x" * 256, "INVALID_PATH"),
        ("none/x", "FILE_NOT_FOUND"),
    ],
)
def test_an_escape_has_its_code(place: Place, path: str, code: str) -> None:
    add_links(place)
    place.begin()
    assert error_code(place.executor, "read_file", path=path) == code
    if code != "FILE_NOT_FOUND":
        assert error_code(place.executor, "write_file", path=path, content="x") == code


# -- files that are none -----------------------------------------------------------------------------------------------


def fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # A socket's path is short.
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def a_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


def a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [fifo, a_socket, a_device, a_directory])
@pytest.mark.parametrize("attack", [name for name in ATTACKS if name not in ("delete_file", "run_command")])
def test_what_is_no_file_is_neither_read_nor_replaced(place: Place, attack: str, make: Callable[[Path], None]) -> None:
    make(place.workspace / "odd")
    kind = stat.S_IFMT((place.workspace / "odd").lstat().st_mode)
    place.begin()
    outcome = place.call(tool_of(attack), **ATTACKS[attack]("odd"))
    moved = attack == "move_from"
    assert stat.S_IFMT((place.workspace / ("moved" if moved else "odd")).lstat().st_mode) == kind
    if not moved and make is not a_directory and attack not in ("list_files", "search_in_project"):
        assert outcome.error is not None


# -- links that are swapped --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attack",
    ["read_file", "write_file", "list_files", "search_in_project", "delete_file", "create_directory", "move_to"],
)
def test_a_directory_swapped_for_a_link_leads_nowhere(place: Place, attack: str) -> None:
    for name in ("real/secret.txt", "real/dir/inner.txt"):
        (place.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (place.workspace / name).write_text("inside\n")
    (place.workspace / "evil").symlink_to("../outside")
    place.begin()
    stop = threading.Event()
    names = [place.workspace / name for name in ("real", "evil", "swapped")]

    def swap() -> None:
        real, evil, swapped = names
        while not stop.is_set():
            try:
                real.rename(swapped)
                swapped.rename(real)
                evil.rename(swapped)
                swapped.rename(evil)
            except OSError:  # The attacked call has put something in the way.
                subprocess.run(["rm", "-rf", *map(str, names)], check=False)
                with contextlib.suppress(OSError):
                    real.mkdir()
                    evil.symlink_to("../outside")

    thread = threading.Thread(target=swap)
    thread.start()
    tree = place.executor._workspace.tree  # type: ignore[attr-defined]
    target = {"delete_file": ("swapped", "dir"), "list_files": ("swapped",), "search_in_project": ("swapped",)}
    name = target.get(attack, ("swapped", "secret.txt"))
    try:
        for _ in range(150):
            (place.workspace / "source").write_text("inside\n")
            try:
                if attack == "read_file":
                    assert tree.read(name, 1000).data == b"inside\n"
                elif attack == "write_file":
                    tree.write(name, b"attack")
                elif attack == "list_files":
                    assert "executed" not in {node.name for node in tree.scan(name)}
                elif attack == "search_in_project":
                    for node in tree.scan(name):
                        if node.kind == "file":
                            assert SECRET.encode() not in tree.read((*name, node.name), 1000).data
                elif attack == "delete_file":
                    tree.delete(name)
                elif attack == "create_directory":
                    tree.make_directory(("swapped", "made"))
                else:
                    tree.move(("source",), ("swapped", "moved"))
            except ToolFailure:
                continue
    finally:
        stop.set()
        thread.join()


# -- settings of git that execute --------------------------------------------------------------------------------------

#: Settings that make git run {trap} at some time.
SETTINGS = {
    "fsmonitor": '[core]\n\tfsmonitor = "{trap}"\n',
    "fsmonitor_version": '[core]\n\tfsmonitor = "{trap}"\n\tfsmonitorHookVersion = 1\n',
    "pager": '[core]\n\tpager = "{trap}"\n[pager]\n\tlog = true\n\tstatus = true\n\tdiff = true\n\tbranch = true\n',
    "own_pager": '[pager]\n\tlog = "{trap}"\n\tdiff = "{trap}"\n\tstatus = "{trap}"\n\tbranch = "{trap}"\n',
    "editor": '[core]\n\teditor = "{trap}"\n[sequence]\n\teditor = "{trap}"\n[commit]\n\tverbose = true\n',
    "external_diff": '[diff]\n\texternal = "{trap}"\n',
    "textconv": '[diff "x"]\n\ttextconv = "{trap}"\n',
    "diff_command": '[diff "x"]\n\tcommand = "{trap}"\n',
    "clean": '[filter "x"]\n\tclean = "{trap}"\n\tsmudge = "{trap}"\n\trequired = true\n',
    "process": '[filter "x"]\n\tprocess = "{trap}"\n\trequired = true\n',
    "odd_name": '[filter "x"]\n[filter "a=b.c"]\n\tclean = "{trap}"\n\tsmudge = "{trap}"\n',
    "merge": '[merge "x"]\n\tdriver = "{trap}"\n[merge]\n\tdefault = x\n',
    "ssh": '[core]\n\tsshCommand = "{trap}"\n\tgitProxy = "{trap}"\n\taskPass = "{trap}"\n',
    "credential": '[credential]\n\thelper = "!{trap}"\n[credential "https://x"]\n\thelper = "!{trap}"\n',
    "alias": '[alias]\n\tstatus = "!{trap}"\n\tdiff = "!{trap}"\n\tlog = "!{trap}"\n\tswitch = "!{trap}"\n',
    "signing": '[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[gpg]\n\tprogram = "{trap}"\n',
    "signing_ssh": '[commit]\n\tgpgSign = true\n[gpg]\n\tformat = ssh\n[gpg "ssh"]\n\tprogram = "{trap}"\n',
    "signing_key": '[commit]\n\tgpgSign = true\n[gpg]\n\tformat = ssh\n[gpg "ssh"]\n\tdefaultKeyCommand = "{trap}"\n',
    "signatures": '[log]\n\tshowSignature = true\n[gpg]\n\tprogram = "{trap}"\n',
    "hooks_path": '[core]\n\thooksPath = "{outside}/hooks"\n',
    "include": '[include]\n\tpath = "{outside}/config"\n',
    "include_if": '[includeIf "onbranch:**"]\n\tpath = "{outside}/config"\n',
    "worktree": '[core]\n\tworktree = "{outside}"\n',
    "worktree_config": "[extensions]\n\tworktreeConfig = true\n",
    "alternate_refs": '[core]\n\talternateRefsCommand = "{trap}"\n',
    "partial_clone": (
        "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = evil\n"
        '[remote "evil"]\n\turl = "ext::{trap}"\n\tpromisor = true\n\tuploadpack = "{trap}"\n'
        "[protocol]\n\tallow = always\n"
    ),
    "submodule": "[submodule]\n\trecurse = true\n[status]\n\tsubmoduleSummary = true\n[diff]\n\tsubmodule = log\n",
    "gc": '[gc]\n\tauto = 1\n\trecentObjectsHook = "{trap}"\n[maintenance]\n\tauto = true\n',
    "trailer": '[trailer "x"]\n\tcommand = "{trap}"\n\tifmissing = add\n',
    "attributes_file": '[core]\n\tattributesFile = "{outside}/attributes"\n[filter "x"]\n\tclean = "{trap}"\n',
    "excludes_file": '[core]\n\texcludesFile = "{outside}/secret.txt"\n',
    "bare": "[core]\n\tbare = true\n",
    "interactive": '[interactive]\n\tdiffFilter = "{trap}"\n[add]\n\tinteractive = true\n',
}
HOOKS = ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-checkout", "post-index-change")
HOOKS += ("reference-transaction", "fsmonitor-watchman", "pre-auto-gc", "post-rewrite")
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("git.status", {}),
    ("git.diff", {"path": "."}),
    ("git.log", {}),
    ("list_files", {"path": ".", "recursive": True}),
    ("git.commit", {"message": "attack", "files": ["a.txt", "new.txt"]}),
    ("git.branch", {"action": "create", "name": "made"}),
    ("git.branch", {"action": "switch", "name": "other"}),
    ("git.branch", {"action": "delete", "name": "made"}),
]


@pytest.mark.parametrize("name", sampled([*SETTINGS]))
def test_no_setting_of_a_repository_executes_anything(place: Place, name: str) -> None:
    folder = place.workspace
    (folder / ".gitattributes").write_text("* filter=x diff=x merge=x\n*.c filter=a=b.c\n")
    repository(folder)
    git(folder, "checkout", "--quiet", "-b", "other")
    (folder / "a.txt").write_text("other\n")
    git(folder, "commit", "--quiet", "--all", "-m", "other")
    git(folder, "checkout", "--quiet", "main")
    (folder / "a.txt").write_text("changed\n")
    (folder / "new.txt").write_text("new\n")
    (place.outside / "hooks").mkdir()
    said = SETTINGS[name].format(trap=place.trap, outside=place.outside)
    (place.outside / "config").write_text(
        SETTINGS["fsmonitor"].format(trap=place.trap) + SETTINGS["clean"].format(trap=place.trap)
    )
    (place.outside / "attributes").write_text("* filter=x\n")
    for hook, hooks in itertools.product(HOOKS, (folder / ".git/hooks", place.outside / "hooks")):
        (hooks / hook).write_text(Path(place.trap).read_text())
        (hooks / hook).chmod(0o755)
    with (folder / ".git/config").open("a") as config:
        config.write(said)
    (folder / ".git/config.worktree").write_text(SETTINGS["fsmonitor"].format(trap=place.trap))
    git(folder, "init", "--quiet", "nested")
    with (folder / "nested/.git/config").open("a") as config:
        config.write(SETTINGS["fsmonitor"].format(trap=place.trap))
    place.begin()
    outcomes = [place.call(tool, **arguments) for tool, arguments in CALLS]
    assert not (place.outside / "executed").exists()
    assert outcomes[2].error is None, "the attack was not reached, because git did not run"


def test_no_setting_of_a_submodule_executes_anything(place: Place) -> None:
    folder = repository(place.workspace)
    inner = repository(folder / "module", x="1\n")
    (folder / ".gitmodules").write_text('[submodule "module"]\n\tpath = module\n\turl = ./module\n\tignore = none\n')
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "module")
    with (folder / ".git/config").open("a") as config:
        config.write(SETTINGS["submodule"] + '[submodule "module"]\n\tactive = true\n\tignore = none\n')
    with (inner / ".git/config").open("a") as config:
        config.write((SETTINGS["fsmonitor"] + SETTINGS["clean"]).format(trap=place.trap))
    (inner / ".gitattributes").write_text("* filter=x\n")
    (inner / "x").write_text("2\n")
    place.begin()
    calls = [*CALLS, ("git.commit", {"message": "m", "files": ["module"]}), ("git.commit", {"message": "m"})]
    for tool, arguments in calls:
        place.call(tool, **arguments)
    assert not (place.outside / "executed").exists()
    git(folder, "status")
    assert (place.outside / "executed").exists(), "plain git does execute it"
    place.begin()


def test_the_trap_works(place: Place) -> None:
    """Without our care, git does execute these settings: else the test above would show nothing."""
    folder = repository(place.workspace)
    for name in ("fsmonitor", "clean"):
        with (folder / ".git/config").open("a") as config:
            config.write(SETTINGS[name].format(trap=place.trap))
    (folder / ".gitattributes").write_text("* filter=x\n")
    (folder / "a.txt").write_text("changed\n")
    git(folder, "status")
    assert (place.outside / "executed").exists()
    place.begin()


#: What leads git out of the workspace, by links and files in `.git`: {git} is that folder.
LEADS = {
    "git_link": ("ws/.git", "link", "../outside/.git"),
    "git_file": ("ws/.git", "file", "gitdir: ../outside/.git\n"),
    "git_file_absolute": ("ws/.git", "file", "gitdir: {outside}/.git\n"),
    "commondir": ("ws/.git/commondir", "file", "../../outside/.git\n"),
    "alternates": ("ws/.git/objects/info/alternates", "file", "../../../outside/.git/objects\n"),
    "message": ("ws/.git/COMMIT_EDITMSG", "link", "../../outside/secret.txt"),
    "index": ("ws/.git/index", "link", "../../outside/.git/index"),
    "head": ("ws/.git/HEAD", "link", "../../outside/.git/HEAD"),
    "head_log": ("ws/.git/logs/HEAD", "link", "../../../outside/secret.txt"),
    "refs": ("ws/.git/refs/heads", "link", "../../../outside/.git/refs/heads"),
    "objects": ("ws/.git/objects", "link", "../../outside/.git/objects"),
    "logs": ("ws/.git/logs", "link", "../../outside"),
    "config": ("ws/.git/config", "link", "../../outside/.git/config"),
    "new_index": ("ws/.git/index", "link", "../../outside/new"),
}


@pytest.mark.parametrize("name", sampled([*LEADS]))
def test_no_file_of_a_repository_leads_out(place: Place, name: str) -> None:
    repository(place.workspace)
    repository(place.outside)
    where, kind, said = LEADS[name]
    path, text = place.folder / where, said.format(outside=place.outside)
    if path.is_dir():
        subprocess.run(["rm", "-rf", str(path)], check=True)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to(text)
    else:
        path.write_text(text)
    (place.workspace / "a.txt").write_text("changed\n")
    (place.workspace / "new.txt").write_text("new\n")
    place.begin()
    for tool, arguments in CALLS:
        outcome = place.call(tool, **arguments)
        if tool.startswith("git."):
            assert outcome.error is not None
            assert outcome.error.code in ("GIT_ERROR", "GIT_NOT_INITIALIZED")


@pytest.mark.parametrize("name", ["objects/info/alternates", "commondir", "gitdir", "info/exclude"])
def test_a_fifo_in_a_repository_is_not_waited_for(place: Place, name: str) -> None:
    repository(place.workspace)
    path = place.workspace / ".git" / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    place.begin()
    if name == "info/exclude":
        assert (find(place.workspace).top, read_small(path)) == (place.workspace, "")
    elif name == "gitdir":
        assert place.call("git.log").error is None
    else:
        assert error_code(place.executor, "git.log") == "GIT_ERROR"
    assert place.call("run_command", command="echo ran").result["stdout"] == "ran\n"


OPTIONS = ["--output=x", "-O../outside/secret.txt", "--no-index", "--"]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_files_name_is_no_option(place: Place, name: str) -> None:
    folder = repository(place.workspace)
    safe = name.replace("/", "_")
    (folder / safe).write_text("inside\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "odd")
    (folder / safe).write_text("changed\n")
    place.begin()
    before = {path.name for path in folder.iterdir()}
    diff = place.call("git.diff", path=safe).fields()
    assert "+changed" in diff["result"]["diff"]
    assert place.call("git.status", path=safe).result["files"][0]["path"] == safe
    assert len(place.call("git.log", path=safe).result["commits"]) == 1
    assert place.call("search_in_project", query=name, path=".").error is None
    assert place.call("read_file", path=safe).result["content"] == "changed\n"
    assert place.call("git.commit", message=name, files=[safe]).error is None
    assert place.call("run_command", command="true", cwd=safe).error is not None
    assert {path.name for path in folder.iterdir()} == before


def test_git_of_the_workspace_is_not_run(place: Place) -> None:
    """PATH often has a folder of the workspace in it, such as that of a virtual environment."""
    for name in ("git", "rg"):
        (place.workspace / name).write_text(f"#!/bin/sh\nexec {place.trap}\n")
        (place.workspace / name).chmod(0o755)
    repository(place.workspace)
    path = os.pathsep.join((str(place.workspace), ".", "", os.environ["PATH"]))
    place.executor = Executor(DiskWorkspace(place.workspace), environment={"PATH": path})
    place.begin()
    assert place.call("git.status").error is None
    assert place.call("search_in_project", query="inside").error is None


def test_the_root_of_the_file_system_is_no_workspace() -> None:
    with pytest.raises(ValueError, match="root"):
        DiskWorkspace(Path("/"))
