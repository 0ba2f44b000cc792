"""Sessions of the client with the running system."""

import io
import itertools
import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from codelab_client.command_line import main
from codelab_client.session import Session, Timing, connect
from codelab_local import LocalCloud

from tests.client.executing import CountingExecutor

_sessions = (f"client_{n}" for n in itertools.count(1))

#: A client that notices quickly what is missing.
FAST = Timing(repeat_s=3.0, tick_s=0.05, pause_s=0.02, longest_pause_s=0.2)

Open = Callable[..., AbstractAsyncContextManager[Session]]
Codelab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def new_session(cloud: LocalCloud, tmp_path: Path) -> Open:
    """Opens sessions with the scripted model; a session's id and journal stay the same within a test."""
    session_id = next(_sessions)

    def open_session(executor: Any = None, **options: Any) -> AbstractAsyncContextManager[Session]:
        given = {"session_id": session_id, "state": tmp_path / "state", "timing": FAST, **options}
        url = given.pop("url", cloud.url("{session_id}").replace("%7Bsession_id%7D", "{session_id}"))
        return connect(url, tmp_path, executor=executor or CountingExecutor(), **given)

    return open_session


def environment_at(cloud: LocalCloud, home: Path) -> dict[str, str]:
    """The variables with which `codelab` talks to `cloud`, with its own files in `home`."""
    homes = {"XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}
    return {**os.environ, **homes, "CODELAB_URL": cloud.http, "CODELAB_TOKEN": ""}


@pytest.fixture
def environment(cloud: LocalCloud, tmp_path: Path) -> dict[str, str]:
    return environment_at(cloud, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def codelab(
    environment: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Codelab:
    """Runs the command in this process, which has imported it already."""

    def typed(*arguments: str, stdin: str = "", **more: str) -> Any:
        with monkeypatch.context() as patched:
            for name, value in {**environment, **more}.items():
                patched.setenv(name, value)
            patched.chdir(folder)
            patched.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            try:
                code = main(arguments)
            except SystemExit as end:
                code = int(end.code or 0)
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return typed
