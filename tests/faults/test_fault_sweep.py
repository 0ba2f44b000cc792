"""Nothing is lost, doubled or stuck, whichever call of AWS a process dies at or gets no answer to.

Each conversation is played once undisturbed; then once for each of its calls and each way in which that call can go
wrong, from just before the event that makes it. The client resends and resumes, time passes, the sweep runs; in the end
the table and what the client has seen are compared with the undisturbed run.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from tests.faults.conversations import CONVERSATIONS
from tests.faults.stage import Stage
from tests.faults.sweep import Findings, Point, Sweep
from tests.golden import GOLDEN, ON_PURPOSE, difference
from tests.golden.played import Moments
from tests.golden.played import stage as stage_of_names

_NAMES, PLAYED = GOLDEN

#: Conversations whose turns end in different ways.
ENDINGS = {
    "simple",
    "reject",
    "tool times out",
    "cancel while it streams",
    "cancel while a tool runs",
    "queue",
    "interrupt",
    "agent switch",
    "the model refuses",
    "a plan, and then a tool",
    "a step that died",
    "an invoke that was lost",
}

#: Conversations that store and log together all that all of them do.
COVERING = {
    "a plan that nobody decides about",
    "the model refuses",
    "a command that may run again",
    "a summary that fails",
    "a large edit",
    "a compaction that is asked for",
    "a step that died",
    "kept reasoning",
    "a subagent that is an agent of the project, and answers by a schema",
    "steering",
    "a large result",
    "a plan that is rejected, and another one",
    "attachments",
    "a cancelled turn whose subagent writes",
    "a cancel that overtakes its message",
    "implicit approval",
    "interrupt",
    "a plan that is edited",
    "a large call",
}


def _some(points: list[Point], number: int) -> list[Point]:
    """One of the points in every third conversation, each at another place. All of them are played undisturbed."""
    place = number * 7 % 10 / 10
    return points[int(place * len(points)) :][:1] if number % 3 == 0 else []


class Played(NamedTuple):
    """Conversations, played once undisturbed."""

    stage: Stage
    sweeps: list[Sweep]
    names: str


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.deep)])
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    moments, sweeps = Moments(), []
    chosen = [it for it in CONVERSATIONS if request.param == "all" or it.name in COVERING]
    assert len(chosen) >= len(COVERING)
    with stage_of_names() as stage:
        for conversation in chosen:
            sweeps.append(Sweep(stage, conversation))
            moments.add(sweeps[-1].snapshots, stage)
        yield Played(stage, sweeps, moments.names(stage))


def _sweep(stage: Stage, sweeps: Iterable[Sweep], capsys: pytest.CaptureFixture[str], *, whole: bool) -> None:
    everything = Findings()
    for number, sweep in enumerate(sweeps):
        assert sweep.undisturbed() == [], sweep.conversation.name
        points = list(sweep.points())
        found = sweep.run(points if whole else _some(points, number))
        everything += found
        with capsys.disabled():
            sys.stdout.write(f"\n{sweep.conversation.name}: {found}")
    with capsys.disabled():
        sys.stdout.write(f"\n{everything}\n")
    assert everything.wrong == [], "\n".join([str(everything), *everything.wrong[:20], stage.log()[-5_000:]])


def test_no_name_that_conversations_store_or_log_has_changed(played: Played) -> None:
    changed = difference(PLAYED.path, played.names)
    assert not changed, ON_PURPOSE.format(changed=changed)


def test_some_faults_of_conversations_leave_no_trace(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    _sweep(played.stage, played.sweeps, capsys, whole=False)


def test_some_faults_with_one_open_turn_leave_no_slot_taken(
    limited_stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [Sweep(limited_stage, conversation) for conversation in CONVERSATIONS if conversation.name in ENDINGS]
    assert len(few) == len(ENDINGS)
    _sweep(limited_stage, few, capsys, whole=False)


@pytest.mark.deep
def test_no_fault_of_any_conversation_leaves_a_slot_taken(
    limited_stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    _sweep(limited_stage, (Sweep(limited_stage, it) for it in CONVERSATIONS), capsys, whole=True)


@pytest.mark.deep
def test_no_fault_of_any_conversation_leaves_a_trace(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    _sweep(stage, (Sweep(stage, it) for it in CONVERSATIONS), capsys, whole=True)
