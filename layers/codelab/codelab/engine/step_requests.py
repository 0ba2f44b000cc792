"""Prepares the Request for a step's answer: the agent that is asked, its prompt, the agents that it may choose."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from codelab.agents import FALLBACK, Agent, agents, subagents
from codelab.config import ConfigurationError, Settings
from codelab.llm.call_schema import with_tool
from codelab.llm.client.request import Request, shown_form
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.history import reminder
from codelab.llm.models import thinking_at
from codelab.llm.modes import past_reasoning
from codelab.llm.outcome import Usage
from codelab.llm.past_reasoning import Reasoning
from codelab.llm.profiles import profile_of
from codelab.llm.tokens import estimate_tokens
from codelab.protocol.modes import DEFAULT, Mode, reading_mode
from codelab.protocol.tools import ExecutorTools
from codelab.sessions import keys
from codelab.sessions.items import Assignment
from codelab.sessions.register import Register
from codelab.sessions.store import Conversation
from codelab.turns import assignments, described_tools, models, modes, routing, titles
from codelab.turns.context import assemble, files_section
from codelab.turns.model_answers import ANSWER, MESSAGE, answer_schema, tool_messages
from codelab.turns.text import head_and_tail
from codelab.turns.usage import breakdown, estimated_usage, usage_amounts

#: The most calls of the model in a step.
MAX_CALLS = 4
#: The most schemas of routers, and agents with the tools of executors, that a process keeps.
_MAX_SCHEMAS, _MAX_AGENTS = 16, 64
#: The most characters of what the user said that a model is reminded of.
_TASK_CHARS = 600


@dataclass(slots=True)
class PreparedRequest:
    """A Request for an answer, and the estimate of its prompt.

    `agent` is the one that answers. If it only routes, it chooses one of `agent_names`: this Request gives the answer
    of those in `candidates`, and agents with settings of their own are asked in another one.
    """

    request: Request
    config: RequestConfig
    agent: Agent
    candidates: Mapping[str, Agent]
    agent_names: tuple[str, ...]
    _estimate: "Callable[[], Future[dict[str, int]]]"
    _parts: "Future[dict[str, int]] | None" = None

    def begin_estimate(self) -> None:
        """Begin to estimate the prompt in another thread. Before the first token, that would compete with it."""
        if self._parts is None:
            self._parts = self._estimate()

    def wait_for_parts(self) -> dict[str, int]:
        """The estimated tokens of the parts of its prompt, by name."""
        self.begin_estimate()
        assert self._parts is not None
        return self._parts.result()

    def context_tokens(self) -> int:
        """The estimated tokens of its messages."""
        return sum(size for part, size in self.wait_for_parts().items() if part != "tools")

    def estimate_tokens(self, streamed_pieces: Sequence[str]) -> int:
        """The tokens of the Request, estimated from its prompt and the streamed text."""
        return sum(self.wait_for_parts().values()) + estimate_tokens("".join(streamed_pieces))


@dataclass(frozen=True, slots=True)
class _Role:
    """An agent with its tools and settings, as the model is asked; see `PreparedRequest`."""

    agent: Agent
    config: RequestConfig
    candidates: Mapping[str, Agent] = field(default_factory=dict)
    agent_names: tuple[str, ...] = ()


class _Choice(NamedTuple):
    """Which tools a model gets of an executor's: those that take a diff beside the one that edits texts, `delegate`."""

    patches: bool
    subagents: bool


class StepRequests:
    """One per process; `pool` estimates prompts while the model writes. `base_url`: the provider's.

    Raises ConfigurationError for an unknown default agent, InvalidRequest for invalid settings of an agent's model.
    """

    def __init__(self, settings: Settings, unsupported: UnsupportedFeatures, pool: Executor, base_url: str) -> None:
        self._settings = settings
        self._base_url = base_url
        self._unsupported = unsupported
        self._pool = pool
        #: By the agents that may answer, whether a title is asked for, the tools that the executor executes, which of
        #: them the model gets, and the mode.
        self._schemas: dict[tuple[tuple[str, ...], bool, frozenset[str] | None, _Choice, Mode], dict[str, Any]] = {}
        #: By their names, whether they work for another agent, and the last three of these.
        self._agents: dict[tuple[str, bool, frozenset[str] | None, _Choice, Mode], Agent] = {}
        self.config = RequestConfig(model=settings.llm_model, provider=settings.llm_provider)
        self.config.check()
        if settings.first_agent not in agents():
            valid = ", ".join(["auto", *sorted(agents())])
            raise ConfigurationError(
                f"DEFAULT_AGENT={settings.first_agent}: unknown agent; valid agents: {valid};"
                " correct DEFAULT_AGENT or unset it"
            )
        for agent in (*agents().values(), *subagents().values()):
            self.config.changed(**agent.model).check()
        self._rehearse(agents()[settings.first_agent])

    def _rehearse(self, agent: Agent) -> None:
        """Compile the schemas of a session's first step at init, while no user waits."""
        executor = ExecutorTools()
        role = self._role(agent, {}, executor)
        prompt = {"role": "system", "content": role.agent.prompt}
        breakdown(tool_messages(role.agent), [prompt])
        for is_titled in (False, True):
            Request(role.config, self._schema(role, executor, titled=is_titled), [prompt]).compile()

    def prepare(
        self,
        register: Register,
        conversation: Conversation,
        executor: ExecutorTools,
        max_calls: int,
        overflow_tokens: int | None = None,
    ) -> PreparedRequest:
        """The Request to the session's agent, of at most `max_calls` calls. `executor`: the tools of its executor.

        `overflow_tokens`: the tokens of a context that was too large for the model; this one has half as many.

        Raises ProtocolError CONTEXT_TOO_LARGE if the message does not fit behind the prompt.
        """
        assignment = assignments.assignment_of(register, conversation.items.get(keys.TOOLS))
        agent = assignments.agent_of(assignment, self.agent_of(register))
        role = self._role(agent, register.settings, executor)
        budget = models.budget(register, self._settings)
        if overflow_tokens is not None:
            budget = budget.half_of(overflow_tokens)
        images = models.capabilities(role.config.model, self._settings).images
        schema = self._schema(role, executor, titled=register.title_is_draft, result_schema=assignment.result_schema)
        form = shown_form(role.config, schema, self._unsupported.of(self._base_url, role.config.model))
        behind_results = reminder(_task(conversation))
        fits = budget.capacity - estimate_tokens(behind_results)
        # What overflowed is counted without the form.
        if form is not None and overflow_tokens is None:
            fits -= form.tokens
        client_texts = (
            assignments.section(assignment, budget.tokens),
            described_tools.section(role.agent.tools.values(), budget.tokens),
        )
        tool_texts = "\n".join(filter(None, client_texts))
        messages = assemble(
            conversation,
            _system(role.agent, conversation),
            budget=budget.tokens,
            capacity=fits,
            cut_n=register.cut_n,
            images=images,
            tools=tool_texts,
            reasoning=_reasoning_of(conversation, role.config),
        )
        # An error may quote what a client has declared, so it must not be remembered as an unsupported feature.
        return PreparedRequest(
            Request(
                role.config,
                schema,
                messages,
                unsupported=self._unsupported,
                remember=not executor.has_own_words and assignment == Assignment(),
                retry=RetryPolicy(attempts=max_calls),
                behind_results=behind_results,
                is_continued=True,
            ),
            role.config,
            role.agent,
            role.candidates,
            role.agent_names,
            lambda: self._pool.submit(
                lambda: breakdown(
                    tool_messages(role.agent), messages, files_section(conversation, budget.tokens), tool_texts
                )
            ),
        )

    def _role(self, agent: Agent, settings: Mapping[str, Any], executor: ExecutorTools) -> _Role:
        """`settings` are the session's."""
        config = self._config_for(agent, settings)
        choice, mode = self._choice(config), reading_mode(settings) or DEFAULT
        if agent.delegated and mode == "plan":
            mode = "ask"  # whoever delegates proposes the plan
        if not agent.routes:
            return _Role(self._with_tools(agent, executor, choice, mode), config)
        choices = {
            name: self._with_tools(each, executor, choice, mode) for name, each in agents().items() if not each.routes
        }
        candidates = {name: each for name, each in choices.items() if self._config_for(each, settings) == config}
        return _Role(
            replace(routing.combined_agent(agent, choices, candidates), mode=mode),
            config.changed(stream_fields=(routing.AGENT, MESSAGE)),
            candidates,
            tuple(choices),
        )

    def _choice(self, config: RequestConfig) -> _Choice:
        model = models.capabilities(config.model, self._settings)
        return _Choice(model.patches, model.subagents)

    def _with_tools(self, agent: Agent, executor: ExecutorTools, choice: _Choice, mode: Mode) -> Agent:
        """The agent with the tools that the executor executes. Kept if they are all of the catalogue."""
        if executor.has_own_words or agent.only is not None:
            return agent.for_executor(executor, **choice._asdict(), mode=mode)
        key = (agent.name, agent.delegated, executor.supported, choice, mode)
        kept_agent = self._agents.get(key)
        if kept_agent is None:
            if len(self._agents) >= _MAX_AGENTS:
                self._agents.clear()
            kept_agent = self._agents[key] = agent.for_executor(executor, **choice._asdict(), mode=mode)
        return kept_agent

    def _schema(
        self,
        role: _Role,
        executor: ExecutorTools,
        *,
        titled: bool,
        result_schema: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The schema of the answer. Those of a router without clients' own words are kept: they are large, and few."""
        if not role.agent_names:
            return answer_schema(role.agent, has_title=titled, result_schema=result_schema)
        key = (tuple(role.candidates), titled, executor.supported, self._choice(role.config), role.agent.mode)
        schema = None if executor.has_own_words else self._schemas.get(key)
        if schema is None:
            schema = routing.schema(ANSWER if role.candidates else {}, role.agent_names)
            schema = titles.with_title(schema) if titled else schema
            for tool in role.agent.tools.values():
                schema = with_tool(schema, tool.name, tool.offered_parameters, tool.description)
            if not executor.has_own_words:
                if len(self._schemas) >= _MAX_SCHEMAS:
                    self._schemas.pop(next(iter(self._schemas)))
                self._schemas[key] = schema
        return schema

    def reported_usage(
        self, request: PreparedRequest, usage: Usage, streamed_pieces: Sequence[str], *, was_stopped: bool
    ) -> dict[str, int]:
        """The usage of a Request without an answer: the provider's report, else an estimate if the model has worked.

        `was_stopped`: it was dropped while the model worked.
        """
        if usage.prompt or usage.completion or not (streamed_pieces or was_stopped):
            return self.usage_of(usage, request.config)
        prompt_tokens = sum(request.wait_for_parts().values())
        return estimated_usage(
            prompt_tokens, "".join(streamed_pieces), self._settings.llm_prices.get(request.config.model)
        )

    def usage_of(self, usage: Usage, config: RequestConfig) -> dict[str, int]:
        """The usage of a Request, with its cost if the model's price is known."""
        return usage_amounts(usage, self._settings.llm_prices.get(config.model))

    def config_of(self, register: Register) -> RequestConfig:
        """The settings of the session's agent."""
        return self._config_for(self.agent_of(register), register.settings)

    def _config_for(self, agent: Agent, settings: Mapping[str, Any]) -> RequestConfig:
        """The agent's settings, with the model that the user has chosen for the session if it is still offered.

        The chosen level of thinking counts if the model has it. The model's strategy counts if the agent has none.
        Only the model decides whether calls in its text count.
        """
        config, model = self.config.changed(**agent.model), settings.get("model")
        if model in self._settings.offered_models:
            config = config.changed(model=model)
        capabilities = models.capabilities(config.model, self._settings)
        if config.strategy is None and capabilities.strategy is not None:
            config = config.changed(strategy=capabilities.strategy)
        if config.past_reasoning is None and capabilities.past_reasoning is not None:
            config = config.changed(past_reasoning=capabilities.past_reasoning)
        config = config.changed(text_calls=capabilities.text_calls)
        if "thinking" not in settings:
            return config
        return config.changed(**thinking_at(settings["thinking"], capabilities, config.provider))

    def agent_of(self, register: Register) -> Agent:
        """The session's agent. If this process does not know it, the default one, or the fallback if that only routes.

        Another version of this code may know it, so nothing is switched.
        """
        if register.delegation is not None:
            return subagents().get(register.agent) or subagents()[FALLBACK]
        all_agents = agents()
        default = all_agents[self._settings.first_agent]
        return all_agents.get(register.agent) or (all_agents[FALLBACK] if default.routes else default)


def _system(agent: Agent, conversation: Conversation) -> str:
    """The system prompt: what stays the same for all sessions first, what a turn changes last."""
    parts = (agent.prompt, modes.PROMPTS.get(agent.mode, ""), _today(conversation))
    return "\n\n".join(part for part in parts if part).rstrip()


def _task(conversation: Conversation) -> str:
    """What the user has said in this turn, shortened, if the newest message is a result; else empty."""
    history = conversation.history
    if not history or history[-1].role != "tool":
        return ""
    texts = [message.content for message in history if message.role == "user" and message.n >= conversation.turn_n]
    return head_and_tail("\n\n".join(texts), _TASK_CHARS)


def _reasoning_of(conversation: Conversation, config: RequestConfig) -> dict[int, Reasoning]:
    """The kept reasoning that the model gets back: its own, by the numbers of the messages."""
    if past_reasoning(profile_of(config.provider, config.model), config) == "dropped":
        return {}
    asked = (config.model, config.provider)
    items = conversation.reasoning.values()
    return {item.n: item.reasoning for item in items if (item.model, item.provider) == asked}


def _today(conversation: Conversation) -> str:
    """The day on which the turn's message was sent, so that the prompt stays the same in all steps of a turn."""
    messages = reversed(conversation.history)
    sent_at = next((message.at for message in messages if message.n == conversation.turn_n), 0)
    return f"Today is {datetime.fromtimestamp(sent_at / 1000, UTC):%A, %Y-%m-%d} (UTC)." if sent_at else ""
