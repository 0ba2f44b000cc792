"""Routing: if the session's agent only routes, the model chooses the agent in the Request that answers as well.

The choice is the first field of the answer. It is committed before text is sent, so that later attempts and steps use
it. An agent with a model of its own cannot answer in that Request; it is asked in another one when it was chosen.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from codelab.agents import FALLBACK, Agent
from codelab.llm.errors import Cancelled, ContentFilter, DeadlineExceeded, Prose, Refusal, TransportError, Truncated
from codelab.llm.failures import FailureKind
from codelab.llm.outcome import TextDelta
from codelab.protocol.tools import Tool
from codelab.sessions.transition import Transition
from codelab.turns.draft import Draft
from codelab.turns.handover import switch
from codelab.turns.steps import Lease, owns

AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Choice:
    """The agent that answers, and why."""

    agent: str
    reason: str = "The model chose this agent"


#: The choice if the model made none.
NO_CHOICE = Choice(FALLBACK, "No specialised agent could be chosen")


#: Failures that a smaller Request may not have.
_OF_THE_REQUEST = (FailureKind.OTHER, FailureKind.WINDOW)


class Choosing:
    """Reads the choice among `names` from a streamed answer: `agent` is None until it is known.

    Text is held back until then, because a model may write the fields in another order.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._name_prefix = ""
        self._held_pieces: list[str] = []
        self.agent: str | None = None

    def take(self, delta: TextDelta) -> str:
        """The text that may be sent after this piece of the answer."""
        is_text = delta.field != AGENT
        if self.agent is not None:
            return delta.text if is_text else ""
        if is_text:
            self._held_pieces.append(delta.text)
        else:
            self._name_prefix += delta.text
        # A name that begins another one is complete when the next field begins.
        may_grow = not is_text and any(
            name.startswith(self._name_prefix) for name in self._names if name != self._name_prefix
        )
        if self._name_prefix not in self._names or may_grow:
            return ""
        self.agent = self._name_prefix
        return "".join(self._held_pieces)


def schema(answer: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The schema `answer` with the agent, one of `names`, as its first property: models generate them in order."""
    agent = {"type": "string", "enum": sorted(names), "description": "Who answers"}
    properties = {AGENT: agent, **answer.get("properties", {})}
    required = [AGENT, *answer.get("required", ())]
    return {**answer, "type": "object", "properties": properties, "required": required, "additionalProperties": False}


def combined_agent(router: Agent, agents: Mapping[str, Agent], answering_agents: Mapping[str, Agent]) -> Agent:
    """The router with what it needs to choose one of `agents`, and to answer as one of `answering_agents`.

    It has all their tools, the fallback agent's first: that agent answers nearly every conversation, and the
    descriptions of tools in the second step should begin like those of the first, for the provider's cache. Each
    agent's section says which of them it may call.
    """
    tools = _tools_of(answering_agents)
    sections = []
    for name, agent in sorted(agents.items()):
        task = agent.instructions if name in answering_agents else "Answers later: leave the other fields empty."
        sections.append(f"# {name}\n{agent.description}\n\n{task}")
        if name in answering_agents and agent.tools.keys() < tools.keys():
            sections.append(f"It may call only {', '.join(agent.tools)}." if agent.tools else "It calls no tools.")
    return replace(
        router,
        instructions="\n\n".join([router.instructions, *sections]),
        rules=f"# All agents\n{router.rules}" if answering_agents else "",
        tools=tools,
    )


def _tools_of(answering_agents: Mapping[str, Agent]) -> dict[str, Tool]:
    """All tools of the agents by name, first those of the fallback agent."""
    tools: dict[str, Tool] = {}
    for _, agent in sorted(answering_agents.items(), key=lambda item: item[0] != FALLBACK):
        for tool in agent.tools.values():
            tools.setdefault(tool.name, tool)
    return tools


def cannot_choose(problem: Exception) -> bool:
    """Is this failure of a Request that chooses one after which the fallback agent is asked?

    It is not if the model declined to answer, or if the same message may work later.
    """
    if isinstance(problem, TransportError):
        return not problem.retryable and problem.kind in _OF_THE_REQUEST
    return not isinstance(problem, Cancelled | DeadlineExceeded | Refusal | ContentFilter | Truncated | Prose)


def route(draft: Draft, lease: Lease, router: str, choice: Choice) -> Transition | None:
    """Switch to the chosen agent, unless the user has chosen one meanwhile. `router` is the agent that chose.

    None: the lease is lost, or the turn was cancelled.
    """
    register = draft.register
    if not owns(register, lease) or register.cancelled_at:
        return None
    if register.agent == router:
        switch(draft, choice.agent, choice.reason)
    return draft.finish()
