"""What the events of a turn use of what AWS charges for. infra/cost computes docs/cost.md from these counts.

`make cost` (`WRITE_COUNTS=1`) writes those that have changed.
"""

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest

from infra.cost import COUNTS, MAX_DELAYS_MS, TOOL_STEP, TURN
from tests.fakes.aws.capacity import Capacity, Usage, size_of
from tests.fakes.aws.recorder import APPEND
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import System
from tests.functions.template import Template
from tests.functions.test_authorize import bearer, token
from tests.functions.test_payloads import upload
from tests.quotas import USUAL

READ_A = call("read_file", path="lib/main.dart")
WRITE_A = call("write_file", path="lib/main.dart", content="x = 1\n" * 100)
#: Characters of a result.
RESULT = 4_000
#: The beginning of a minute, in milliseconds: quotas count by it.
BEGAN = 1_800_000_000_000
#: Turns that the session has had before.
EARLIER = 9

pytestmark = pytest.mark.skipif(os.environ.get("AWS_CLIENT") == "boto3", reason="the bytes are those of our clients")

Counts = dict[str, dict[str, dict[str, Any]]]


def spoken(system: System, tokens: int, batches: int, *calls: dict[str, Any]) -> Iterator[str]:
    """The pieces of an answer, each of which is being sent before the next is given: a batch for each."""
    text = "word" * tokens
    yield '{"message": "'
    for n in range(batches):
        yield text[len(text) * n // batches : len(text) * (n + 1) // batches]
        system.aws.wait_for(APPEND, n + 1)
    yield f'", "calls": {json.dumps(calls)}}}'


def measured(system: System, capacity: Capacity) -> Counts:
    """Per scenario, per function: what it uses."""
    counts: Counts = {}

    @contextmanager
    def count(scenario: str, folder: str) -> Iterator[Usage]:
        system.function(folder)  # its init is not a part of the event
        system.aws.reset()
        with capacity.counted() as usage:
            yield usage
        counts.setdefault(scenario, {})[folder] = asdict(usage)

    with count("connect", "authorize"):
        system.function("authorize")(events.authorize(query={"session_id": "s1"}, headers=bearer(token())))
    system.connect("c0", "other", extensions=True)  # what the user's first connection makes
    with count("connect", "connect"):
        system.connect("c1", extensions=True)
    for _ in range(EARLIER):
        system.model.answers.append(spoken(system, TURN.tokens, 1))
        system.say("c1", "Explain the next function, please.")
    for delay in MAX_DELAYS_MS:
        with count("turn", "user_message"):
            system.send("c1", "user_message", content="Explain the next function, please.")
        system.model.answers.append(spoken(system, TURN.tokens, TURN.batches(delay)))
        with count(f"answer, batches of at most {delay} ms", "llm_request"):
            system.run_step()
    system.send("c1", "user_message", content="Read it.")
    system.model.answers.append(spoken(system, TOOL_STEP.tokens, TOOL_STEP.batches(MAX_DELAYS_MS[0]), READ_A))
    with count("tool call", "llm_request"):
        system.run_step()
    (call_id,) = system.item("REGISTER")["calls"]
    with count("tool call", "tool_result"):
        system.send("c1", "tool_result", call_id=call_id, result={"content": "x" * RESULT})
    system.model.answers.append(spoken(system, TOOL_STEP.tokens, 1, READ_A))
    system.run_step()
    (call_id,) = system.item("REGISTER")["calls"]
    reference = upload(system, "c1", "tool_result", call_id=call_id, result={"content": "x" * 500_000})
    with count("large result", "tool_result"):
        system.send("c1", "tool_result", call_id=call_id, payload_ref=reference)
    system.model.answers.append(spoken(system, TOOL_STEP.tokens, 1, WRITE_A))
    system.run_step()
    (call_id,) = system.item("REGISTER")["calls"]
    with count("approval", "hitl_decision"):
        system.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    system.send("c1", "tool_result", call_id=call_id, result={"success": True})
    system.model.answers.append(spoken(system, TOOL_STEP.tokens, 1))
    system.run_step()
    with count("ping", "control"):
        system.send_raw("c1", "control", json.dumps({"type": "ping"}))
    with count("history over HTTP", "rest_api") as usage:
        usage.sent = len(system.answer("GET", "/chat/history/s1")["body"])
    with count("disconnect", "disconnect"):
        system.disconnect("c1")
    with count("idle sweep", "sweep"):
        system.sweep()
    return counts


@pytest.fixture
def counts(
    system: System, template: Template, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Counts:
    # What is done because time has passed would depend on the machine: reports, extensions of the lease.
    ticks = itertools.count(BEGAN)
    monkeypatch.setattr("codelab.engine.engine.time.time_ns", lambda: next(ticks) * 1_000_000)
    monkeypatch.setattr("codelab.delivery.stream._monotonic", lambda: 0.0)
    # As in a process that has not run the session's steps before: the most that its reads cost.
    monkeypatch.setattr("codelab.sessions.dynamodb.kept_history.MOST_BYTES", 0)
    # So many that no summary is due, whose Request is the model's cost.
    system.environment = {**USUAL, "STREAM_MAX_DELAY_MS": "0", "MAX_CONTEXT_TOKENS": "100000"}
    return measured(system, Capacity(system, monkeypatch, caplog, template.table()["GlobalSecondaryIndexes"]))


def flat(counts: Counts) -> dict[str, float]:
    return {
        f"{scenario}/{folder}/{name}": value
        for scenario, functions in counts.items()
        for folder, usage in functions.items()
        for name, value in {**usage, **usage["calls"]}.items()
        if name != "calls"
    }


#: They vary with the digits of numbers.
BYTES = ("sent", "logged", "kept", "passing")


def test_the_events_use_what_the_page_of_costs_is_computed_from(counts: Counts) -> None:
    known = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    is_new = _differs(flat(counts), flat(known))
    if is_new and os.environ.get("WRITE_COUNTS"):
        COUNTS.write_text(json.dumps(counts, indent=1) + "\n")
        return
    assert is_new == [], "run `make cost`"


def _differs(found: dict[str, float], known: dict[str, float]) -> list[str]:
    names = found.keys() ^ known.keys()
    for name in found.keys() & known.keys():
        near = pytest.approx(known[name], rel=0.05, abs=64) if name.endswith(BYTES) else known[name]
        if found[name] != near:
            names.add(name)
    return sorted(names)


def test_a_batch_is_one_item_one_read_and_one_message() -> None:
    counts: Counts = json.loads(COUNTS.read_text())
    few, many = (counts[f"answer, batches of at most {ms} ms"]["llm_request"] for ms in (500, 100))
    more = TURN.batches(100) - TURN.batches(500)
    assert many["messages"] - few["messages"] == more
    assert many["writes"] - few["writes"] == more
    assert many["calls"]["GetItem"] - few["calls"]["GetItem"] == more


def test_sizes_are_those_of_the_developer_guide() -> None:
    item = {"pk": {"S": "äb"}, "n": {"N": "12345"}, "m": {"M": {"a": {"BOOL": True}}}, "l": {"L": [{"NULL": True}]}}
    assert size_of(item) == (2 + 3) + (1 + 4) + (1 + 3 + 2 + 1) + (1 + 3 + 1 + 1)
