"""The model of a session: which one answers, what it can take, and how much of the session it is sent."""

from dataclasses import dataclass

from codelab.agents import agents
from codelab.config import Settings
from codelab.llm.models import ModelCapabilities, capabilities_of, settable
from codelab.protocol.outgoing import ModelInfo
from codelab.sessions.register import Register

#: The most tokens that a session sends with every step unless the operator says otherwise: a ceiling for its cost.
CEILING = 128_000
#: The most messages: what four parallel reads return beside the rest of a step's items.
MESSAGES = 400
#: Of the window, the share that is kept for the answer, and the most of it (tokens).
_ANSWER_SHARE, _ANSWER_TOKENS = 4, 32_000


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of a session a model is sent: estimated `tokens`, by which contents are cut, and `messages`.

    `fits` are the tokens that really fit, after the provider's own counts of earlier prompts. It changes from step to
    step, so nothing is cut by it that was sent whole before: providers cache what begins in the same way.
    """

    tokens: int
    messages: int
    fits: int

    def half_of(self, sent: int) -> "Budget":
        """Half of it, and half of what the model was sent and could not take (estimated tokens)."""
        return Budget(self.tokens // 2, self.messages, min(self.fits, sent) // 2)


def model_of(register: Register, settings: Settings) -> str:
    """The model that answers next: the user's choice, else the agent's own, else the operator's."""
    chosen = register.settings.get("model")
    if chosen in settings.offered_models:
        return str(chosen)
    agent = agents().get(register.agent)
    return str(agent.model.get("model", settings.llm_model)) if agent is not None else settings.llm_model


def provider_of(register: Register, settings: Settings) -> str:
    """The profile by which that model is asked."""
    agent = agents().get(register.agent)
    return str(agent.model.get("provider", settings.llm_provider)) if agent is not None else settings.llm_provider


def capabilities(name: str, settings: Settings) -> ModelCapabilities:
    """What the model can take: what the operator says about it, else the table."""
    found, said = capabilities_of(name), settings.llm_capabilities.get(name)
    if said is None:
        return found
    return ModelCapabilities(
        found.window if said.window is None else said.window,
        found.images if said.images is None else said.images,
        found.thinking if said.thinking is None else tuple(said.thinking),
        found.patches if said.patches is None else said.patches,
    )


def context_tokens(name: str, settings: Settings) -> int:
    """The most tokens of a session that the model gets: the operator's number, else what fits its window."""
    if settings.max_context_tokens is not None:
        return settings.max_context_tokens
    window = capabilities(name, settings).window
    return min(CEILING, window - min(window // _ANSWER_SHARE, _ANSWER_TOKENS))


def budget(register: Register, settings: Settings) -> Budget:
    """How much of the session its model is sent."""
    tokens = context_tokens(model_of(register, settings), settings)
    fits = tokens * 1000 // register.token_scale if register.token_scale else tokens
    return Budget(tokens, most_messages(settings), min(fits, tokens) if settings.max_context_tokens else fits)


def most_messages(settings: Settings) -> int:
    """The most messages of a session that a model gets."""
    return settings.max_context_messages or MESSAGES


def offered(settings: Settings) -> list[ModelInfo]:
    """The models that a client may choose; the first is the one that answers unless it does."""
    others = sorted(settings.offered_models - {settings.llm_model})
    return [_info(name, settings) for name in (settings.llm_model, *others)]


def _info(name: str, settings: Settings) -> ModelInfo:
    found = capabilities(name, settings)
    return ModelInfo(
        name=name,
        context_tokens=context_tokens(name, settings),
        images=found.images,
        thinking=list(settable(found, settings.llm_provider)),
    )
