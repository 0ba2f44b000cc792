"""CPU time of the `llm_request` worker per streamed piece: at full speed, and at 200 pieces per second."""

import json
import time

from codelab_local import LocalCloud
from websockets.sync.client import ClientConnection, connect

from benchmarks.rig import cpu_seconds, instant_model, system


def turn(socket: ClientConnection, content: str) -> int:
    """Run a turn. Returns the number of frames of its text."""
    socket.send(json.dumps({"type": "user_message", "content": content}))
    frames = 0
    while True:
        frame = json.loads(socket.recv(timeout=60))
        frames += int(frame["type"] == "assistant_message")
        if frame["type"] == "agent_status" and frame["status"] == "idle":
            return frames


def measure(cloud: LocalCloud, pieces: int, rate: int | None) -> None:
    content = f"pieces={pieces}" + (f" rate={rate}" if rate else "")
    with connect(cloud.url(f"cpu-{pieces}-{rate}")) as socket:
        turn(socket, "pieces=10")
        workers = cloud.workers("llm_request")
        before, began = cpu_seconds(workers), time.perf_counter()
        frames = turn(socket, content)
        # The commit takes a moment longer than the last frame.
        time.sleep(0.3)
        took, used = time.perf_counter() - began - 0.3, cpu_seconds(workers) - before
    speed = f"at {rate}/s" if rate else "as fast as they come"
    print(f"{pieces} pieces {speed}: {used / pieces * 1000:.3f} ms CPU a piece, {frames} frames, {took:.2f} s")


def main() -> None:
    with instant_model() as url, system(url) as cloud:
        for pieces, rate in ((20_000, None), (2_000, 200), (2_000, None)):
            measure(cloud, pieces, rate)


if __name__ == "__main__":
    main()
