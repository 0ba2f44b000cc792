"""How long a stream holds a function. Lambda does not report that a client left, so these clients never do."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from codelab.rest import stream
from codelab.sessions.register import Phase

from tests.rest.test_log import NOW, Log, reader

Answer = Callable[[Log, bool], tuple[float, list[str]]]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """How many seconds the function ran for a stream, and the lines it wrote.

    Time passes only while the stream waits.
    """
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        assert now < 1_000, "it does not end"
        now += max(seconds, 0.001)

    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    monkeypatch.setattr(stream, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(stream, "engine", lambda: SimpleNamespace(clock=lambda: NOW + int(1000 * now)))

    def run(log: Log, is_streamed: bool) -> tuple[float, list[str]]:
        lasts = stream.STREAMED_S if is_streamed else stream.BUFFERED_S
        course = stream._Course(lasts, float("inf"), False, is_streamed, spoke_at=0, flowed_at=0)

        async def whole() -> bytes:
            return b"".join([piece async for piece in stream._body(reader(log), [], course)])

        lines = asyncio.run(whole()).decode().splitlines()
        return now, lines

    return run


def in_phase(phase: Phase) -> Log:
    log = Log()
    log.register.phase = phase
    return log


@pytest.mark.parametrize("phase", Phase)
def test_a_stream_ends_ninety_seconds_after_its_client_left(answer: Answer, phase: Phase) -> None:
    seconds, lines = answer(in_phase(phase), True)
    assert 89 < seconds <= 90
    assert lines.count(": heartbeat") == 5
    assert lines[0] == "retry: 1000"


@pytest.mark.parametrize(("phase", "retry"), [(Phase.IDLE, 3_000), (Phase.WAITING, 1_000)])
def test_a_buffered_stream_ends_while_the_model_is_idle(answer: Answer, phase: Phase, retry: int) -> None:
    seconds, lines = answer(in_phase(phase), False)
    assert seconds < 0.5
    assert lines == [f"retry: {retry}", ""]


@pytest.mark.parametrize("phase", [Phase.DISPATCHED, Phase.RUNNING])
def test_a_buffered_stream_waits_while_the_model_works(answer: Answer, phase: Phase) -> None:
    seconds, lines = answer(in_phase(phase), False)
    assert 19 < seconds <= 20
    assert lines == ["retry: 200", ""]


def test_a_buffered_stream_answers_at_once_with_existing_events(answer: Answer) -> None:
    log = in_phase(Phase.RUNNING)
    log.token("hello")
    seconds, lines = answer(log, False)
    assert seconds < 0.5
    assert [line for line in lines if line.startswith("id:")] == ["id: 1"]
