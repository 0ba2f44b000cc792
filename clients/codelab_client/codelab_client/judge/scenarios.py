"""The scenarios of the conversation: calls, decisions, and a connection that breaks between them."""

from typing import Any

from codelab_client.judge.play import Play, has
from codelab_client.judge.server import Arrival, NotPlayed

#: Characters of a file whose result fits into no WebSocket frame, and into one message.
_LARGE_CHARACTERS = 60_000


async def a_call(play: Play) -> None:
    """a call comes twice"""
    word = play.write_word("probe.txt")
    await play.begin()
    call_id = await play.call("read_file", {"path": "probe.txt"})
    result = await _executed(play, call_id, word)
    if await play.has_extensions():  # the seed documents say nothing of a call that comes again
        play.write_word("probe.txt")
        await play.session.write(await play.connected(), play.session.calls[call_id])
        await play.pause()
        _judge_repeats(play, call_id, result)
    await play.settle(call_id)
    await play.end()


async def a_lost_result(play: Play) -> None:
    """the connection breaks with a result on it"""
    word = play.write_word("probe.txt")
    await play.begin()
    has_extensions = await play.has_extensions()
    call_id = await play.call("read_file", {"path": "probe.txt"})
    result = await _executed(play, call_id, word)
    play.write_word("probe.txt")
    last_seq, begin = len(play.session.log), len(play.session.arrivals)
    await play.lose()
    connection = await play.reconnected()
    if has_extensions:
        await _judge_resume(play, begin, last_seq)
    else:
        await play.session.write(connection, play.session.calls[call_id])
    repeat = await play.arrival("tool_result", 4.0, begin, call_id=call_id)
    if has_extensions or repeat is not None:
        play.session.report.note("repeats-result", repeat is not None, f"no result of {call_id} after the reconnect")
    _judge_repeats(play, call_id, result)
    await play.settle(call_id)
    if has_extensions:
        await _replay_settled(play, call_id, result)
    await play.end()


async def _replay_settled(play: Play, call_id: str, result: Arrival) -> None:
    """The connection breaks again, and the replay repeats the call, which is settled now."""
    count = len(play.results(call_id))
    play.session.repeats = 6
    await play.lose()
    await play.reconnected()
    await play.pause()
    later = play.results(call_id)[count:]
    wrong = [arrival for arrival in later if not _same(arrival, result)]
    play.session.report.note("leaves-settled-calls", not wrong, "executed", wrong[0].frame if wrong else None)
    play.session.repeats = 0


async def _judge_resume(play: Play, begin: int, last_seq: int) -> None:
    resume = await play.arrival("resume", 2.0, begin)
    if resume is None:
        play.session.report.note("resumes", False, "no resume on the new connection")
        return
    resumed_seq = resume.frame["last_seq"]
    reason = f"{last_seq} was the last seq on the connection that broke"
    play.session.report.note("resumes", resumed_seq == last_seq, reason, resume.frame)


async def a_call_of_another_window(play: Play) -> None:
    """another window executes a call"""
    word = play.write_word("probe.txt")
    await play.begin()
    call_id = await play.call("read_file", {"path": "probe.txt"}, execute=False)
    await play.pause()
    results = play.results(call_id)
    reason = "answered" if not results or not has(results[0].frame, word) else "executed and answered"
    play.session.report.note("leaves-others-calls", not results, reason, results[0].frame if results else None)
    await play.settle(call_id)
    await play.end()


async def an_approval(play: Play) -> None:
    """the user approves a call"""
    await _decided(play, "approve")


async def a_rejection(play: Play) -> None:
    """the user rejects a call"""
    await _decided(play, "reject")


async def an_edit(play: Play) -> None:
    """the user edits a call"""
    await _decided(play, "edit")


async def _decided(play: Play, wish: str) -> None:
    name = f"{wish}.txt"
    await play.begin()
    arguments = {"path": name, "content": f"{wish}\n"}
    call_id = await play.call("write_file", arguments, approval=True)
    await play.pause()
    await play.driver.decide(wish)
    await play.session.until(lambda: _decision(play, call_id) or _first(play.results(call_id)), play.driver.patience)
    decision, results = _decision(play, call_id), play.results(call_id)
    early = bool(results) and (decision is None or results[0].at < decision.at)
    early = early or (decision is None and (play.workspace / name).exists())
    if early or decision is not None:
        frame = results[0].frame if results else None
        play.session.report.note("waits-for-approval", not early, f"{name} was written without a decision", frame)
    if decision is None:
        raise NotPlayed("the client sends no hitl_decision")
    if decision.frame.get("decision") == "reject":
        await _rejected(play, call_id, name)
    elif not early:
        await _granted(play, call_id, {**arguments, **(decision.frame.get("modified_arguments") or {})}, decision)
    await play.end()


async def _rejected(play: Play, call_id: str, name: str) -> None:
    await play.settle(call_id, "rejected")
    await play.pause()
    results, is_written = play.results(call_id), (play.workspace / name).exists()
    frame = results[0].frame if results else None
    wrong = is_written or bool(results)
    play.session.report.note("obeys-rejection", not wrong, f"{name} was written, or the call answered", frame)


async def _granted(play: Play, call_id: str, arguments: dict[str, Any], decision: Arrival) -> None:
    await play.release(call_id, arguments)
    result = await play.arrival("tool_result", play.driver.patience, call_id=call_id)
    if result is None:
        play.session.report.note("executes", False, f"no result of {call_id}", play.session.calls[call_id])
    elif decision.frame.get("decision") == "edit" and "error" not in result.frame:
        file = play.workspace / str(arguments["path"]).lstrip("/")
        is_edited = file.is_file() and file.read_text("utf-8") == arguments.get("content")
        play.session.report.note("executes-the-edit", is_edited, f"{file.name} is not as edited", decision.frame)
    await play.pause()
    if result is not None:
        _judge_repeats(play, call_id, result)
    await play.settle(call_id)


async def unknown_frames(play: Play) -> None:
    """frames and fields of a later version"""
    connection = await play.connected()
    begin = len(play.session.arrivals)
    await play.session.post("judge_unknown", extension=True, anything={"at": [1, None]})
    await play.session.write(connection, {"type": "judge_reply", "later": True})
    word = play.write_word("probe.txt")
    await play.pause()
    answers = [arrival for arrival in play.session.arrivals[begin:] if arrival.type != "ping"]
    is_ignored = connection in play.session.connections and not answers
    reason = "answered it" if answers else "closed the connection"
    play.session.report.note("ignores-unknown", is_ignored, reason, answers[0].frame if answers else None)
    await play.begin()
    call_id = await play.call("read_file", {"path": "probe.txt"}, later_field=[{"a": None}])
    await _executed(play, call_id, word)
    await play.settle(call_id)
    await play.end()


async def repeated_text(play: Play) -> None:
    """a frame comes twice"""
    await play.begin()
    word = play.write_word("probe.txt")
    frame = await play.say(f"{word} ", is_final=False)
    await play.session.write(await play.connected(), frame)
    await play.end()
    await play.session.until(lambda: word in (play.driver.output() or ""), 2.0)
    await play.pause()
    count = (play.driver.output() or "").count(word)
    if count:
        play.session.report.note("drops-repeats", count == 1, f"shown {count} times", frame)


async def a_large_result(play: Play) -> None:
    """a file that is larger than a WebSocket frame"""
    (play.workspace / "large.txt").write_text("x" * _LARGE_CHARACTERS, encoding="utf-8")
    await play.begin()
    call_id = await play.call("read_file", {"path": "large.txt"})
    await play.session.until(
        lambda: (
            play.results(call_id) or [arrival for arrival in play.session.arrivals if arrival.type == "upload_request"]
        ),
        play.driver.patience,
    )
    await play.settle(call_id, "cancelled")
    await play.end()


async def _executed(play: Play, call_id: str, word: str) -> Arrival:
    result = await play.arrival("tool_result", play.driver.patience, call_id=call_id)
    if result is None:
        play.session.report.note("executes", False, f"no result of {call_id}", play.session.calls[call_id])
        raise NotPlayed("the client does not answer a call")
    if "error" not in result.frame:
        play.session.report.note("executes", has(result.frame, word), "not the file's content", result.frame)
    return result


def _judge_repeats(play: Play, call_id: str, result: Arrival) -> None:
    """A repeated result is the same; on the same connection, without a call that comes again, there is none."""
    repeats = [arrival for arrival in play.results(call_id) if not _same(arrival, result)]
    reason = "another result of the same call: it was executed again"
    play.session.report.note("executes-once", not repeats, reason, repeats[0].frame if repeats else None)


def _same(arrival: Arrival, first_result: Arrival) -> bool:
    names = ("result", "error", "error_code")
    return [arrival.frame.get(name) for name in names] == [first_result.frame.get(name) for name in names]


def _decision(play: Play, call_id: str) -> Arrival | None:
    decisions = (arrival for arrival in play.session.arrivals if arrival.type == "hitl_decision")
    return _first([arrival for arrival in decisions if arrival.frame.get("call_id") == call_id])


def _first(arrivals: list[Arrival]) -> Arrival | None:
    return arrivals[0] if arrivals else None
