"""The session register as decisions work on it: on a copy."""

from dataclasses import MISSING, fields, is_dataclass

from codelab.sessions.register import CallEntry, CallState, Connection, FileEntry, OutboxEntry, OutOfTurnCall, Register


def test_a_copy_is_equal_and_shares_nothing_that_can_change():
    entry = ("run", CallState.EXECUTING, 7, 8)
    full = Register(
        user="ann",
        session_id="s1",
        created_at=1,
        agent="coder",
        settings={"autonomy": "manual"},
        failures={"digest": 1},
        usage={"total_tokens": 2},
        rule_versions={"user": 3},
        calls={"c1": CallEntry(*entry)},
        out_of_turn_calls={"c2": OutOfTurnCall(*entry, executor="one")},
        inbox=["message"],
        steering=["message"],
        steered=["earlier"],
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
