"""Agents as data: a TOML file each. A new agent is added by adding a file."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from codelab.agents.handover import with_targets
from codelab.protocol.tools import CATALOGUE, Tool


@dataclass(frozen=True)
class Agent:
    """Who answers: its system prompt and the tools it may call (another tool is not in its schema at all)."""

    name: str
    description: str
    prompt: str
    tools: dict[str, Tool]

    def joined_by(self, declared: Iterable[Tool]) -> "Agent":
        """With those of the client's own tools that can do no more than what the agent may do anyway."""
        risks = {tool.risk for tool in self.tools.values() if not tool.server_side}
        own = {tool.name: tool for tool in declared if tool.risk in risks and tool.name not in self.tools}
        return replace(self, tools={**self.tools, **own})


@cache
def agents() -> dict[str, Agent]:
    """All agents by name."""
    read = [agent for agent in map(_read, files(__name__).iterdir()) if agent is not None]
    descriptions = {agent.name: agent.description for agent in read}
    return {agent.name: replace(agent, tools=with_targets(agent.tools, agent.name, descriptions)) for agent in read}


def _read(file: object) -> Agent | None:
    name = getattr(file, "name", "")
    if not name.endswith(".toml"):
        return None
    data = tomllib.loads(file.read_text(encoding="utf-8"))  # type: ignore[attr-defined]
    return Agent(
        name=name.removesuffix(".toml"),
        description=data["description"],
        prompt=data["prompt"].strip(),
        tools={tool: CATALOGUE[tool] for tool in data["tools"]},
    )
