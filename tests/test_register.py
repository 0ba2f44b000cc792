"""The session register as decisions work on it: on a copy."""

from dataclasses import MISSING, fields, is_dataclass

from codelab.protocol.outgoing import Status
from codelab.sessions.register import (
    CallEntry,
    CallState,
    ChildCall,
    Connection,
    FileEntry,
    OutboxEntry,
    OutOfTurnCall,
    Register,
)


def test_a_copy_is_equal_and_shares_nothing_that_can_change() -> None:
    entry = ("run", CallState.EXECUTING, 7, 8)
    full = Register(
        user="ann",
        session_id="s1",
        created_at=1,
        agent="coder",
        settings={"autonomy": "manual"},
        failures={"digest": 1},
        repeats={"digest": 1},
        usage={"total_tokens": 2},
        rule_versions={"user": 3},
        calls={"c1": CallEntry(*entry)},
        child_calls={"c3": ChildCall(*entry, delegation="c1")},
        out_of_turn_calls={"c2": OutOfTurnCall(*entry, executor="one")},
        inbox=["message"],
        steering=["message"],
        steered_messages=["earlier"],
        reasoning=[4],
        files={"file": FileEntry(4, 5, 6)},
        connections={"one": Connection(1, 2, 3)},
        outbox={9: OutboxEntry(10, 11)},
    )
    made = full.copy()
    assert made == full
    growing = [it.name for it in fields(Register) if it.default_factory is not MISSING]
    for name in growing:
        old, new = getattr(full, name), getattr(made, name)
        assert old, f"fill {name} above"
        assert new is not old
        for value, copied in zip(old.values(), new.values(), strict=True) if isinstance(old, dict) else ():
            assert isinstance(value, int | str) or (is_dataclass(value) and copied is not value)


def test_only_what_differs_is_written() -> None:
    connections, outbox = {"one": Connection(1, 2, 3)}, {5: OutboxEntry(6, 7)}
    old = Register("ann", "s1", 1, "coder", title="a", step=2, usage={"x": 1}, connections=connections, outbox=outbox)
    new = old.copy()
    assert new.changes_since(old) == ({}, [])
    new.title, new.step, new.status, new.usage = "b", 0, Status.THINKING, {}
    new.connections["one"].greeted = True
    new.connections["two"] = Connection(4, 5, 6)
    del new.outbox[5]
    changed, gone = new.changes_since(old)
    assert set(changed) == {"status", "title", "conn#one", "conn#two"}
    assert set(gone) == {"step", "usage", "post#5"}
    stored = {**old.attributes(), **changed}
    for name in gone:
        del stored[name]
    assert stored == new.attributes()
    assert new.changes_since(None) == (new.attributes(), [])
