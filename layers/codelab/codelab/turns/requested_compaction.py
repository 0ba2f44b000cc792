"""A compaction that a client asks for, although none is due.

The register says that one is requested, and one process at a time makes it: an invocation of its own, or the owner of
the step that runs. Whoever makes it claims it first, so that an invocation that is delivered twice asks the model once.
If the claim ends without a result, the sweep has it made again.
"""

from codelab.protocol.incoming import Compact
from codelab.protocol.outgoing import Compacted
from codelab.sessions.items import SummaryItem
from codelab.sessions.register import Phase
from codelab.sessions.transition import Transition
from codelab.turns import compaction, quotas
from codelab.turns.caller import Caller
from codelab.turns.compaction import Piece
from codelab.turns.connections import touch
from codelab.turns.decision import decision
from codelab.turns.draft import Draft, Outcome
from codelab.turns.quotas import QuotaNeed
from codelab.turns.text import token_estimate

#: How many processes may begin it.
MAX_TRIES = 3


@decision(Compact, quota=QuotaNeed.COUNTERS)
def compact(draft: Draft, caller: Caller, _frame: Compact) -> Transition | None:
    """Have the history compacted now or, if a step runs, when that has ended.

    None: it is requested already, or would save nothing.
    It counts as a message, and its Request like any other. Raises ProtocolError RATE_LIMITED.
    """
    register = draft.register
    if register.compact_at:
        draft.outcome = Outcome("repeated")
        return None
    if not compaction.is_worth_asking(register, draft.settings):
        draft.outcome = Outcome("nothing_to_compact")
        return None
    quotas.accept_request(draft, caller.plan)
    touch(draft, caller)
    draft.outcome = Outcome("compacting")
    register.compact_at = draft.now
    if register.phase in (Phase.IDLE, Phase.WAITING):
        draft.invoke_compaction()
    return draft.finish()


def claim(draft: Draft, lease: str, ends_at: int) -> Transition | None:
    """Claim the compaction until `ends_at` (ms).

    None: another process has claimed it, or it is not requested any more.
    """
    register = draft.register
    if register.compact_at and register.compact_lease == lease:  # an earlier try was written although it seemed to fail
        return draft.finish()
    if not register.compact_at or register.compact_until > draft.now:
        return None
    register.compact_tries += 1
    register.compact_lease, register.compact_until = lease, ends_at
    return draft.finish()


def end(
    draft: Draft,
    lease: str,
    last_summary: SummaryItem | None,
    piece: Piece | None,
    content: str | None,
    user_texts: tuple[str, ...],
) -> Transition | None:
    """Store the summary of `piece`, if there is one, and notify all connections. None: the claim is lost.

    `last_summary` is the one that this one replaces; `content` is None if the model gave none.
    """
    register = draft.register
    if not register.compact_at or register.compact_lease != lease:
        return None
    tokens_before = register.history_tokens + (token_estimate(last_summary.content) if last_summary else 0)
    if piece is None:
        _tell(draft, "unchanged", tokens_before, tokens_before)
    elif content is None:
        register.summary_failed_tokens = register.history_tokens
        _tell(draft, "failed", tokens_before, tokens_before)
    elif compaction.store(draft, piece, content, user_texts):
        _tell(draft, "summarised", tokens_before, register.history_tokens + token_estimate(content))
    else:  # a regular compaction was made meanwhile
        _tell(draft, "summarised", tokens_before, register.history_tokens)
    return draft.finish()


def revive(draft: Draft) -> None:
    """Start it again if no process makes it; give up after too many tries."""
    register = draft.register
    if draft.invoke is not None or register.compact_due is None or register.compact_due > draft.now:
        return
    if register.compact_tries >= MAX_TRIES:
        _tell(draft, "failed", register.history_tokens, register.history_tokens)
        return
    register.compact_at, register.compact_lease, register.compact_until = draft.now, "", 0
    draft.invoke_compaction()


def _tell(draft: Draft, outcome: str, tokens_before: int, tokens_after: int) -> None:
    register = draft.register
    register.compact_at = register.compact_until = register.compact_tries = 0
    register.compact_lease = ""
    draft.emit(
        Compacted.model_validate({"outcome": outcome, "tokens_before": tokens_before, "tokens_after": tokens_after})
    )
