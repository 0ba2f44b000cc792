"""Makes the Request for a step's answer: which agent is asked, what it is told, which agents it may choose among."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from codelab.agents import FALLBACK, Agent, agents
from codelab.config import ConfigurationError, Settings
from codelab.llm.client.request import Request, shown_form
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.history import reminder
from codelab.llm.models import thinking_at
from codelab.llm.outcome import Usage
from codelab.llm.tokens import estimate_tokens
from codelab.llm.tools import with_tool
from codelab.protocol.tools import ExecutorTools
from codelab.sessions.register import Register
from codelab.sessions.store import Conversation
from codelab.turns import described_tools, models, routing, titles
from codelab.turns.answers import ANSWER, MESSAGE, answer_schema, tool_messages
from codelab.turns.context import assemble, shown_files
from codelab.turns.text import head_and_tail
from codelab.turns.usage import breakdown, counted, estimated

#: The most schemas of routers, and agents with the tools of executors, that a process keeps.
_SCHEMAS, _AGENTS = 16, 64
#: The most characters of what the user said that a model is reminded of.
_TASK_CHARS = 600


@dataclass(slots=True)
class Asked:
    """A Request for an answer.

    `agent` is the one that answers. As long as it only routes, `choosing` reads the choice, and the agents in
    `answering` are those whose answer this can be: agents with settings of their own are asked in another Request.
    """

    request: Request
    config: RequestConfig
    agent: Agent
    answering: Mapping[str, Agent]
    choosing: routing.Choosing | None
    _begin_parts: "Callable[[], Future[dict[str, int]]]"
    _parts: "Future[dict[str, int]] | None" = None

    def estimate(self) -> None:
        """Begin to estimate `parts` in another thread, which would compete with the first token for the interpreter."""
        if self._parts is None:
            self._parts = self._begin_parts()

    @property
    def parts(self) -> dict[str, int]:
        """The estimated tokens of the parts of its prompt, by name."""
        self.estimate()
        assert self._parts is not None
        return self._parts.result()

    @property
    def context_tokens(self) -> int:
        """The estimated tokens of its messages."""
        return sum(size for part, size in self.parts.items() if part != "tools")

    def estimated(self, streamed: Sequence[str]) -> int:
        """The tokens of the Request, estimated from its prompt and the `streamed` text."""
        return sum(self.parts.values()) + estimate_tokens("".join(streamed))


@dataclass(frozen=True, slots=True)
class _Role:
    """What is asked of the model, and as which agent."""

    agent: Agent
    config: RequestConfig
    answering: Mapping[str, Agent] = field(default_factory=dict)
    #: The agents to choose from, also those that are asked in another Request.
    names: tuple[str, ...] = ()


class StepRequests:
    """One per process; `pool` estimates prompts while the model writes. `base_url`: the provider's.

    Raises ConfigurationError for an unknown default agent, InvalidRequest for invalid settings of an agent's model.
    """

    def __init__(self, settings: Settings, unsupported: UnsupportedFeatures, pool: Executor, base_url: str) -> None:
        self._settings = settings
        self._base_url = base_url
        self._unsupported = unsupported
        self._pool = pool
        #: By the agents that may answer, whether a title is asked for, the tools that the executor executes, and
        #: whether the model gets those that take a diff.
        self._schemas: dict[tuple[tuple[str, ...], bool, frozenset[str] | None, bool], dict[str, Any]] = {}
        #: By their names, and the last two of these.
        self._agents: dict[tuple[str, frozenset[str] | None, bool], Agent] = {}
        self.config = RequestConfig(model=settings.llm_model, provider=settings.llm_provider)
        self.config.check()
        if settings.first_agent not in agents():
            valid = ", ".join(["auto", *sorted(agents())])
            raise ConfigurationError(
                f"DEFAULT_AGENT={settings.first_agent}: unknown agent; valid agents: {valid};"
                " correct DEFAULT_AGENT or unset it"
            )
        for agent in agents().values():
            self.config.changed(**agent.model).check()
        self._rehearse(agents()[settings.first_agent])

    def _rehearse(self, agent: Agent) -> None:
        """Compile the schemas of a session's first step at init, while no user waits."""
        executor = ExecutorTools()
        role = self._role(agent, {}, executor)
        prompt = {"role": "system", "content": role.agent.prompt}
        breakdown(tool_messages(role.agent), [prompt])
        for titled in (False, True):
            Request(role.config, self._schema(role, executor, titled=titled), [prompt]).compile()

    def make(
        self, register: Register, read: Conversation, executor: ExecutorTools, calls: int, overflowed: int | None = None
    ) -> Asked:
        """The Request to the session's agent, of at most `calls` calls; `executor` is what its executor executes.

        `overflowed`: the tokens of a context that was too large for the model; this one has half as many.

        Raises ProtocolError CONTEXT_TOO_LARGE if the message does not fit behind the prompt.
        """
        role = self._role(self.agent_of(register), register.settings, executor)
        budget = models.budget(register, self._settings)
        if overflowed is not None:
            budget = budget.half_of(overflowed)
        images = models.capabilities(role.config.model, self._settings).images
        schema = self._schema(role, executor, titled=register.title_is_draft)
        form = shown_form(role.config, schema, self._unsupported.of(self._base_url, role.config.model))
        behind_results = reminder(_task(read))
        fits = budget.fits - estimate_tokens(behind_results)
        # What overflowed is counted without the form.
        if form is not None and overflowed is None:
            fits -= form.tokens
        described = described_tools.shown(role.agent.tools.values(), budget.tokens)
        messages = assemble(
            read,
            f"{role.agent.prompt}\n\n{_today(read)}".rstrip(),
            budget=budget.tokens,
            fits=fits,
            cut_n=register.cut_n,
            images=images,
            tools=described,
        )
        # An error may quote what a client has declared, so it must not be remembered as an unsupported feature.
        return Asked(
            Request(
                role.config,
                schema,
                messages,
                unsupported=self._unsupported,
                remember=not executor.own,
                retry=RetryPolicy(attempts=calls),
                behind_results=behind_results,
            ),
            role.config,
            role.agent,
            role.answering,
            routing.Choosing(role.names) if role.names else None,
            lambda: self._pool.submit(
                lambda: breakdown(tool_messages(role.agent), messages, shown_files(read, budget.tokens), described)
            ),
        )

    def _role(self, asked: Agent, chosen: Mapping[str, Any], executor: ExecutorTools) -> _Role:
        """`chosen` are the session's settings."""
        config = self._config_for(asked, chosen)
        patches = self._has_patches(config)
        if not asked.routes:
            return _Role(self._offered(asked, executor, patches), config)
        known = {name: self._offered(agent, executor, patches) for name, agent in agents().items() if not agent.routes}
        answering = {name: agent for name, agent in known.items() if self._config_for(agent, chosen) == config}
        return _Role(
            routing.combined(asked, known, answering),
            config.changed(stream_fields=(routing.AGENT, MESSAGE)),
            answering,
            tuple(known),
        )

    def _has_patches(self, config: RequestConfig) -> bool:
        """Whether the model gets the tools that take a diff beside the one that edits texts."""
        return models.capabilities(config.model, self._settings).patches

    def _offered(self, agent: Agent, executor: ExecutorTools, patches: bool) -> Agent:
        """The agent with the tools that the executor executes. Kept if they are all of the catalogue."""
        if executor.own:
            return agent.for_executor(executor, patches=patches)
        key = (agent.name, executor.supported, patches)
        found = self._agents.get(key)
        if found is None:
            if len(self._agents) >= _AGENTS:
                self._agents.clear()
            found = self._agents[key] = agent.for_executor(executor, patches=patches)
        return found

    def _schema(self, role: _Role, executor: ExecutorTools, *, titled: bool) -> dict[str, Any]:
        """The schema of the answer. Those of a router without clients' own tools are kept: they are large, and few."""
        if not role.names:
            return answer_schema(role.agent, titled=titled)
        key = (tuple(role.answering), titled, executor.supported, self._has_patches(role.config))
        found = None if executor.own else self._schemas.get(key)
        if found is None:
            found = routing.schema(ANSWER if role.answering else {}, role.names)
            found = titles.with_title(found) if titled else found
            for tool in role.agent.tools.values():
                found = with_tool(found, tool.name, tool.offered_parameters, tool.description)
            if not executor.own:
                if len(self._schemas) >= _SCHEMAS:
                    self._schemas.pop(next(iter(self._schemas)))
                self._schemas[key] = found
        return found

    def told(self, asked: Asked, usage: Usage, streamed: Sequence[str], *, was_stopped: bool) -> dict[str, int]:
        """The usage of a Request without an answer: what the provider told, else an estimate if the model has worked.

        `was_stopped`: it was dropped while the model worked.
        """
        if usage.prompt or usage.completion or not (streamed or was_stopped):
            return self.counted(usage, asked.config)
        prompt = sum(asked.parts.values())
        return estimated(prompt, "".join(streamed), self._settings.llm_prices.get(asked.config.model))

    def counted(self, usage: Usage, config: RequestConfig) -> dict[str, int]:
        """The usage of a Request, with its cost if the model's price is known."""
        return counted(usage, self._settings.llm_prices.get(config.model))

    def config_of(self, register: Register) -> RequestConfig:
        """The settings of the session's agent."""
        return self._config_for(self.agent_of(register), register.settings)

    def _config_for(self, agent: Agent, settings: Mapping[str, Any]) -> RequestConfig:
        """The agent's settings, with the model that the user has chosen for the session if it is still offered.

        The chosen level of thinking counts if the model has it.
        """
        config, chosen = self.config.changed(**agent.model), settings.get("model")
        if chosen in self._settings.offered_models:
            config = config.changed(model=chosen)
        if "thinking" not in settings:
            return config
        found = models.capabilities(config.model, self._settings)
        return config.changed(**thinking_at(settings["thinking"], found, config.provider))

    def agent_of(self, register: Register) -> Agent:
        """The session's agent. If this process does not know it, the default one, or the fallback if that only routes.

        Another version of this code may know it, so nothing is switched.
        """
        known = agents()
        default = known[self._settings.first_agent]
        return known.get(register.agent) or (known[FALLBACK] if default.routes else default)


def _task(read: Conversation) -> str:
    """What the user has said in this turn, shortened, if the newest message is a result; else empty."""
    if not read.history or read.history[-1].role != "tool":
        return ""
    said = [message.content for message in read.history if message.role == "user" and message.n >= read.turn_n]
    return head_and_tail("\n\n".join(said), _TASK_CHARS)


def _today(read: Conversation) -> str:
    """The day on which the turn's message was sent, so that the prompt stays the same in all steps of a turn."""
    asked_at = next((message.at for message in reversed(read.history) if message.n == read.turn_n), 0)
    return f"Today is {datetime.fromtimestamp(asked_at / 1000, UTC):%A, %Y-%m-%d} (UTC)." if asked_at else ""
