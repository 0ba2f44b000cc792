"""The client's session, on the system as `make run` starts it."""

import asyncio
from pathlib import Path

import pytest
from codelab_client.execution import OnOutput, ToolCall
from codelab_client.session import Refused, Session, Unreachable, connect
from codelab_client.session import events as on
from codelab_local import LocalCloud

from tests.client.conftest import Open
from tests.client.executing import CountingExecutor
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import PATIENCE, run

READ = call("read_file", path="a.py")
WRITE = call("write_file", path="a.py", content="x")
BUILD = call("run_command", command="make")
DONE = Says("Done")


async def turn(session: Session, content: str) -> list[on.Event]:
    """A whole turn, with every call approved."""
    events = []
    async for event in session.prompt(content):
        events.append(event)
        if isinstance(event, on.ToolCall) and event.requires_approval:
            await session.approve(event.call_id)
    return events


def text(events: list[on.Event]) -> str:
    return "".join(event.token for event in events if isinstance(event, on.AssistantMessage))


async def test_a_prompt_yields_the_events_of_its_turn(new_session: Open, model: ScriptedModel) -> None:
    script = model.script("client-talk", Says("Hello, this is the answer"))
    async with new_session() as session:
        events = await turn(session, script)
    assert text(events) == "Hello, this is the answer"
    assert isinstance(events[-1], on.TurnEnd)
    assert events[-1].reason == "completed"
    assert events[-1].usage["completion_tokens"] > 0


async def test_messages_are_sent_in_the_order_in_which_they_were_given(new_session: Open, model: ScriptedModel) -> None:
    script = model.script("client-order", Says("first"), Says("second"))
    delays = iter((0.2, 0.0))

    async def situation() -> dict[str, str]:
        await asyncio.sleep(next(delays))
        return {}

    async with new_session(situation=situation) as session:
        await asyncio.gather(session.send(f"{script} slow"), session.send(f"{script} quick"))
        ends = 0
        async for event in session.events():
            ends += isinstance(event, on.TurnEnd)
            if ends == 2:
                break
    assert [str(request).count("quick") for request in model.requests["client-order"]] == [0, 1]


async def test_calls_are_executed_and_approved_calls_only_after_the_approval(
    new_session: Open, model: ScriptedModel
) -> None:
    script = model.script("client-calls", Says("I read", [READ]), Says("I write", [WRITE]), DONE)
    executor = CountingExecutor()
    async with new_session(executor) as session:
        before_approval = None
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                before_approval = [one.tool_name for one in executor.calls]
                assert event.arguments == {"path": "a.py", "content": "x"}
                assert event.remember is not None
                await session.approve(event.call_id)
        assert before_approval == ["read_file"]
    assert [one.tool_name for one in executor.calls] == ["read_file", "write_file"]
    assert "content of a.py" in model.requests["client-calls"][1]["messages"][-1]["content"]


async def test_a_rejection_reaches_the_model_and_an_edit_changes_the_call(
    new_session: Open, model: ScriptedModel
) -> None:
    script = model.script("client-decisions", Says("", [WRITE]), Says("", [WRITE]), DONE)
    executor = CountingExecutor()
    async with new_session(executor) as session:
        asked = 0
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                asked += 1
                if asked == 1:
                    await session.reject(event.call_id, "not this file")
                else:
                    await session.edit(event.call_id, {"path": "b.py", "content": "y"})
    assert [one.arguments for one in executor.calls] == [{"path": "b.py", "content": "y"}]
    assert "not this file" in model.requests["client-decisions"][1]["messages"][-1]["content"]


async def test_a_large_result_goes_by_reference(new_session: Open, model: ScriptedModel) -> None:
    script = model.script("client-large", Says("", [READ]), DONE)
    large = "".join(f"line {n}\n" for n in range(100_000))[:900_000]

    async def read(_: ToolCall, __: OnOutput) -> dict[str, str]:
        return {"content": large}

    async with new_session(CountingExecutor(read)) as session:
        events = await turn(session, script)
        assert text(events) == "Done"
    assert "line 1\\n" in model.requests["client-large"][1]["messages"][-1]["content"]


async def test_a_large_call_is_fetched_before_it_is_shown_or_executed(new_session: Open, model: ScriptedModel) -> None:
    content = "y" * 140_000
    script = model.script(
        "client-big-call", Says("", [call("write_file", path="a.py", content=content)], piece=9_000), DONE
    )
    executor = CountingExecutor()
    async with new_session(executor) as session:
        events = await turn(session, script)
        asked = next(event for event in events if isinstance(event, on.ToolCall) and event.requires_approval)
        assert asked.frame.get("payload_url")
        assert asked.arguments == {"path": "a.py", "content": content}
    assert [one.arguments["content"] for one in executor.calls] == [content]


async def test_output_is_shown_as_it_comes_and_a_long_command_stays_open(
    new_session: Open, model: ScriptedModel
) -> None:
    script = model.script("client-output", Says("", [BUILD]), DONE)

    async def build(_: ToolCall, on_output: OnOutput) -> dict[str, object]:
        await on_output("stdout", "compiling\n")
        await asyncio.sleep(2.5)
        await on_output("stderr", "a warning\n")
        return {"stdout": "compiling\n", "stderr": "a warning\n", "exit_code": 0}

    async with new_session(CountingExecutor(build)) as session, new_session(CountingExecutor()) as other:
        seen = asyncio.ensure_future(first(other, on.ToolProgress))
        events = await turn(session, script)
        pieces = [(event.stream, event.text) for event in events if isinstance(event, on.CallOutput)]
        assert pieces == [("stdout", "compiling\n"), ("stderr", "a warning\n")]
        assert (await seen).result["stdout"] == "compiling\n"


async def first(session: Session, kind: type[on.Event]) -> on.Event:
    async for event in session.events():
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind}")


async def test_a_second_client_shows_the_turn_and_executes_nothing(
    new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    script = model.script("client-two", Says("", [READ]), DONE)
    executor, spare = CountingExecutor(), CountingExecutor()
    async with (
        new_session(executor) as session,
        new_session(spare, state=tmp_path / "other-machine") as other,
    ):
        ended = asyncio.ensure_future(first(other, on.TurnEnd))
        await turn(session, script)
        await ended
        assert other.title == session.title
    assert (len(executor.calls), len(spare.calls)) == (1, 0)


async def test_messages_sent_during_a_turn_are_answered_in_order(new_session: Open, model: ScriptedModel) -> None:
    slow = model.script("client-slow", Says("first answer", delay=0.1))
    script = model.script("client-next", Says("second answer"))
    async with new_session() as session:
        running = asyncio.ensure_future(turn(session, slow))
        while not model.requests["client-slow"]:
            await asyncio.sleep(0.01)
        events = await turn(session, script)
        assert text(events).endswith("second answer")
        assert text(await running) == "first answer"
        assert session.status != "thinking" or isinstance(events[-1], on.TurnEnd)


async def test_a_cancel_ends_the_turn_and_the_running_call(new_session: Open, model: ScriptedModel) -> None:
    script = model.script("client-cancel", Says("", [BUILD]), DONE)

    async def build(_: ToolCall, __: OnOutput) -> None:
        await asyncio.sleep(60)

    executor = CountingExecutor(build)
    async with new_session(executor) as session:
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                await session.approve(event.call_id)
            if isinstance(event, on.CallStarted):
                await session.cancel()
            if isinstance(event, on.TurnEnd):
                assert event.reason == "cancelled"
        while not executor.cancelled:
            await asyncio.sleep(0.01)


async def test_a_cancel_right_after_the_message_stops_its_turn(new_session: Open, model: ScriptedModel) -> None:
    script = model.script("client-early-cancel", Says("word " * 200, delay=0.1))
    async with new_session() as session:
        running = asyncio.ensure_future(turn(session, script))
        await asyncio.sleep(0)
        await session.cancel()
        events = await running
        assert isinstance(events[-1], on.TurnEnd)
        assert events[-1].reason == "cancelled"


def test_a_cancel_of_an_accepted_message_stops_its_turn_before_the_turn_shows(
    new_session: Open, model: ScriptedModel
) -> None:
    script = model.script("client-accepted-cancel", Says("word " * 2_000, delay=0.05))

    async def talk() -> None:
        async with new_session() as session:
            events = session.events()
            await session.send(script)
            session.status = "idle"  # as long as the turn's first frame is on its way
            await session.cancel()
            async with asyncio.timeout(PATIENCE):
                async for event in events:
                    if isinstance(event, on.TurnEnd):
                        assert event.reason == "cancelled"
                        return

    run(talk())


async def test_settings_rules_agents_and_context_files(new_session: Open, model: ScriptedModel) -> None:
    script = model.script("client-rules", Says("", [WRITE]), DONE)
    async with new_session() as session:
        info = await session.configure(model="other", mode="manual", title="A talk")
        assert (info.title, info.settings["model"], info.mode, session.mode) == ("A talk", "other", "manual", "manual")
        with pytest.raises(Refused, match="Unknown model"):
            await session.configure(model="nonsense")
        await session.switch_agent("coder")
        assert session.agent == "coder"
        with pytest.raises(Refused, match="Unknown agent"):
            await session.switch_agent("nobody")
        assert (await session.add_file("a.py", "text")).files == 1
        assert (await session.clear_files()).files == 0
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                await session.approve(event.call_id, remember="session")
        [rule] = await session.rules()
        assert rule["covers"] == "a.py"
        assert await session.revoke(rule["rule_id"]) == []


async def test_a_refused_message_raises(new_session: Open) -> None:
    async with new_session() as session:
        with pytest.raises(Refused) as refused:
            await session.send("x" * 100_001)
        assert refused.value.code == "INVALID_ARGUMENTS"


async def test_a_decision_that_cannot_be_remembered_leaves_the_call_open(
    new_session: Open, model: ScriptedModel
) -> None:
    script = model.script("client-always", Says("", [BUILD]), DONE)
    async with new_session() as session:
        refusals = 0
        async for event in session.prompt(script):
            if isinstance(event, on.ToolCall) and event.requires_approval:
                assert event.remember is None
                await session.approve(event.call_id, remember="user")
            if isinstance(event, on.Error):
                refusals += 1
                await session.approve(event.call_id or "")
        assert refusals == 1


async def test_a_new_process_goes_on_where_the_last_turn_ended(new_session: Open, model: ScriptedModel) -> None:
    one, two = model.script("client-one", Says("first")), model.script("client-two-turns", Says("second"))
    async with new_session() as session:
        await turn(session, one)
    async with new_session() as session:
        reading = asyncio.ensure_future(first(session, on.TurnEnd))
        events = await turn(session, two)
        assert text(events) == "second"
        assert (await reading).seq == events[-1].seq
    async with new_session(last_seq=0) as session:
        assert (await first(session, on.TurnEnd)).seq < (events[-1].seq or 0)


async def test_nothing_listens(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="No CodeLab server answers at ws://localhost:9: nothing listens there"):
        async with connect("ws://localhost:9", tmp_path, state=tmp_path, executor=CountingExecutor()):
            pass


async def test_an_http_address_and_a_missing_path_mean_the_local_cloud(cloud: LocalCloud, tmp_path: Path) -> None:
    async with connect(cloud.http, tmp_path, state=tmp_path, executor=CountingExecutor()) as session:
        assert session.info is not None
        assert session.info.session_id == session.session_id
