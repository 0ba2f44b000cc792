"""A client that loses its connection and comes back: `$disconnect` of the old one may come at any time, or never."""

import itertools
import json
from collections.abc import Sequence

import pytest

from tests.fakes.aws.recorder import APPEND, POST, READ, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import System
from tests.sampling import sampled

#: The new `$connect`, the first frame on it, the old `$disconnect`, and that one again.
HAPPENINGS = ("connect", "frame", "disconnect", "repeat")
ORDERS = [order for order in itertools.permutations(HAPPENINGS) if order.index("connect") < order.index("frame")]


def _act(system: System, what: str) -> None:
    if what == "connect":
        system.connect("new", extensions=True)
    elif what == "frame":
        system.send_raw("new", "control", json.dumps({"type": "resume", "last_seq": 0}))
    else:
        system.disconnect("old")


def _begin(system: System) -> str:
    """The old connection executes a call. Returns the call's id."""
    system.connect("old", extensions=True)
    (call_id,) = system.ask("old", "Reading", call("read_file", path="a.py"))
    return call_id


def _check(system: System, call_id: str, frames: Sequence[dict]) -> None:
    register = system.item("REGISTER")
    assert system.connections() == {"new"}
    assert register["executor"] == "new"
    asked = [frame for frame in frames if frame["type"] == "tool_call" and frame.get("execute", True)]
    assert {frame["call_id"] for frame in asked} == {call_id}, "it was told to execute the call"
    assert register["calls"][call_id]["state"] == "executing"


@pytest.mark.parametrize("order", sampled([[*order] for order in ORDERS]), ids="-".join)
def test_in_whatever_order_the_old_connection_ends_and_the_new_one_begins(system: System, order: Sequence[str]) -> None:
    call_id = _begin(system)
    frames = []
    for what in order:
        _act(system, what)
        frames += system.aws.frames("new")
    _check(system, call_id, frames)


@pytest.mark.parametrize(
    ("outer", "inner", "after"),
    [
        ("connect", "disconnect", ["frame"]),
        ("disconnect", "connect", ["frame"]),
        ("frame", "disconnect", []),
        ("disconnect", "frame", []),
    ],
)
def test_when_both_are_under_way_at_once(system: System, outer: str, inner: str, after: Sequence[str]) -> None:
    """`inner` happens between the read and the write of `outer`, which has to decide again."""
    call_id = _begin(system)
    if "connect" not in (outer, inner):
        _act(system, "connect")
    frames: list[dict] = []

    def meanwhile() -> None:
        _act(system, inner)
        frames.extend(system.aws.frames("new"))

    system.aws.once(UPDATE, meanwhile)
    _act(system, outer)
    frames += system.aws.frames("new")
    for what in after:
        _act(system, what)
        frames += system.aws.frames("new")
    _check(system, call_id, frames)


def test_a_disconnect_that_never_comes_is_found_out_by_the_first_frame(system: System) -> None:
    call_id = _begin(system)
    _act(system, "connect")
    system.aws.gone = {"old"}
    system.function("control").clock_ms = 11_000  # the old one has been there for longer than a 410 may mean "not yet"
    system.send_raw("new", "control", json.dumps({"type": "resume", "last_seq": 0}))
    frames = system.aws.frames("new")
    _check(system, call_id, frames)


@pytest.mark.parametrize("nth", sampled(range(1, 9)))
@pytest.mark.parametrize("keeps", ["first", "newest"])
def test_the_old_connection_ends_while_the_new_one_is_replayed_to(system: System, keeps: str, nth: int) -> None:
    """The call comes before the frames that precede it, to execute; then the replay's copy of it, only to show."""
    call_id = _begin(system)
    _act(system, "connect")
    frames: list[dict] = []

    def meanwhile() -> None:
        frames.extend(system.aws.frames("new"))
        _act(system, "disconnect")
        frames.extend(system.aws.frames("new"))
        system.aws.posts.clear()

    system.aws.once(POST, meanwhile, nth=nth)
    _act(system, "frame")
    frames += system.aws.frames("new")
    assert frames.pop()["type"] == "resumed"
    assert {"old", "new"} >= system.connections()
    _act(system, "disconnect")  # if there were fewer posts
    frames += system.aws.frames("new")
    _check(system, call_id, _as_shown(frames, keeps))


def _as_shown(frames: Sequence[dict], keeps: str) -> list[dict]:
    """What a client shows: in order, and later copies of calls. Of a frame that waits, it keeps one copy."""
    shown, ahead, last_seq = [], dict[int, dict](), 0
    for frame in frames:
        if (seq := frame.get("seq", 0)) > last_seq:
            ahead[seq] = ahead.get(seq, frame) if keeps == "first" else frame
        else:
            shown.append(frame)
        while last_seq + 1 in ahead:
            last_seq += 1
            shown.append(ahead.pop(last_seq))
    return shown


# -- windows that join while a step streams ---------------------------------------------------------------------------


def _joins_during(system: System, operation: str, nth: int = 1) -> None:
    """Have "late" join in the middle of the nth next call of `operation`."""
    joining = system.load("connect")
    event = events.connect("late", events.authorizer_context("s1", extensions=True))

    system.aws.once(operation, lambda: joining(event) and None, nth=nth)


def test_who_joins_while_the_only_piece_of_text_is_logged_gets_it_and_all_that_follows(extended: System) -> None:
    extended.function("llm_request")
    _joins_during(extended, APPEND)
    extended.ask("c1", "The only piece")
    there = extended.aws.frames("c1")
    first = next(n for n, frame in enumerate(there) if frame["type"] == "assistant_message")
    assert extended.aws.frames("late") == there[first:]


def test_who_joins_while_the_step_is_committed_gets_its_last_frames(extended: System) -> None:
    extended.model.says("Said before")
    extended.send("c1", "user_message", content="hello")
    extended.function("llm_request")
    _joins_during(extended, TRANSACTION)
    extended.run_step()
    final = [frame for frame in extended.aws.frames("c1") if frame.get("is_final")]
    there = extended.aws.frames("c1")
    assert extended.aws.frames("late") == there[there.index(final[0]) :]


# -- a long replay ------------------------------------------------------------------------------------------------


def test_a_replay_holds_one_page_of_the_log_at_a_time(extended: System) -> None:
    put = extended.table.put_item
    for seq in range(1, 351):
        frame = json.dumps({"type": "agent_status", "status": "thinking", "message": "", "seq": seq})
        item = {"frame": {"S": frame}, "audience": {"S": "all"}, "ttl": {"N": str(2**40)}}
        put(TableName="Table", Item={"pk": {"S": "SESSION#ann#s1"}, "sk": {"S": f"EVENT#{seq:012d}"}, **item})
    extended.send_raw("c1", "control", json.dumps({"type": "resume", "last_seq": 0}))
    *replayed, resumed = extended.aws.frames("c1")
    assert [frame["seq"] for frame in replayed] == list(range(1, 351))
    assert (resumed["type"], resumed["last_seq"]) == ("resumed", 350)
    first_post = extended.aws.calls.index(POST)
    pages = [len(list(run)) for what, run in itertools.groupby(extended.aws.calls[first_post:]) if what == POST]
    assert pages == [100, 100, 100, 50, 1]
    between = set(extended.aws.calls[first_post:]) - {POST}
    assert between == {READ_MANY, READ, UPDATE}
