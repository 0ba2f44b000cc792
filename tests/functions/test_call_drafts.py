"""A call is shown while the model writes it, to connections that asked for that, and to no others."""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from tests.fakes.aws.recorder import POST, READ, UPDATE
from tests.fakes.model.in_process import InProcess
from tests.functions.system import System
from tests.waiting import until

CALL = {"_tool": "write_file", "path": "new.py", "content": "one\ntwo\n"}
SAID = {"title": "Title", "message": "Here.", "calls": [CALL]}


@pytest.fixture(autouse=True)
def quick(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece of a call is due at once."""
    monkeypatch.setattr("codelab.delivery.stream.WATCH_S", 0.01)
    monkeypatch.setattr("codelab.delivery.call_drafts._FIRST_S", 0.0)
    monkeypatch.setattr("codelab.delivery.call_drafts._PAUSE_S", 0.0)


def drafts(system: System, connection: str = "c1") -> list[dict[str, Any]]:
    return [frame for frame in system.aws.frames(connection) if frame["type"] == "tool_call_draft"]


def states(system: System) -> list[bool]:
    """Whether what c1 saw was withdrawn, without repetitions: how many drafts are posted depends on time."""
    return [state for state, _ in groupby(draft.get("withdrawn", False) for draft in drafts(system))]


def slow(system: System, *answers: tuple[dict[str, Any], int]) -> InProcess:
    """A model that writes each answer up to "two", and goes on once c1 has seen so many states of drafts."""

    def answer(_body: Any, _call: Any) -> Iterator[str]:
        solution, shown = answers[len(model.requests) - 1]
        text = json.dumps(solution)
        place = text.find("two")
        yield text[:place]
        until(lambda: len(states(system)) >= shown)
        yield text[place:]

    model = InProcess(answer)
    return model


def greet(system: System, connection: str, **capabilities: Any) -> None:
    hello = {"type": "hello", "capabilities": {"tools_supported": ["write_file"], **capabilities}}
    system.send_raw(connection, "control", json.dumps(hello))


def turn(system: System) -> list[str]:
    """Run a turn's first step; gives the operations.

    Without reads and early reports of what was posted, whose number depends on time: the sender makes both in pauses.
    """
    system.say("c1", "Write new.py")
    return sorted(call for call in system.aws.calls if call not in (READ, UPDATE))


def test_a_call_is_shown_while_it_is_written_and_costs_posts_only(
    extended: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extended, "model", slow(extended, (SAID, 0), (SAID, 1)))
    greet(extended, "c1")
    calls = turn(extended)
    assert drafts(extended) == []
    extended.connect("c1", "s2", extensions=True)
    greet(extended, "c1", drafts=True)
    more = turn(extended)
    *earlier, draft = posted = drafts(extended)  # a sender that looks at the right moment sees less, and then all of it
    assert (draft["tool_name"], draft["path"], draft["lines"], draft["tail"]) == ("write_file", "new.py", 1, "one\n")
    frames = extended.aws.frames("c1")
    kinds = [frame["type"] for frame in frames]
    assert kinds.index("assistant_message") < kinds.index("tool_call_draft") < kinds.index("tool_call")
    assert not any("seq" in frame for frame in posted)
    assert [frame["chars"] for frame in earlier] == sorted({frame["chars"] for frame in earlier} - {draft["chars"]})
    assert [frame["seq"] for frame in frames if "seq" in frame] == list(range(1, len(frames) - len(earlier)))
    events = [sk for pk, sk in extended.all_keys() if sk.startswith("EVENT#") and pk.endswith("#s2")]
    assert len(events) == len(frames) - len(posted), "they are not in the log"
    assert more == sorted([*calls, *[POST] * len(posted)])


def test_a_plain_turn_costs_the_same(extended: System, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({**SAID, "calls": []})
    monkeypatch.setattr(extended, "model", InProcess(lambda _body, _call: text))
    calls = turn(extended)
    extended.connect("c1", "s2", extensions=True)
    greet(extended, "c1", drafts=True)
    assert turn(extended) == calls


def test_only_who_asked_for_drafts_gets_them(extended: System, monkeypatch: pytest.MonkeyPatch) -> None:
    for connection in ("c2", "c3", "c4"):
        extended.connect(connection, extensions=connection != "c4")
    greet(extended, "c1", drafts=True)
    greet(extended, "c2")
    greet(extended, "c3", drafts=True)
    greet(extended, "c3", drafts=False)
    monkeypatch.setattr(extended, "model", slow(extended, (SAID, 1)))
    turn(extended)
    assert drafts(extended)
    assert [drafts(extended, connection) for connection in ("c2", "c3", "c4")] == [[], [], []]


def test_a_call_that_is_refused_unseen_withdraws_its_draft(extended: System, monkeypatch: pytest.MonkeyPatch) -> None:
    greet(extended, "c1", drafts=True)
    outside = {**SAID, "calls": [{**CALL, "path": "../new.py"}]}
    monkeypatch.setattr(extended, "model", slow(extended, (outside, 1), ({"message": "It ends.", "calls": []}, 2)))
    turn(extended)
    *_, shown, withdrawn = drafts(extended)
    assert withdrawn == {
        "type": "tool_call_draft",
        "message_id": shown["message_id"],
        "turn_id": shown["turn_id"],
        "index": 0,
        "withdrawn": True,
    }
    assert "tool_call" not in [frame["type"] for frame in extended.aws.frames("c1")]


def test_an_answer_that_is_repaired_withdraws_its_draft(extended: System, monkeypatch: pytest.MonkeyPatch) -> None:
    greet(extended, "c1", drafts=True)
    invalid = {**SAID, "calls": [{**CALL, "more": 1}]}
    monkeypatch.setattr(extended, "model", slow(extended, (invalid, 1), (SAID, 3)))
    turn(extended)
    assert states(extended) == [False, True, False]
    assert [draft.get("withdrawn", False) for draft in drafts(extended)].count(True) == 1
