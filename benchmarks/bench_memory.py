"""How much later the first token comes if `llm_request` has less memory, and so less of a processor.

Lambda gives a function a share of a processor by its memory, all of one at 1,769 MB
(https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html). Here the function's processes get that share
by a quota of the Linux kernel's cgroups in periods of 20 ms, in turns; it needs root, and is left out without.
"""

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from websockets.sync.client import connect

from benchmarks.bench_streaming import through_the_system
from benchmarks.rig import instant_model, summary, system

MEMORIES_MB = (1769, 1024, 768, 512)
WHOLE_MB = 1769
ROUNDS, BLOCKS = 25, 4
HISTORY = 25
_PERIOD_US = 20_000


class Quota:
    """A control group whose processes share a part of one processor."""

    def __init__(self, folder: Path, *, is_unified: bool) -> None:
        self._folder = folder
        self._is_unified = is_unified

    def set(self, share: float) -> None:
        quota = int(share * _PERIOD_US)
        if self._is_unified:
            (self._folder / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        else:
            (self._folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota))

    def take(self, word: str) -> int:
        """Take this program's processes with `word` as an argument. Returns how many there are; forks follow."""
        found = [process for process in psutil.Process().children(recursive=True) if word in process.cmdline()]
        for process in found:
            (self._folder / "cgroup.procs").write_text(str(process.pid))
        return len(found)


@contextmanager
def quota() -> Iterator[Quota]:
    """A new control group. Raises OSError if this process may not make one."""
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    folder = Path("/sys/fs/cgroup" if unified else "/sys/fs/cgroup/cpu") / f"codelab-{os.getpid()}"
    folder.mkdir()
    try:
        yield Quota(folder, is_unified=unified)
    finally:
        while folder.exists():
            try:
                folder.rmdir()
            except OSError:  # its processes are just ending
                time.sleep(0.05)


def main() -> None:
    found: dict[int, list[float]] = {memory: [] for memory in MEMORIES_MB}
    try:
        with (
            quota() as group,
            instant_model() as url,
            system(url) as cloud,
            connect(cloud.url("memory")) as socket,
        ):
            for _ in range(HISTORY):
                through_the_system(socket, "pieces=1")
            if not group.take("llm_request"):
                raise RuntimeError("there is no process of llm_request")
            for _ in range(BLOCKS):
                for memory in MEMORIES_MB:
                    group.set(memory / WHOLE_MB)
                    for _ in range(ROUNDS):
                        time.sleep(0.03)
                        found[memory].append(through_the_system(socket, "pieces=1").first)
    except PermissionError as error:
        print(f"left out: {error}")
        return
    whole = statistics.median(found[WHOLE_MB])
    for memory, seconds in found.items():
        later = statistics.median(seconds) - whole
        print(f"{memory} MB: first token {summary(seconds)}, {later * 1000:.1f} ms later")


if __name__ == "__main__":
    main()
