"""Can one user make another wait? One user has thirty slow turns at a concurrency of twenty, without and with quotas.

Prints the other user's time to the first token, alone and beside those turns, and the ratio of the two.
"""

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import asdict

import jwt
from codelab.config import USUAL_LIMITS
from codelab_local import LocalCloud
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.rig import instant_model, summary, system

SECRET = "the secret of this benchmark, which signs the tokens of its two users"
CONCURRENCY, SLOW_TURNS, SILENCE_S, TURNS = 20, 30, 10, 20

#: All limits off; and the usual limits, with fewer open turns than the concurrency.
OFF = {name.upper(): "0" for name in asdict(USUAL_LIMITS)}
ON = {"OPEN_TURNS": str(CONCURRENCY // 2)}


def joined(cloud: LocalCloud, user: str, session: str) -> connect:
    now = int(time.time())
    token = jwt.encode({"sub": user, "iat": now, "exp": now + 3600}, SECRET, algorithm="HS256")
    return connect(cloud.url(session), additional_headers={"Authorization": f"Bearer {token}"}, open_timeout=60)


async def say(socket: ClientConnection, content: str) -> None:
    await socket.send(json.dumps({"type": "user_message", "content": content}))


async def first_token(socket: ClientConnection) -> float:
    """Seconds from a message to the first text of its answer. Returns when the turn has ended."""
    began, first = time.perf_counter(), 0.0
    await say(socket, "pieces=3")
    while True:
        frame = json.loads(await asyncio.wait_for(socket.recv(), 120))
        if frame["type"] == "assistant_message" and not first:
            first = time.perf_counter() - began
        elif frame["type"] == "agent_status" and frame["status"] == "idle":
            return first
        elif frame["type"] == "error":
            raise RuntimeError(frame["message"])


async def slow_turn(cloud: LocalCloud, session: str, begun: "asyncio.Queue[str]") -> None:
    """A turn whose model is silent for long. Puts `thinking`, or the code of its refusal."""
    async with joined(cloud, "greedy", session) as socket:
        await say(socket, f"silence={SILENCE_S}")
        async for message in socket:
            frame = json.loads(message)
            if frame["type"] == "error":
                begun.put_nowait(frame["error_code"])
                return
            if frame["type"] == "agent_status" and frame["status"] == "thinking":
                begun.put_nowait("thinking")
            elif frame["type"] == "agent_status" and frame["status"] == "idle":
                return


async def compare(cloud: LocalCloud) -> tuple[list[float], list[float], int, int]:
    """First tokens of a user alone and beside a greedy one, and how many of its turns ran or were refused."""
    async with joined(cloud, "patient", "patient") as socket:
        await first_token(socket)  # the processes are warm then
        alone = [await first_token(socket) for _ in range(TURNS)]
        begun: asyncio.Queue[str] = asyncio.Queue()
        turns = [asyncio.create_task(slow_turn(cloud, f"greedy-{n}", begun)) for n in range(SLOW_TURNS)]
        answers = [await asyncio.wait_for(begun.get(), 60)]
        with suppress(TimeoutError):  # those that can run are running, the others wait or were refused
            while True:
                answers.append(await asyncio.wait_for(begun.get(), 1))
        ends = time.monotonic() + SILENCE_S * 0.6
        beside = [await first_token(socket)]
        while len(beside) < TURNS and time.monotonic() < ends:
            beside.append(await first_token(socket))
        await asyncio.gather(*turns)
    while not begun.empty():
        answers.append(begun.get_nowait())
    refused = answers.count("RATE_LIMITED")
    return alone, beside, len(answers) - refused, refused


def main() -> None:
    for name, limits in (("quotas off", OFF), ("quotas on", ON)):
        settings = {"AUTH_MODE": "jwt", "JWT_SECRET": SECRET, "LOCAL_CONCURRENCY": str(CONCURRENCY), **limits}
        with instant_model() as url, system(url, **settings) as cloud:
            alone, beside, ran, refused = asyncio.run(compare(cloud))
        ratio = sorted(beside)[len(beside) // 2] / sorted(alone)[len(alone) // 2]
        print(f"{name}: first token alone {summary(alone)}; beside {SLOW_TURNS} slow turns {summary(beside)}")
        print(f"  ratio {ratio:.2f}; of the other's turns {ran} ran, {refused} were refused")


if __name__ == "__main__":
    main()
