"""Frames in order, once each, and of a call that comes again behind a gap the copy that counts."""

from typing import Any

from codelab_client.session.events import AssistantThought, ToolCall
from codelab_client.session.sequence import MOST_AHEAD, Sequence

from tests.cases import cases


def thought(seq: int) -> Any:
    return AssistantThought(seq=seq, turn_id="t", message_id="m", content=str(seq))


def call(seq: int, *, execute: bool) -> Any:
    return ToolCall(seq=seq, call_id="c", tool_name="read_file", arguments={}, requires_approval=False, execute=execute)


def taken(sequence: Sequence, *events: Any) -> list[Any]:
    return [ready for event in events for ready in sequence.take(event, 0.0) or ()]


@cases("copies", [(True, False), (False, True), (False, True, False), (True, True)])
def test_a_call_that_waits_behind_a_gap_is_executed_if_any_copy_says_so(copies: tuple[bool, ...]) -> None:
    """It was handed over meanwhile: the copy to execute it may come before one that only shows it, or after."""
    ready = taken(Sequence(), *(call(3, execute=copy) for copy in copies), thought(1), thought(2))
    assert [event.seq for event in ready] == [1, 2, 3]
    assert ready[2].execute


def test_a_new_connection_says_anew_who_executes_it() -> None:
    """Meanwhile another window may have begun to."""
    sequence = Sequence()
    assert taken(sequence, call(3, execute=True)) == []
    sequence.connected()
    assert not sequence.has_gap(10.0)
    ready = taken(sequence, thought(1), thought(2), call(3, execute=False))
    assert [event.seq for event in ready] == [1, 2, 3]
    assert not ready[2].execute


def test_what_waits_is_bounded_and_the_next_frame_is_always_taken() -> None:
    sequence = Sequence()
    taken(sequence, *map(thought, range(2, MOST_AHEAD + 10)), call(MOST_AHEAD + 20, execute=True))
    assert [event.seq for event in taken(sequence, thought(1))] == list(range(1, MOST_AHEAD + 2))
    assert sequence.take(thought(1), 0.0) is None
