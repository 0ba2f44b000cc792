"""What a command tries to reach besides files and the network: keyrings of the kernel, odd sockets, services by a name.

With the real programs: what a sandbox claims is what a command in it meets.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from codelab_client.sandbox import Access, Sandbox, bubblewrap
from codelab_client.sandbox.bubblewrap import Bubblewrap
from codelab_client.sandbox.landlock import Landlock, has_seccomp_filter
from codelab_client.sandbox.sockets import sockets_below

NUMBERS = {"x86_64": {"keyctl": 250, "add_key": 248, "request_key": 249, "ioctl": 16}}
NUMBERS["aarch64"] = {"keyctl": 219, "add_key": 217, "request_key": 218, "ioctl": 29}

pytestmark = pytest.mark.skipif(not has_seccomp_filter(), reason="no seccomp filter for this architecture")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    return folder


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    try:
        return Bubblewrap(tmp_path.resolve() / "home") if request.param == "bubblewrap" else Landlock()
    except (OSError, RuntimeError) as error:
        pytest.skip(str(error))


def run(sandbox: Sandbox, command: str, workspace: Path, *, network: bool = False, **places: tuple[Path, ...]) -> str:
    """What a command prints in the sandbox."""
    access = Access(writable=(workspace,), network=network, **places)  # type: ignore[arg-type]
    launch = sandbox.launch(("/bin/sh", "-c", command), access, workspace)
    environment = {"PATH": os.defpath, **launch.env}
    ran = subprocess.run(launch.argv, cwd=launch.cwd, env=environment, capture_output=True, check=False)
    return (ran.stdout + ran.stderr).decode()


def perl(*lines: str) -> str:
    return f"perl -MSocket -MErrno -e '{' '.join(lines)}'"


@pytest.mark.parametrize("call", ["keyctl", "add_key", "request_key"])
def test_the_keyring_of_the_users_session_is_not_reached(sandbox: Sandbox, workspace: Path, call: str) -> None:
    """Tickets, tokens and keys of encrypted disks may be in it, and no namespace has one of its own."""
    number = NUMBERS[os.uname().machine][call]
    # keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING); the others with a type that exists
    arguments = "0, -3, 0" if call == "keyctl" else '$k = "user", $n = "codelab-test", $v = "x", 1, -2'
    attempt = perl(f"syscall({number}, {arguments}); print $!{{EACCES}} ? 1 : 0")
    assert run(sandbox, attempt, workspace) == "1"


def test_the_names_of_the_users_keys_are_not_read(workspace: Path, tmp_path: Path) -> None:
    try:
        sandbox = Bubblewrap(tmp_path.resolve() / "home")
    except OSError as error:
        pytest.skip(str(error))
    if not Path("/proc/keys").exists():
        pytest.skip("this kernel has no keys")
    assert "keyring" not in run(sandbox, "cat /proc/keys", workspace)


#: AF_VSOCK reaches the host of a virtual machine; the others reach only the kernel's faults.
ODD = {"AF_VSOCK": 40, "AF_ALG": 38, "AF_PACKET": 17, "AF_BLUETOOTH": 31, "AF_CAN": 29, "AF_TIPC": 30, "AF_XDP": 44}


@pytest.mark.parametrize("network", [False, True])
def test_no_odd_family_of_sockets_is_created(sandbox: Sandbox, workspace: Path, network: bool) -> None:
    """A virtual machine's command could talk to its host by AF_VSOCK, which no network namespace holds."""
    families = ",".join(map(str, ODD.values()))
    attempt = perl(f"for ({families}) {{ print socket(S, $_, 1, 0) || !$!{{EACCES}} ? 1 : 0 }}")
    assert run(sandbox, attempt, workspace, network=network) == "0" * len(ODD)


@pytest.mark.parametrize("network", [False, True])
def test_netlink_tells_of_interfaces_and_nothing_else(sandbox: Sandbox, workspace: Path, network: bool) -> None:
    attempt = perl("for (0, 4, 9, 12, 15) { print socket(S, 16, 3, $_) ? 1 : 0 }")
    is_open = network or sandbox.name == "bubblewrap"
    assert run(sandbox, attempt, workspace, network=network) == ("10000" if is_open else "00000")


def test_no_filter_is_evaded_by_another_kind_of_system_call(sandbox: Sandbox, workspace: Path) -> None:
    """io_uring creates sockets by itself; the x32 calls have other numbers."""
    attempt = perl(
        "syscall(425, 1, 0); print $!{EACCES} ? 1 : 0; syscall(0x40000029, 1, 1, 0); print $!{EACCES} ? 1 : 0"
    )
    assert run(sandbox, attempt, workspace) == "11"


def test_nothing_is_typed_into_a_terminal(sandbox: Sandbox, workspace: Path) -> None:
    number = NUMBERS[os.uname().machine]["ioctl"]
    attempt = perl(f"for (0x5412, 0x541C) {{ syscall({number}, 0, $_, $c = 1); print $!{{EACCES}} ? 1 : 0 }}")
    assert run(sandbox, attempt, workspace) == "11"


def test_ordinary_sockets_work(workspace: Path, tmp_path: Path) -> None:
    """Tests start services of their own, by a port or a name."""
    try:
        sandbox = Bubblewrap(tmp_path.resolve() / "home")
    except OSError as error:
        pytest.skip(str(error))
    own = perl(
        "socket(L, 2, 1, 0) && bind(L, sockaddr_in(0, INADDR_LOOPBACK)) && listen(L, 1) || die;",
        "socket(C, 2, 1, 0) && connect(C, getsockname(L)) && print 1;",
        "socket(M, 1, 1, 0) && bind(M, sockaddr_un(q(own))) && listen(M, 1) || die;",
        "socket(D, 1, 1, 0) && connect(D, sockaddr_un(q(own))) && print 1;",
        "socketpair(E, F, 1, 1, 0) && print 1; print socket(G, 10, 1, 0) ? 1 : 0",
    )
    assert run(sandbox, own, workspace) == "1111"


# -- services with a name in the file system ---------------------------------------------------------------------------


@pytest.fixture
def services(tmp_path: Path, workspace: Path) -> Iterator[dict[str, Path]]:
    """Services outside every sandbox, which would do anything for whoever reaches them."""
    places = {
        "workspace": workspace / "tmp",
        "readable": tmp_path.resolve() / "toolchain",
        "store": tmp_path.resolve() / "nix/var/nix/daemon-socket",
    }
    opened = []
    here = Path.cwd()
    try:
        for folder in places.values():
            folder.mkdir(parents=True)
            os.chdir(folder)
            for name in ("relative", str(folder / "absolute")):
                if len(name) < 100:  # The kernel takes 108 bytes.
                    opened.append(listening := socket.socket(socket.AF_UNIX))
                    listening.bind(name)
                    listening.listen()
        yield places
    finally:
        os.chdir(here)
        for listening in opened:
            listening.close()


def connects(folder: Path) -> str:
    """A command that connects to each socket of a folder, and says which it has reached."""
    one = perl("socket(S, 1, 1, 0) && connect(S, sockaddr_un($ARGV[0])) && print q(reached)")
    return f"cd {folder} 2>/dev/null && for s in *; do {one} $s; done; true"


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("place", ["workspace", "readable"])
def test_a_service_is_not_reached_by_its_socket_in_a_folder_that_a_command_sees(
    sandbox: Sandbox, workspace: Path, services: dict[str, Path], place: str, network: bool
) -> None:
    """Such as a process manager's, which restarts what one asks it to, outside the sandbox."""
    command = connects(services[place])
    reached = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout
    assert reached.count(b"reached") > 0, "the services cannot be reached from outside either"
    assert "reached" not in run(sandbox, command, workspace, network=network, readable=(services["readable"],))


def test_the_daemon_of_nix_is_not_reached(
    workspace: Path, services: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It builds whatever one asks it to, as another user. Links to programs stay."""
    try:
        sandbox = Bubblewrap(tmp_path.resolve() / "home")
    except OSError as error:
        pytest.skip(str(error))
    store = tmp_path.resolve() / "nix"
    (store / "var/nix/profiles").mkdir(parents=True)
    (store / "var/nix/profiles/default").symlink_to("../../../store")
    (store / "store").mkdir()
    (store / "store/program").touch()
    monkeypatch.setattr(bubblewrap, "_SYSTEM", (*bubblewrap._SYSTEM, str(store)))
    monkeypatch.setattr(bubblewrap, "_STATE", str(store / "var"))
    monkeypatch.setattr(bubblewrap, "_LINKS", str(store / "var/nix/profiles"))
    monkeypatch.setattr(bubblewrap, "sockets_below", lambda *_: [])  # nor with a socket that nobody has found
    command = f"{connects(services['store'])}; ls {store}/var/nix/profiles/default/ {store}/var/nix"
    said = run(sandbox, command, workspace)
    assert said.split("\n")[:-1] == [
        f"{store}/var/nix:",
        "profiles",
        "",
        f"{store}/var/nix/profiles/default/:",
        "program",
    ]


def test_sockets_are_found_by_links_and_in_no_other_folder(services: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(services["readable"])
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(tmp_path)
        listening.bind("link/linked")
        listening.listen()
        found = sockets_below([services["readable"]])
    assert {path.name for path in found} >= {"linked", "relative"}
    assert all(path.parent == services["readable"] for path in found)


def test_a_filter_cannot_be_changed_by_a_command(workspace: Path, tmp_path: Path) -> None:
    """It is a file that the next sandbox reads."""
    try:
        Bubblewrap(tmp_path.resolve() / "home")
    except OSError as error:
        pytest.skip(str(error))
    descriptor = bubblewrap._filter()
    with pytest.raises(PermissionError):
        os.write(descriptor, b"x")
    with pytest.raises(PermissionError):
        os.truncate(descriptor, 0)
