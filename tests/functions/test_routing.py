"""llm_request where the session's agent only chooses: one small Request, one transaction, then the answer."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.functions.recorder import APPEND, POST, READ, READ_MANY, TRANSACTION, UPDATE
from tests.functions.system import System


@pytest.fixture
def routed(system: System) -> System:
    system.environment = {"DEFAULT_AGENT": "orchestrator"}
    system.connect("c1")
    return system


def choose(system: System, agent: str) -> None:
    system.model.answers.append(json.dumps({"agent": agent, "reason": "It suits", "confidence": 0.8}))


def test_the_choice_costs_one_request_one_transaction_and_one_frame(routed: System) -> None:
    choose(routed, "coder")
    routed.ask("c1", "Hi")
    assert Counter(routed.aws.calls) == {
        READ: 1,
        READ_MANY: 1,
        TRANSACTION: 1 + 1,  # the choice, commit
        "model": 2,
        APPEND: 1,
        POST: 5,  # thinking, agent_switched, the text, the final, idle
        UPDATE: 1 + 1,  # acquire, report
    }
    frames = routed.aws.frames("c1")
    types = [frame["type"] for frame in frames]
    assert types == ["agent_status", "agent_switched", "assistant_message", "assistant_message", "agent_status"]
    assert [frame["seq"] for frame in frames] == sorted(frame["seq"] for frame in frames)
    spoken = [frame for frame in frames if frame["type"] == "assistant_message"]
    assert {frame["agent"] for frame in spoken} == {"coder"}
    assert "due_at" not in routed.item("REGISTER"), "nothing is outstanding"


def test_the_next_message_is_answered_without_another_choice(routed: System) -> None:
    choose(routed, "coder")
    routed.ask("c1", "Hi")
    routed.ask("c1", "Hi again")
    assert len(routed.model.requests) == 3
    assert "coder" in routed.model.requests[2]["messages"][0]["content"]


def test_the_chosen_agents_tools_are_the_only_ones_in_the_schema(routed: System) -> None:
    choose(routed, "ask")
    routed.ask("c1", "Hi")
    schema = json.dumps(routed.model.requests[1]["response_format"])
    assert '"read_file"' in schema
    assert '"write_file"' not in schema


def test_a_model_that_cannot_choose_leaves_it_to_the_one_that_does_everything(routed: System) -> None:
    for _ in range(3):
        routed.model.answers.append('{"agent": "nobody"}')
    routed.ask("c1", "Hi")
    assert routed.item("REGISTER")["agent"] == "universal"
    (switched,) = [frame for frame in routed.aws.frames("c1") if frame["type"] == "agent_switched"]
    assert "confidence" not in switched


def test_a_cancel_while_the_model_chooses_ends_the_turn(routed: System) -> None:
    def think() -> Iterator[str]:
        routed.table.update_item(
            TableName="Table",
            Key={"pk": {"S": "SESSION#ann#s1"}, "sk": {"S": "REGISTER"}},
            UpdateExpression="SET cancelled_at = :now, version = version + :one",
            ExpressionAttributeValues={":now": {"N": "1"}, ":one": {"N": "1"}},
        )
        yield json.dumps({"agent": "coder", "reason": "It suits", "confidence": 0.8})

    routed.model.answers.append(think())
    routed.say("c1")
    register = routed.item("REGISTER")
    assert (register["phase"], register["agent"]) == ("idle", "orchestrator")
    assert len(routed.model.requests) == 1, "the answer was not asked for"
