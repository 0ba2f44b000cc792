"""The scenarios in which the server refuses: connections, frames, tokens."""

import itertools
import time
from http import HTTPStatus

from codelab_client.judge.frames import error
from codelab_client.judge.play import SHORTLY_S, Play
from codelab_client.judge.server import Attempt, NotPlayed, Refusal

#: Tries to connect within one second that are a storm.
_STORM = 6
#: Relative difference of pauses that are the same.
_SAME = 0.05
#: Seconds that `Retry-After` names.
_RETRY_AFTER_S = 2


async def broken_connections(play: Play) -> None:
    """connections break as soon as they are open"""
    await play.begin()
    start = len(play.session.attempts)
    play.session.refusal = Refusal()
    begin = time.monotonic()
    await play.lose()

    def is_enough() -> bool:
        count = len(play.session.attempts) - start
        return count >= 2 * _STORM or (count >= 4 and time.monotonic() - begin > 1.5)

    await play.session.until(is_enough, 8.0)
    play.session.refusal = None
    _judge_attempts(play, play.session.attempts[start:])
    await play.reconnected(16.0)
    await play.end()


def _judge_attempts(play: Play, attempts: list[Attempt]) -> None:
    if not attempts:
        return
    times = [attempt.at for attempt in attempts]
    storms = [last - first for first, last in zip(times, times[_STORM - 1 :], strict=False) if last - first < 1]
    reason = f"{_STORM} tries in {min(storms, default=0):.2f} s"
    play.session.report.note("no-storm", not storms, reason)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    if len(pauses) >= 3 and not storms:
        is_even = max(pauses) - min(pauses) < _SAME * max(pauses)
        play.session.report.note("jitter", not is_even, f"{len(pauses)} pauses of {pauses[0]:.2f} s")


async def throttled_message(play: Play) -> None:
    """API Gateway refuses a message: Too Many Requests"""
    session = play.session
    session.intercept = lambda arrival: arrival.type == "user_message"
    message = await play.ask()
    await session.write(message.connection, {"message": "Too Many Requests", "connectionId": "c=", "requestId": "r="})
    begin = len(session.arrivals)
    await play.pause()
    session.intercept = lambda _: False
    early = [arrival for arrival in session.arrivals[begin:] if arrival.at < message.at + SHORTLY_S * 0.9]
    session.report.note("silent-when-throttled", not early, "answered at once", early[0].frame if early else None)
    if not message.connection.has_extensions:
        await play.accept(message)
        await play.end()
        return
    if not early:
        resume = await session.until(lambda: session.arrivals[begin:], 10.0)
        if resume is not None:
            is_resume = resume[0].type in ("resume", "hello")
            session.report.note("resumes-when-throttled", is_resume, "not resume", resume[0].frame)
    same_text = {"content": message.frame.get("content")}
    repeat = await play.arrival("user_message", 10.0, begin, **same_text)
    if repeat is None:
        session.report.note("repeats-refused", False, "the message does not come again", message.frame)
        await play.accept(message)
    else:
        message_id = message.frame.get("client_msg_id")
        is_same = message_id is not None and repeat.frame.get("client_msg_id") == message_id
        session.report.note("repeats-refused", is_same, f"client_msg_id was {message_id}", repeat.frame)
        await play.accept(repeat)
    await play.end()


async def a_resync(play: Play) -> None:
    """the log does not reach back to the client's last frame"""
    session = play.session
    await play.begin()
    session.needs_resync = True
    begin, last_seq = len(session.arrivals), len(session.log)
    await play.lose()
    await play.status("executing_tool")
    last_seq += 1
    await session.until(lambda: not session.needs_resync, 8.0)
    if session.needs_resync:
        raise NotPlayed("the client does not reconnect")
    later = await session.until(
        lambda: [arrival for arrival in session.arrivals[begin:] if arrival.type == "resume"][1:], 4.0
    )
    if later is not None:
        reason = f"resync_required had last_seq {last_seq}"
        session.report.note("obeys-resync", later[0].frame["last_seq"] == last_seq, reason, later[0].frame)
    await play.end()


async def an_expired_token(play: Play) -> None:
    """the token has expired"""
    session = play.session
    session.intercept = lambda arrival: arrival.type == "user_message"
    message = await play.ask()
    ids = {"client_msg_id": message.frame["client_msg_id"]} if message.frame.get("client_msg_id") else {}
    begin = len(session.arrivals)
    await session.write(message.connection, error("SESSION_EXPIRED", "The token has expired", **ids))
    await play.pause()
    frames = [arrival.frame for arrival in session.arrivals[begin:]]
    before = frames[: frames.index(message.frame)] if message.frame in frames else []
    is_early = message.frame in frames and all(frame.get("type") != "refresh_token" for frame in before)
    session.report.note("expired-token", not is_early, "sent again with the same token", message.frame)


async def a_busy_server(play: Play) -> None:
    """new connections get HTTP 429 with Retry-After"""
    session = play.session
    await play.begin()
    start = len(session.attempts)
    session.refusal = Refusal(HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(_RETRY_AFTER_S)})
    await play.lose()
    first = await session.until(lambda: session.attempts[start:], 8.0)
    if first is None:
        raise NotPlayed("the client does not reconnect")
    second = await session.until(lambda: session.attempts[start + 1 :], 3.0 * _RETRY_AFTER_S)
    session.refusal = None
    if second is not None:
        pause = second[0].at - first[0].at
        session.report.note("retry-after", pause >= 0.95 * _RETRY_AFTER_S, f"reconnected after {pause:.2f} s")


async def a_final_close(play: Play) -> None:
    """the server closes with 1000"""
    session = play.session
    message = await play.begin()
    start = len(session.attempts)
    await message.connection.socket.close(1000)
    await session.until(lambda: session.attempts[start:], 3.0)
    session.report.note("final-close", len(session.attempts) == start, "it has reconnected")


async def a_refused_token(play: Play) -> None:
    """new connections get HTTP 401"""
    session = play.session
    await play.begin()
    start = len(session.attempts)
    session.refusal = Refusal(HTTPStatus.UNAUTHORIZED)
    await play.lose()
    first = await session.until(lambda: session.attempts[start:], 8.0)
    if first is None:
        raise NotPlayed("the client does not reconnect")
    await session.until(lambda: session.attempts[start + 2 :], 3.0)
    repeats = [attempt for attempt in session.attempts[start:] if attempt.token == first[0].token]
    session.report.note("final-401", len(repeats) <= 2, f"{len(repeats)} tries with the same token")
