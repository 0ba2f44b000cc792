"""A client's own tools, from its hello to the model and back: what is read and written for them."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from codelab.llm.models import capabilities_of
from codelab.protocol.modes import offers
from codelab.protocol.tools import CATALOGUE, SEED
from codelab.turns import models

from tests.fakes.aws.recorder import POST, READ_MANY, TRANSACTION
from tests.fakes.model.script import call
from tests.functions.system import System

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


def test_a_hello_with_tools_is_one_read_one_transaction_and_its_answer(extended: System) -> None:
    hello(extended, DEPLOY)
    assert Counter(extended.aws.calls) == {READ_MANY: 1, TRANSACTION: 1, POST: 1}
    assert [frame["type"] for frame in extended.aws.frames("c1")] == ["session_info"]


def test_a_step_reads_the_tools_with_the_history(extended: System) -> None:
    extended.ask("c1", "Hi")
    without = Counter(extended.aws.calls)
    hello(extended, DEPLOY)
    extended.ask("c1", "Hi again")
    assert Counter(extended.aws.calls) == without
    assert "deploy" in offered(extended)


def test_a_call_keeps_what_its_tool_was_declared_with(extended: System) -> None:
    hello(extended, DEPLOY)
    (call_id,) = extended.ask("c1", "", call("deploy", stage="dev"))
    hello(extended)  # withdrawn, while the call awaits approval
    extended.send("c1", "hitl_decision", call_id=call_id, decision="edit", modified_arguments={"stage": "mars"})
    (error,) = extended.aws.frames("c1")
    assert (error["error_code"], error["details"]["field"]) == ("INVALID_ARGUMENTS", "modified_arguments.stage")
    extended.send("c1", "hitl_decision", call_id=call_id, decision="edit", modified_arguments={"stage": "prod"})
    (granted, *_) = [frame for frame in extended.aws.frames("c1") if frame["type"] == "tool_call"]
    assert (granted["arguments"], granted["risk"]) == ({"stage": "prod"}, "execute")
    extended.send("c1", "tool_result", call_id=call_id, result={"url": "https://prod.example.com"})
    assert json.loads(extended.history()[-1][1])["result"] == {"url": "https://prod.example.com"}
    extended.model.says("Deployed")
    extended.run_step()
    assert "deploy the project to a stage" not in offered(extended).lower()


def test_the_last_hello_that_names_tools_counts(extended: System) -> None:
    hello(extended, DEPLOY)
    extended.send_raw("c1", "control", '{"type": "hello"}')
    extended.ask("c1", "Hi")
    assert "deploy" in offered(extended)
    hello(extended, {**DEPLOY, "name": "roll_back"})
    extended.ask("c1", "Hi")
    assert "roll_back" in offered(extended)
    assert '"deploy"' not in offered(extended)
    hello(extended)
    extended.ask("c1", "Hi")
    assert "roll_back" not in offered(extended)


def test_a_client_can_withdraw_its_tools(extended: System) -> None:
    hello(extended, DEPLOY)
    hello(extended)
    assert [frame["type"] for frame in extended.aws.frames("c1")] == ["session_info"]
    extended.ask("c1", "Hi")
    assert "deploy" not in offered(extended)


# -- the tools of the catalogue --------------------------------------------------------------------------------------

READING = ["read_file", "search_files", "a_tool_of_a_later_version"]


def supports(system: System, names: list[str], connection: str = "c1") -> None:
    system.send_raw(connection, "control", json.dumps({"type": "hello", "capabilities": {"tools_supported": names}}))


def branches(system: System) -> set[str]:
    """The tools in the schema of what the model was asked last."""
    return {name for name in CATALOGUE if f'\\"{name}\\"' in offered(system) or f'"{name}"' in offered(system)}


#: What the mode `code` offers.
OFFERED = {name for name, tool in CATALOGUE.items() if offers("code", tool)}
SERVERS = {name for name in OFFERED if CATALOGUE[name].server_side and not CATALOGUE[name].extension}


def test_the_model_is_offered_what_the_executor_executes_and_nothing_else(extended: System) -> None:
    supports(extended, READING)
    assert Counter(extended.aws.calls) == {READ_MANY: 1, TRANSACTION: 1, POST: 1}
    extended.ask("c1", "Hi")
    assert branches(extended) == {"read_file", "search_in_project"} | SERVERS
    supports(extended, [])
    extended.ask("c1", "Hi")
    assert branches(extended) == SERVERS


def test_an_executor_that_does_not_say_it_is_offered_the_tools_of_the_seed_documents(extended: System) -> None:
    extended.ask("c1", "Hi")
    assert branches(extended) == set(SEED) | SERVERS
    extended.connect("c2", extensions=True)
    supports(extended, READING, "c2")  # another window
    extended.ask("c1", "Hi")
    assert branches(extended) == set(SEED) | SERVERS


PATCHES = {"apply_patch", "apply_patch_review"}


def test_who_edits_texts_is_offered_no_patches(extended: System) -> None:
    supports(extended, sorted(CATALOGUE))
    extended.ask("c1", "Hi")
    assert branches(extended) == OFFERED - PATCHES
    supports(extended, [*PATCHES, "read_file"])
    extended.ask("c1", "Hi")
    assert branches(extended) == {"read_file"} | PATCHES | SERVERS


def test_a_model_whose_row_says_so_is_offered_both(extended: System, monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(capabilities_of("gpt-4.1"), patches=True)
    monkeypatch.setattr(models, "capabilities", lambda name, settings: row)
    supports(extended, sorted(CATALOGUE))
    extended.ask("c1", "Hi")
    assert branches(extended) == OFFERED


def test_a_small_model_is_not_offered_to_delegate(extended: System) -> None:
    extended.environment["LLM_MODEL"] = "qwen2.5-coder-1.5b-instruct"
    supports(extended, sorted(CATALOGUE))
    extended.ask("c1", "Hi")
    assert branches(extended) == OFFERED - PATCHES - {"delegate"}


def test_what_it_executes_and_what_it_declares_are_said_independently(extended: System) -> None:
    hello(extended, DEPLOY)
    supports(extended, READING)
    extended.ask("c1", "Hi")
    assert branches(extended) == {"read_file", "search_in_project"} | SERVERS
    assert "deploy" in offered(extended)
    hello(extended)
    extended.ask("c1", "Hi")
    assert branches(extended) == {"read_file", "search_in_project"} | SERVERS
    assert '"deploy"' not in offered(extended)
