"""Requests to the REST API one after another over one connection, each through one function and the table.

The aim is `GET /sessions/{id}` in 8 ms (p50).
"""

import sys
import time
from collections.abc import Callable

import httpx

from benchmarks.rig import instant_model, summary, system

ROUNDS = 300


def timed(request: Callable[[], httpx.Response]) -> list[float]:
    found = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        request().raise_for_status()
        found.append(time.perf_counter() - begun)
    return found


def main() -> None:
    with (
        instant_model() as model,
        system(model) as cloud,
        httpx.Client(base_url=f"{cloud.http}/api/v1", timeout=40) as api,
    ):
        session = api.post("/sessions", json={"metadata": {"project_path": "/path/to/project"}}).json()["session_id"]
        rows: dict[str, Callable[[], httpx.Response]] = {
            "GET /health": lambda: api.get(f"{cloud.http}/health"),
            "GET /sessions/{id}": lambda: api.get(f"/sessions/{session}"),
            "GET /sessions": lambda: api.get("/sessions"),
            "GET /chat/history/{id}": lambda: api.get(f"/chat/history/{session}"),
            "PATCH /sessions/{id}": lambda: api.patch(f"/sessions/{session}", json={"title": "again"}),
            "POST /sessions": lambda: api.post("/sessions", json={}),
        }
        for request in rows.values():  # the first ones start workers
            request()
        for name, request in rows.items():
            sys.stdout.write(f"{name:24} {summary(timed(request))}\n")


if __name__ == "__main__":
    main()
