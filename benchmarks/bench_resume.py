"""A client reconnects after it missed 1,000 frames: time from its first `resume` to the last `resumed`."""

import json
import time
from typing import Any

from codelab_local import LocalCloud
from websockets.sync.client import connect

from benchmarks.bench_streaming import table_of
from benchmarks.rig import cpu_seconds, instant_model, summary, system

FRAMES = 1_000
ROUNDS = 5


def fill_log(cloud: LocalCloud, session: str) -> None:
    """Write frames of text into the log of an existing session."""
    dynamodb, table = cloud.client("dynamodb"), table_of(cloud)
    for start in range(1, FRAMES + 1, 25):
        puts: list[Any] = []
        for seq in range(start, start + 25):
            text = f"the {seq}th piece of text "
            frame = {"type": "assistant_message", "token": text, "content": text, "is_final": False, "seq": seq}
            item = {"frame": {"S": json.dumps(frame)}, "audience": {"S": "all"}, "ttl": {"N": str(2**40)}}
            key = {"pk": {"S": f"SESSION#local#{session}"}, "sk": {"S": f"EVENT#{seq:012d}"}}
            puts.append({"PutRequest": {"Item": {**key, **item}}})
        dynamodb.batch_write_item(RequestItems={table: puts})


def resume(cloud: LocalCloud, session: str) -> float:
    """Reconnect without any frame and resume until the end. Returns the seconds."""
    with connect(cloud.url(session, extensions=1)) as socket:
        began, have, more = time.perf_counter(), 0, True
        while more:
            socket.send(json.dumps({"type": "resume", "last_seq": have}))
            while (frame := json.loads(socket.recv(timeout=60)))["type"] != "resumed":
                assert frame["seq"] == have + 1
                have = frame["seq"]
            more = frame.get("more", False)
        assert have == FRAMES
        return time.perf_counter() - began


def main() -> None:
    with instant_model() as url, system(url) as cloud:
        with connect(cloud.url("long")):
            fill_log(cloud, "long")
        resume(cloud, "long")
        workers = cloud.workers("control")
        before = cpu_seconds(workers)
        times = [resume(cloud, "long") for _ in range(ROUNDS)]
        used = (cpu_seconds(workers) - before) / ROUNDS
        print(f"{FRAMES} frames replayed: {summary(times)}; {used * 1000 / FRAMES:.2f} ms CPU of the function a frame")


if __name__ == "__main__":
    main()
