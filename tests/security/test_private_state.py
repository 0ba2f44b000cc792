"""The client's state is its user's alone: nobody else reads it, and what somebody else put there is not believed."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from codelab_client import config, last_sessions, private_file, private_folder
from codelab_client.config import ConfigError
from codelab_client.login import kept
from codelab_client.login.errors import LoginError
from codelab_client.login.kept import Login
from codelab_client.mcp.config import ServerConfig
from codelab_client.mcp.trust import Trust
from codelab_client.private_file import PrivateFileError
from codelab_client.session.address import Address
from codelab_client.session.errors import JournalError
from codelab_client.session.journal import Journal

SERVER = ServerConfig("tickets", "npx", ("tickets-mcp",))


def decision(state: Path, workspace: Path) -> str | None:
    trust = Trust(state, workspace)
    return trust.decision(trust.subject(SERVER))


ADDRESS = Address.parse("ws://localhost:8000")

#: Writes all kinds of state, and says what was open to others at the moment when a file was opened or a database made.
WRITES = """
import os, sys
from pathlib import Path

state = Path(os.environ["XDG_STATE_HOME"]) / "codelab"
os.umask(int(sys.argv[1], 8))

def look(event, arguments):
    if event not in ("open", "sqlite3.connect") or not str(arguments[0]).startswith(str(state)):
        return
    for path in (state, Path(os.fspath(arguments[0]))):
        if path.exists() and path.stat().st_mode & 0o077:
            print(event, path, oct(path.stat().st_mode))
    if event == "sqlite3.connect" and not Path(os.fspath(arguments[0])).exists():
        print("the database would be made with the umask")

sys.addaudithook(look)

from codelab_client import last_sessions, local_cloud, private_folder
from codelab_client.checkpoints.shadow import Shadow
from codelab_client.login import kept
from codelab_client.mcp.trust import Trust
from codelab_client.mcp.config import ServerConfig
from codelab_client.private_file import append_to
from codelab_client.sandbox import Unsandboxed
from codelab_client.session.address import Address
from codelab_client.session.journal import Journal
from codelab_client.terminal.inline import _history
from codelab_client.tools.tree import Tree

address, workspace = Address.parse("ws://localhost:8000"), Path(sys.argv[2])
journal = Journal(state, "s")
journal.begin("c1", "read_file", 1)
journal.finish("c1", {"result": {"content": "secret"}})
last_sessions.remember(address, workspace, "s")
trust = Trust(state, workspace)
trust.decide(trust.subject(ServerConfig("a", "b")), "trusted")
kept.keep(address.origin, kept.Login("token"))
_history().store_string("a line")
append_to(state / "mcp-a.log", empty=True).close()
shadow = Shadow(Tree(workspace), state / "checkpoints" / "w", Unsandboxed(), 1_000_000)
shadow.state()
for path in [state, *state.rglob("*")]:  # while the journal is open, with what SQLite has beside it
    if path.lstat().st_mode & 0o077:
        print(path, oct(path.lstat().st_mode))
print(len(list(state.rglob("*"))), "files")
journal.close()
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.setattr(private_folder, "_repaired_folders", set())
    return tmp_path / "state" / "codelab"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


def open_to_others(folder: Path) -> Iterator[str]:
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & 0o077 and not path.is_symlink():
            yield f"{path.relative_to(folder)} {mode:o}"


@pytest.mark.parametrize(("umask", "before"), [("000", 0o777), ("022", None)])
def test_nobody_else_can_read_the_state_at_any_time(
    state: Path, workspace: Path, umask: str, before: int | None
) -> None:
    if before is not None:
        state.mkdir(parents=True)
        state.chmod(before)
    done = subprocess.run(
        [sys.executable, "-c", WRITES, umask, str(workspace)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    (said,) = done.stdout.splitlines()
    assert int(said.removesuffix(" files")) > 15
    assert list(open_to_others(state)) == []


def test_what_an_older_version_left_open_is_closed_at_the_start(state: Path) -> None:
    for folder in ("owners", "checkpoints/w/objects/ab", "checkpoints/w/info"):
        (state / folder).mkdir(parents=True)
    for name in ("journal.sqlite3", "journal.sqlite3-wal", "history", "mcp-a.log", "owners/x", "checkpoints/w/index",
                 "last_sessions.json"):  # fmt: skip
        (state / name).write_text("{}")
        (state / name).chmod(0o666)
    blob = state / "checkpoints/w/objects/ab/cd"
    blob.write_text("secret")
    blob.chmod(0o444)
    for folder in (state, *(path for path in state.rglob("*") if path.is_dir())):
        folder.chmod(0o775)
    private_folder.ensure(state)
    assert list(open_to_others(state)) == []
    assert stat.S_IMODE(blob.stat().st_mode) == 0o400


def test_every_command_closes_the_state(state: Path, workspace: Path) -> None:
    state.mkdir(parents=True, mode=0o755)
    (state / "journal.sqlite3").touch(0o644)
    command = [sys.executable, "-m", "codelab_client.command_line", "logout", "--workspace", str(workspace)]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert list(open_to_others(state)) == []


def test_the_state_of_another_user_is_not_used(state: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust = Trust(state, workspace)
    trust.decide(trust.subject(SERVER), "trusted")
    last_sessions.remember(ADDRESS, workspace, "s")
    kept.keep(ADDRESS.origin, Login("token"))
    Journal(state, "s").close()
    assert decision(state, workspace) == "trusted"
    assert last_sessions.last_session(ADDRESS, workspace) == "s"

    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 4_321)
    with pytest.raises(PrivateFileError, match="belongs to another user"):
        private_folder.ensure(state)
    with pytest.raises(JournalError, match="belongs to another user"):
        Journal(state, "s")
    with pytest.raises(LoginError):
        kept.find(ADDRESS.origin)
    assert decision(state, workspace) is None
    assert last_sessions.last_session(ADDRESS, workspace) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ["journal.sqlite3", "journal.sqlite3-wal", "mcp_trust.json", "logins.json", "history"])
def test_a_file_of_another_user_in_the_state_is_not_believed(state: Path, workspace: Path, name: str) -> None:
    trust = Trust(state, workspace)
    trust.decide(trust.subject(SERVER), "trusted")
    kept.keep(ADDRESS.origin, Login("token"))
    (state / name).touch()
    os.chown(state / name, 4_321, 4_321)
    (state / name).chmod(0o600)
    if name.startswith("journal"):
        with pytest.raises(JournalError):
            Journal(state, "s")
    elif name == "mcp_trust.json":
        assert decision(state, workspace) is None
    elif name == "logins.json":
        with pytest.raises(LoginError):
            kept.find(ADDRESS.origin)
    else:
        with pytest.raises(PermissionError):
            private_file.append_to(state / name)


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_a_trust_that_others_could_have_written_is_asked_about_again(state: Path, workspace: Path, mode: int) -> None:
    trust = Trust(state, workspace)
    trust.decide(trust.subject(SERVER), "trusted")
    (state / "mcp_trust.json").chmod(mode)
    private_folder._repaired_folders.clear()
    private_folder.ensure(state)
    assert trust.decision(trust.subject(SERVER)) is None
    trust.decide(trust.subject(SERVER), "trusted")
    assert trust.decision(trust.subject(SERVER)) == "trusted"
    assert list(open_to_others(state)) == []


def test_a_trust_that_others_could_only_read_counts(state: Path, workspace: Path) -> None:
    trust = Trust(state, workspace)
    trust.decide(trust.subject(SERVER), "trusted")
    (state / "mcp_trust.json").chmod(0o644)
    private_folder._repaired_folders.clear()
    private_folder.ensure(state)
    assert trust.decision(trust.subject(SERVER)) == "trusted"
    assert list(open_to_others(state)) == []


@pytest.mark.parametrize("name", ["journal.sqlite3", "journal.sqlite3-wal", "mcp_trust.json", "mcp-a.log"])
def test_a_link_in_the_state_is_not_followed(state: Path, workspace: Path, tmp_path: Path, name: str) -> None:
    private_folder.ensure(state)
    victim = tmp_path / "victim"
    victim.write_text(json.dumps({Trust(state, workspace).subject(SERVER).key: "trusted"}))
    victim.chmod(0o644)
    (state / name).symlink_to(victim)
    if name.startswith("journal"):
        with pytest.raises(JournalError):
            Journal(state, "s")
    elif name.startswith("mcp-"):
        with pytest.raises(OSError, match="symbolic links"):
            private_file.append_to(state / name, empty=True)
    else:
        assert decision(state, workspace) is None
    assert victim.read_text() != ""
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644


def test_settings_that_others_can_change_are_not_used(state: Path, workspace: Path) -> None:
    file = config.config_file()
    file.parent.mkdir(parents=True)
    file.write_text("[sandbox]\nnetwork = true\n")
    file.chmod(0o644)
    assert config.load(workspace).sandbox.network
    file.chmod(0o646)
    with pytest.raises(ConfigError, match="Others can change or own"):
        config.load(workspace)
