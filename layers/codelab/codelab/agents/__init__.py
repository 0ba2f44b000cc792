"""Agents as data: a TOML file each. A new agent is added by adding a file."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from codelab.protocol.tools import CATALOGUE, Tool


@dataclass(frozen=True)
class Agent:
    """Who answers: its system prompt and the tools it may call (another tool is not in its schema at all)."""

    name: str
    description: str
    prompt: str
    tools: dict[str, Tool]


@cache
def agents() -> dict[str, Agent]:
    """All agents by name."""
    return {agent.name: agent for agent in map(_read, files(__name__).iterdir()) if agent is not None}


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
