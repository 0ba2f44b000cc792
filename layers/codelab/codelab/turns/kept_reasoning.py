"""Keeps the model's reasoning from step to step of a turn, for providers that want it back (`llm.past_reasoning`).

The register names the messages whose reasoning is stored, so that a step reads it with the history, and a turn without
it reads and writes nothing more. The write that ends the turn removes it, as much as fits; those that begin and end the
next turns remove the rest. What no write removes, because the session is not used again, expires.
"""

from dataclasses import replace

from codelab.sessions import keys
from codelab.sessions.kept_reasoning import ReasoningItem
from codelab.turns.draft import Draft

#: The most bytes of an answer's reasoning that are kept, and the most items that one transaction removes: DynamoDB
#: takes items of 400 KB and transactions of 4 MB.
MOST_BYTES, _MOST_REMOVED = 200_000, 16
#: How long (s) it is kept if nothing removes it: longer than a call waits for a human.
_KEPT_S = 7 * 86_400


def keep(draft: Draft, reasoning: ReasoningItem | None) -> None:
    """Keep the reasoning of the newest message. What is too large is not kept; the model is asked as without it."""
    if reasoning is None or reasoning.bytes > MOST_BYTES:
        return
    register = draft.register
    draft.put(replace(reasoning, n=register.history_n, ttl=draft.now // 1000 + _KEPT_S))
    register.reasoning = [*register.reasoning, register.history_n]


def remove(draft: Draft) -> None:
    """Remove what earlier steps and turns have kept, and what this draft would write."""
    draft.puts[:] = [item for item in draft.puts if not isinstance(item, ReasoningItem)]
    stored = [] if draft.before is None else draft.before.reasoning
    draft.register.reasoning = stored[_MOST_REMOVED:]
    draft.deletes[:] = [key for key in draft.deletes if not keys.is_reasoning(key)]
    draft.deletes += map(keys.reasoning_key, stored[:_MOST_REMOVED])
