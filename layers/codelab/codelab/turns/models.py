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

    `capacity` are the tokens that really fit, after the provider's own counts of earlier prompts. It changes from step
    to step, so contents are not cut by it: providers cache prompts that begin in the same way.
    """

    tokens: int
    messages: int
    capacity: int

    def half_of(self, sent_tokens: int) -> "Budget":
        """Half of it, and half of what the model was sent and could not take (estimated tokens)."""
        return Budget(self.tokens // 2, self.messages, min(self.capacity, sent_tokens) // 2)


def model_of(register: Register, settings: Settings) -> str:
    """The model that answers next: the user's choice, else the agent's own, else the operator's."""
    choice = register.settings.get("model")
    if choice in settings.offered_models:
        return str(choice)
    agent = agents().get(register.agent)
    return str(agent.model.get("model", settings.llm_model)) if agent is not None else settings.llm_model


def provider_of(register: Register, settings: Settings) -> str:
    """The profile by which that model is asked."""
    agent = agents().get(register.agent)
    return str(agent.model.get("provider", settings.llm_provider)) if agent is not None else settings.llm_provider


def capabilities(name: str, settings: Settings) -> ModelCapabilities:
    """What the model can take: what the operator says about it, else the table."""
    defaults, overrides = capabilities_of(name), settings.llm_capabilities.get(name)
    if overrides is None:
        return defaults
    return ModelCapabilities(
        defaults.window if overrides.window is None else overrides.window,
        defaults.images if overrides.images is None else overrides.images,
        defaults.thinking if overrides.thinking is None else tuple(overrides.thinking),
        defaults.patches if overrides.patches is None else overrides.patches,
        defaults.strategy if overrides.strategy is None else overrides.strategy,
        overrides.past_reasoning,
        defaults.text_calls if overrides.text_calls is None else overrides.text_calls,
        defaults.subagents if overrides.subagents is None else overrides.subagents,
    )


def context_tokens(name: str, settings: Settings) -> int:
    """The most tokens of a session that the model gets: the operator's number, else what fits its window."""
    if settings.max_context_tokens is not None:
        return settings.max_context_tokens
    window = capabilities(name, settings).window
    return min(CEILING, window - min(window // _ANSWER_SHARE, _ANSWER_TOKENS))


def window_tokens(name: str, settings: Settings) -> int:
    """The tokens that the model needs room for, where a server reserves it: a session's and an answer's."""
    tokens = context_tokens(name, settings)
    return tokens + min(tokens // (_ANSWER_SHARE - 1), _ANSWER_TOKENS)


def budget(register: Register, settings: Settings) -> Budget:
    """How much of the session its model is sent."""
    tokens = context_tokens(model_of(register, settings), settings)
    capacity = tokens * 1000 // register.token_scale if register.token_scale else tokens
    return Budget(tokens, most_messages(settings), min(capacity, tokens) if settings.max_context_tokens else capacity)


def most_messages(settings: Settings) -> int:
    """The most messages of a session that a model gets."""
    return settings.max_context_messages or MESSAGES


def selectable_models(settings: Settings) -> list[ModelInfo]:
    """The models that a client may choose; the first is the one that answers unless it does."""
    other_names = sorted(settings.offered_models - {settings.llm_model})
    return [_info(name, settings) for name in (settings.llm_model, *other_names)]


def _info(name: str, settings: Settings) -> ModelInfo:
    model = capabilities(name, settings)
    return ModelInfo(
        name=name,
        context_tokens=context_tokens(name, settings),
        images=model.images,
        thinking=list(settable(model, settings.llm_provider)),
    )
