"""Many sessions at once; none may fail. Prints times, the memory of the whole system, and turns per second."""

import asyncio
import json
import time
from pathlib import Path

import psutil
from codelab_local import LocalCloud
from websockets.asyncio.client import connect

from benchmarks.rig import instant_model, summary, system

CONNECTIONS = 200


async def dialogue(url: str, content: str) -> float:
    """One connection, one turn. Returns its time; raises if anything goes wrong."""
    async with connect(url, open_timeout=60) as socket:
        began = time.perf_counter()
        await socket.send(json.dumps({"type": "user_message", "content": content}))
        while True:
            frame = json.loads(await asyncio.wait_for(socket.recv(), 120))
            if frame["type"] == "error":
                raise RuntimeError(frame["message"])
            if frame["type"] == "agent_status" and frame["status"] == "idle":
                return time.perf_counter() - began


async def burst(cloud: LocalCloud, name: str, connections: int, content: str) -> None:
    began = time.perf_counter()
    session = name.translate({ord(" "): "-", ord(","): None})
    work = [dialogue(cloud.url(f"{session}-{n}"), content) for n in range(connections)]
    done = await asyncio.gather(*work, return_exceptions=True)
    took = time.perf_counter() - began
    times = [each for each in done if isinstance(each, float)]
    failures = [each for each in done if not isinstance(each, float)]
    rate = len(times) / took
    counts = f"{len(times)} of {connections} dialogues, {len(failures)} failed"
    print(f"{name}: {counts}; {summary(times or [0.0])}; {rate:.0f} turns/s")
    for failure in failures[:3]:
        print("  ", repr(failure))


def pss_bytes(pid: int) -> tuple[int, int]:
    """The proportional memory of a process and its descendants, and their number."""
    total = count = 0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        try:
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += 1024 * int(next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:")))
        count += 1
    return total, count


def main() -> None:
    with instant_model() as url, system(url) as cloud:
        asyncio.run(burst(cloud, "first burst", CONNECTIONS, "pieces=30"))
        asyncio.run(burst(cloud, "second burst", CONNECTIONS, "pieces=30"))
        total, count = pss_bytes(cloud.process.pid)
        print(f"memory after {CONNECTIONS} at once: {total / 1e9:.2f} GB (PSS) in {count} processes")


if __name__ == "__main__":
    main()
