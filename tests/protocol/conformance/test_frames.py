"""Every example of a client frame, sent unchanged and in every dialect.

An example's `call_id` is unknown. With the id of an open call, the frame settles or decides that call, and the model's
context shows how the server understood it.
"""

import json
from typing import Any

import pytest
from codelab.protocol.errors import known_code
from codelab.protocol.tools import canonical_name, find_tool
from codelab.turns.result_texts import text_of

from tests.fakes.ide.dialects import Client
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.fakes.model.told_results import told_results
from tests.protocol.conformance.conftest import Connect
from tests.protocol.conformance.seed_examples import Example, arguments_of, frames, of_kind

RESULTS, DECISIONS = frames("tool_result"), frames("hitl_decision")


def ids(example: Example) -> str:
    return example.id


def told(model: ScriptedModel, name: str) -> Any:
    """The result of the model's only call in its context: the value of its JSON, or a text (see `result_texts`)."""
    (content,) = told_results(model.requests[name][-1]["messages"])
    return json.loads(content) if content.startswith(("{", '"')) else content


def as_told(tool: str, result: Any) -> Any:
    """A result of the tool as `told` returns it."""
    return text_of(canonical_name(tool), result) or result


@pytest.mark.parametrize("example", frames("user_message"), ids=ids)
def test_a_user_message_is_answered(connect_in_dialect: Connect, scripted: ScriptedModel, example: Example) -> None:
    client = connect_in_dialect()
    client.send_example(example)
    assert client.idle() == "unscripted"
    assert client.of_type("error") == []


def test_the_systems_own_model_answers(connect: Connect) -> None:
    """On a deployed system: the model can be called. Any answer is accepted."""
    client = connect()
    client.say("Say hello in one word.")
    while (answer := client.receive(120))["type"] not in ("assistant_message", "tool_call", "error"):
        pass
    assert answer["type"] != "error", answer


@pytest.mark.parametrize("example", RESULTS + DECISIONS, ids=ids)
def test_frames_for_unknown_calls_are_refused_with_their_call_id(connect_in_dialect: Connect, example: Example) -> None:
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
    """The call of a result: the document's last one with that id before it, if there is one."""
    before = [
        found.value
        for found in of_kind("server")
        if found.document == example.document
        and found.n < example.n
        and found.value.get("call_id") == example.value["call_id"]
    ]
    return (before[-1]["tool_name"], arguments_of(before[-1])) if before else ("read_file", {"path": "src/main.dart"})


@pytest.mark.parametrize("example", RESULTS, ids=ids)
def test_a_result_settles_its_call_and_reaches_the_model(
    connect_in_dialect: Connect, scripted: ScriptedModel, example: Example
) -> None:
    tool, arguments = call_of(example)
    client = connect_in_dialect()
    asked = client.call_for(scripted.script(example.id, Says("", [call(tool, **arguments)]), Says("Seen")))
    client.send_example(example, call_id=client.grant(asked)["call_id"])
    assert client.idle() == "Seen"
    seen, sent = told(scripted, example.id), example.value
    if "result" in sent:
        assert find_tool(tool).result.normal(sent["result"]) == sent["result"]
        assert seen == as_told(tool, sent["result"])
    elif isinstance(sent["error"], str):
        code = known_code(sent.get("error_code", "EXECUTION_FAILED"))
        assert seen == {"error": {"code": code.value, "message": sent["error"]}}
    else:
        assert seen == {"error": sent["error"]}


# The calls in the documents' decisions have absolute and relative paths.
ABSOLUTE = {"path": "/src/config.json", "content": '{"debug": true}'}


def awaiting(client: Client, model: ScriptedModel, name: str) -> dict[str, Any]:
    asked = client.call_for(model.script(name, Says("", [call("write_file", **ABSOLUTE)]), Says("Done")))
    assert (asked["requires_approval"], asked["arguments"]) == (True, {**ABSOLUTE, "path": "src/config.json"})
    return asked


@pytest.mark.parametrize("example", DECISIONS, ids=ids)
def test_decisions_are_executed(connect_in_dialect: Connect, scripted: ScriptedModel, example: Example) -> None:
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
    edited = {"edited_arguments": granted["arguments"], "result": {"success": True}}
    assert told(scripted, example.id) == (edited if sent["decision"] == "edit" else {"success": True})


def test_a_result_of_the_public_ide_counts_as_approval(connect_in_dialect: Connect, scripted: ScriptedModel) -> None:
    """It never sends a decision; its result for a call that awaits approval counts as one."""
    client = connect_in_dialect()
    asked = awaiting(client, scripted, "implicit")
    client.result(asked, {"success": True})
    assert client.idle() == "Done"
    assert told(scripted, "implicit") == {"success": True}
    assert client.of_type("error") == []


def test_switch_agent_with_content_switches_and_sends_the_message(
    connect_in_dialect: Connect, scripted: ScriptedModel
) -> None:
    """The documents only name WSSwitchAgent and WSAgentSwitched; these are their fields in the public IDE."""
    client = connect_in_dialect()
    client.send("switch_agent", agent_type="coder", content=scripted.script("switch", Says("Here")), reason="To code")
    assert client.idle() == "Here"
    (switched,) = client.of_type("agent_switched")
    assert (switched["to_agent"], switched["reason"]) == ("coder", "To code")
    assert switched["metadata"].items() <= switched.items()
    assert {"from_agent", "to_agent", "reason", "timestamp"} <= switched["metadata"].keys()
