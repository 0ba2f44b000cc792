"""The local cloud of the checkout that this package belongs to: `codelab` starts it if no server runs."""

import asyncio
import contextlib
import importlib.util
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

from codelab_client import private_folder
from codelab_client.private_file import append_to
from codelab_client.safe_text import safe_line
from codelab_client.session.address import Address, is_loopback
from codelab_client.session.errors import Unreachable
from codelab_client.setup.model_file import file

#: Seconds until it must be ready, and until it must have stopped.
_START_S = 90.0
_STOP_S = 15.0
#: Lines of its log at the start that are shown.
_MOST_REMARKS = 5


def checkout() -> Path | None:
    """The checkout whose setup installed this package; None if the package was installed without one."""
    folder = Path(__file__).resolve().parents[3]
    is_one = (folder / "template.yaml").is_file() and importlib.util.find_spec("codelab_local") is not None
    return folder if is_one else None


def is_missing(address: Address) -> bool:
    """Whether the address is one of this machine at which nothing listens, so that a local cloud could."""
    parts = urlsplit(address.url)
    if parts.scheme != "ws" or not is_loopback(parts.hostname) or not parts.path.endswith("/ws/{session_id}"):
        return False
    try:
        socket.create_connection((parts.hostname, parts.port or 80), timeout=1).close()
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


@contextlib.asynccontextmanager
async def running(folder: Path, address: Address, state: Path) -> AsyncIterator[None]:
    """Run the local cloud of a checkout at an address, and stop it at the end of the block.

    It keeps its sessions where `make run` does. state: the folder of its log. Raises Unreachable if it does not start.
    """
    parts = urlsplit(address.url)
    private_folder.ensure(state)
    environment = {**os.environ, "HOST": "127.0.0.1", "PORT": str(parts.port or 80)}
    log = state / "local_cloud.log"
    with append_to(log, empty=True) as output:
        # In a session of its own, so that Ctrl-C does not reach it. Its stdin ends at the latest with this process.
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "codelab_local",
                "--template",
                "template.yaml",
                "--until-eof",
                "--keep-sessions",
                "--env-file",
                str(file()),
            ),
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
        try:
            await _until_ready(process, log)
            sys.stderr.writelines(f"{line}\n" for line in remarks(log))
            assert process.stdout is not None
            draining = asyncio.ensure_future(process.stdout.read())
            try:
                yield
            finally:
                draining.cancel()
        finally:
            await _stop(process)


def remarks(log: Path) -> list[str]:
    """What the local cloud says of its settings when it starts: one that is misspelt, or has no effect alone."""
    lines = [safe_line(line, 300) for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[:_MOST_REMARKS]


async def _until_ready(process: asyncio.subprocess.Process, log: Path) -> None:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_S):
            line = await process.stdout.readline()
    except TimeoutError:
        raise Unreachable(f"The local cloud is not ready after {_START_S:.0f} seconds; its log is {log}") from None
    if not line.startswith(b"ready "):
        log_lines = log.read_text("utf-8", "replace").strip().splitlines()
        raise Unreachable(f"The local cloud did not start: {log_lines[-1] if log_lines else f'its log is {log}'}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
