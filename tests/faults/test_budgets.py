"""What each event costs: the calls of AWS that it makes in a conversation that nothing disturbs, to the last one.

A call more is latency and money for every user, so it has to be decided here. Calls that are made side by side are
counted as well; posts are one a frame and connection.
"""

from collections.abc import Mapping

import pytest

from tests.faults.conversations import CONVERSATIONS
from tests.faults.fault import APPEND, FETCH, INVOKE, POST, QUERY, READ, READ_MANY, STORE, TRANSACTION, UPDATE
from tests.faults.player import Player, counted
from tests.faults.stage import Stage

Cost = Mapping[str, int]
Event = tuple[str, Cost]

CONNECT: Event = ("connect", {READ: 1, UPDATE: 1})
USER_MESSAGE: Event = ("user_message", {READ: 1, TRANSACTION: 1, INVOKE: 1})
CANCEL_A_STEP: Event = ("cancel", {READ: 1, UPDATE: 1})
LAST_RESULT: Event = ("tool_result", {READ_MANY: 1, TRANSACTION: 1, INVOKE: 1})
ANOTHER_RESULT: Event = ("tool_result", {READ_MANY: 1, TRANSACTION: 1})
APPROVAL: Event = ("hitl_decision", {READ_MANY: 1, TRANSACTION: 1, POST: 2, UPDATE: 1})
REJECTION: Event = ("hitl_decision", {READ_MANY: 1, TRANSACTION: 1, INVOKE: 1})
#: One query a shard: of what is found, one more only after a whole page.
SWEEP: Cost = {QUERY: 8, READ: 1, TRANSACTION: 1}


def step(number: int, batches: int, posts: int, steps: int = 1) -> Event:
    """The register with the history, acquire, an append and a read beside the post for each batch, commit; one report.

    `steps` is how many of them one invocation runs, `number` the first. It also posts what it is the first to tell: the
    user's message, or the call that was settled for it.
    """
    posts += 1
    reads = {READ: batches, READ_MANY: steps}
    cost = {**reads, TRANSACTION: steps, APPEND: batches, POST: posts, UPDATE: steps + 1}
    return f"step {number}", {operation: calls for operation, calls in cost.items() if calls}


def thinking_step(number: int, batches: int, posts: int, steps: int = 1) -> Event:
    """With a batch of thoughts for each step."""
    name, cost = step(number, batches, posts, steps)
    return name, {**cost, APPEND: batches + steps}


BUDGETS: Mapping[str, list[Event]] = {
    "simple": [CONNECT, USER_MESSAGE, step(1, batches=3, posts=7)],
    "one tool": [CONNECT, USER_MESSAGE, step(1, 1, 5), LAST_RESULT, step(2, 2, 6)],
    "three tools": [
        CONNECT, USER_MESSAGE, step(1, 0, 5), ANOTHER_RESULT, ANOTHER_RESULT, LAST_RESULT, step(2, 2, 8),
    ],
    "approve": [CONNECT, USER_MESSAGE, step(1, 1, 5), APPROVAL, LAST_RESULT, step(2, 2, 6)],
    "edit": [CONNECT, USER_MESSAGE, step(1, 1, 5), APPROVAL, LAST_RESULT, step(2, 2, 6)],
    "reject": [CONNECT, USER_MESSAGE, step(1, 1, 5), REJECTION, step(2, 2, 6)],
    "approval expires": [
        CONNECT, USER_MESSAGE, step(1, 1, 5),
        ("schedule", {**SWEEP, READ_MANY: 1, INVOKE: 1}),
        ("step 2", {**step(2, 2, 6)[1], READ_MANY: 1 + 1}),
    ],
    "cancel while it streams": [
        CONNECT, USER_MESSAGE, step(1, 2, 6), CANCEL_A_STEP, USER_MESSAGE, step(1, 2, 6),
    ],
    # The step that follows a tool of the server's own is run by the same invocation.
    "a plan, and then a tool": [
        CONNECT, USER_MESSAGE, step(1, 1, posts=7, steps=2), LAST_RESULT, step(3, 2, 6),
    ],
    # The choice is one more transaction, and one frame; an agent with a model of its own costs no more of AWS.
    "an agent is chosen": [
        CONNECT,
        ("switch_agent", {**USER_MESSAGE[1], POST: 1, UPDATE: 1}),
        ("step 1", {READ: 1, READ_MANY: 1, TRANSACTION: 2, APPEND: 1, POST: 6 + 1, UPDATE: 2}),
        LAST_RESULT, step(2, 2, 6), USER_MESSAGE, step(1, 1, 5),
    ],
    "an agent with a model of its own is chosen": [
        CONNECT,
        ("switch_agent", {**USER_MESSAGE[1], POST: 1, UPDATE: 1}),
        ("step 1", {READ: 1, READ_MANY: 1, TRANSACTION: 2, APPEND: 1, POST: 6 + 1, UPDATE: 2}),
        LAST_RESULT, step(2, 2, 6),
    ],
    # The summary costs one read of the history, one of the register and one transaction, when all was posted.
    "a summary": [
        CONNECT, USER_MESSAGE, step(1, 2, 6), USER_MESSAGE, step(1, 2, 6), USER_MESSAGE,
        ("step 1", {READ: 2 + 1, READ_MANY: 1 + 1, TRANSACTION: 1 + 1, APPEND: 2, POST: 6 + 1, UPDATE: 2}),
        USER_MESSAGE, step(1, 2, 6),
    ],
    # One that is asked for is claimed by an update, and its end is told.
    "a compaction that is asked for": [
        CONNECT, USER_MESSAGE, step(1, 2, 6), USER_MESSAGE, step(1, 2, 6),
        ("compact", {READ: 1, TRANSACTION: 1, INVOKE: 1, POST: 1}),
        ("compact", {READ: 1 + 1, UPDATE: 1 + 1, READ_MANY: 1, TRANSACTION: 1, POST: 1}),
        USER_MESSAGE, step(1, 2, 6),
    ],
    # One that fails writes only the register, and the next step does not try again.
    "a summary that fails": [
        CONNECT, USER_MESSAGE, step(1, 2, 6), USER_MESSAGE, step(1, 2, 6), USER_MESSAGE,
        ("step 1", {READ: 2 + 1, READ_MANY: 1 + 1, TRANSACTION: 1, APPEND: 2, POST: 6 + 1, UPDATE: 2 + 1}),
        USER_MESSAGE, step(1, 2, 6),
    ],
    "agent switch": [
        CONNECT, USER_MESSAGE, step(1, 1, 5), LAST_RESULT, step(2, 2, 6),
        ("switch_agent", USER_MESSAGE[1]),
        step(1, 1, 5),
        ("switch_agent", {READ: 1}),
    ],
    # Reasoning that goes back to the model is read and written with what a step reads and writes anyway.
    "kept reasoning": [
        CONNECT,
        ("switch_agent", {**USER_MESSAGE[1], POST: 1, UPDATE: 1}),
        thinking_step(1, 1, 6), LAST_RESULT, thinking_step(2, 2, 8), LAST_RESULT, thinking_step(3, 0, 4), APPROVAL,
        LAST_RESULT, thinking_step(4, 2, 7), USER_MESSAGE, thinking_step(1, 1, 8, steps=2), LAST_RESULT, step(3, 1, 5),
    ],
    # Each of two clients gets every frame. That one has left, a post finds out and removes it before its `$disconnect`
    # comes; when it comes back it gets what it has missed and is handed the call.
    "two clients, one leaves and comes back": [
        CONNECT, CONNECT, USER_MESSAGE,
        ("step 1", {**step(1, 1, 11)[1], READ: 1 + 1, UPDATE: 2 + 1}),
        ("disconnect", {READ: 1}),
        CONNECT,
        ("resume", {READ: 2, READ_MANY: 4, TRANSACTION: 1, POST: 3, UPDATE: 1 + 1}),
        LAST_RESULT,
        # The one that did not send the result is shown it, which is read with the call.
        ("step 2", {**step(2, 2, 13)[1], READ_MANY: 1 + 1}),
    ],
    # Content that goes by reference is fetched once and stored once; the agent reads on in it at the cost of the call's
    # item and of the object, beside the step's own calls.
    "a large result": [
        CONNECT, USER_MESSAGE, step(1, 1, 5),
        ("upload_request", {POST: 1}),
        ("tool_result", {**LAST_RESULT[1], FETCH: 1, STORE: 1}),
        # Afterwards the result is cut, by one update.
        ("step 2", {READ: 3 + 1, READ_MANY: 3 + 1, FETCH: 1, TRANSACTION: 2, APPEND: 3, POST: 9, UPDATE: 3 + 1}),
    ],
    # The invoke was lost with its sender, who sends again what was accepted; the sweep invokes, and posts the message
    # and the status that the step has not posted.
    "an invoke that was lost": [
        CONNECT, USER_MESSAGE,
        ("user_message", {READ: 1, READ_MANY: 1}),
        ("schedule", {**SWEEP, INVOKE: 1, READ_MANY: 1, POST: 2, UPDATE: 1}),
        step(1, 1, 3), LAST_RESULT, step(2, 2, 6),
    ],
}  # fmt: skip


#: With quotas: reads are of the user's items too, and what was used is counted, once for each connection, message and
#: step's invocation, whose Requests are counted together. Nothing else costs more.
LIMITED_CONNECT: Event = ("connect", {READ_MANY: 1, UPDATE: 1 + 1})
LIMITED_MESSAGE: Event = ("user_message", {READ_MANY: 1, TRANSACTION: 1, INVOKE: 1, UPDATE: 1})


def limited_step(number: int, batches: int, posts: int, steps: int = 1) -> Event:
    name, cost = step(number, batches, posts, steps)
    return name, {**cost, UPDATE: cost[UPDATE] + 1}


LIMITED: Mapping[str, list[Event]] = {
    "simple": [LIMITED_CONNECT, LIMITED_MESSAGE, limited_step(1, 3, 7)],
    "approve": [
        LIMITED_CONNECT, LIMITED_MESSAGE, limited_step(1, 1, 5), APPROVAL, LAST_RESULT, limited_step(2, 2, 6),
    ],
    "a plan, and then a tool": [
        LIMITED_CONNECT, LIMITED_MESSAGE, limited_step(1, 1, 7, steps=2), LAST_RESULT, limited_step(3, 2, 6),
    ],
    "a large result": [
        LIMITED_CONNECT, LIMITED_MESSAGE, limited_step(1, 1, 5),
        # There is no register to read it with: looked at and counted in one.
        ("upload_request", {UPDATE: 1, POST: 1}),
        ("tool_result", {**LAST_RESULT[1], FETCH: 1, STORE: 1}),
        # The count of the steps, and the cut.
        ("step 2", {READ: 3 + 1, READ_MANY: 3 + 1, FETCH: 1, TRANSACTION: 2, APPEND: 3, POST: 9, UPDATE: 3 + 1 + 1}),
    ],
}  # fmt: skip


def made(stage: Stage, name: str) -> list[Event]:
    """The events of the conversation, and what each costs."""
    (conversation,) = [found for found in CONVERSATIONS if found.name == name]
    player = Player(stage, conversation)
    player.play()
    return [(label, cost) for _, label, cost in counted(player.seen)]


@pytest.mark.parametrize("name", LIMITED)
def test_with_quotas_what_is_used_is_counted_and_nothing_else(limited_stage: Stage, name: str) -> None:
    assert made(limited_stage, name) == LIMITED[name]


@pytest.mark.parametrize("name", BUDGETS)
def test_every_event_makes_exactly_the_calls_it_may_make(stage: Stage, name: str) -> None:
    assert made(stage, name) == BUDGETS[name]
