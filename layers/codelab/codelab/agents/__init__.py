"""Agents as data: one TOML file per agent. To add an agent, add a file.

description = "…"              what the agent is for; other agents and the router choose by it
risks = ["read"]               it may call every tool with these risks, including tools that a client declares
tools = ["write_file"]         and these tools
routes = true                  it does not answer as itself; it chooses the agent that answers
delegated = true               it answers no user, only an agent that delegates to it
prompt = "…"                   its instructions; with rules.md behind them, its system prompt
[paths]                        tool or risk → globs that all paths of its calls must match
write = ["*.md"]
[model]                        settings of its Requests, see RequestConfig
temperature = 0.2
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from codelab.agents.handover import with_declared_agents, with_targets
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.globs import matches
from codelab.protocol.modes import DEFAULT, Mode, offers
from codelab.protocol.tools import CATALOGUE, EDITS, PATCHES, ExecutorTools, Tool
from codelab.protocol.tools.server import DELEGATE

#: The agent that answers unless another one was chosen.
FALLBACK = "universal"

_FIELDS = {"description", "prompt", "risks", "tools", "routes", "delegated", "paths", "model"}
#: Server tools that a subagent has.
_OF_SUBAGENTS = frozenset({"read_result"})
#: Not by `importlib.resources`, which imports what reads archives.
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Agent:
    """An agent, see the module. The schema of its answers contains only the tools it may call.

    `supported` are the tools of the catalogue that its session's executor executes, see `ExecutorTools`. `mode` is the
    session's mode, which limits the tools; all modes in which an agent acts offer the same, and stand as `code`.
    `only` are the names of the tools of one that a client has declared; None: it is one of the server's.
    `declared_agents` are those of the executor that it can delegate to, by name.
    """

    name: str
    description: str
    instructions: str
    rules: str
    tools: dict[str, Tool]
    risks: frozenset[str] = frozenset()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    routes: bool = False
    delegated: bool = False
    supported: frozenset[str] | None = None
    mode: Mode = DEFAULT
    only: frozenset[str] | None = None
    declared_agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        """The system prompt: the agent's instructions, then the rules for all agents."""
        return f"{self.instructions}\n\n{self.rules}"

    def check(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Raise ProtocolError PERMISSION_DENIED if a checked call names a path that the agent may not use."""
        globs = self.paths.get(tool.name, self.paths.get(tool.risk))
        if globs is None:
            return
        paths = tool.paths_of(arguments)
        forbidden_paths = [path for path in paths if not any(matches(glob, path) for glob in globs)]
        if forbidden_paths or not paths:
            raise ProtocolError(
                ErrorCode.PERMISSION_DENIED,
                f"The agent {self.name} may call {tool.name} only on {', '.join(globs)}"
                + (f", not on {forbidden_paths[0]}" if forbidden_paths else ""),
                details={"field": "path"},
            )

    def for_executor(
        self, executor: ExecutorTools, *, patches: bool = True, subagents: bool = True, mode: Mode = DEFAULT
    ) -> "Agent":
        """The agent with the tools that the executor executes: the catalogue's, and its own that match the risks.

        patches: whether it gets the tools that take a diff even if it can edit texts. subagents: whether it gets the
        tool that delegates. mode: the session's.
        """
        if not patches and EDITS in self.tools and executor.edits_texts():
            executor = executor.without(PATCHES)
        if not subagents:
            executor = executor.without(frozenset({DELEGATE}))
        reserved_names = {name.casefold() for name in self.tools}
        declared_tools = {
            tool.name: tool
            for tool in executor.own
            if tool.risk in self.risks
            and tool.name.casefold() not in reserved_names
            and offers(mode, tool)
            and (self.only is None or tool.name in self.only)
        }
        tools = {
            name: executor_tool
            for name, tool in self.tools.items()
            if offers(mode, tool) and (executor_tool := executor.offered(tool)) is not None
        }
        tools = with_declared_agents({**tools, **declared_tools}, executor.agents)
        declared_agents = {agent["name"]: agent for agent in executor.agents}
        return replace(self, tools=tools, supported=executor.supported, mode=mode, declared_agents=declared_agents)

    def declared_as(self, name: str, tool_names: Collection[str]) -> "Agent":
        """A subagent as an agent of a client: with these of its tools, its limits, and no instructions of its own."""
        only = _OF_SUBAGENTS.union(tool_names)
        tools = {name: tool for name, tool in self.tools.items() if name in only}
        return replace(self, name=name, instructions=_declared(), tools=tools, only=only)


@cache
def agents() -> dict[str, Agent]:
    """The agents that answer users, by name."""
    return {name: agent for name, agent in _all_agents().items() if not agent.delegated}


@cache
def subagents() -> dict[str, Agent]:
    """The agents that work on what another one delegates, by name, with the tools that they have then.

    They talk to no user, and delegate nothing.
    """
    return {
        name: replace(
            agent, delegated=True, tools={key: tool for key, tool in agent.tools.items() if _is_for_all(tool)}
        )
        for name, agent in _all_agents().items()
        if not agent.routes
    }


def _is_for_all(tool: Tool) -> bool:
    return tool.name in _OF_SUBAGENTS or not (tool.server_side or tool.waits_for_human)


@cache
def _all_agents() -> dict[str, Agent]:
    return read_agents(_FOLDER)


@cache
def _declared() -> str:
    """The instructions of all agents that clients declare; what the client says is no part of a system prompt."""
    return _FOLDER.joinpath("declared.md").read_text(encoding="utf-8").strip()


def read_agents(folder: Path) -> dict[str, Agent]:
    """Read the agents in a folder of TOML files and `rules.md`. Raises ValueError that names the file."""
    rules = folder.joinpath("rules.md").read_text(encoding="utf-8").strip()
    agents_by_name = {agent.name: agent for agent in _read_all(folder, rules)}
    subagents = {agent.name: agent.description for agent in agents_by_name.values() if not agent.routes}
    targets = {name: text for name, text in subagents.items() if not agents_by_name[name].delegated}
    return {
        name: replace(agent, tools=with_targets(agent.tools, name, targets, subagents))
        for name, agent in agents_by_name.items()
    }


def _read_all(folder: Path, rules: str) -> Iterator[Agent]:
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            try:
                yield _agent(file.name.removesuffix(".toml"), tomllib.loads(file.read_text(encoding="utf-8")), rules)
            except (KeyError, ValueError) as error:
                raise ValueError(f"{file.name}: {error}") from None


def _agent(name: str, data: dict[str, Any], rules: str) -> Agent:
    unknown_fields = set(data) - _FIELDS
    if unknown_fields:
        raise ValueError(f"unknown field {', '.join(sorted(unknown_fields))}")
    risks, tool_names = data.get("risks", []), data.get("tools", [])
    unknown_tools = set(tool_names) - set(CATALOGUE)
    if unknown_tools:
        raise ValueError(f"unknown tool {', '.join(sorted(unknown_tools))}")
    return Agent(
        name=name,
        description=data["description"],
        instructions=data["prompt"].strip(),
        rules=rules,
        tools={tool.name: tool for tool in CATALOGUE.values() if tool.risk in risks or tool.name in tool_names},
        risks=frozenset(risks),
        paths={key: tuple(globs) for key, globs in data.get("paths", {}).items()},
        model=data.get("model", {}),
        routes=data.get("routes", False),
        delegated=data.get("delegated", False),
    )
