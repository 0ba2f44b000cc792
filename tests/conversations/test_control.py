"""Frames that steer a session, against the running system."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from codelab_local import LocalCloud
from websockets.exceptions import InvalidStatus

from tests.conftest import Open, opener
from tests.fakes.ide.ide import fetched
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until

WRITE = call("write_file", path="a", content="b")


def test_hello_is_answered_with_session_info(ide: Open) -> None:
    session = ide("greeted")
    info = session.request("hello", client={"name": "test", "version": "1"})
    assert info["session_id"] == "greeted"
    assert (info["status"], info["agent"], info["last_seq"], info["pending_calls"]) == ("idle", "universal", 0, [])
    assert info["limits"]["websocket_frame_bytes"] == 32_768
    assert "seq" not in info


def test_session_info_describes_the_turn_the_calls_and_the_log(ide: Open, model: ScriptedModel) -> None:
    session = ide("described", extensions=True)
    asked = session.call_for(model.script("described", Says("Writing", [WRITE]), Says("Written")))
    session.expect("agent_status", status="waiting_approval")
    info = session.request("hello")
    assert (info["status"], info["turn_id"]) == ("waiting_approval", asked["turn_id"])
    (pending,) = info["pending_calls"]
    shown = ("call_id", "tool_name", "arguments", "deadline", "turn_id", "risk", "title", "kind", "paths", "remember")
    assert pending == {**{name: asked[name] for name in shown}, "state": "awaiting_approval"}
    assert (asked["title"], asked["kind"], asked["paths"]) == ("Write a", "edit", ["a"])
    assert info["last_seq"] == max(frame.get("seq", 0) for frame in session.frames)
    assert {"connections": 8, "replayed_frames": 500, "file_bytes": 1_000_000}.items() <= info["limits"].items()


def test_a_client_that_said_hello_gets_extension_frames(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    session.request("hello")
    session.say(model.script("greeting", Says("Hi")))
    session.expect("turn_end")


def test_ping_is_answered_with_its_nonce(ide: Open) -> None:
    session = ide()
    session.send("ping", nonce=7)
    assert session.receive() == {"type": "pong", "nonce": 7}


def test_settings_are_kept(ide: Open) -> None:
    session = ide("configured")
    session.request("session_config", when_busy="reject", title="My session")
    info = session.request("hello")
    assert (info["settings"], info["title"]) == ({"when_busy": "reject"}, "My session")


def test_a_plan_is_sent_and_kept_for_clients_that_reconnect(ide: Open, model: ScriptedModel) -> None:
    session = ide("planned", extensions=True)
    items = [{"text": "Read the file", "status": "in_progress"}, {"text": "Explain it", "status": "pending"}]
    session.say(model.script("plan", Says("First a plan.", [call("update_plan", items=items)]), Says("Done.")))
    assert session.expect("plan")["items"] == items
    assert session.idle() == "First a plan.Done."
    assert not session.of_type("tool_call")
    back = ide("planned")
    assert back.request("hello")["plan"] == items


def test_cancel_stops_a_silent_model_and_the_session_goes_on(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    session.say(model.script("silent", Says("never said", silence=20)))
    session.expect("agent_status", status="thinking")
    session.send("cancel")
    assert session.expect("turn_end")["reason"] == "cancelled"
    session.idle()
    assert session.ask(model.script("after", Says("Here"))) == "Here"


def test_cancel_keeps_the_text_and_drops_the_request_to_the_model(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    session.say(model.script("talking", Says("word " * 2_000, delay=0.01)))
    session.expect("assistant_message")
    session.send("cancel")
    session.expect("turn_end", reason="cancelled")
    session.idle()
    said = session.text()
    assert said
    assert ("word " * 2_000).startswith(said), "perhaps only a part of the first word"
    session.ask(model.script("then", Says("And then")))
    kept = [m["content"] for m in model.requests["then"][0]["messages"] if m["role"] == "assistant"]
    assert kept == [said]
    until(lambda: "talking" in model.hung_up)


def test_cancel_settles_open_calls(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    asked = session.call_for(model.script("calling", Says("", [WRITE]), Says("not reached")))
    session.send("cancel")
    assert session.expect("call_update")["state"] == "cancelled"
    session.idle()
    session.result(asked, {"success": True})
    assert session.expect("error")["error_code"] == "INVALID_CALL_ID"


@pytest.mark.parametrize("seen", [0, 2])
def test_resume_replays_what_was_missed_in_order(ide: Open, model: ScriptedModel, seen: Any) -> None:
    first = ide(f"resumed-{seen}", extensions=True)
    first.ask(model.script("resumed", Says("A few words to replay")))
    second = ide(f"resumed-{seen}")
    resumed = second.request("resume", last_seq=seen)
    assert second.frames[:-1] == first.frames[seen:]
    assert resumed["last_seq"] == len(first.frames)
    assert resumed["open_calls"] == []


def test_resume_lists_the_calls_that_are_still_open(ide: Open, model: ScriptedModel) -> None:
    first = ide("reopened", extensions=True)
    asked = first.call_for(model.script("reopened", Says("", [WRITE]), Says("Written")))
    first.socket.close()
    second = ide("reopened", extensions=True)
    (pending,) = second.request("resume", last_seq=0)["open_calls"]
    assert (pending["call_id"], pending["state"]) == (asked["call_id"], "awaiting_approval")
    second.decide(asked, "approve")
    second.result(second.expect("tool_call", requires_approval=False), {"success": True})
    assert second.idle() == "Written"


def test_a_replayed_call_is_executed_only_if_it_is_open(ide: Open, model: ScriptedModel) -> None:
    read = [call("read_file", path=path) for path in ("a", "b")]
    first = ide("replayed-calls", extensions=True)
    settled = first.call_for(model.script("replayed", Says("", read), Says("Read")))
    waiting = first.expect("tool_call")
    first.result(settled, {"content": ""})
    first.socket.close()
    second = ide("replayed-calls", extensions=True)

    def replayed(asked: Any) -> Any:
        second.request("resume", last_seq=0)
        return {frame["call_id"]: frame for frame in second.of_type("tool_call") if "seq" in frame}[asked["call_id"]]

    # When the server has taken the result, and knows that the first connection is gone.
    until(lambda: replayed(settled) == {**settled, "execute": False} and replayed(waiting) == waiting)
    second.result(waiting, {"content": ""})
    assert second.idle() == "Read"


def test_all_but_its_sender_are_told_what_became_of_a_call(ide: Open, model: ScriptedModel) -> None:
    first, second = ide("settled", extensions=True), ide("settled", extensions=True)
    asked = [WRITE, call("delete_file", path="b"), *[call("read_file", path=path) for path in "cde"]]
    first.say(model.script("settled", Says("", asked), Says("Done")))
    edited, refused, small, large, failed = [first.expect("tool_call") for _ in asked]
    second.expect("agent_status", status="waiting_approval")
    second.decide(edited, "edit", modified_arguments={"path": "a", "content": "better"})
    second.decide(refused, "reject", feedback="Not this one")
    first.result(first.expect("tool_call", call_id=edited["call_id"], requires_approval=False), {"success": True})
    first.result(small, {"content": "short"})
    first.result(large, {"content": "long " * 6_440})
    first.fail(failed, {"code": "FILE_NOT_FOUND", "message": "no such file"})
    third = ide("settled")
    for session in (first, second):
        session.idle()
        # The results were taken at the same time, and who took one may tell of it after another's turn has ended.
        while len(session.of_type("call_update")) < len(asked):
            session.expect("call_update")
    third.request("resume", last_seq=0)

    def told(session: Any) -> Any:
        return {frame["call_id"]: frame for frame in session.of_type("call_update")}

    expected = {
        edited["call_id"]: {
            "state": "completed",
            "decision": "edit",
            "arguments": {"path": "a", "content": "better"},
            "result": {"success": True},
        },
        refused["call_id"]: {"state": "rejected", "decision": "reject", "feedback": "Not this one"},
        small["call_id"]: {"state": "completed", "result": {"content": "short"}},
        failed["call_id"]: {"state": "failed", "error": {"code": "FILE_NOT_FOUND", "message": "no such file"}},
    }
    for call_id, fields in expected.items():
        state = {name: told(third)[call_id][name] for name in ("type", "call_id", "state", "seq", "at")}
        assert told(third)[call_id] == state | fields
        sender, other = (second, first) if call_id == refused["call_id"] else (first, second)
        assert told(sender)[call_id] == state
        assert told(other)[call_id] == state | fields
    assert "payload_url" not in told(first)[large["call_id"]]
    for session in (second, third):
        assert fetched(told(session)[large["call_id"]]) == {"result": {"content": "long " * 6_440}}


def test_a_client_without_extensions_does_not_see_what_is_for_humans(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    asked = session.call_for(model.script("plain", Says("", [WRITE]), Says("Written")))
    assert not asked.keys() & {"title", "kind", "paths", "remember", "execute"}


def test_resume_beyond_the_log_requires_a_resync(ide: Open) -> None:
    session = ide("ahead")
    session.send("resume", last_seq=99)
    assert session.receive() == {"type": "resync_required", "last_seq": 0}


def test_a_session_that_interrupts_answers_the_newest_message(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    session.request("session_config", when_busy="interrupt")
    go = threading.Event()
    session.say(model.script("old", Says("old " * 50, halfway=go)))
    session.expect("assistant_message")
    session.say(model.script("new", Says("New answer")))
    assert session.expect("turn_end")["reason"] == "cancelled"
    go.set()
    session.expect("turn_end", reason="completed")
    assert session.text().endswith("New answer")


def test_an_unknown_agent_is_refused(ide: Open) -> None:
    session = ide()
    session.send("switch_agent", agent_type="king")
    error = session.expect("error")
    assert (error["error_code"], error["details"]) == ("INVALID_ARGUMENTS", {"field": "agent_type"})


def test_switching_with_content_sends_it_to_the_new_agent(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    session.send("switch_agent", agent_type="universal", content=model.script("switched", Says("At your service")))
    assert session.idle() == "At your service"


@pytest.mark.parametrize("last_seq", ["abc", "-1", "1.5", "9" * 30])
def test_an_invalid_last_seq_is_refused_on_connecting(ide: Open, last_seq: int) -> None:
    with pytest.raises(InvalidStatus, match="400"):
        ide("wrong-position", extensions=True, last_seq=last_seq)


def test_a_connection_with_last_seq_gets_what_it_missed(ide: Open, model: ScriptedModel) -> None:
    first = ide("connected-again", extensions=True)
    first.ask(model.script("missed", Says("What you have missed")))
    second = ide("connected-again", extensions=True, last_seq=1)
    second.expect("resumed")
    assert second.frames[:-1] == first.frames[1:]


@pytest.fixture
def demo_ide(demo_cloud: LocalCloud) -> Iterator[Open]:
    yield from opener(demo_cloud)


def test_a_session_is_named_by_its_first_answer(demo_ide: Open) -> None:
    """With the demonstration model."""
    session = demo_ide("titled", extensions=True)
    session.say("Hello there, what can you do for me today, please?")
    assert session.expect("turn_end")["title"] == "Hello there, what can you do for me…"
    later = demo_ide("titled")
    assert later.request("hello")["title"] == "Hello there, what can you do for me…"
