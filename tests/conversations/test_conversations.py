"""Whole conversations over the WebSocket, with a scripted model."""

import json
import threading
from typing import Any

import pytest
from codelab_local import LocalCloud
from codelab_local.testing import FunctionError

from tests.conftest import Open
from tests.fakes.ide.ide import once, text_of
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.fakes.model.told_results import told_results
from tests.sampling import sampled

READ = call("read_file", path="a.py")


def test_text_streams_and_ends_with_one_final(ide: Open, model: ScriptedModel) -> None:
    text = "Слово за словом 😀 " * 40
    session = ide()
    go = threading.Event()
    session.say(model.script("long", Says(text, delay=0.003, halfway=go)))
    session.expect("assistant_message")
    go.set()
    session.idle()
    messages = session.of_type("assistant_message")
    assert session.text() == text
    assert [frame["is_final"] for frame in messages] == [False] * (len(messages) - 1) + [True]
    assert all(frame["content"] == frame["token"] for frame in messages)
    assert len({frame["message_id"] for frame in messages}) == 1
    assert len(messages) >= 2, "the text came in one piece"


def test_text_reaches_the_client_while_the_model_is_still_writing(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    go = threading.Event()
    session.say(model.script("slow", Says("one two three four", piece=6, halfway=go)))
    first = session.expect("assistant_message")
    assert "four" not in first["token"]
    go.set()
    assert session.idle() == "one two three four"


def test_frames_are_numbered_from_one_without_gaps(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    for _ in range(3):
        session.ask(model.script("short", Says("Hello there")))
    assert [frame["seq"] for frame in session.frames] == list(range(1, len(session.frames) + 1))


def test_extension_frames_go_only_to_clients_that_ask(ide: Open, model: ScriptedModel) -> None:
    plain, extended = ide("both"), ide("both", extensions=True)
    plain.ask(model.script("hi", Says("Hi")))
    extended.idle()
    assert {frame["type"] for frame in plain.frames} == {"agent_status", "assistant_message"}
    (end,) = extended.of_type("turn_end")
    assert end["reason"] == "completed"
    assert end["usage"]["prompt_tokens"] == 100


def test_parallel_calls_settle_in_any_order_and_continue_once(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    reads = [call("read_file", path=f"{name}.py") for name in "abc"]
    session.say(model.script("three", Says("", reads), Says("All read")))
    calls = [session.expect("tool_call") for _ in reads]
    for asked in reversed(calls):
        session.result(asked, {"content": asked["arguments"]["path"]})
    assert session.idle() == "All read"
    assert len(model.requests["three"]) == 2
    results = [json.loads(result) for result in told_results(model.requests["three"][1]["messages"])]
    assert results == [{"content": "a.py"}, {"content": "b.py"}, {"content": "c.py"}]


def test_a_model_may_be_asked_for_native_calls(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    session.request("session_config", model="other", title="Two files")
    calls = [call("read_file", path="a.py"), call("git.diff", path="a.py")]
    session.say(model.script("native", Says("I look.", calls), Says("", [READ]), Says("Both read")))
    first, second = (session.expect("tool_call") for _ in calls)
    assert (first["tool_name"], first["arguments"]) == ("read_file", {"path": "a.py"})
    assert (second["tool_name"], second["arguments"]) == ("git.diff", {"path": "a.py"})
    session.result(second, {"diff": "-x"})
    session.result(first, {"content": "x"})
    session.result(session.expect("tool_call"), {"content": "x"})
    assert session.idle() == "I look.Both read"
    asked = model.requests["native"]
    assert all(body["tool_choice"] == "auto" and "response_format" not in body for body in asked)
    *_, answer, read, diff = asked[1]["messages"]
    assert [made["function"]["name"] for made in answer["tool_calls"]] == ["read_file", "git_diff"]
    assert [made["id"] for made in answer["tool_calls"]] == [read["tool_call_id"], diff["tool_call_id"]]
    assert (answer["content"], json.loads(read["content"])) == ("I look.", {"content": "x"})
    assert asked[2]["messages"][: len(asked[1]["messages"])] == asked[1]["messages"], "what caches have stays as it was"


@pytest.mark.parametrize("natively", [True, False])
def test_a_turn_may_end_without_a_word_after_results(ide: Open, model: ScriptedModel, natively: bool) -> None:
    name = f"without-a-word-{natively}"
    session = ide(name, extensions=True)
    session.request("session_config", **({"model": "other"} if natively else {}), title="Done")
    asked = session.call_for(model.script("done", Says("I look.", [READ]), Says("")))
    session.result(asked, {"content": "x"})
    assert session.idle() == "I look."
    [end] = session.of_type("turn_end")
    assert (end["reason"], "final_text_sha256" in end) == ("completed", False)
    assert len({frame["message_id"] for frame in session.of_type("assistant_message")}) == 1
    follower = ide(name, extensions=True)
    follower.send("resume", last_seq=0)
    follower.expect("resumed")
    assert (follower.text(), follower.of_type("turn_end")) == ("I look.", [end])
    assert len({frame["message_id"] for frame in follower.of_type("assistant_message")}) == 1
    assert session.ask(model.script("and then", Says("More"))) == "I look.More"
    assert session.ask(model.script("first", Says(""))) == "I look.More"
    assert session.of_type("error")[-1]["details"]["reason"] == "empty", "the user has asked, and gets no answer"


def test_arguments_that_the_model_left_null_do_not_reach_the_client(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    script = model.script("null", Says("", [call("list_files", path="src", recursive=None, pattern=None)]), Says("ok"))
    assert session.call_for(script)["arguments"] == {"path": "src"}


def test_arguments_reach_an_args_client_under_both_names(ide: Open, model: ScriptedModel) -> None:
    session = ide(profile="args")
    asked = session.call_for(model.script("args", Says("", [READ]), Says("ok")))
    assert asked["args"] == asked["arguments"] == {"path": "a.py"}


def test_a_message_during_a_turn_is_answered_after_it(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    go = threading.Event()
    session.say(model.script("first", Says("One", until=go)))
    session.expect("agent_status", status="thinking")
    session.say(model.script("second", Says("Two")), client_msg_id="m2")
    assert session.expect("queued")["client_msg_id"] == "m2"
    go.set()
    session.expect("turn_end")
    session.expect("turn_end")
    assert session.text() == "OneTwo"


def test_the_same_message_twice_is_answered_once(ide: Open, model: ScriptedModel) -> None:
    session = ide(extensions=True)
    for _ in range(2):
        session.say(model.script("once", Says("Only once")), client_msg_id="m1")
    session.idle()
    session.ask(model.script("more", Says("Next")))
    assert text_of(once(session.frames)) == "Only onceNext"


def test_a_failing_model_ends_only_the_turn(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    session.say(model.script("bad request", Says(status=400)))
    error = session.expect("error")
    assert (error["error_code"], error["retryable"]) == ("LLM_ERROR", False)
    assert error["content"] == error["message"]
    session.expect("agent_status", status="error")
    session.idle()
    assert session.ask(model.script("fine", Says("Fine again"))) == "Fine again"
    assert "bad request" in model.requests["fine"][0]["messages"][-1]["content"], "the unanswered message was lost"


def test_a_truncated_answer_is_an_error(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    session.say(model.script("cut", Says("This breaks off in the middle", cut=5)))
    error = session.expect("error")
    assert error["error_code"] == "LLM_ERROR"
    assert error["details"]["reason"] in ("truncated", "transport")
    session.idle()
    finals = [frame for frame in session.of_type("assistant_message") if frame["is_final"]]
    assert [frame.get("aborted") for frame in finals] == [True]


def test_two_connections_see_the_same_conversation_but_one_executes(ide: Open, model: ScriptedModel) -> None:
    first, second, simple = ide("shared", extensions=True), ide("shared", extensions=True), ide("shared")
    asked = first.call_for(model.script("shared", Says("Look", [READ]), Says("Seen")))
    shown = second.expect("tool_call")
    assert "execute" not in asked
    assert shown["execute"] is False
    for connection in (first, second, simple):  # Each has its own pace.
        connection.expect("agent_status", status="executing_tool")
    first.result(asked, {"content": "x"})
    for connection in (first, second, simple):
        assert connection.idle() == "LookSeen"
    assert simple.of_type("tool_call") == []


def test_any_connection_may_decide_and_the_executor_executes(ide: Open, model: ScriptedModel) -> None:
    first, second = ide("deciders"), ide("deciders")
    first.say(model.script("decide", Says("", [call("write_file", path="a", content="b")]), Says("Written")))
    first.expect("tool_call", requires_approval=True)
    second.decide(second.expect("tool_call", requires_approval=True), "approve")
    first.result(first.expect("tool_call", requires_approval=False), {"success": True})
    assert second.idle() == "Written"
    assert len(second.of_type("tool_call")) == 1


def test_an_open_call_is_sent_again_to_a_client_that_reconnects(ide: Open, model: ScriptedModel) -> None:
    first = ide("returning")
    asked = first.call_for(model.script("returning", Says("", [READ]), Says("Read")))
    first.socket.close()
    second = ide("returning")
    again = second.call_for(model.script("impatient", Says("Later")))
    assert again["call_id"] == asked["call_id"]
    assert again.get("execute", True)
    second.result(again, {"content": "x"})
    assert second.idle() == "ReadLater"


def test_sessions_do_not_mix(ide: Open, model: ScriptedModel) -> None:
    sessions = [ide() for _ in range(5)]
    for n, session in enumerate(sessions):
        session.say(model.script(f"mine {n}", Says(f"answer {n}", delay=0.005)))
    for n, session in enumerate(sessions):
        assert session.idle() == f"answer {n}"


BAD = [
    ("not json", "INVALID_FORMAT", None),
    ("[]", "INVALID_FORMAT", None),
    ("5", "INVALID_FORMAT", None),
    ("{}", "INVALID_TYPE", "type"),
    ('{"type":"nonsense"}', "INVALID_TYPE", "type"),
    ('{"type":"user_message"}', "MISSING_FIELD", "content"),
    ('{"type":"user_message","content":null}', "MISSING_FIELD", "content"),
    ('{"type":"user_message","content":[]}', "INVALID_ARGUMENTS", "content"),
    (json.dumps({"type": "user_message", "content": "x" * 10_001}), "INVALID_ARGUMENTS", "content"),
    ('{"type":"tool_result","call_id":"call_x","result":1}', "INVALID_CALL_ID", None),
    ('{"type":"tool_result","call_id":"call_x"}', "INVALID_ARGUMENTS", "result"),
    ('{"type":"hitl_decision","call_id":"call_x","decision":"approve"}', "INVALID_CALL_ID", None),
    ('{"type":"hitl_decision","call_id":"call_x","decision":"no"}', "INVALID_ARGUMENTS", "decision"),
]


@pytest.mark.parametrize(
    ("body", "code", "field"), sampled(BAD), ids=[f"{code}-{n}" for n, (_, code, _) in enumerate(BAD)]
)
def test_bad_input_is_refused_and_the_connection_keeps_working(
    ide: Open, model: ScriptedModel, body: Any, code: str, field: str
) -> None:
    session = ide()
    session.send_raw(body)
    error = session.receive()
    assert (error["type"], error["error_code"]) == ("error", code)
    assert error["content"] == error["message"] != ""
    assert error["details"].get("field") == field
    assert "seq" not in error
    assert session.ask(model.script("still", Says("Still here"))) == "Still here"


def test_a_bare_request_is_answered_by_the_same_function(cloud: LocalCloud, model: ScriptedModel) -> None:
    marker = model.script("bare", Says(raw='{"name": "main.dart", "size": null}'))
    properties = {"name": {"type": "string"}, "size": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}
    context = [{"role": "user", "content": f"Which file? {marker}"}]
    answer = cloud.invoke("llm_request", {"kind": "request", "context": context, "schema": schema})
    assert (answer["solution"], answer["strategy"]) == ({"name": "main.dart"}, "native")
    assert answer["usage"]["prompt"] == 100
    assert model.requests["bare"][0]["response_format"]["json_schema"]["strict"] is True


def test_an_invalid_bare_request_is_refused_with_the_place(cloud: LocalCloud) -> None:
    with pytest.raises(FunctionError, match="/context"):
        cloud.invoke("llm_request", {"kind": "request", "context": [], "schema": {"type": "object"}})
