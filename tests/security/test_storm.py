"""A gateway that throttles is not stormed by the clients it refuses, and they lose nothing.

A minute is a second here: the pauses and the time of the throttle are both shortened.
"""

import asyncio
import contextlib
import heapq
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from codelab_client.session import Session, Timing, connect
from codelab_client.session import events as on
from codelab_client.session.backoff import BackOff
from codelab_local import LocalCloud
from codelab_local.gateway.throttle import Bucket
from codelab_local.template.limits import Limit
from websockets.asyncio.server import ServerConnection

from tests.client.executing import CountingExecutor
from tests.client.played_server import INFO, serving
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.fakes.model.told_results import told_results
from tests.sampling import sampled
from tests.throttling_proxy import ThrottlingProxy

#: Seconds of this test for a second of the real world.
UNIT = 1 / 60
STORM_S = 30 * UNIT
TIMING = Timing(tick_s=0.02, pause_s=Timing().pause_s * UNIT, longest_pause_s=Timing().longest_pause_s * UNIT)
#: Frames that one client may send in 30 s of throttling.
MOST_FRAMES = 12


@pytest.mark.parametrize("first", sampled(["hello", "resume", "tool_result", "user_message", "hitl_decision"]))
def test_a_throttling_gateway_gets_a_dozen_frames_and_the_turn_ends_well(
    cloud: LocalCloud, model: ScriptedModel, tmp_path: Path, first: str
) -> None:
    read, write = call("read_file", path="a.py"), call("write_file", path="a.py", content="x")
    script = model.script(f"storm-{first}", Says("I read", [read]), Says("I write", [write]), Says("Done"))
    executor = CountingExecutor()

    async def talk(port: int) -> list[on.Event]:
        url = f"ws://127.0.0.1:{port}"
        seen: list[on.Event] = []
        options: dict[str, Any] = {
            "session_id": f"storm_{first}",
            "state": tmp_path,
            "executor": executor,
            "timing": TIMING,
        }
        async with asyncio.timeout(60), connect(url, tmp_path, on_event=seen.append, **options) as session:
            await _approve_all(session, script)
        return seen

    with ThrottlingProxy(cloud.info["port"], first, STORM_S) as proxy:
        seen = asyncio.run(talk(proxy.port))
    pauses = [event.retry_in / UNIT for event in seen if isinstance(event, on.Busy)]
    end = [event for event in seen if isinstance(event, on.TurnEnd)]
    waits, twice = [f"{pause:.1f}" for pause in pauses], sum(count > 1 for count in executor.executed.values())
    print(  # noqa: T201 - the figures
        f"storm from {first}: {len(proxy.refused)} frames in 30 s ({', '.join(proxy.refused)}), pauses of "
        f"{', '.join(waits)} s, calls lost: {2 - len(executor.executed)}, executed twice: {twice}"
    )
    assert 0 < len(proxy.refused) <= MOST_FRAMES
    assert set(proxy.refused[1:]) <= {first, "hello", "resume"}, "only the handshake tries again"
    assert all(0.49 < pause <= 60 for pause in pauses)
    assert pauses == sorted(pauses)
    assert [event.reason for event in end] == ["completed"]
    assert sorted(one.tool_name for one in executor.calls) == ["read_file", "write_file"], "each call ran, once"
    assert len(told_results(model.requests[f"storm-{first}"][-1]["messages"])) == 2, "the results came"


async def _approve_all(session: Session, prompt: str) -> None:
    async for event in session.prompt(prompt):
        if isinstance(event, on.ToolCall) and event.requires_approval:
            await session.approve(event.call_id)


def test_settings_and_cancels_that_a_gateway_refused_are_sent_again(
    cloud: LocalCloud, model: ScriptedModel, tmp_path: Path
) -> None:
    script = model.script("storm-cancel", Says("w " * 400, piece=2, delay=0.02))
    options: dict[str, Any] = {"session_id": "storm_control", "state": tmp_path, "viewer": True, "timing": TIMING}

    async def configure(port: int) -> str:
        async with asyncio.timeout(60), connect(f"ws://127.0.0.1:{port}", tmp_path, **options) as session:
            return (await session.configure(title="kept")).title

    async def cancel(port: int) -> str:
        async with asyncio.timeout(60), connect(f"ws://127.0.0.1:{port}", tmp_path, **options) as session:
            async for event in session.prompt(script):
                if isinstance(event, on.AgentStatus) and event.status == "thinking":
                    await session.cancel()
        assert isinstance(event, on.TurnEnd)
        return event.reason

    for first, talk, outcome in (("session_config", configure, "kept"), ("cancel", cancel, "cancelled")):
        with ThrottlingProxy(cloud.info["port"], first, STORM_S / 3) as proxy:
            assert asyncio.run(talk(proxy.port)) == outcome
        assert proxy.refused == [first, *["resume"] * (len(proxy.refused) - 1)]


def test_a_gateway_that_takes_the_handshake_and_refuses_every_message_is_not_stormed(
    cloud: LocalCloud, model: ScriptedModel, tmp_path: Path
) -> None:
    """A route of its own can be throttled: one success must not shorten the pauses."""
    script = model.script("storm-route", Says("Done"))

    async def talk(port: int) -> None:
        options: dict[str, Any] = {"session_id": "storm_route", "state": tmp_path, "timing": TIMING}
        async with asyncio.timeout(60), connect(f"ws://127.0.0.1:{port}", tmp_path, viewer=True, **options) as session:
            await _approve_all(session, script)

    with ThrottlingProxy(cloud.info["port"], "user_message", STORM_S, only_first=True) as proxy:
        asyncio.run(talk(proxy.port))
    print(f"one route throttled: {len(proxy.refused)} messages refused in 30 s")  # noqa: T201 - the figures
    assert proxy.refused == ["user_message"] * len(proxy.refused)
    assert len(proxy.refused) <= MOST_FRAMES / 2


@pytest.mark.parametrize(("clients", "rate", "burst"), [(125, 25, 25), (125, 5, 5), (1_000, 200, 200)])
def test_clients_that_were_refused_together_do_not_keep_the_stage_at_its_limit(
    clients: int, rate: int, burst: int
) -> None:
    """The client's own back-off against the local cloud's own bucket, on a clock of their own.

    Each client needs five frames to be up to date and send its message, and begins again with each refusal.
    """
    dice = random.Random(clients)
    now = 0.0
    bucket = Bucket(Limit(rate, burst), lambda: now)
    while bucket.take():
        pass  # the stage is at its limit when they begin
    back_offs = [BackOff(Timing().pause_s, Timing().longest_pause_s, dice.random) for _ in range(clients)]
    due = [(dice.random() * 0.1, client) for client in range(clients)]
    heapq.heapify(due)
    left, frames, refused, last_refused = [5] * clients, 0, 0, 0.0
    while due:
        now, client = heapq.heappop(due)
        frames += 1
        if bucket.take():
            left[client] -= 1
            if left[client]:
                heapq.heappush(due, (now + 0.06, client))
        else:
            refused, last_refused, left[client] = refused + 1, now, 5
            heapq.heappush(due, (now + back_offs[client].pause(now), client))
    print(  # noqa: T201 - the figures
        f"{clients} clients, {rate} frames a second: all done after {now:.0f} s, {frames} frames, {refused} refused, "
        f"the last one at {last_refused:.0f} s; {frames / clients:.1f} frames a client, {frames / now:.1f} a second"
    )
    assert left == [0] * clients
    assert refused < 12 * clients


def test_pauses_grow_to_a_minute_and_begin_again_after_ten_quiet_seconds() -> None:
    for chance in (0.0, 0.999):
        back_off = BackOff(Timing().pause_s, Timing().longest_pause_s, lambda chance=chance: chance)
        now, pauses = 0.0, []
        for _ in range(9):
            pauses.append(back_off.pause(now))
            now += pauses[-1]
        assert pauses == sorted(pauses)
        assert (pauses[0] >= 0.5, 30 <= pauses[-1] <= 60) == (True, True)
        assert back_off.pause(now + 9) > 1
        assert back_off.pause(now + 9 + 60 + 10.1) <= 1


BEHIND = {**INFO, "last_seq": 5}


@pytest.mark.parametrize(
    "answer",
    [{"type": "resync_required", "last_seq": 5}, {"type": "resumed", "last_seq": 5, "open_calls": [], "more": True}],
)
async def test_a_server_that_never_lets_the_handshake_end_is_not_stormed(
    tmp_path: Path, answer: dict[str, object]
) -> None:
    frames: list[str] = []

    async def serve_it(socket: ServerConnection) -> None:
        async for message in socket:
            frames.append(json.loads(message)["type"])
            reply = BEHIND if frames[-1] == "hello" else answer
            await socket.send(json.dumps(reply))

    async with serving(serve_it) as url:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORM_S), connect(url, tmp_path, viewer=True, timing=TIMING, state=tmp_path):
                pytest.fail("it is never up to date")
    print(f"{answer['type']} again and again: {len(frames)} frames in 30 s")  # noqa: T201 - the figures
    assert len(frames) <= 2 * MOST_FRAMES


@pytest.mark.parametrize("how", ["429 on the upgrade", "401 for each new token", "1013 after each handshake"])
async def test_a_server_that_takes_no_connection_for_long_is_not_stormed(tmp_path: Path, how: str) -> None:
    connections = 0
    tokens = itertools.count(1)

    def process(socket: ServerConnection, _: Any) -> Any:
        nonlocal connections
        connections += 1
        return socket.respond(int(how[:3]), '{"message": "refused"}') if how[0] == "4" else None

    async def close(socket: ServerConnection) -> None:
        async for message in socket:
            kind = json.loads(message)["type"]
            reply = BEHIND if kind == "hello" else {"type": "resumed", "last_seq": 5}
            await socket.send(json.dumps({**reply, "open_calls": []}))
            if kind == "resume":
                await socket.close(1013)

    async with serving(close, process_request=process) as url:
        options: dict[str, Any] = {"viewer": True, "timing": TIMING, "state": tmp_path}
        opening = connect(url, tmp_path, token=lambda: f"token-{next(tokens)}", **options)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORM_S), opening:
                await asyncio.sleep(STORM_S)
    print(f"{how}: {connections} connections in 30 s")  # noqa: T201 - the figures
    assert 0 < connections <= MOST_FRAMES
