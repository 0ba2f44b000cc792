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

from codelab_local import LocalCloud

ROOT = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def instant_model(module: str = "benchmarks.instant_model") -> Iterator[str]:
    """The base URL of a running instant model, or of another one that is started like it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", module, str(port)], cwd=ROOT)
    try:
        for _ in range(200):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextmanager
def system(model_url: str, **environment: str) -> Iterator[LocalCloud]:
    """The whole system on that model."""
    model = {"LLM_BASE_URL": model_url, "LLM_API_KEY": "bench", "LLM_MODEL": "instant"}
    settings = {**model, "DEFAULT_AGENT": "universal", "LOG_LEVEL": "WARNING"}
    with LocalCloud(ROOT / "template.yaml", environment={**settings, **environment}) as cloud:
        yield cloud


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of these processes, in seconds."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        except FileNotFoundError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def summary(seconds: Sequence[float]) -> str:
    """p50 and p95 in milliseconds."""
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return f"p50 {statistics.median(ordered) * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms"
