"""A client's own tools, from its hello to the model and back: what is read and written for them."""

import json
from collections import Counter

from tests.functions.recorder import POST, READ_MANY, TRANSACTION
from tests.functions.system import System
from tests.scripted_model import call

DEPLOY = {
    "name": "deploy",
    "description": "Deploy the project to a stage.",
    "parameters": {
        "type": "object",
        "properties": {"stage": {"type": "string", "enum": ["dev", "prod"]}},
        "required": ["stage"],
    },
}


def hello(system: System, *tools: dict) -> None:
    body = json.dumps({"type": "hello", "capabilities": {"tools": tools}})
    system.send_raw("c1", "control", body)


def offered(system: System) -> str:
    """What the model was asked last, tools and all."""
    return json.dumps(system.model.requests[-1])


def test_a_hello_with_tools_is_one_read_one_transaction_and_its_answer(system: System) -> None:
    system.connect("c1", extensions=True)
    hello(system, DEPLOY)
    assert Counter(system.aws.calls) == {READ_MANY: 1, TRANSACTION: 1, POST: 1}
    assert [frame["type"] for frame in system.aws.frames("c1")] == ["session_info"]


def test_a_step_reads_the_tools_with_the_history(system: System) -> None:
    system.connect("c1", extensions=True)
    system.ask("c1", "Hi")
    without = Counter(system.aws.calls)
    hello(system, DEPLOY)
    system.ask("c1", "Hi again")
    assert Counter(system.aws.calls) == without
    assert "deploy" in offered(system)


def test_a_call_keeps_what_its_tool_was_declared_with(system: System) -> None:
    system.connect("c1", extensions=True)
    hello(system, DEPLOY)
    (call_id,) = system.ask("c1", "", call("deploy", stage="dev"))
    hello(system)  # withdrawn, while the call awaits approval
    system.send("c1", "hitl_decision", call_id=call_id, decision="edit", modified_arguments={"stage": "mars"})
    (error,) = system.aws.frames("c1")
    assert (error["error_code"], error["details"]["field"]) == ("INVALID_ARGUMENTS", "modified_arguments.stage")
    system.send("c1", "hitl_decision", call_id=call_id, decision="edit", modified_arguments={"stage": "prod"})
    (granted, *_) = [frame for frame in system.aws.frames("c1") if frame["type"] == "tool_call"]
    assert (granted["arguments"], granted["risk"]) == ({"stage": "prod"}, "execute")
    system.send("c1", "tool_result", call_id=call_id, result={"url": "https://prod.example.com"})
    assert json.loads(system.history()[-1][1])["result"] == {"url": "https://prod.example.com"}
    system.model.says("Deployed")
    system.run_step()
    assert "deploy the project to a stage" not in offered(system).lower()


def test_the_last_hello_that_names_tools_counts(system: System) -> None:
    system.connect("c1", extensions=True)
    hello(system, DEPLOY)
    system.send_raw("c1", "control", '{"type": "hello"}')
    system.ask("c1", "Hi")
    assert "deploy" in offered(system)
    hello(system, {**DEPLOY, "name": "roll_back"})
    system.ask("c1", "Hi")
    assert "roll_back" in offered(system)
    assert '"deploy"' not in offered(system)
    hello(system)
    system.ask("c1", "Hi")
    assert "roll_back" not in offered(system)


def test_a_client_can_withdraw_its_tools(system: System) -> None:
    system.connect("c1", extensions=True)
    hello(system, DEPLOY)
    hello(system)
    assert [frame["type"] for frame in system.aws.frames("c1")] == ["session_info"]
    system.ask("c1", "Hi")
    assert "deploy" not in offered(system)
