"""Every example of a call and its result. The server's frames have the documents' fields."""

import itertools
from typing import Any

import pytest
from codelab.protocol.tools import find_tool

from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.protocol.conformance.conftest import Connect
from tests.protocol.conformance.forms import like
from tests.protocol.conformance.seed_examples import Example, arguments_of, examples, of_kind
from tests.protocol.conformance.test_frames import as_told, ids, told

CALLS = [example for example in of_kind("call", "server") if "tool_name" in example.value]


@pytest.mark.parametrize("profile", ["", pytest.param("args", marks=pytest.mark.deep)])
@pytest.mark.parametrize("example", CALLS, ids=ids)
def test_a_call_has_both_names_of_its_arguments(
    connect: Connect, scripted: ScriptedModel, example: Example, profile: str
) -> None:
    tool, given = example.value["tool_name"], arguments_of(example.value)
    client = connect(**({"profile": profile} if profile else {}))
    frame = client.call_for(scripted.script("call", Says("", [call(tool, **given)])))
    sent = find_tool(tool).check(given)  # Without the leading slash of two documents.
    assert (frame["tool_name"], frame["arguments"]) == (tool, sent)
    assert frame.get("args") == (sent if profile == "args" else None)
    assert isinstance(frame["call_id"], str)
    assert frame["requires_approval"] is example.value.get("requires_approval", find_tool(tool).approval)


def with_results() -> list[tuple[Example, Any]]:
    """Calls followed by a result without a frame."""
    pairs = itertools.pairwise(examples())
    return [(example, following.value["result"]) for example, following in pairs if following.kind == "result"]


@pytest.mark.parametrize(("example", "result"), with_results(), ids=[found.id for found, _ in with_results()])
def test_its_result_reaches_the_model(
    connect_in_dialect: Connect, scripted: ScriptedModel, example: Example, result: Any
) -> None:
    tool = example.value["tool_name"]
    client = connect_in_dialect()
    marker = scripted.script(example.id, Says("", [call(tool, **arguments_of(example.value))]), Says("Seen"))
    asked = client.grant(client.call_for(marker))
    client.result(asked, result)
    if "exit_code" in result and result["exit_code"] is None:  # "streaming": a piece of output; the command continues.
        result = {**result, "stdout": result["stdout"] + "All passed\n", "exit_code": 0}
        client.result(asked, result)
    client.idle()
    assert told(scripted, example.id) == as_told(tool, result)
    assert len(scripted.requests[example.id]) == 2


def test_server_frames_have_the_documents_form(connect: Connect, scripted: ScriptedModel) -> None:
    """A conversation with a text, a call, an approval and a failure has a frame like each example."""
    client = connect(profile="args")
    write = call("write_file", path="src/config.json", content="{}")
    answers = Says("Reading", [call("read_file", path="a")]), Says("", [write]), Says("Done")
    client.result(client.call_for(scripted.script("forms", *answers)), {"content": "x"})
    client.decide(client.expect("tool_call"), "reject")
    client.idle()
    client.say(scripted.script("failing", Says(status=400)))
    client.expect("error")
    client.idle()
    assert {"assistant_message", "tool_call", "agent_status", "error"} <= {frame["type"] for frame in client.frames}
    for example in of_kind("server"):
        # Arguments differ by tool.
        expected = {name: {} if name in ("arguments", "args") else value for name, value in example.value.items()}
        assert any(like(expected, frame) for frame in client.of_type(example.value["type"])), example.id


STATUSES = ["thinking", "executing_tool", "thinking", "waiting_approval", "executing_tool", "thinking", "error", "idle"]


def test_the_five_statuses_are_sent_at_the_right_times(connect: Connect, scripted: ScriptedModel) -> None:
    client = connect()
    write = call("write_file", path="a", content="")
    script = scripted.script("statuses", Says("", [call("read_file", path="a")]), Says("", [write]), Says(status=400))
    client.result(client.call_for(script), {"content": ""})
    client.result(client.grant(client.expect("tool_call")), {"success": True})
    client.idle()
    statuses = sorted(client.of_type("agent_status"), key=lambda frame: frame["seq"])
    assert [frame["status"] for frame in statuses] == STATUSES
    assert all(isinstance(frame["message"], str) for frame in statuses)
