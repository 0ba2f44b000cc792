"""Agents as data: a TOML file each. A new agent is added by adding a file.

What a file says:

    description = "…"              what it is for; other agents and the routing of a first message choose by it
    risks = ["read"]               it may call every tool of these risks, also those that a client declares
    tools = ["write_file"]         and these tools
    routes = true                  it answers nothing itself: it chooses who does
    prompt = "…"                   who it is; what holds for all agents (rules.md) follows
    [paths]                        a tool or a risk → globs that all its paths must match
    write = ["*.md"]
    [model]                        settings of its Requests, see RequestConfig
    temperature = 0.2
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from codelab.agents.handover import with_targets
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.globs import matches
from codelab.protocol.tools import CATALOGUE, Tool

#: Who answers where nobody else was chosen.
FALLBACK = "universal"

_FIELDS = {"description", "prompt", "risks", "tools", "routes", "paths", "model"}


@dataclass(frozen=True)
class Agent:
    """Who answers: its system prompt, the tools it may call (another tool is not in its schema at all), and where.

    `risks` are those of which it may call every tool, `paths` globs by tool or risk, `model` settings of its Requests.
    """

    name: str
    description: str
    prompt: str
    tools: dict[str, Tool]
    risks: frozenset[str] = frozenset()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    routes: bool = False

    def check(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Raise ProtocolError PERMISSION_DENIED if a call, checked by its tool, names a path that is not for it."""
        globs = self.paths.get(tool.name, self.paths.get(tool.risk))
        if globs is None:
            return
        named = tool.paths_of(arguments)
        refused = [path for path in named if not any(matches(glob, path) for glob in globs)]
        if refused or not named:
            raise ProtocolError(
                ErrorCode.PERMISSION_DENIED,
                f"The agent {self.name} may call {tool.name} only for {', '.join(globs)}"
                + (f", not for {refused[0]}" if refused else ""),
                details={"field": "path"},
            )

    def joined_by(self, declared: Iterable[Tool]) -> "Agent":
        """With those of the client's own tools whose risk is one of the agent's."""
        taken = {name.casefold() for name in self.tools}
        own = {tool.name: tool for tool in declared if tool.risk in self.risks and tool.name.casefold() not in taken}
        return replace(self, tools={**self.tools, **own})


@cache
def agents() -> dict[str, Agent]:
    """All agents by name."""
    return read_agents(files(__name__))


def read_agents(folder: Traversable) -> dict[str, Agent]:
    """The agents of a folder of TOML files and `rules.md`. Raises ValueError that names the file."""
    rules = folder.joinpath("rules.md").read_text(encoding="utf-8").strip()
    read = {agent.name: agent for agent in _read_all(folder, rules)}
    descriptions = {agent.name: agent.description for agent in read.values() if not agent.routes}
    return {name: replace(agent, tools=with_targets(agent.tools, name, descriptions)) for name, agent in read.items()}


def _read_all(folder: Traversable, rules: str) -> Iterator[Agent]:
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            try:
                yield _agent(file.name.removesuffix(".toml"), tomllib.loads(file.read_text(encoding="utf-8")), rules)
            except (KeyError, ValueError) as error:
                raise ValueError(f"{file.name}: {error}") from None


def _agent(name: str, data: dict[str, Any], rules: str) -> Agent:
    unknown = set(data) - _FIELDS
    if unknown:
        raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
    risks, listed, routes = data.get("risks", []), data.get("tools", []), data.get("routes", False)
    missing = set(listed) - set(CATALOGUE)
    if missing:
        raise ValueError(f"there is no tool {', '.join(sorted(missing))}")
    prompt = data["prompt"].strip()
    return Agent(
        name=name,
        description=data["description"],
        prompt=prompt if routes else f"{prompt}\n\n{rules}",
        tools={tool.name: tool for tool in CATALOGUE.values() if tool.risk in risks or tool.name in listed},
        risks=frozenset(risks),
        paths={key: tuple(globs) for key, globs in data.get("paths", {}).items()},
        model=data.get("model", {}),
        routes=routes,
    )
