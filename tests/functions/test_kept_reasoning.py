"""The model's reasoning between the steps of a turn: where it is kept, who gets it, and when it is gone."""

import io
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest
from codelab.sessions import keys
from codelab.turns import kept_reasoning

from infra.stack.export import Data, export_to
from tests.fakes.aws.recorder import READ_MANY, TRANSACTION
from tests.fakes.model.thinkers import Thinker, is_prefix
from tests.functions.system import System
from tests.functions.template import REGION
from tests.functions.test_retention import sessions_of
from tests.functions.test_sweep import Died, die

MODEL, OTHER = "deepseek-v4-pro", "deepseek-v4-flash"
TITLED = ('{"title": "Files", "message": "Hello!", "calls": []}', ())
#: Different ones: the same call again and again ends a turn.
READS = [("", [("read_file", json.dumps({"path": f"{name}.py"}))]) for name in "abcde"]
READ_A, READ_B, *_ = READS
PLAN = ("", [("update_plan", '{"items": [{"text": "Look", "status": "pending"}]}')])
DONE = ("Done.", ())
SECRET, FIELD = "Thought", "reasoning_content"


class Talk:
    """A session whose model keeps its reasoning; its title is made, so that all that follows is asked for natively."""

    def __init__(
        self, system: System, monkeypatch: pytest.MonkeyPatch, *, provider: str = "deepseek", **settings: str
    ) -> None:
        self.system = system
        self.model = Thinker(provider, TITLED)
        monkeypatch.setattr(system, "model", self.model)
        capabilities = {name: {"strategy": "calls"} for name in (MODEL, OTHER)}
        system.environment = {"LLM_PROVIDER": provider, "LLM_MODEL": MODEL, "LLM_MODELS": OTHER}
        system.environment |= {"LLM_CAPABILITIES": json.dumps(capabilities), **settings}
        system.connect("c1", extensions=True)
        system.say("c1", "Hello")

    def ask(self, *answers: tuple[str, Sequence[tuple[str, str]]]) -> None:
        """The user asks, and the model gives these answers. The IDE gives a result for each call."""
        self.model.answers += answers
        self.system.say("c1", "What is in a.py?")
        for _ in answers[1:]:
            self.settle()

    def settle(self) -> None:
        self.give_results()
        self.system.run_step()

    def give_results(self) -> None:
        for call_id, entry in self.system.item("REGISTER").get("calls", {}).items():
            if entry["state"] == "executing":
                self.system.send("c1", "tool_result", call_id=call_id, result={"content": "x = 1"})

    def stored(self, session: str = "s1") -> list[str]:
        return [sk for pk, sk in self.system.all_keys() if keys.is_reasoning(sk) and pk.endswith(f"#{session}")]

    def sent(self) -> str:
        """The last request to the model."""
        return json.dumps(self.model.requests[-1])


@pytest.fixture
def talk(system: System, monkeypatch: pytest.MonkeyPatch) -> Talk:
    return Talk(system, monkeypatch)


def test_a_turn_of_steps_with_calls_is_never_refused_and_leaves_nothing(talk: Talk) -> None:
    talk.ask(*READS)
    assert talk.stored() == [f"REASONING#{n:09}" for n in (4, 6, 8, 10, 12)]
    talk.model.answers.append(DONE)
    talk.settle()
    assert talk.stored() == []
    assert "reasoning" not in talk.system.item("REGISTER")
    assert talk.model.refusals == []
    assert all(is_prefix(one, other) for one, other in pairwise(talk.model.requests[1:]))
    told = [message["reasoning_content"] for message in talk.model.requests[-1] if message.get("tool_calls")]
    assert told == [f"{SECRET} {n}" for n in range(1, 6)]
    talk.ask(READ_A, DONE)
    assert talk.model.refusals == [], "the calls of the turn before are told without their reasoning"


def test_it_costs_no_round_trip_and_a_turn_without_calls_no_write(talk: Talk) -> None:
    def costs() -> list[int]:
        return [talk.system.aws.calls.count(operation) for operation in (READ_MANY, TRANSACTION)]

    talk.ask(DONE)
    plain = costs()
    talk.ask(READ_A)
    assert costs() == plain
    talk.model.answers.append(DONE)
    talk.settle()
    assert costs() == plain
    talk.system.check_permissions()


def test_no_frame_answer_fork_or_export_shows_it(talk: Talk, tmp_path: Path) -> None:
    talk.ask(READ_A, READ_B)
    assert FIELD in talk.system.item(talk.stored()[0])["reasoning"]
    look = {"kind": "look", "user": "ann", "session_id": "s1", "message": "Hi", "environment": ""}
    looked = talk.system.function("llm_request")(look)
    assert "What is in a.py?" in json.dumps(looked["request"])
    answers = [talk.system.answer("GET", path) for path in ("/sessions/s1", "/chat/history/s1")]
    assert [answer["statusCode"] for answer in answers] == [200] * len(answers)
    status, fork = talk.system.http("POST", "/sessions/s1/fork", body={})
    assert (status, talk.stored(fork["session_id"])) == (201, [])
    assert "reasoning" not in talk.system.item("REGISTER", fork["session_id"])
    with talk.system.aws.paused():
        s3: Any = boto3.client("s3", region_name=REGION)
        export_to(tmp_path / "out", Data(talk.system.table, "Table", s3, "payloads"), "ann", "s1", io.StringIO())
    export = (tmp_path / "out").read_text()
    assert "MESSAGE#000000004" in export
    assert FIELD not in json.dumps([looked, answers, talk.system.aws.frames("c1")]) + export
    assert "REASONING#" not in export
    assert '"reasoning"' not in export


def test_a_step_that_is_run_again_reads_the_same(talk: Talk) -> None:
    talk.ask(READ_A)
    talk.give_results()
    talk.model.answers.append(READ_A)
    talk.system.aws.once(TRANSACTION, die)
    with pytest.raises(Died):
        talk.system.run_step()
    before = talk.model.requests[-1]
    talk.model.answers[:] = [DONE]
    talk.system.sweep(later_s=60)
    talk.system.run_step()
    assert talk.model.requests[-1] == before
    assert f"{SECRET} 1" in talk.sent()
    assert talk.model.refusals == []
    assert talk.stored() == []


def test_what_is_too_large_is_not_kept_and_the_turn_goes_on(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.ask(READ_A)
    monkeypatch.setattr(kept_reasoning, "MOST_BYTES", 10)
    talk.model.answers += [READ_A, DONE]
    talk.settle()
    assert len(talk.stored()) == 1
    talk.settle()
    assert talk.model.refusals == []
    assert f"{SECRET} 1" in talk.sent()
    assert f"{SECRET} 2" not in talk.sent()


def test_another_model_does_not_get_it(talk: Talk) -> None:
    talk.ask(READ_A)
    talk.system.send_raw("c1", "control", json.dumps({"type": "session_config", "model": OTHER}))
    talk.model.answers.append(READ_A)
    talk.settle()
    assert SECRET not in talk.sent()
    talk.system.send_raw("c1", "control", json.dumps({"type": "session_config", "model": MODEL}))
    talk.model.answers.append(DONE)
    talk.settle()
    assert f"{SECRET} 1" in talk.sent()
    assert f"{SECRET} 2" not in talk.sent()
    assert talk.model.refusals == []


@pytest.mark.parametrize("past_reasoning", ["dropped", "sent", None])
def test_the_operator_says_whether_a_model_gets_it(
    system: System, monkeypatch: pytest.MonkeyPatch, past_reasoning: str | None
) -> None:
    capabilities = json.dumps({MODEL: {"strategy": "calls", "past_reasoning": past_reasoning}})
    talk = Talk(system, monkeypatch, provider="vllm", LLM_CAPABILITIES=capabilities)
    talk.ask(READ_A, DONE)
    assert (FIELD in talk.sent()) == (past_reasoning == "sent")


def test_what_one_write_cannot_remove_the_next_turn_does(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_reasoning, "_MOST_REMOVED", 2)
    talk.ask(*READS, DONE)
    assert len(talk.stored()) == 3
    talk.ask(READ_A)
    assert len(talk.stored()) == 1 + 1, "the rest of the turn before, and its own"
    talk.system.check_permissions()
    assert talk.model.refusals == []
    talk.model.answers.append(DONE)
    talk.settle()
    assert talk.stored() == []
    assert "reasoning" not in talk.system.item("REGISTER")


def test_a_turn_that_ends_with_the_answer_keeps_nothing_of_it(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(system, monkeypatch, MAX_STEPS="2")
    talk.ask(READ_A)
    talk.model.answers.append(PLAN)
    talk.settle()
    assert talk.system.item("REGISTER")["phase"] == "idle"
    assert talk.stored() == []


def test_a_cancelled_turn_leaves_nothing(talk: Talk) -> None:
    talk.ask(READ_A, READ_B)
    talk.system.send_raw("c1", "control", json.dumps({"type": "cancel"}))
    assert talk.stored() == []
    assert "reasoning" not in talk.system.item("REGISTER")
    talk.system.check_permissions()


def test_a_turn_that_a_result_ends_leaves_nothing(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(system, monkeypatch, MAX_STEPS="2")
    talk.ask(READ_A, READ_B)
    assert len(talk.stored()) == 2
    talk.give_results()
    assert talk.system.item("REGISTER")["phase"] == "idle"
    assert talk.stored() == []
    talk.system.check_permissions()


def test_a_deleted_session_leaves_nothing_and_what_is_forgotten_expires(talk: Talk) -> None:
    talk.ask(READ_A)
    [sk] = talk.stored()
    assert talk.system.item(sk)["ttl"] > talk.system.item("REGISTER")["last_activity"] // 1000 + 86_400
    talk.system.http("DELETE", "/sessions/s1")
    talk.system.sweep(later_s=1_000)
    assert talk.stored() == []
    assert sessions_of(talk.system) == set()
