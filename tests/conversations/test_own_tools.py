"""Clients declare tools of their own, and the agent uses them like any other."""

import json
from typing import Any

import pytest

from tests.conftest import Open
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel

DEPLOY = {
    "name": "ide.deploy",
    "description": "Deploy the project to a stage.",
    "parameters": {
        "type": "object",
        "properties": {
            "stage": {"$ref": "#/$defs/Stage"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["stage"],
        "$defs": {"Stage": {"enum": ["dev", "prod"]}},
    },
}
STAGES = {"name": "ide.stages", "description": "List the stages.", "read_only": True}


@pytest.fixture
def session(ide: Open) -> Ide:
    opened = ide()
    opened.request("hello", client={"name": "test"}, capabilities={"tools": [DEPLOY, STAGES]})
    return opened


def test_a_clients_own_tool_is_approved_and_executed(session: Ide, model: ScriptedModel) -> None:
    deploy = call("ide.deploy", stage="dev", labels=[{"key": "team", "value": "a"}])
    asked = session.call_for(model.script("deploy", Says("", [deploy]), Says("Deployed")))
    assert (asked["tool_name"], asked["requires_approval"], asked["risk"]) == ("ide.deploy", True, "execute")
    assert asked["arguments"] == {"stage": "dev", "labels": {"team": "a"}}
    session.decide(asked, "approve")
    session.result(session.expect("tool_call", requires_approval=False), {"url": "https://dev.example.com"})
    assert session.idle() == "Deployed"
    assert "https://dev.example.com" in str(model.requests["deploy"][-1]["messages"])


def test_a_read_only_own_tool_is_executed_without_approval(session: Ide, model: ScriptedModel) -> None:
    asked = session.call_for(model.script("stages", Says("", [call("ide.stages")]), Says("Two")))
    assert (asked["tool_name"], asked["arguments"], asked["requires_approval"]) == ("ide.stages", {}, False)
    session.result(asked, ["dev", "prod"])
    assert session.idle() == "Two"


def test_a_hello_with_an_invalid_tool_is_refused_as_a_whole(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    taken = {**DEPLOY, "name": "write_to_file"}
    session.send("hello", capabilities={"tools": [STAGES, taken]})
    error = session.receive()
    assert (error["error_code"], error["details"]["field"]) == ("INVALID_ARGUMENTS", "capabilities.tools.1.name")
    session.request("hello", capabilities={"tools": [STAGES]})
    assert session.call_for(model.script("after", Says("", [call("ide.stages")])))["tool_name"] == "ide.stages"


@pytest.mark.parametrize(("agent", "offered"), [("ask", {"ide.stages"}), ("coder", {"ide.deploy", "ide.stages"})])
def test_an_agent_is_offered_only_own_tools_that_it_may_use(
    session: Ide, model: ScriptedModel, agent: str, offered: Any
) -> None:
    session.request("switch_agent", agent_type=agent)
    session.ask(model.script("agent", Says("Ready")))
    (asked,) = model.requests["agent"]
    assert {name for name in ("ide.deploy", "ide.stages") if f'"{name}"' in json.dumps(asked)} == offered
