"""Subagents in the client: who works on what, whose calls are whose, and that all are found again."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from codelab_client.session import events as on
from codelab_client.session.hello import Hello
from codelab_client.session.subagents import Subagents
from codelab_client.terminal import cards
from rich.cells import cell_len
from websockets.asyncio.server import ServerConnection

from tests.client.conftest import Codelab, Open
from tests.client.executing import CountingExecutor
from tests.client.played_server import greeting, opened, serving
from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.client.test_terminal import decide
from tests.client.test_terminal_cards import END, EVIL, Talk, finished, read_call, started
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.frames import check_sent
from tests.waiting import until

READ = call("read_file", path="a.py")
WRITE = call("write_file", path="a.py", content="x")
FOUND = Says("It is in a.py.")
DONE = Says("All done.")


def delegate(script: str, agent: str = "explore") -> dict[str, Any]:
    return call("delegate", agent=agent, task=f"{script} Find x")


def update(call_id: str = "k1", state: str = "running", **fields: Any) -> on.SubagentUpdate:
    given = {"agent": "explore", "task": "Find x", "turn_id": "t", **fields}
    return on.SubagentUpdate(call_id=call_id, state=state, **given)


def info(last_seq: int, *call_ids: str) -> on.SessionInfo:
    working = [{"call_id": call_id, "agent": "explore", "task": f"Task of {call_id}"} for call_id in call_ids]
    given: dict[str, Any] = {"session_id": "s", "agent": "coder", "status": "executing_tool"}
    return on.SessionInfo(**given, last_seq=last_seq, subagents=working)


def after(*events: on.Event) -> Subagents:
    subagents = Subagents()
    for event in events:
        subagents.take(event)
    return subagents


# -- who works -------------------------------------------------------------------------------------------------------


def test_who_executes_calls_lets_the_agent_delegate() -> None:
    def names(executor: Any, **options: Any) -> Any:
        frame = Hello(executor, **options).frame()
        check_sent(frame)
        return frame["capabilities"].get("tools_supported")

    assert names(CountingExecutor()) == ["delegate", *CountingExecutor.tools_supported]
    assert names(CountingExecutor(), delegates=False) == [*CountingExecutor.tools_supported]
    assert names(None) is None
    many = CountingExecutor()
    many.tools_supported = ("delegate", *(f"tool_{n}" for n in range(200)))  # type: ignore[assignment]
    assert len(names(many)) == 100 == len(set(names(many)))


def test_several_of_an_agent_have_numbers() -> None:
    subagents = after(update("k1"), update("k2", agent="universal"), update("k3"), update("k1", text="Found it"))
    assert [(one.name, one.text) for one in subagents.working.values()] == [
        ("explore", "Found it"),
        ("universal", ""),
        ("explore 2", ""),
    ]


def test_an_update_that_says_no_text_keeps_the_last_one() -> None:
    assert after(update(text="I look"), update(step=2)).working["k1"].text == "I look"


def test_the_end_of_one_that_nobody_knows_is_told_and_leaves_nothing() -> None:
    subagents = Subagents()
    assert subagents.take(update("never seen", "failed")) == "explore failed: Find x"
    assert subagents.working == {}


def test_the_sessions_state_has_those_that_work_unless_newer_frames_have_come() -> None:
    subagents = after(update("k1", seq=3, text="I look"), update("k2", seq=4))
    subagents.take(info(4, "k1", "k3"))
    assert [(one.name, one.text) for one in subagents.working.values()] == [("explore", "I look"), ("explore 3", "")]
    subagents.take(info(2))
    assert list(subagents.working) == ["k1", "k3"]
    subagents.take(END)
    assert subagents.working == {}


def test_an_entry_of_the_sessions_state_that_is_nonsense_is_left_out() -> None:
    given = info(0, "k1")
    given.subagents.extend([{"call_id": 1, "agent": "a", "task": "t"}, {}, {"call_id": "k2", "agent": None}])
    assert list(after(given).working) == ["k1"]


@pytest.mark.parametrize("fields", [{"agent": 1}, {"state": None}, {"step": "1"}, {"text": {}}])
def test_a_malformed_update_is_no_event(fields: dict[str, Any]) -> None:
    frame = {"type": "subagent_update", "call_id": "k1", "turn_id": "t", "agent": "a", "task": "t", "state": "running"}
    assert isinstance(on.event_of(frame), on.SubagentUpdate)
    with pytest.raises(on.MalformedFrame):
        on.event_of({**frame, **fields})


async def test_delegate_is_never_executed_whatever_the_server_and_the_executor_say(tmp_path: Path) -> None:
    executor, outcomes = CountingExecutor(), []
    executor.tools_supported = ("read_file", "delegate")  # type: ignore[assignment]
    frame = {"type": "tool_call", "call_id": "c1", "tool_name": "delegate", "requires_approval": False, "seq": 1}

    async def answer(socket: ServerConnection, sent: dict[str, Any]) -> None:
        if sent["type"] == "user_message":
            await socket.send(json.dumps({**frame, "arguments": {"agent": "explore", "task": "x"}}))
        elif sent["type"] == "tool_result":
            outcomes.append(sent["error"]["code"])

    async with serving(greeting(answer)) as url, opened(url, tmp_path, executor, decided_elsewhere=True) as session:
        sending = asyncio.ensure_future(session.send("hello"))
        async with asyncio.timeout(10):
            while not outcomes:
                await asyncio.sleep(0.01)
        sending.cancel()
    assert (outcomes[0], executor.executed) == ("TOOL_NOT_FOUND", {})


# -- the terminal ----------------------------------------------------------------------------------------------------


def test_a_line_says_who_works_on_what_and_what_it_does(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.take(update(), update("k2", agent="universal", task="Say hello"))
    assert talk.conversation.live() == ["◌ explore: Find x", "◌ universal: Say hello"]
    talk.take(update(text="I look at a.py"), read_call("one", parent_call_id="k1"), started("one"))
    assert talk.conversation.live()[0] == "◌ explore: Find x · read_file one.py"
    talk.take(finished("one"))
    assert talk.conversation.live()[0] == "◌ explore: Find x · I look at a.py"
    assert "● explore › read_file one.py  1 line" in talk.screen.text
    talk.take(update(state="completed"), update("k2", "failed", agent="universal", task="Say hello"))
    assert talk.conversation.live() == []
    assert talk.screen.text.endswith("● explore completed: Find x\n✗ universal failed: Say hello\n")


@pytest.mark.parametrize("columns", [20, 39, 80])
def test_the_line_fits_the_screen(columns: int, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.take(update(task="漢字 of the task " * 12, text="what it has written " * 25))
    [line] = talk.conversation.live(columns)
    assert cell_len(line) <= columns
    assert line.startswith("◌ explore: 漢")


def test_cards_of_one_subagent_do_not_wait_for_those_of_another(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.take(update("k1"), update("k2"), read_call("own"))
    talk.take(read_call("one", parent_call_id="k1"), read_call("two", parent_call_id="k2"))
    talk.take(started("two"), finished("two"))
    assert "● explore 2 › read_file two.py" in talk.screen.text
    talk.take(read_call("three", parent_call_id="k1"), started("three"), finished("three"))
    assert "three" not in talk.screen.text
    talk.take(update("k1", "cancelled"))
    assert "● explore › read_file three.py" in talk.screen.text


def test_a_question_says_who_asks(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.take(update(), read_call("one", parent_call_id="k1", requires_approval=True))
    assert "? explore › read_file one.py" in talk.screen.text
    assert talk.conversation.live() == ["◌ explore: Find x · asks for read_file one.py"]
    talk.take(on.CallUpdate(call_id="one", state="rejected", feedback="no"))
    assert "rejected explore › read_file one.py: no" in talk.screen.text


def test_a_call_of_one_that_nobody_knows_is_shown(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.take(read_call("one", parent_call_id="gone"), started("one"))
    assert talk.conversation.live()[0].startswith("◌ subagent › read_file one.py")


def test_words_of_subagents_obey_nobody(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.take(update(agent=EVIL, task=f"{EVIL}\nline", text=EVIL), read_call("one", parent_call_id="k1"))
    live = "\n".join(talk.conversation.live())
    talk.take(started("one"), finished("one"), update(state=f"{EVIL}\n", agent=EVIL, task=f"{EVIL}\nline"))
    for shown in (live, talk.screen.text):
        assert "␛]0;owned" in shown
        assert not any(character in shown for character in "\x1b\x07\x9b\u202e\u200b")
    assert live.count("\n") == 0


def test_a_past_delegation_names_its_task() -> None:
    assert cards.summary("delegate", {"agent": "explore", "task": "Find x"}) == "delegate Find x"


# -- with the running system -----------------------------------------------------------------------------------------


def test_exec_tells_who_works_on_what(codelab: Codelab, folder: Path, model: ScriptedModel) -> None:
    (folder / "a.py").write_text("x = 1")
    look = model.script("exec-look", Says("I read. ", [READ]), FOUND)
    ask = model.script("exec-ask", Says("Asking. ", [delegate(look)]), DONE)
    done = codelab("exec", ask)
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert done.stderr.splitlines() == [
        "explore works on: [[exec-look]] Find x",
        "explore › read_file a.py",
        "explore completed: [[exec-look]] Find x",
    ]
    assert "It is in a.py." in model.requests["exec-ask"][1]["messages"][-1]["content"]
    events = [json.loads(line) for line in codelab("exec", "--json", ask).stdout.splitlines()]
    updates = [event for event in events if event["type"] == "subagent_update"]
    assert [(one["state"], one.get("text")) for one in updates[:2]] == [("running", None), ("running", "I read. ")]
    [read] = [event for event in events if event["type"] == "tool_call"]
    assert read["parent_call_id"] == updates[0]["call_id"]


def test_exec_says_whose_call_is_refused(codelab: Codelab, folder: Path, model: ScriptedModel) -> None:
    write = model.script("exec-child-write", Says("", [WRITE]), DONE)
    done = codelab("exec", model.script("exec-refused", Says("", [delegate(write, "universal")]), DONE))
    assert done.returncode == 5
    assert "refused universal › write_file a.py: nobody can approve it" in done.stderr
    assert not (folder / "a.py").exists()


def four(model: ScriptedModel, name: str, goes_on: threading.Event) -> tuple[str, str, str]:
    """Scripts of a turn with four subagents, of which two wait for the user and two for the model, and of those."""
    write = model.script(f"{name}-write", Says("", [WRITE]), DONE)
    look = model.script(f"{name}-look", Says("Found it.", until=goes_on))
    calls = [delegate(script, "universal") for script in (write, write, look, look)]
    return model.script(f"{name}-ask", Says("", calls), DONE), write, look


async def test_a_client_that_starts_anew_finds_all_subagents_and_open_calls(
    new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    goes_on = threading.Event()
    ask, write, look = four(model, "again", goes_on)
    async with new_session() as session:
        sending = asyncio.ensure_future(session.send(ask))
        async for event in session.events():
            if isinstance(event, on.ToolCall) and len(session.open_calls) == 2:
                break
        await sending
        last_seq = session.last_seq

    for options in ({}, {"last_seq": last_seq}, {"last_seq": 0, "viewer": True}):
        talk = Talk(tmp_path)
        async with new_session(**options) as session:
            talk.conversation.session = session
            async for event in session.events():
                talk.take(event)
                if isinstance(event, on.Connected):
                    break
            assert [call.tool_name for call in talk.conversation.approvals] == ["write_file"] * 2
            live = "\n".join(talk.conversation.live(100))
            assert [live.count(f"{script} Find x") for script in (write, look)] == [2, 2], live
            assert live.count("asks for write_file a.py") == 2
    goes_on.set()


def test_the_terminal_shows_subagents_also_when_it_was_killed(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    goes_on = threading.Event()
    ask, write, look = four(model, "tty", goes_on)
    killed = Terminal(CODELAB, environment, folder)
    with killed:
        killed.expect("/help lists the commands")
        killed.type(f"{ask}\r")
        killed.expect("write_file a.py? (1 more)")  # of the one or of the other: they work side by side
    with Terminal([*CODELAB, "--continue"], environment, folder) as terminal:
        shown = terminal.expect("write_file a.py? (1 more)")
        for line in ("universal", "universal 2"):
            assert f"◌ {line}: {write} Find x · asks for write_file a.py" in shown
        for line in ("universal 3", "universal 4"):
            assert f"◌ {line}: {look} Find x" in shown
        goes_on.set()
        terminal.expect(f"● universal 3 completed: {look} Find x")
        decide(terminal, "y")
        until(lambda: "write_file a.py? (1 more)" not in terminal.shown())
        decide(terminal, "y")
        shown = terminal.expect("All done.")
        for name in ("universal", "universal 2"):
            assert f"● {name} › write_file a.py" in shown
        assert "◌ universal" not in terminal.shown()
