"""The sweep's decision: deadlines and repairs, without timers.

It runs every minute for sessions whose `due_at` has passed, and at once after a failed `llm_request`. Repeats and
concurrent runs are harmless, because it only changes what is still due.
"""

from itertools import islice

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.sessions.register import REPAIR_AFTER_MS, CallState, OutboxEntry, Phase
from codelab.sessions.transition import Transition
from codelab.turns import calls, connections, requested_compaction, turn
from codelab.turns.draft import Draft
from codelab.turns.steps import MAX_ATTEMPTS, is_leased_by

#: The reason in the `error` frame of a step that was interrupted too often.
GIVEN_UP = "step attempts exhausted"


def tick(draft: Draft, dead_owner: str | None = None) -> Transition:
    """Repair what is due. `dead_owner` is a failed invocation, whose step is repaired before its lease ends."""
    _repost(draft)
    _revive_step(draft, dead_owner)
    calls.end_child(draft)
    _expire_calls(draft)
    requested_compaction.revive(draft)
    connections.close_expired(draft)
    return draft.finish()


def _repost(draft: Draft) -> None:
    """Post frames again that may never have been posted; clients drop repeats by seq."""
    for first_seq, entry in sorted(draft.register.outbox.items()):
        if entry.at + REPAIR_AFTER_MS <= draft.now:
            draft.register.outbox[first_seq] = OutboxEntry(last=entry.last, at=draft.now)
            draft.repost.append((first_seq, entry.last))


def _revive_step(draft: Draft, dead_owner: str | None) -> None:
    register = draft.register
    if register.phase is Phase.DISPATCHED:
        if register.invoked_at + REPAIR_AFTER_MS <= draft.now:
            register.invoked_again_at = draft.now
            draft.invoke_step()  # the same attempt: a lost invoke does not count as one
        return
    if register.phase is not Phase.RUNNING:
        return
    # Compare the owner, not the step in the failed event: a duplicate may have acquired that step, and the failed
    # invocation may have continued with another one.
    is_dead = dead_owner is not None and is_leased_by(register, dead_owner)
    cancelled_at = register.cancelled_at
    ignored_cancel = cancelled_at and cancelled_at + REPAIR_AFTER_MS <= draft.now
    if not is_dead and not ignored_cancel:
        if not register.is_abandoned(draft.now):
            return
        draft.takes_over = True
    if is_dead:
        register.release()
    else:
        register.revoke_lease()
    if cancelled_at:
        turn.count_lost(draft)
        turn.end_cancelled(draft, draft.streamed())
        return
    if register.attempt >= MAX_ATTEMPTS:
        turn.count_lost(draft)
        if draft.streamed():
            draft.emit(turn.delta(draft, "", register.message_id, is_final=True, aborted=True))
        turn.fail(
            draft,
            ProtocolError(
                ErrorCode.AGENT_ERROR,
                f"The answer was interrupted {register.attempt} times; send the message again",
                details={"reason": GIVEN_UP},
            ),
        )
        return
    register.phase = Phase.DISPATCHED
    register.invoked_again_at = draft.now
    draft.invoke_step()


def _expire_calls(draft: Draft) -> None:
    """Settle overdue calls: without a result a call fails, without an approval it expires."""
    open_calls = draft.register.open_calls.items()
    overdue_calls = {call_id: entry for call_id, entry in open_calls if 0 < entry.due <= draft.now}
    # More do not fit into one transaction; the next sweep continues.
    due_calls = dict(islice(overdue_calls.items(), limits.CALLS_PER_STEP))
    draft.need(keys.call_key(call_id) for call_id in due_calls)
    for call_id, entry in due_calls.items():
        call = draft.call(call_id)
        if call is None or call_id not in draft.register.open_calls:  # a child was stopped, and with it its calls
            continue
        if entry.state is CallState.AWAITING_APPROVAL:
            outcome = {"result": {"status": "rejected", "reason": "expired", "feedback": ""}}
            call.decision = {"decision": "reject", "reason": "expired", "at": draft.now}
            calls.settle(draft, call, CallState.EXPIRED, outcome)
        else:
            message = f"{call.tool} timed out"
            if call_id in draft.register.delegations:
                calls.stop_children(draft, [call_id], message)
            outcome = calls.unfinished(call, ErrorCode.TIMEOUT, message)
            calls.settle(draft, call, CallState.FAILED, outcome)
    calls.continue_turn(draft)
