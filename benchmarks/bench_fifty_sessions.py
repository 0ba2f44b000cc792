"""Fifty sessions at once on a fresh system, twice. The model is silent for 2 s, then answers in 30 pieces.

Beyond the model's 2 s, the time is CPU time, so that is printed too, by process, for the whole burst.
"""

import asyncio
from collections import defaultdict

import psutil
from codelab_local import LocalCloud

from benchmarks.bench_concurrency import burst
from benchmarks.rig import cpu_seconds, instant_model, system

SESSIONS = 50


def cpu_by_process(cloud: LocalCloud) -> dict[str, float]:
    """CPU seconds so far, of the local cloud itself, of its emulator, and of each function's processes."""
    used: dict[str, float] = defaultdict(float)
    root = psutil.Process(cloud.process.pid)
    functions = {pid: name for name, found in cloud.functions().items() for pid in found["workers"]}
    used["gateway"] += cpu_seconds([root.pid])
    for process in root.children(recursive=True):
        name = functions.get(process.pid)
        if name is None:
            command = " ".join(process.cmdline())
            name = "emulator" if "emulator" in command else "zygotes"
        used[name] += cpu_seconds([process.pid])
    return used


def main() -> None:
    with instant_model() as url, system(url) as cloud:
        for name in ("first burst", "second burst"):
            before = cpu_by_process(cloud)
            asyncio.run(burst(cloud, f"{name} of {SESSIONS}", SESSIONS, "silence=2 pieces=30"))
            after = cpu_by_process(cloud)
            used = {part: seconds - before.get(part, 0.0) for part, seconds in after.items()}
            # Without those that had nothing to do, and those whose processes have ended.
            used = {part: used[part] for part in sorted(used, key=used.__getitem__, reverse=True) if used[part] > 0}
            parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in used.items())
            print(f"  CPU {sum(used.values()):.2f} s: {parts}")


if __name__ == "__main__":
    main()
