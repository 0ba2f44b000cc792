"""A user who speaks over HTTP has no connection; and what a session becomes that is deleted, on the pure core."""

from dataclasses import replace

from codelab.protocol.errors import ErrorCode
from codelab.sessions.keys import usage_key
from codelab.sessions.register import Phase
from codelab.turns import compaction, lifecycle
from codelab.turns.caller import Caller
from codelab.turns.draft import Draft, Inputs
from codelab.turns.lifecycle import CreateSession, SessionLease

from tests.turns.world import HTTP, IDE, OTHER, READ, VIEWER, World, dispatched, refusal, running


def test_a_message_over_http_joins_nothing_and_leaves_the_executor() -> None:
    world = dispatched()
    world.answer("ok")
    world.join(OTHER)
    before = set(world.register.connections)
    world.say("over http", HTTP)
    assert set(world.register.connections) == before
    assert world.register.executor == IDE.connection_id


def test_the_newest_window_executes_where_the_executor_is_gone() -> None:
    world = dispatched()
    world.answer("ok")
    world.join(OTHER)
    world.join(VIEWER)
    world.leave(IDE)
    world.say("over http", HTTP)
    assert world.register.executor == OTHER.connection_id


def test_the_first_window_to_come_executes_where_there_was_none() -> None:
    world = World()
    world.leave(IDE)
    world.say("over http", HTTP)
    assert world.register.executor == ""
    world.join(VIEWER)
    assert world.register.executor == ""
    world.join(OTHER)
    assert world.register.executor == OTHER.connection_id
    world.answer("", READ)
    assert world.register.phase is Phase.WAITING


def test_the_history_knows_a_message_by_the_id_that_its_sender_was_told() -> None:
    world = World()
    world.say("hello", HTTP)
    (accepted,) = (key.removeprefix("INPUT#") for key in world.table if key.startswith("INPUT#"))
    assert world.table["MESSAGE#000000001"]["message_id"] == accepted


def delete(world: World, lease: SessionLease) -> bool:
    return world.decide(lambda draft: lifecycle.begin_deletion(draft, lease), include_hidden=True) is not None


def test_a_session_that_is_deleted_forgets_all_but_who_might_still_write() -> None:
    world, step = running()
    assert delete(world, SessionLease("deleter", world.now + 30_000))
    register = world.register
    assert (register.erase_at, register.purge_after) == (world.now + 30_000, step.alive_until)
    assert (register.phase, register.connections, register.history_n, register.title) == (Phase.IDLE, {}, 0, "")
    assert register.due_at() == register.erase_at
    assert register.last_activity == 0, "it is in no list"


def test_a_deletion_waits_for_an_owner_whose_step_was_given_to_another() -> None:
    world, first = running()
    world.pass_time(26)
    world.answer("Done by the second attempt")
    assert delete(world, SessionLease("deleter", world.now + 30_000))
    assert world.register.purge_after == first.alive_until


def test_a_deletion_of_an_idle_session_waits_for_nobody() -> None:
    world = dispatched()
    world.answer("Done")
    assert delete(world, SessionLease("deleter", world.now + 30_000))
    assert world.register.purge_after == 0


def test_one_deletes_at_a_time_and_the_next_one_when_it_must_be_dead() -> None:
    world, step = running()
    assert delete(world, SessionLease("one", world.now + 30_000))
    assert not delete(world, SessionLease("other", world.now + 40_000))
    world.now += 30_000
    assert delete(world, SessionLease("other", world.now + 30_000))
    assert world.register.purge_after == step.alive_until


def test_only_its_maker_reveals_a_fork() -> None:
    world = World()
    world.say("hello")
    world.answer("Hi")
    world.decide(lambda draft: compaction.back_off(draft, draft.before))
    source = world.register
    inputs = Inputs(world.now, world.settings, world.new_id, items={usage_key(world.now): None})
    draft = Draft.new("ann", "fork", inputs)
    begun = lifecycle.begin_fork.decide(draft, Caller("ann", "fork", ""), SessionLease("maker", world.now + 30_000))
    assert begun is not None
    assert begun.after.erase_at == world.now + 30_000
    hidden = replace(begun.after)
    assert lifecycle.reveal(Draft.of(hidden, inputs), SessionLease("other", 0), source, 2, "Fork", 9) is None
    tokens = source.history_tokens
    revealed = lifecycle.reveal(Draft.of(hidden, inputs), SessionLease("maker", 0), source, 2, "Fork", tokens)
    assert revealed is not None
    register = revealed.after
    assert (register.erase_at, register.lease, register.history_n, register.title) == (0, "", 2, "Fork")
    assert register.agent == source.agent
    assert register.summary_failed_tokens == source.history_tokens > 0, "its model is not asked sooner either"
    assert register.last_activity == world.now


def test_metadata_is_bounded() -> None:
    world = World()
    event = CreateSession("ann", {"x": "y" * 16_000})
    draft = Draft.new("ann", "s2", Inputs(world.now, world.settings, world.new_id))
    error = refusal(lambda: lifecycle.create.decide(draft, Caller("ann", "s2", ""), event))
    assert error.code is ErrorCode.PAYLOAD_TOO_LARGE
