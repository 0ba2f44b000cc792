"""`codelab uninstall`: what it lists, that it asks, and that nothing is left."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from codelab_client.command_line import main
from codelab_client.login import kept
from codelab_client.login.kept import Login
from codelab_client.setup import model_file
from codelab_client.setup.model_file import Model
from keyring.backends import fail

from tests.client.terminals import Terminal
from tests.client.test_login import Keyring

CODELAB = [sys.executable, "-m", "codelab_client.command_line", "uninstall"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is there yet, and nobody sits at a terminal."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())
    yield tmp_path
    keyring.set_keyring(before)


def used(home: Path) -> Keyring:
    """What a user of it has left, in the files and in a keyring."""
    ring = Keyring()
    keyring.set_keyring(ring)
    (home / "state" / "codelab").mkdir(parents=True, mode=0o700)
    (home / "state" / "codelab" / "history").write_text("hello\n")
    (home / "state" / "other").write_text("somebody else's")
    model_file.keep(Model("openai", "https://api.openai.com/v1", "m", "sk-key"))
    kept.keep("wss://box.example.com", Login("token"))
    assert len(ring.kept) == 2
    return ring


def test_nothing_is_told_where_nothing_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uninstall"]) == 0
    assert "nothing on this machine" in capsys.readouterr().err
    assert list(home.iterdir()) == []


def test_it_lists_and_removes_nothing_unasked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ring = used(home)
    assert main(["uninstall"]) == 1
    said = capsys.readouterr().err
    for part in ("state/codelab", "config/codelab", "the key of the model", "the login at wss://box.example.com"):
        assert part in said
    assert "--yes removes it" in said
    assert len(ring.kept) == 2
    assert (home / "state" / "codelab" / "history").exists()


def test_all_of_it_goes_and_nothing_else(home: Path) -> None:
    ring = used(home)
    assert main(["uninstall", "--yes"]) == 0
    assert ring.kept == {}
    assert sorted(path.relative_to(home).as_posix() for path in home.rglob("*")) == ["config", "state", "state/other"]


def test_a_folder_that_is_a_link_is_left_alone(home: Path) -> None:
    (home / "precious").mkdir()
    (home / "precious" / "file").write_text("x")
    (home / "state").mkdir()
    (home / "state" / "codelab").symlink_to(home / "precious")
    assert main(["uninstall", "--yes"]) == 0
    assert (home / "precious" / "file").exists()


@pytest.mark.parametrize(("typed", "code"), [("y\r", 0), ("\r", 1), ("\x03", 130)])
def test_a_user_is_asked(typed: str, code: int, home: Path) -> None:
    (home / ".local/state/codelab").mkdir(parents=True, mode=0o700)
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    with Terminal(CODELAB, environment, home) as terminal:
        terminal.expect("Remove all of it? [y/N]")
        terminal.type(typed)
        assert terminal.ended() == code
        lines = terminal.all_lines()
    assert max(len(line.rstrip()) for line in lines.splitlines()) <= 80
    assert (home / ".local/state/codelab").exists() is (code != 0)
