"""Starts and stops the server of the model file that a variable names, at the port of the model's address."""

import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from codelab_local.host.errors import StartError
from codelab_local.host.notices import notice
from codelab_local.host.processes import before_exec, kill_group
from codelab_local.settings.settings import Model

#: Tokens of a conversation: a request of an agent with its tools has some thousands.
_WINDOW = 16_384
_SCRIPT = Path(__file__).with_name("llama_server.py")


@dataclass(frozen=True)
class ServedFile:
    """A model file, the name under which it is served, and the port of this machine."""

    path: Path
    name: str
    port: int

    @classmethod
    def of(cls, variables: Mapping[str, str], model: Model) -> Self | None:
        """What the variables name; None without a file. Raises :class:`StartError`."""
        text = variables.get(model.file, "") if model.file else ""
        if not text:
            return None
        path = Path(text)
        if not path.is_file():
            raise StartError(f"{model.file}={text} is not a file")
        address = urlsplit(variables.get(model.url, ""))
        if address.hostname not in ("127.0.0.1", "localhost") or not address.port:
            raise StartError(
                f"{model.file} needs an address of this machine in {model.url}, like http://127.0.0.1:8081/v1"
            )
        return cls(path, variables.get(model.name) or path.stem, address.port)


class ModelServer:
    """At most one server. project: the folder whose `.venv-llama` has llama.cpp. Use it in the main thread."""

    def __init__(self, project: Path) -> None:
        self._python = project / ".venv-llama" / "bin" / "python"
        self._served: ServedFile | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it serves a file, or is about to."""
        return self._process is not None and self._process.poll() is None

    def serve(self, file: ServedFile | None) -> None:
        """Serve this file from now on, and no other. Raises :class:`StartError`."""
        if file == self._served and (file is None or self.is_running):
            return
        if file is not None and not self._python.exists():
            raise StartError(f"llama.cpp is not installed in {self._python.parents[1]} for {file.path}")
        self.stop()
        self._served = file
        if file is None:
            return
        if _is_taken(file.port):
            notice(f"port {file.port} is taken: what listens there answers in place of {file.path.name}")
            return
        # The others of the machine are the editor's and the system's own.
        threads = max(1, (os.cpu_count() or 1) - 1)
        try:
            self._process = subprocess.Popen(
                [self._python, _SCRIPT, file.path, file.name, str(_WINDOW), str(threads), str(file.port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=before_exec(os.getpid(), 9),
            )
        except OSError as error:
            raise StartError(f"llama.cpp in {self._python.parents[1]} does not start: {error.strerror}") from None

    def look(self) -> None:
        """Tell the user once if it has ended by itself."""
        if self._process is not None and (status := self._process.poll()) is not None:
            self._process = None
            name = self._served.path if self._served else ""
            notice(f"llama.cpp's server of {name} has ended ({status}): is it a model, and is there memory for it?")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            kill_group(self._process)
        self._process = self._served = None


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
