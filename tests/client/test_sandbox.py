"""What a command cannot do in a sandbox, shown by commands that try.

A guarantee that a sandbox claims is tested; one that it does not claim is shown to be missing where that is simple, so
that docs/client-sandbox.md stays true.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from codelab_client.sandbox import Access, Launch, Sandbox, Unsandboxed, choice, choose
from codelab_client.sandbox.access import Guarantees
from codelab_client.sandbox.bubblewrap import Bubblewrap
from codelab_client.sandbox.choice import probe
from codelab_client.sandbox.landlock import Landlock
from codelab_client.sandbox.seatbelt import Seatbelt, _rules
from codelab_client.tools.executor import Executor, Settings
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import git, repository, result, snapshot, stand_still
from tests.fakes.http import HttpServer, answering
from tests.sampling import sampled
from tests.waiting import until

SECRET = "the user's private key"


class World:
    """A home with secrets, a workspace in it, and something outside both."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = self.home / "code"
        self.outside = folder / "outside"
        for path in (self.home / ".ssh", self.workspace, self.outside):
            path.mkdir(parents=True)
        (self.home / ".ssh/id").write_text(SECRET)
        (self.outside / "secret").write_text(SECRET)

    def run(self, sandbox: Sandbox, command: str, settings: Settings | None = None) -> str:
        """What a command says; nothing outside the workspace may have changed."""
        before = snapshot(self.home, self.workspace), snapshot(self.outside)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        executor = Executor(DiskWorkspace(self.workspace), sandbox, settings, environment=environment)
        said = result(executor, "run_command", command=command)
        assert (snapshot(self.home, self.workspace), snapshot(self.outside)) == before
        return str(said["stdout"] + said["stderr"])


@pytest.fixture
def world() -> Iterator[World]:
    """In /tmp, over which a sandbox puts a folder of its own, wherever other tests have their files."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield World(Path(folder).resolve())


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest, world: World) -> Sandbox:
    try:
        made: Sandbox = Bubblewrap(world.home) if request.param == "bubblewrap" else Landlock()
    except (OSError, RuntimeError) as error:
        pytest.skip(str(error))
    return made


@pytest.fixture
def bubblewrap(world: World) -> Bubblewrap:
    try:
        return Bubblewrap(world.home)
    except OSError as error:
        pytest.skip(str(error))


@pytest.fixture
def server() -> Iterator[int]:
    """A service of this machine."""
    with HttpServer(answering({})) as running:
        yield running.port


@pytest.mark.parametrize(
    "command",
    sampled(
        [
            "echo x > {outside}/new",
            "echo x >> {outside}/secret",
            "rm -rf {outside} {home}/.ssh",
            "mkdir {home}/made; touch {home}/made/x",
            "ln -s {outside} link; echo x > link/new",
            "ln {outside}/secret hard && echo x > hard",
            "mv {outside}/secret moved",
            "chmod 777 {outside} {home}",
            "touch {home}/.bashrc; echo x >> ~/.profile",
            "truncate -s 0 {outside}/secret",
            "cd ..; echo x > new",
            "echo x > /proc/self/cwd/../new",
            "mount --bind {outside} . ; umount -l /; echo x > {outside}/new",
            "unshare -rm sh -c 'mount --bind {outside} . ; echo x > new'",
            "mknod disk b 254 0 && head -c 10 disk",
            "echo x > /etc/codelab-was-here; echo x > /usr/codelab-was-here; echo x > /codelab-was-here",
            "rmdir {workspace}; mv {workspace} {workspace}2",
            "chroot / sh -c 'echo x > {outside}/new'",
        ]
    ),
)
def test_nothing_outside_is_changed(world: World, sandbox: Sandbox, command: str) -> None:
    world.run(sandbox, command.format(outside=world.outside, home=world.home, workspace=world.workspace))
    for folder in ("/etc", "/usr", "/"):
        assert not (Path(folder) / "codelab-was-here").exists()


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/id",
        "cat {home}/.ssh/id {outside}/secret",
        "ls -a ~/.ssh && grep -r private ~/.ssh",
        "ln -s {outside}/secret link; cat link",
        "cp -r {outside} copy; cat copy/secret",
        "cat /proc/1/root{outside}/secret /proc/$PPID/root{outside}/secret",
        "cat /proc/{client}/root{outside}/secret /proc/{client}/environ",
        "find / -maxdepth 2 -name secret -exec cat {{}} +",
        "tar -cf - {outside} 2>/dev/null | strings",
    ],
)
def test_nothing_of_the_user_is_read(world: World, sandbox: Sandbox, command: str) -> None:
    given = command.format(outside=world.outside, home=world.home, client=os.getpid())
    assert SECRET not in world.run(sandbox, given)


def test_the_workspace_is_written_and_tmp_is_private(world: World, sandbox: Sandbox) -> None:
    world.run(sandbox, "mkdir -p a/b; echo x > a/b/c; echo t > $TMPDIR/codelab-t; cat $TMPDIR/codelab-t > d")
    assert (world.workspace / "a/b/c").read_text() == "x\n"
    assert (world.workspace / "d").read_text() == "t\n"
    assert not Path("/tmp/codelab-t").exists()


def test_other_folders_are_read_if_the_user_says_so(world: World, sandbox: Sandbox) -> None:
    settings = Settings(readable=(world.outside,))
    assert SECRET in world.run(sandbox, f"cat {world.outside}/secret; echo x > {world.outside}/new", settings)


CONNECT = "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3"


def test_no_service_of_this_machine_is_reached(world: World, sandbox: Sandbox, server: int) -> None:
    (world.workspace / "connect").write_text(CONNECT.format(port=server))
    assert "200" not in world.run(sandbox, "bash connect")
    assert "200" in world.run(sandbox, "bash connect", Settings(network=True))


def test_nothing_is_sent_by_udp(world: World, sandbox: Sandbox) -> None:
    assert sandbox.guarantees.no_network
    assert "sent" not in world.run(sandbox, "bash -c 'echo x > /dev/udp/192.0.2.1/53' && echo sent")


#: Connects to a service with a name in the file system, in a program that every Linux has.
CONNECT_UNIX = "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un(q({path}))) && print 1'"


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("where", ["outside", "workspace"])
def test_no_service_is_reached_by_a_socket_in_the_file_system(
    world: World, sandbox: Sandbox, network: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a container engine, which would do anything for the command."""
    monkeypatch.chdir(getattr(world, where))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        listening.listen()
        connect = CONNECT_UNIX.format(path=f"{getattr(world, where)}/s")
        assert subprocess.run(["sh", "-c", connect], capture_output=True, check=True).stdout == b"1"
        said = world.run(sandbox, connect, Settings(network=network))
        assert "1" not in said


def test_a_daemon_does_not_survive_its_command(world: World, bubblewrap: Bubblewrap) -> None:
    loop = "while :; do date +%s%N > alive; sleep 0.02; done"
    daemon = f"setsid sh -c '(setsid sh -c \"{loop}\" &) >/dev/null 2>&1' & while [ ! -e alive ]; do sleep 0.01; done"
    world.run(bubblewrap, daemon)
    until(lambda: stand_still(world.workspace / "alive"))


def test_no_other_process_is_seen_or_signalled(world: World, bubblewrap: Bubblewrap) -> None:
    said = world.run(bubblewrap, f"ls -d /proc/[0-9]* | wc -l; kill -0 {os.getpid()} && echo reached")
    assert int(said.split()[0]) < 10
    assert "reached" not in said


def test_capabilities_are_gone(world: World, bubblewrap: Bubblewrap) -> None:
    said = world.run(bubblewrap, "grep -i capeff /proc/self/status; grep -i nonewprivs /proc/self/status")
    assert said.split() == ["CapEff:", "0" * 16, "NoNewPrivs:", "1"]


@pytest.mark.parametrize(
    "command",
    [
        "echo '[core] fsmonitor = evil' >> .git/config",
        "git config core.fsmonitor evil",
        "echo evil > .git/hooks/pre-commit",
        "rm -rf .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git old; mkdir .git; cp -r old/. .git/; echo evil >> .git/config",
        "mv .git/hooks .git/old; mkdir .git/hooks; touch .git/hooks/evil",
        "rm -rf .git; git init; echo evil > .git/config",
        "umount .git/config; echo evil >> .git/config",
        "ln -sf ../evil .git/config",
        "mkdir evil; cp .git/config evil; echo ../evil > .git/commondir",
        "git config extensions.worktreeConfig true; echo evil > .git/config.worktree",
        "rm .git/HEAD; mv .git/refs .git/old",
    ],
)
def test_what_git_will_execute_stays(world: World, bubblewrap: Bubblewrap, command: str) -> None:
    repository(world.workspace, a="a")
    before = snapshot(world.workspace / ".git")
    world.run(bubblewrap, command)
    assert snapshot(world.workspace / ".git") == before


def test_git_is_read_in_a_command_and_changed_if_the_user_says_so(world: World, bubblewrap: Bubblewrap) -> None:
    repository(world.workspace, a="a")
    commit = "echo b > b; git add b && git commit -qm two; git log --format=%s"
    said = world.run(bubblewrap, commit)
    assert "Read-only file system" in said
    assert said.startswith("first\n")
    assert world.run(bubblewrap, commit, Settings(changes_git=True)) == "two\nfirst\n"


@pytest.mark.parametrize(
    "command",
    [
        "touch b; git add b",
        "git commit --allow-empty -qm two",
        "git config user.name Eve",
        "echo x > .git/hooks/pre-commit",
        "git checkout -qb other",
        "cp a .git/hooks/post-commit",
        """node -e 'require("fs").writeFileSync(".git/hooks/pre-commit", "x")'""",
        """python3 -c 'open(".git/hooks/pre-commit", "w")'""",
    ],
)
def test_a_command_that_fails_on_git_says_why(world: World, bubblewrap: Bubblewrap, command: str) -> None:
    if shutil.which(command.split()[0], path=os.defpath) is None and command.split()[0] in ("node", "python3"):
        pytest.skip("it is not installed")
    repository(world.workspace, a="a")
    executor = Executor(DiskWorkspace(world.workspace), bubblewrap, environment={"PATH": os.defpath})
    done = result(executor, "run_command", command=command)
    assert done["exit_code"] != 0
    assert "`.git` is read-only in commands" in done["note"]
    allowed = Executor(
        DiskWorkspace(world.workspace), bubblewrap, Settings(changes_git=True), environment={"PATH": os.defpath}
    )
    assert "note" not in result(allowed, "run_command", command=command)


@pytest.mark.parametrize("command", ["cat .git/none", "echo .git; false", "git log none", "echo x > /usr/x", "true"])
def test_other_failures_are_not_blamed_on_git(world: World, bubblewrap: Bubblewrap, command: str) -> None:
    repository(world.workspace, a="a")
    executor = Executor(DiskWorkspace(world.workspace), bubblewrap, environment={"PATH": os.defpath})
    assert "note" not in result(executor, "run_command", command=command)


def test_git_is_read_in_another_working_tree(world: World, bubblewrap: Bubblewrap) -> None:
    repository(world.outside)
    git(world.outside, "worktree", "add", "--quiet", "-b", "side", str(world.workspace / "side"))
    world.workspace = world.workspace / "side"
    assert "On branch side" in world.run(bubblewrap, "git status; echo x > .git; rm -f .git")


def test_hooks_that_are_a_link_do_not_show_what_they_lead_to(world: World, bubblewrap: Bubblewrap) -> None:
    repository(world.workspace)
    subprocess.run(["rm", "-rf", str(world.workspace / ".git/hooks")], check=True)
    (world.workspace / ".git/hooks").symlink_to(world.home / ".ssh")
    assert SECRET not in world.run(bubblewrap, "cat .git/hooks/id; ls ~/.ssh")


def test_the_best_sandbox_that_works_is_chosen(world: World) -> None:
    chosen = choose(world.home)
    assert chosen.sandbox.name not in chosen.refusals
    assert list(chosen.refusals) == ["bubblewrap", "landlock", "seatbelt"][: len(chosen.refusals)]
    if chosen.sandbox.name != "none":
        probe(chosen.sandbox)


class Leaky(Unsandboxed):
    """Claims everything and does nothing, as a broken sandbox would."""

    guarantees = Guarantees(writes_only_there=True)


class Broken(Unsandboxed):
    """Does not start its programs."""

    def launch(self, argv: object, access: Access, cwd: Path) -> Launch:
        return Launch(("/bin/sh", "-c", "echo no namespaces >&2; exit 1"), cwd=cwd)


@pytest.mark.parametrize(("made", "why"), [(Leaky(), "read-outside"), (Broken(), "no namespaces")])
def test_a_sandbox_that_does_not_hold_is_refused(made: Sandbox, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        probe(made)


def test_without_a_sandbox_it_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none(*_: object) -> None:
        raise OSError("not here")

    for name in ("Bubblewrap", "Landlock", "Seatbelt"):
        monkeypatch.setattr(choice, name, none)
    chosen = choose(world.home)
    assert (chosen.sandbox.name, chosen.sandbox.guarantees) == ("none", Guarantees())
    assert list(chosen.refusals.values()) == ["not here"] * 3
    assert "commands run without a sandbox" in caplog.text
    executor = Executor(DiskWorkspace(world.workspace), chosen.sandbox)
    found = result(executor, "run_command", command="true")
    assert (found["sandbox"], found["network"]) == ("none", True)


def test_the_seatbelt_profile_quotes_paths_and_denies_last() -> None:
    access = Access((Path('/a "b\\c'),), (Path("/r"),), (Path('/a "b\\c/.git/config'),))
    profile = "".join(_rules(access))
    assert '(subpath "/a \\"b\\\\c")' in profile
    assert profile.index("deny file-write*") > profile.index("allow file-write*")
    assert "network" not in profile
    assert "(allow network*)" in "".join(_rules(Access(network=True)))
    if not Path("/usr/bin/sandbox-exec").exists():
        with pytest.raises(FileNotFoundError):
            Seatbelt()
