"""Runs ministack (DynamoDB, S3, Secrets Manager, IAM, EventBridge, CloudFormation) in a child process.

Some of its services execute code (Lambda, Glue, Step Functions), so it only accepts requests signed with the access key
made here (see `emulator_process.py`), and only runs the services that the template needs.
"""

import contextlib
import fcntl
import http.client
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from codelab_local.emulator.aws_api import AwsApi
from codelab_local.emulator.signatures import Credentials
from codelab_local.emulator.table_journal import SNAPSHOT_PATH
from codelab_local.host.errors import StartError, StateError
from codelab_local.host.processes import bound_socket, kill_group, spawn

START_TIMEOUT = 90.0
SAVE_TIMEOUT = 20.0
LOCK_TIMEOUT = 10.0


class Emulator:
    """The emulator's process. `start` returns immediately; `wait` blocks until the emulator answers.

    plain: without the patches that make it faster (`speed.py`).
    """

    def __init__(self, folder: Path, region: str, state_dir: Path | None, *, plain: bool = False) -> None:
        self._socket = bound_socket()
        self.port: int = self._socket.getsockname()[1]
        self.credentials = Credentials.random()
        self._folder = folder
        self._state_dir = state_dir
        self._plain = plain
        self._region = region
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, services: Iterable[str], *, expands: bool = False) -> None:
        """Start it with these services (ministack's names). `expands`: prepare for the SAM transform."""
        temporary = self._folder / "emulator"
        temporary.mkdir()
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH") if name in os.environ},
            # By default it listens on every interface and also opens MQTT and SFTP ports.
            "BIND_HOST": "127.0.0.1",
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "GATEWAY_PORT": str(self.port),
            "CODELAB_LOCAL_SOCKET": str(self._socket.fileno()),
            "MINISTACK_REGION": self._region,
            "LOG_LEVEL": "CRITICAL",
            "TMPDIR": str(temporary),
            "DOCKER_HOST": f"unix://{temporary}/no-docker",
            "SERVICES": ",".join(sorted(services)),
            "CODELAB_LOCAL_FOLDER": str(self._folder),
            "CODELAB_LOCAL_EXPANDS": str(int(expands)),
            "CODELAB_LOCAL_PLAIN": str(int(self._plain)),
            # Other users of the machine can see command lines, but not the environment.
            "CODELAB_LOCAL_KEY_ID": self.credentials.key_id,
            "CODELAB_LOCAL_SECRET": self.credentials.secret,
        }
        lock = None
        if self._state_dir is not None:
            lock = locked(self._state_dir)
            try:
                _check(self._state_dir / "services")
            except StateError:
                os.close(lock)
                raise
            environment |= {
                "PERSIST_STATE": "1",
                "STATE_DIR": str(self._state_dir / "services"),
                "S3_PERSIST": "1",
                "S3_DATA_DIR": str(self._state_dir / "s3"),
            }
        else:
            environment["S3_DATA_DIR"] = str(temporary / "s3")
        self.process = spawn(
            "codelab_local.emulator.process",
            environment=environment,
            pass_fds=(self._socket.fileno(), *(() if lock is None else (lock,))),
            death_signal=signal.SIGTERM,  # It has state to save.
            stderr=subprocess.DEVNULL,
        )
        self._socket.close()
        if lock is not None:
            os.close(lock)

    def wait(self) -> AwsApi:
        """Wait until the emulator answers. Raises :class:`StartError` if it does not."""
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT
        api = AwsApi(self.port, self._region, self.credentials)
        while True:
            try:
                api.request("s3", "GET", "/")
                return api
            except (OSError, http.client.HTTPException):
                has_ended = self.process.poll() is not None
                if has_ended and self._state_dir is not None and (self._state_dir / "services").is_dir():
                    raise StateError(f"the AWS emulator does not start with what is in {self._state_dir}") from None
                if has_ended or time.monotonic() > deadline:
                    raise StartError(
                        "cannot start the AWS emulator (ministack): run `python -m ministack` to see why"
                    ) from None
                time.sleep(0.01)

    def deployed(self, api: AwsApi) -> None:
        """Have it save everything if it keeps state: a deployment is not journaled."""
        if self._state_dir is not None:
            api.request("dynamodb", "POST", SNAPSHOT_PATH)

    def stop(self) -> None:
        """Kill it. If it keeps state, first let it exit by itself, because it saves on exit."""
        self._socket.close()
        if self.process is None:
            return
        if self._state_dir is not None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(SAVE_TIMEOUT)
        kill_group(self.process)


def _check(services: Path) -> None:
    """Raise :class:`StateError` if a kept file is cut off: ministack would begin without it, and overwrite it."""
    for path in services.glob("*.json"):
        with path.open("rb") as file:
            first = file.read(1)
            file.seek(max(path.stat().st_size - 1, 0))
            if (first, file.read(1)) != (b"{", b"}"):
                raise StateError(f"{path} is cut off")


def locked(folder: Path) -> int:
    """A descriptor that holds the lock of STATE_DIR while a process has it open.

    The emulator of a local cloud that was just killed may still save its state. Raises :class:`StartError`.
    """
    try:
        # Private: it contains conversations and the secret that signs tokens.
        folder.mkdir(0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartError(f"cannot use STATE_DIR {folder}: {error.strerror}", 2) from None
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise StartError(
                    f"STATE_DIR {folder} is in use by another local cloud: stop it, name another folder, or keep "
                    "nothing with STATE_DIR=",
                    2,
                ) from None
            time.sleep(0.05)
