"""Subagents in the functions: what they are asked with, what they cost, and that nothing of them is left."""

import json
from collections import Counter
from typing import Any

from codelab.protocol.tools import CATALOGUE

from tests.fakes.aws.recorder import INVOKE, POST, READ, READ_MANY, TRANSACTION
from tests.fakes.model.script import call
from tests.functions.system import System

DELEGATE = call("delegate", agent="explore", task="Where is x set?", files=["a.py"])
READ_A = call("read_file", path="a.py")


def delegate(system: System) -> str:
    """The agent delegates. Returns the id of its call."""
    system.send("c1", "control", type="hello", capabilities={"tools_supported": list(CATALOGUE)})
    [call_id] = system.ask("c1", "Looking. ", DELEGATE)
    return call_id


def answer(system: System, message: str, *calls: dict[str, Any]) -> None:
    """Run the step that was invoked last, with this answer."""
    system.model.says(message, *calls)
    system.run_step()


def test_a_subagent_reads_and_answers_through_the_table(extended: System) -> None:
    call_id = delegate(extended)
    child = f"s1/{call_id}"
    _, payload = extended.aws.last_invoke
    assert payload["session_id"] == child
    answer(extended, "", READ_A)
    [frame] = [frame for frame in extended.aws.frames("c1") if frame["type"] == "tool_call"]
    assert frame["parent_call_id"] == call_id
    extended.send("c1", "tool_result", call_id=frame["call_id"], result={"content": "x = 1"})
    assert extended.aws.last_invoke[1]["session_id"] == child
    answer(extended, "In a.py, line 1.")
    assert extended.aws.last_invoke[1]["session_id"] == "s1"
    answer(extended, "In a.py.")
    assert extended.aws.frames("c1")[-1]["status"] == "idle"
    assert extended.history()[-2:] == [("tool", "In a.py, line 1."), ("assistant", "In a.py.")]
    extended.check_permissions()


def test_nothing_of_it_is_left(extended: System) -> None:
    call_id = delegate(extended)
    answer(extended, "In a.py, line 1.")
    assert any(pk.endswith(f"/{call_id}") for pk, _ in extended.all_keys())
    extended.sweep(later_s=400)
    assert not any("/" in pk for pk, _ in extended.all_keys())


def test_it_is_asked_with_its_task_alone(extended: System) -> None:
    delegate(extended)
    answer(extended, "In a.py, line 1.")
    told = json.dumps(extended.model.requests[-1], ensure_ascii=False)
    assert "Where is x set?\\n\\nFiles to begin with: a.py" in told
    assert "You look things up" in told
    assert "hello" not in told
    assert '"write_file"' not in told
    assert '"delegate"' not in told


def test_no_list_has_it_and_no_caller_reaches_it(extended: System) -> None:
    call_id = delegate(extended)
    status, body = extended.http("GET", "/sessions")
    assert status == 200
    assert [session["session_id"] for session in body["sessions"]] == ["s1"]
    for path in (f"/sessions/s1%2F{call_id}", f"/sessions/s1/{call_id}", f"/chat/history/s1%2F{call_id}"):
        assert extended.http("GET", path)[0] in (400, 404, 422), path


def test_what_it_costs(extended: System) -> None:
    """Each of its events is one transaction of both sessions."""
    extended.send("c1", "control", type="hello", capabilities={"tools_supported": list(CATALOGUE)})
    extended.model.says("Looking. ", DELEGATE)
    extended.send("c1", "user_message", content="hello")
    extended.run_step()
    begun = Counter(extended.aws.calls)
    answer(extended, "In a.py, line 1.")
    ended = Counter(extended.aws.calls)
    assert begun[INVOKE] == ended[INVOKE] == 1
    assert begun[TRANSACTION] == 1, "the answer, and the child's beginning"
    assert ended[TRANSACTION] == 1, "the child's answer and end, and the parent's next step"
    assert ended[POST] == 1, "the end of the child"
    assert (ended[READ], ended[READ_MANY]) == (2, 2), "the parent, and the call"


def test_an_agent_of_the_project_is_asked_for_an_object_until_it_gives_one(extended: System) -> None:
    reviewer = {"name": "reviewer", "description": "Reviews.", "prompt": "You are strict.", "tools": ["read_file"]}
    extended.send("c1", "control", type="hello", capabilities={"tools_supported": list(CATALOGUE)}, agents=[reviewer])
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    delegation = call("delegate", agent="reviewer", task="Where is x set?", result_schema=schema)
    extended.ask("c1", "Looking. ", delegation)
    answer(extended, "", READ_A)
    frame = extended.aws.frames("c1")[-1]
    assert frame["type"] == "tool_call"
    extended.send("c1", "tool_result", call_id=frame["call_id"], result={"content": "x = 1"})
    extended.model.says("I have it.")
    extended.model.answers.append(json.dumps({"calls": [], "result": {"x": 1}}))
    extended.run_step()
    told = [json.dumps(request, ensure_ascii=False) for request in extended.model.requests[-2:]]
    assert all("You are strict." in request for request in told)
    assert "neither calls nor a result" in told[1], "it is told what is missing"
    answer(extended, "In a.py.")
    assert extended.history()[-2:] == [("tool", '{"x":1}'), ("assistant", "In a.py.")]
    extended.check_permissions()
