"""The lease of a running step: extended by its owner, taken over when it has ended, by whoever comes first."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from codelab.sessions.register import LEASE_MS, Register
from codelab.sessions.store import Conflict, SessionStore

from tests.fakes.aws.recorder import INVOKE, UPDATE
from tests.functions.system import Context, System

AFTER_LEASE_MS = LEASE_MS + 1_000


class Stopped(BaseException):
    """The owner goes no further."""


@pytest.fixture
def running(connected: System) -> System:
    """A session whose step has an owner that does nothing more."""

    def speak() -> Iterator[str]:
        raise Stopped
        yield

    connected.model.answers.append(speak())
    connected.send("c1", "user_message", content="hello")
    with pytest.raises(Stopped):
        connected.run_step(Context(request_id="first"))
    assert connected.item("REGISTER")["phase"] == "running"
    return connected


def store_of(system: System) -> SessionStore:
    store: SessionStore = system.function("sweep").engine.store
    return store


def register_of(system: System) -> Register:
    found = store_of(system).read("SESSION#ann#s1")
    assert found is not None
    return found


def test_extending_a_lease_changes_when_it_is_due_and_not_the_version(running: System) -> None:
    before = register_of(running)
    assert store_of(running).renew(before, before.lease_until + 8_000)
    after = register_of(running)
    assert (after.lease_until, after.version) == (before.lease_until + 8_000, before.version)
    assert after.stored_due_at == after.due_at()


def test_a_register_that_has_changed_keeps_its_due_time_when_the_lease_is_extended(running: System) -> None:
    before = register_of(running)
    running.connect("c2")
    due = register_of(running).stored_due_at
    assert store_of(running).renew(before, before.lease_until + 8_000)
    after = register_of(running)
    assert after.lease_until == before.lease_until + 8_000
    assert after.stored_due_at == due, "early is harmless, late would not be"


def test_a_lost_lease_cannot_be_extended(running: System) -> None:
    before = register_of(running)
    running.sweep(later_s=AFTER_LEASE_MS / 1000)
    assert not store_of(running).renew(before, before.lease_until + 8_000)
    assert not register_of(running).lease_until


def test_a_conflict_with_a_transaction_is_no_loss(running: System) -> None:
    running.function("sweep")
    running.aws.refuse(UPDATE, 400, "TransactionConflictException")
    with pytest.raises(Conflict):
        store_of(running).renew(register_of(running), 1)


def test_a_lease_that_is_extended_at_the_last_moment_is_not_taken_over(running: System) -> None:
    """The sweep has read the register when its owner extends the lease."""
    sweep = running.function("sweep")
    read, before = sweep.engine.store.read, register_of(running)

    def read_then_extend(pk: str) -> Register | None:
        found: Register | None = read(pk)
        sweep.engine.store.read = read
        assert sweep.engine.store.renew(before, before.lease_until + 60_000)
        return found

    sweep.engine.store.read = read_then_extend
    running.sweep(later_s=AFTER_LEASE_MS / 1000)
    after = register_of(running)
    assert (after.lease, after.phase) == (before.lease, before.phase)


def say_hello(system: System) -> Any:
    return system.send_raw("c1", "control", '{"type": "hello"}')


def resume(system: System) -> Any:
    return system.send_raw("c1", "control", '{"type": "resume", "last_seq": 0}')


def speak_again(system: System) -> Any:
    return system.send("c1", "user_message", content="Are you there?")


def connect(system: System) -> Any:
    return system.connect("c2")


@pytest.mark.parametrize(
    ("folder", "come"),
    [("control", say_hello), ("control", resume), ("user_message", speak_again), ("connect", connect)],
)
def test_whoever_comes_gives_the_step_of_a_dead_owner_to_another_attempt(
    running: System, folder: str, come: Callable[[System], Any]
) -> None:
    running.function(folder).clock_ms = LEASE_MS - 1_000
    come(running)
    assert INVOKE not in running.aws.calls
    running.function(folder).clock_ms = AFTER_LEASE_MS
    come(running)
    assert running.aws.calls.count(INVOKE) == 1
    for _ in range(3):  # the step's answer, and one to each message that was said meanwhile
        running.model.says("Here I am")
    running.function("llm_request").clock_ms = AFTER_LEASE_MS
    running.run_step()
    assert ("assistant", "Here I am") in running.history()
