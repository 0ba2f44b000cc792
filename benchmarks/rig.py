"""What the benchmarks share: the system on the instant model, and clocks."""

import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codelab_local import LocalCloud

ROOT = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def listening(command: Sequence[str], port: int, patience: float = 30, **options: Any) -> Iterator[int]:
    """Run a server, and give its pid once it listens. Raises RuntimeError if it ends or does not listen in time (s)."""
    process = subprocess.Popen(command, **{"cwd": ROOT, **options})
    try:
        deadline = time.monotonic() + patience
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not listen on port {port}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def instant_model(module: str = "benchmarks.instant_model") -> Iterator[str]:
    """The base URL of a running instant model, or of another one that is started like it."""
    port = free_port()
    with listening([sys.executable, "-m", module, str(port)], port):
        yield f"http://127.0.0.1:{port}/v1"


#: The template's throttles, out of the way: the local cloud honours them, and a benchmark measures what is behind them.
UNTHROTTLED = {"ThrottleRate": "1000000", "ThrottleBurst": "1000000", "ConnectRate": "1000000"}


@contextmanager
def system(model_url: str, **environment: str) -> Iterator[LocalCloud]:
    """The whole system on that model."""
    model = {"LLM_BASE_URL": model_url, "LLM_API_KEY": "bench", "LLM_MODEL": "instant"}
    settings = {**model, "DEFAULT_AGENT": "universal", "LOG_LEVEL": "WARNING"}
    with LocalCloud(ROOT / "template.yaml", environment={**settings, **environment}, parameters=UNTHROTTLED) as cloud:
        yield cloud


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of these processes and of those of their children that have ended, in seconds."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        except FileNotFoundError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


def summary(seconds: Sequence[float]) -> str:
    """p50 and p95 in milliseconds."""
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return f"p50 {statistics.median(ordered) * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms"
