"""Routing: if the session's agent only routes, a small Request in the step chooses the agent that answers.

The choice is committed before the model is asked for the answer, so that later attempts and steps use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codelab.agents import FALLBACK, Agent
from codelab.llm.outcome import Result
from codelab.sessions.items import MessageItem
from codelab.sessions.transition import Transition
from codelab.turns import handover
from codelab.turns.draft import Draft
from codelab.turns.steps import Lease, count, owns
from codelab.turns.text import head_and_tail

#: Characters of the user's message, and of each earlier message, in the Request; and the number of earlier messages.
_MESSAGE_CHARS, _EARLIER_CHARS = 4_000, 400
_EARLIER = 6
_REASON_CHARS = 500


@dataclass(frozen=True, slots=True)
class Choice:
    """The agent that answers, and why. `confidence` is from 0 to 1, None if the model made no choice."""

    agent: str
    reason: str
    confidence: float | None = None
    usage: dict[str, int] = field(default_factory=dict)


def schema(agents: Mapping[str, Agent]) -> dict[str, Any]:
    """The schema of the choice: an agent, the reason, and the confidence."""
    names = sorted(agent.name for agent in agents.values() if not agent.routes)
    properties: dict[str, Any] = {
        "agent": {"type": "string", "enum": names, "description": "Who is to answer"},
        "reason": {"type": "string", "description": "Why, in one short sentence for the user"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "How sure that is"},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def messages(router: Agent, agents: Mapping[str, Agent], history: Sequence[MessageItem]) -> list[dict[str, Any]]:
    """The messages of the Request: the agents, and the end of the conversation."""
    there_are = "\n".join(
        f"- {agent.name}: {agent.description}" for _, agent in sorted(agents.items()) if not agent.routes
    )
    spoken = [message for message in history if message.role in ("user", "assistant") and message.content]
    asked = max((n for n, message in enumerate(spoken) if message.role == "user"), default=0)
    lines = [
        f"{message.role}: {head_and_tail(message.content, _EARLIER_CHARS)}"
        for message in spoken[max(0, asked - _EARLIER) : asked]
    ]
    said = head_and_tail(spoken[asked].content, _MESSAGE_CHARS) if spoken else ""
    return [
        {"role": "system", "content": f"{router.prompt}\n\nThe agents:\n{there_are}"},
        {"role": "user", "content": "\n\n".join([*(["Earlier:", *lines, "Now:"] if lines else []), said])},
    ]


def choice_of(result: Result, usage: dict[str, int]) -> Choice:
    """The model's choice, with its usage."""
    solution = result.solution
    return Choice(
        agent=solution["agent"],
        reason=head_and_tail(solution["reason"], _REASON_CHARS),
        confidence=solution["confidence"],
        usage=usage,
    )


def no_choice(usage: dict[str, int]) -> Choice:
    """The choice if the model made none: the fallback agent."""
    return Choice(FALLBACK, "No specialised agent could be chosen", usage=usage)


def route(draft: Draft, lease: Lease, router: str, choice: Choice) -> Transition | None:
    """Switch to the chosen agent, unless the user has chosen one meanwhile.

    None: the lease is lost, or the turn was cancelled.
    """
    register = draft.register
    if not owns(register, lease) or register.cancelled_at:
        return None
    if register.agent == router:
        count(register, choice.usage)
        handover.switch(draft, choice.agent, choice.reason, choice.confidence)
    return draft.finish()
