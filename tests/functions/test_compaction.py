"""A long session: what it costs, what the model is sent, and that nothing is lost of what was said."""

import itertools
import json
import re
from collections import Counter

import pytest
from codelab.llm.client.transport import Call
from codelab.llm.tokens import estimate_context
from codelab.observability import logger

from tests.fakes.aws.recorder import APPEND, POST, READ, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.in_process import Body, InProcess
from tests.fakes.model.script import SUMMARY, Says, is_summary
from tests.functions.system import System
from tests.functions.test_quotas import used

BUDGET = 8_000
FACTS = ("FACT-tabs-not-spaces", "FACT-port-8123", "FACT-never-touch-legacy")


class Memory(InProcess):
    """A model that answers at length, and whose summaries keep every fact that it is told."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.turns: list[Body] = []
        self.summaries: list[Body] = []
        self.refuses = False

    def _say(self, body: Body, _call: Call) -> str:
        if not is_summary(body):
            self.turns.append(body)
            return Says("So it is. " * 40).body(chooses=False)
        self.summaries.append(body)
        facts = sorted(set(re.findall(r"FACT-[a-z0-9-]+", json.dumps(body["messages"]))))
        return "not JSON" if self.refuses else json.dumps({**SUMMARY, "facts": facts})


@pytest.fixture
def memory(system: System, monkeypatch: pytest.MonkeyPatch) -> Memory:
    model = Memory()
    monkeypatch.setattr(system, "model", model)
    system.environment = {"MAX_CONTEXT_TOKENS": str(BUDGET), "MAX_CONTEXT_MESSAGES": "50"}
    system.connect("c1")
    return model


@pytest.mark.parametrize("turns", [60, pytest.param(150, marks=pytest.mark.deep)])
def test_many_messages_stay_within_the_budget_and_what_was_said_first_is_known_at_the_end(
    system: System, memory: Memory, turns: int
) -> None:
    system.say("c1", f"Remember: {', '.join(FACTS)}.")
    for n in range(1, turns):
        system.say("c1", f"Question {n}: " + "why is that so? " * 20)
    sizes = [estimate_context(body["messages"]) for body in memory.turns]
    assert max(sizes) <= BUDGET
    assert all(fact in json.dumps(memory.turns[-1]["messages"]) for fact in FACTS)
    assert len(memory.summaries) < turns / 5, "a summary is made once for many turns"
    assert max(estimate_context(body["messages"]) for body in memory.summaries) <= BUDGET
    messages = [sk for _, sk in system.all_keys() if sk.startswith("MESSAGE#")]
    assert len(messages) == 2 * turns
    assert FACTS[0] in system.item(messages[0])["content"], "the messages themselves are all still there"
    early, late = sizes[15:35], sizes[-20:]
    assert sum(late) <= 1.15 * sum(early), "a late turn costs no more than an early one"


@pytest.mark.deep
def test_a_late_turn_makes_the_calls_of_an_early_one(system: System, memory: Memory) -> None:
    """But for those turns after which a summary is made, and those calls come when the user has the answer."""
    costs = []
    for n in range(40):
        before = len(memory.summaries)
        system.say("c1", f"Question {n}: " + "why is that so? " * 20)
        costs.append((len(memory.summaries) - before, Counter(system.aws.calls)))
    usual = {READ: 1, READ_MANY: 1, TRANSACTION: 1, APPEND: 1, POST: 4, UPDATE: 2}
    assert all(cost == usual for summaries, cost in costs if not summaries)
    with_summary = [cost for summaries, cost in costs if summaries]
    assert with_summary
    assert all(cost == {**usual, READ: 2, READ_MANY: 2, TRANSACTION: 2} for cost in with_summary)


def test_who_reads_the_answer_does_not_wait_for_the_summary(system: System, memory: Memory) -> None:
    for _ in range(50):
        system.say("c1", "Question: " + "why is that so? " * 100)
        if memory.summaries:
            break
    assert memory.summaries
    report = len(system.aws.calls) - system.aws.calls[::-1].index(UPDATE)
    assert system.aws.calls[report:] == [READ_MANY, READ, TRANSACTION]
    assert system.item("REGISTER")["phase"] == "idle"


@pytest.mark.deep
def test_a_model_that_cannot_summarise_costs_no_turn_and_is_seldom_asked(
    system: System, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked again only when the history has grown by a quarter, and then once."""
    memory.refuses = True
    asked, costs = [], []
    for n in range(50):
        before = len(memory.summaries)
        system.say("c1", f"Question {n}: " + "why is that so? " * 80)
        if len(memory.summaries) > before:
            asked.append((system.item("REGISTER")["summary_failed_tokens"], len(memory.summaries) - before))
        else:
            costs.append(Counter(system.aws.calls))
    tokens, requests = zip(*asked, strict=True)
    assert requests == (2, *[1] * (len(asked) - 1)), "only the first is repaired"
    assert all(later >= 1.25 * earlier for earlier, later in itertools.pairwise(tokens))
    assert len(asked) <= 10
    assert costs[-1] == costs[0], "between them nothing is read or written"
    assert [record.message for record in caplog.records].count("compaction failed") == len(asked)
    assert max(estimate_context(body["messages"]) for body in memory.turns) <= BUDGET
    assert "summary_n" not in system.item("REGISTER")


def test_when_it_can_again_the_summary_is_made(system: System, memory: Memory) -> None:
    memory.refuses = True
    while "summary_failed_tokens" not in system.item("REGISTER"):
        system.say("c1", "Question: " + "why is that so? " * 40)
    memory.refuses = False
    while "summary_n" not in system.item("REGISTER"):
        system.say("c1", "Question: " + "why is that so? " * 40)
    assert "summary_failed_tokens" not in system.item("REGISTER")
    system.say("c1", "And then?")
    assert "# Summary" in memory.turns[-1]["messages"][1]["content"]


def grown(system: System, turns: int = 8) -> None:
    for n in range(turns):
        system.say("c1", f"Question {n}: " + "why is that so? " * 20)


def ask_for_compaction(system: System) -> str:
    """Ask for a compaction. Returns what the client is told at once."""
    system.send_raw("c1", "control", json.dumps({"type": "compact", "request_id": "r1"}))
    return str(system.aws.frames("c1")[-1]["outcome"])


def test_a_client_has_the_history_compacted_before_it_is_due(system: System, memory: Memory) -> None:
    system.send_raw("c1", "control", json.dumps({"type": "hello"}))
    system.say("c1", "Hello")
    assert ask_for_compaction(system) == "nothing_to_compact"
    grown(system)
    assert not memory.summaries
    assert ask_for_compaction(system) == "compacting"
    assert ask_for_compaction(system) == "repeated"
    system.run_step()
    [told] = system.aws.frames("c1")
    system.run_step()  # delivered twice
    assert len(memory.summaries) == 1
    assert told["type"] == "compacted"
    assert told["outcome"] == "summarised"
    assert told["tokens_after"] < told["tokens_before"] / 3
    assert system.item("REGISTER")["summary_n"] > 10
    assert ask_for_compaction(system) == "nothing_to_compact"
    system.say("c1", "And then?")
    assert "# Summary" in memory.turns[-1]["messages"][1]["content"]


def test_a_compaction_on_request_costs_a_message_and_a_request_of_the_quota(system: System, memory: Memory) -> None:
    """Or whoever has a stolen token would have the model work for nothing."""
    memory.refuses = True
    most = {"MESSAGES_PER_MINUTE": "1000", "REQUESTS_PER_MINUTE": "1000", "TOKENS_PER_DAY": "10000000"}
    system.environment |= most
    system.send_raw("c1", "control", json.dumps({"type": "hello"}))
    grown(system)
    before = used(system)
    assert ask_for_compaction(system) == "compacting"
    system.run_step()
    assert system.aws.frames("c1")[-1]["outcome"] == "failed"
    spent = used(system) - before
    assert (spent["messages"], spent["requests"]) == (1, 1)
    system.environment |= {"TOKENS_PER_DAY": "1"}
    system.load("control")(system.event("c1", {"type": "compact"}))
    refused = system.aws.frames("c1")[-1]
    assert (refused["error_code"], refused["details"]["quota"]) == ("RATE_LIMITED", "tokens_per_day")


def test_a_failure_counts_in_cloudwatch(system: System, memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """By the embedded metric format: every metric and dimension that is declared stands in the line."""
    system.environment = {**system.environment, "METRICS": "true"}
    memory.refuses = True
    while not memory.summaries:
        system.say("c1", "Question: " + "why is that so? " * 40)
    (line,) = [record for record in caplog.records if record.message == "compaction failed"]
    said = json.loads(logger().registered_formatter.format(line))
    (declared,) = said["_aws"]["CloudWatchMetrics"]
    assert said["_aws"]["Timestamp"] > 1_700_000_000_000
    assert declared["Metrics"] == [{"Name": "SummaryFailed", "Unit": "Count"}]
    assert said["SummaryFailed"] == 1
    assert [said[name] for (name,) in declared["Dimensions"]] == ["codelab"]


def test_the_model_is_shown_the_files_of_the_context_with_every_question(system: System, memory: Memory) -> None:
    system.send("c1", "context_update", action="add_file", data={"path": "a.py", "content": "x = 41"})
    system.say("c1", "What is x?")
    assert Counter(system.aws.calls)[READ_MANY] == 1, "read beside the history"
    assert "## a.py\n```\nx = 41\n```" in memory.turns[-1]["messages"][1]["content"]
    system.send("c1", "context_update", action="remove_file", data={"path": "a.py"})
    system.say("c1", "And now?")
    assert "x = 41" not in json.dumps(memory.turns[-1]["messages"])


def test_a_file_that_is_added_while_a_step_waits_to_run_is_shown_in_it(system: System, memory: Memory) -> None:
    system.send("c1", "user_message", content="What is x?")
    system.send("c1", "context_update", action="add_file", data={"path": "a.py", "content": "x = 41"})
    system.run_step()
    assert "x = 41" in json.dumps(memory.turns[-1]["messages"])
