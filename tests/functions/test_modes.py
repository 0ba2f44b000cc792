"""What the model is sent in each mode, and what a switch costs."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from codelab.protocol.tools import CATALOGUE

from tests.fakes.aws.recorder import POST, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions.system import System

OWN = [
    {"name": "ide_deploy", "description": "Deploys."},
    {"name": "ide_look", "description": "Looks.", "read_only": True},
]
PLAN = call("propose_plan", steps=["Mend a.py"])


def switch(system: System, mode: str) -> None:
    system.send("c1", "control", type="session_config", mode=mode)


def schema(body: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["response_format"]["json_schema"]["schema"]
    return found


def offered(body: Mapping[str, Any]) -> set[str]:
    """The tools of the schema, which is the only place where the model reads of them."""
    told = json.dumps(schema(body))
    return {name for name in (*CATALOGUE, "ide_deploy", "ide_look") if f'"{name}"' in told}


@pytest.mark.parametrize("agent", ["universal", "orchestrator"])
def test_the_model_reads_of_no_tool_that_its_mode_forbids(extended: System, agent: str) -> None:
    extended.send("c1", "control", type="hello", capabilities={"tools": OWN, "tools_supported": list(CATALOGUE)})
    chosen = {"agent": "coder"} if agent == "orchestrator" else {}
    tools = {}
    for mode in ("code", "ask", "plan", "autonomous"):
        switch(extended, mode)
        extended.send("c1", "switch_agent", agent_type=agent)
        extended.model.answers.append(json.dumps({**chosen, "message": "Hi", "calls": []}))
        extended.say("c1")
        tools[mode] = offered(extended.model.requests[-1])
    reading = {name for name in tools["code"] - {"ide_look"} if name in CATALOGUE and CATALOGUE[name].risk == "read"}
    assert {"write_file", "run_command", "update_plan"} <= tools["code"]
    assert tools["ask"] - {"ide_look"} == reading
    assert tools["plan"] - {"ide_look"} == reading - {"update_plan"} | {"propose_plan"}
    assert tools["autonomous"] == tools["code"]


def test_modes_that_act_begin_the_prompt_alike_and_one_that_reads_keeps_its_own(extended: System) -> None:
    begins: dict[str, list[str]] = {}
    extended.ask("c1", "Hi")  # the first answer has the title
    for mode in ("code", "manual", "plan", "ask", "autonomous", "plan", "ask", "code"):
        switch(extended, mode)
        extended.ask("c1", "Hi")
        body = extended.model.requests[-1]
        begins.setdefault(mode, []).append(json.dumps([schema(body), body["messages"][0]]))
    assert all(len(set(each)) == 1 for each in begins.values())
    assert begins["code"][0] == begins["manual"][0] == begins["autonomous"][0]
    assert len({each[0] for each in begins.values()}) == 3
    assert "# Mode: plan" in begins["plan"][0]
    assert "# Mode" not in begins["code"][0]


def test_a_switch_within_a_turn_changes_the_next_step(extended: System) -> None:
    (call_id,) = extended.ask("c1", "", call("read_file", path="a.py"))
    switch(extended, "plan")
    extended.model.says("", PLAN)
    extended.send("c1", "tool_result", call_id=call_id, result={"content": "x"})
    extended.run_step()
    assert "propose_plan" in offered(extended.model.requests[-1])
    assert "write_file" not in offered(extended.model.requests[-1])


def test_a_switch_is_one_read_one_transaction_two_frames_and_their_report(extended: System) -> None:
    extended.ask("c1", "Hi")
    extended.aws.calls.clear()
    switch(extended, "plan")
    assert Counter(extended.aws.calls) == {READ_MANY: 1, TRANSACTION: 1, POST: 2, UPDATE: 1}
    assert {frame["type"] for frame in extended.aws.frames("c1")[-2:]} == {"session_info", "mode_switched"}
