"""Drafts of calls: bounded, few, only for those that asked for them, and void when the answer is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from codelab.delivery import call_drafts as module
from codelab.delivery.call_drafts import DRAFT_BYTES, CallDrafts
from codelab.llm.outcome import ItemDelta
from codelab.sessions.items import Audience, EventItem
from codelab.sessions.register import Connection, Register
from codelab.sessions.transition import Transition

from tests.frames import check_received


class Stage:
    """Connection a asked for drafts, b did not. `takes`: nothing waits for a."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.takes = 100.0, True
        self.posts: list[tuple[float, list[str], dict[str, Any]]] = []
        monkeypatch.setattr(module, "_monotonic", lambda: self.now)
        self.register = Register("ann", "s1", 0, "universal", turn_id="t1")
        for name in "ab":
            self.register.connections[name] = Connection(0, joined=0, joined_seq=0, extensions=True, drafts=name == "a")
        self.drafts = CallDrafts(self, "m1")  # type: ignore[arg-type]

    def offer(self, frame: dict[str, Any], _register: Register, targets: Iterable[str]) -> bool:
        if not self.takes or not [*targets]:
            return False
        check_received(frame)
        assert len(json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()) <= DRAFT_BYTES
        self.posts.append((self.now, [*targets], frame))
        return True

    def writes(self, *pieces: tuple[str, str], index: int = 0, seconds: float = 1.0) -> None:
        """The model writes these strings, and time passes."""
        for name, text in pieces:
            self.drafts.take(ItemDelta(index, name, text))
        self.tick(seconds)

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.drafts.post(self.register, ["a", "b"])

    @property
    def last(self) -> dict[str, Any]:
        return self.posts[-1][2]

    def commit(self, *frame_types: str) -> None:
        events = tuple(EventItem(seq, {"type": kind}, Audience.ALL, 0) for seq, kind in enumerate(frame_types, 1))
        self.drafts.end(Transition(before=self.register, after=self.register, events=events), ["a", "b"])


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


WRITING = (("_tool", "write_"), ("_tool", "file"), ("path", "src/"), ("path", "new.py"), ("content", "a\nb\nc"))


def test_a_draft_says_absolutely_how_far_the_call_is(stage: Stage) -> None:
    stage.writes(*WRITING)
    assert stage.last == {
        "type": "tool_call_draft", "message_id": "m1", "turn_id": "t1", "index": 0, "tool_name": "write_file",
        "path": "src/new.py", "chars": 5, "lines": 3, "tail": "a\nb\nc",
    }  # fmt: skip
    stage.writes(("content", "\n"))
    assert (stage.last["lines"], stage.last["tail"]) == (3, "a\nb\nc\n")
    assert [targets for _, targets, _ in stage.posts] == [["a"]] * 2


def test_a_path_is_told_once_it_is_complete(stage: Stage) -> None:
    stage.writes(*WRITING[:3])
    assert "path" not in stage.last


def test_texts_of_several_strings_are_counted_together_and_the_newest_is_shown(stage: Stage) -> None:
    stage.writes(("_tool", "edit_file"), ("path", "a.py"), ("edits.0.old", "one"), ("edits.0.new", "1\n2"))
    assert (stage.last["chars"], stage.last["lines"], stage.last["tail"]) == (6, 3, "1\n2")


def test_they_are_few_and_a_short_call_has_none(stage: Stage) -> None:
    stage.writes(*WRITING, seconds=0.4)
    assert stage.posts == []
    for _ in range(400):
        stage.writes(("content", "x\n"), seconds=0.01)
    times = [at for at, _, _ in stage.posts]
    assert 10 <= len(times) <= 16
    assert all(later - earlier >= 0.25 for earlier, later in itertools.pairwise(times))
    stage.tick()
    stage.tick()
    assert len(stage.posts) == len(times) + 1, "nothing is said twice"
    stage.writes(*WRITING, index=1, seconds=0.4)
    assert stage.last["index"] == 0
    stage.tick()
    assert (stage.last["index"], stage.last["lines"]) == (1, 3)


@pytest.mark.parametrize("character", ["x", "\x01", "\u202e", "😀", '"', "\n"])
def test_a_hostile_call_stays_small(stage: Stage, character: str) -> None:
    stage.writes(("_tool", character * 1_000_000), ("path", character * 1_000), (character * 9, character * 1_000_000))
    assert stage.last["chars"] == 1_001_000
    stage.writes(*WRITING[:3], ("path", character * 1_000_000), ("content", character * 1_000_000), index=1)
    assert stage.last["chars"] == 1_000_000
    assert "path" not in stage.last
    assert set(stage.last["tail"]) == {character}


def test_a_lost_draft_is_made_up_for_by_the_next(stage: Stage) -> None:
    stage.takes = False
    stage.writes(*WRITING)
    stage.takes = True
    stage.writes(("content", "d"))
    assert (stage.last["chars"], stage.last["tail"]) == (6, "a\nb\ncd")


def test_a_draft_that_nobody_could_take_is_offered_again(stage: Stage) -> None:
    stage.takes = False
    stage.writes(*WRITING)
    stage.takes = True
    stage.tick()
    stage.tick()
    assert [frame["chars"] for _, _, frame in stage.posts] == [5]


def test_what_the_server_executes_itself_has_none(stage: Stage) -> None:
    stage.writes(("_tool", "update_plan"), ("steps.0.text", "Read the file"))
    stage.commit()
    assert stage.posts == []


def test_a_repaired_answer_withdraws_them(stage: Stage) -> None:
    stage.drafts.drop()
    stage.tick()
    assert stage.posts == [], "there was none"
    stage.writes(*WRITING)
    stage.takes = False
    stage.drafts.drop()
    stage.tick()
    stage.takes = True
    stage.tick()
    assert stage.last == {
        "type": "tool_call_draft", "message_id": "m1", "turn_id": "t1", "index": 0, "withdrawn": True
    }  # fmt: skip
    stage.tick()
    stage.commit()
    assert len(stage.posts) == 2
    stage.writes(*WRITING)
    assert stage.last["lines"] == 3


@pytest.mark.parametrize(("frames", "is_withdrawn"), [((), True), (("tool_call",), False), (("turn_end",), False)])
def test_a_commit_that_clients_do_not_see_withdraws_them(
    stage: Stage, frames: tuple[str, ...], is_withdrawn: bool
) -> None:
    stage.commit(*frames)
    assert stage.posts == []
    stage.writes(*WRITING)
    stage.commit(*frames)
    assert stage.last.get("withdrawn", False) is is_withdrawn
