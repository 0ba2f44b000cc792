"""ministack as a child process: DynamoDB, S3, Secrets Manager, IAM, EventBridge, CloudFormation on a loopback port.

It runs code for whoever asks (Lambda, Glue, Step Functions), so it answers nobody without the access key that is made
here (see `emulator_process.py`), and has no services but those that are named.
"""

import contextlib
import http.client
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from codelab_local.aws_api import AwsApi
from codelab_local.errors import StartError
from codelab_local.processes import free_port, kill_group, spawn
from codelab_local.signatures import Credentials

START_TIMEOUT = 30.0
SAVE_TIMEOUT = 20.0


class Emulator:
    """The emulator's process. `start` returns at once; `wait` blocks until it answers."""

    def __init__(self, folder: Path, region: str, state_dir: Path | None, log_level: str = "CRITICAL") -> None:
        self.port = free_port()
        self.credentials = Credentials.random()
        self._folder = folder
        self._state_dir = state_dir
        self._region = region
        self._log_level = log_level
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, services: Iterable[str] = ("dynamodb", "s3")) -> None:
        """Start it with these services, by ministack's names."""
        temporary = self._folder / "emulator"
        temporary.mkdir()
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH") if name in os.environ},
            # Without these it listens on every interface, and opens MQTT and SFTP ports besides.
            "BIND_HOST": "127.0.0.1",
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_REGION": self._region,
            "LOG_LEVEL": self._log_level,
            "TMPDIR": str(temporary),
            "DOCKER_HOST": f"unix://{temporary}/no-docker",
            "SERVICES": ",".join(sorted(services)),
            "CODELAB_LOCAL_FOLDER": str(self._folder),
            # Other users of the machine see command lines, but no environment.
            "CODELAB_LOCAL_KEY_ID": self.credentials.key_id,
            "CODELAB_LOCAL_SECRET": self.credentials.secret,
        }
        if self._state_dir is not None:
            try:
                # What users said, and the secret that signs their tokens.
                self._state_dir.mkdir(0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise StartError(f"STATE_DIR {self._state_dir} cannot be used: {error.strerror}", 2) from None
            environment |= {
                "PERSIST_STATE": "1",
                "STATE_DIR": str(self._state_dir / "services"),
                "S3_PERSIST": "1",
                "S3_DATA_DIR": str(self._state_dir / "s3"),
            }
        else:
            environment["S3_DATA_DIR"] = str(temporary / "s3")
        self.process = spawn(
            "codelab_local.emulator_process",
            environment=environment,
            death_signal=signal.SIGTERM,  # it has state to save
            stderr=None if self._log_level != "CRITICAL" else subprocess.DEVNULL,
        )

    def wait(self) -> AwsApi:
        """Wait until the emulator serves; raises :class:`StartError` when it does not."""
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT
        api = AwsApi(self.port, self._region, self.credentials)
        while True:
            try:
                api.request("s3", "GET", "/")
                return api
            except (OSError, http.client.HTTPException):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise StartError(
                        "the AWS emulator (ministack) does not start: run `python -m ministack` to see why"
                    ) from None
                time.sleep(0.01)

    def stop(self) -> None:
        """Kill it; when it keeps state, let it end by itself first, because that is when it saves."""
        if self.process is None:
            return
        if self._state_dir is not None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(SAVE_TIMEOUT)
        kill_group(self.process)
