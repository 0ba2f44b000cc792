"""Time from the client's `cancel` until the session is idle, while the model is silent and while it writes."""

import json
import time

from codelab_local import LocalCloud
from websockets.sync.client import connect

from benchmarks.rig import instant_model, summary, system

ROUNDS = 20


def cancel(cloud: LocalCloud, session: str, content: str, until: str) -> float:
    """Start a turn, cancel it after a frame of type `until`, and time it until it is idle."""
    with connect(cloud.url(session)) as socket:
        socket.send(json.dumps({"type": "user_message", "content": content}))
        while json.loads(socket.recv(timeout=30))["type"] != until:
            pass
        time.sleep(0.1)
        began = time.perf_counter()
        socket.send(json.dumps({"type": "cancel"}))
        while json.loads(socket.recv(timeout=30)).get("status") != "idle":
            pass
        return time.perf_counter() - began


def main() -> None:
    with instant_model() as url, system(url) as cloud:
        for name, content, until in (
            ("silent", "silence=20 pieces=1", "agent_status"),
            ("writing", "pieces=2000 rate=100", "assistant_message"),
        ):
            times = [cancel(cloud, f"{name}-{n}", content, until) for n in range(ROUNDS)]
            print(f"cancel to idle, model {name}: {summary(times)}")


if __name__ == "__main__":
    main()
