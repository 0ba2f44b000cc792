"""Every example of a client's frame, sent as it stands and in every dialect.

An example's `call_id` is of nobody's session; with the id of a call that is open it settles or decides that call, and
what the model is told of it shows how it was understood.
"""

import json
from typing import Any

import pytest
from codelab.protocol.errors import known_code
from codelab.protocol.tools import find_tool

from tests.protocol.conformance.client import Client
from tests.protocol.conformance.conftest import Connect
from tests.protocol.conformance.seed_examples import Example, arguments_of, frames, of_kind
from tests.scripted_model import Says, ScriptedModel, call

RESULTS, DECISIONS = frames("tool_result"), frames("hitl_decision")


def ids(example: Example) -> str:
    return example.id


def told(model: ScriptedModel, name: str) -> Any:
    """What the model reads as the result of its only call."""
    (content,) = [m["content"] for m in model.requests[name][-1]["messages"] if m["role"] == "tool"]
    return json.loads(content)


@pytest.mark.parametrize("example", frames("user_message"), ids=ids)
def test_a_user_message_is_answered(connect_in_dialect: Connect, scripted: ScriptedModel, example: Example) -> None:
    client = connect_in_dialect()
    client.send_example(example)
    client.idle()
    assert client.text() == "unscripted"
    assert client.of_type("error") == []


def test_the_model_that_there_is_answers(connect: Connect) -> None:
    """Of a deployed system it shows that the model can be called: whatever that says, or does, is right."""
    client = connect()
    client.say("Say hello in one word.")
    answer = client.receive(120)
    while answer["type"] not in ("assistant_message", "tool_call", "error"):
        answer = client.receive(120)
    assert answer["type"] != "error", answer


@pytest.mark.parametrize("example", RESULTS + DECISIONS, ids=ids)
def test_a_frame_for_a_call_that_is_not_there_is_refused_by_its_call_id(
    connect_in_dialect: Connect, example: Example
) -> None:
    client = connect_in_dialect()
    client.send_example(example)
    error = client.receive()
    assert (error["type"], error["error_code"]) == ("error", "INVALID_CALL_ID")
    assert error["call_id"] == example.value["call_id"]
    assert error["content"] == error["message"] != ""
    client.send("ping", n=1)
    assert client.receive().items() >= {"type": "pong", "n": 1}.items()


@pytest.mark.parametrize("example", frames("context_update"), ids=ids)
def test_a_context_update_is_accepted(connect_in_dialect: Connect, example: Example) -> None:
    client = connect_in_dialect(example.value.get("session_id"), extensions=1)
    client.send_example(example)
    done = client.expect("context_updated")
    assert done["action"] == example.value["action"]
    assert client.of_type("error") == []


def call_of(example: Example) -> tuple[str, dict[str, Any]]:
    """The call that a result is of: the document's last one of that id before it; some show none."""
    before = [
        found.value
        for found in of_kind("server")
        if found.document == example.document
        and found.n < example.n
        and found.value.get("call_id") == example.value["call_id"]
    ]
    return (before[-1]["tool_name"], arguments_of(before[-1])) if before else ("read_file", {"path": "src/main.dart"})


@pytest.mark.parametrize("example", RESULTS, ids=ids)
def test_a_result_settles_an_open_call_and_the_model_is_told(
    connect_in_dialect: Connect, scripted: ScriptedModel, example: Example
) -> None:
    tool, arguments = call_of(example)
    client = connect_in_dialect()
    client.say(scripted.script(example.id, Says("", [call(tool, **arguments)]), Says("Seen")))
    asked = client.grant(client.expect("tool_call"))
    client.send_example(example, call_id=asked["call_id"])
    client.idle()
    assert client.text() == "Seen"
    seen, sent = told(scripted, example.id), example.value
    if "result" in sent:
        assert seen == find_tool(tool).result.normal(sent["result"]) == sent["result"]
    elif isinstance(sent["error"], str):
        code = known_code(sent.get("error_code", "EXECUTION_FAILED"))
        assert seen == {"error": {"code": code.value, "message": sent["error"]}}
    else:
        assert seen == {"error": sent["error"]}


# The calls that the documents' decisions are about have absolute and relative paths.
ABSOLUTE = {"path": "/src/config.json", "content": '{"debug": true}'}


def awaiting(client: Client, model: ScriptedModel, name: str) -> dict[str, Any]:
    client.say(model.script(name, Says("", [call("write_file", **ABSOLUTE)]), Says("Done")))
    asked = client.expect("tool_call")
    assert asked["requires_approval"] is True
    assert asked["arguments"] == {**ABSOLUTE, "path": "src/config.json"}
    return asked


@pytest.mark.parametrize("example", DECISIONS, ids=ids)
def test_a_decision_is_carried_out(connect_in_dialect: Connect, scripted: ScriptedModel, example: Example) -> None:
    client, sent = connect_in_dialect(), example.value
    asked = awaiting(client, scripted, example.id)
    client.send_example(example, call_id=asked["call_id"])
    if sent["decision"] == "reject":
        client.idle()
        assert told(scripted, example.id) == {"status": "rejected", "feedback": sent["feedback"]}
        assert len(client.of_type("tool_call")) == 1
        return
    granted = client.expect("tool_call")
    assert (granted["call_id"], granted["requires_approval"]) == (asked["call_id"], False)
    wanted = sent.get("modified_arguments", ABSOLUTE)
    assert granted["arguments"] == {**wanted, "path": wanted["path"].removeprefix("/")}
    client.result(granted, {"success": True})
    client.idle()
    seen = told(scripted, example.id)
    if sent["decision"] == "edit":
        assert seen == {"edited_arguments": granted["arguments"], "result": {"success": True}}
    else:
        assert seen == {"success": True}


def test_the_public_ide_approves_by_executing(connect_in_dialect: Connect, scripted: ScriptedModel) -> None:
    """It never sends a decision: a result for a call that awaits approval is one."""
    client = connect_in_dialect()
    asked = awaiting(client, scripted, "implicit")
    client.result(asked, {"success": True})
    client.idle()
    assert told(scripted, "implicit") == {"success": True}
    assert client.text() == "Done"
    assert client.of_type("error") == []


def test_the_user_chooses_an_agent_and_says_something_to_it(
    connect_in_dialect: Connect, scripted: ScriptedModel
) -> None:
    """WSSwitchAgent and WSAgentSwitched have a name and no example; these are their fields in the public IDE."""
    client = connect_in_dialect()
    client.send("switch_agent", agent_type="coder", content=scripted.script("switch", Says("Here")), reason="To code")
    client.idle()
    assert client.text() == "Here"
    (switched,) = client.of_type("agent_switched")
    assert (switched["to_agent"], switched["reason"]) == ("coder", "To code")
    assert switched["metadata"].items() <= switched.items()
    assert {"from_agent", "to_agent", "reason", "timestamp"} <= switched["metadata"].keys()
