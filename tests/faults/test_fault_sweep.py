"""Nothing is lost, doubled or stuck, whichever call of AWS a process dies at or gets no answer to.

Each conversation is played once undisturbed; then once for each of its calls and each way in which that call can go
wrong, from just before the event that makes it. The client resends and resumes, time passes, the sweep runs; in the end
the table and what the client has seen are compared with the undisturbed run.
"""

import sys
from collections.abc import Sequence

import pytest

from tests.faults.conversations import CONVERSATIONS
from tests.faults.player import Conversation
from tests.faults.stage import Stage
from tests.faults.sweep import Findings, Point, Sweep

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


def _some(points: list[Point], number: int) -> list[Point]:
    """One of the points in every third conversation, each at another place. All of them are played undisturbed."""
    place = number * 7 % 10 / 10
    return points[int(place * len(points)) :][:1] if number % 3 == 0 else []


def _sweep(
    stage: Stage,
    capsys: pytest.CaptureFixture[str],
    *,
    whole: bool,
    conversations: Sequence[Conversation] = CONVERSATIONS,
) -> None:
    everything = Findings()
    for number, conversation in enumerate(conversations):
        sweep = Sweep(stage, conversation)
        assert sweep.undisturbed() == [], conversation.name
        points = list(sweep.points())
        found = sweep.run(points if whole else _some(points, number))
        everything += found
        with capsys.disabled():
            sys.stdout.write(f"\n{conversation.name}: {found}")
    with capsys.disabled():
        sys.stdout.write(f"\n{everything}\n")
    assert everything.wrong == [], "\n".join([str(everything), *everything.wrong[:20], stage.log()[-5_000:]])


def test_some_faults_of_every_conversation_leave_no_trace(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    _sweep(stage, capsys, whole=False)


def test_some_faults_with_quotas_leave_no_slot_taken(limited_stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    few = [found for found in CONVERSATIONS if found.name in ENDINGS]
    assert len(few) == len(ENDINGS)
    _sweep(limited_stage, capsys, whole=False, conversations=few)


@pytest.mark.deep
def test_no_fault_of_any_conversation_leaves_a_slot_taken(
    limited_stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    _sweep(limited_stage, capsys, whole=True)


@pytest.mark.deep
def test_no_fault_of_any_conversation_leaves_a_trace(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    _sweep(stage, capsys, whole=True)
