"""Put the agents that an agent can hand over to into the schema of `switch_agent`, so the model can name no others."""

from collections.abc import Mapping
from dataclasses import replace

from codelab.protocol.tools import Tool

TOOL = "switch_agent"


def with_targets(tools: Mapping[str, Tool], name: str, agents: Mapping[str, str]) -> dict[str, Tool]:
    """The tools of the agent `name`, with `switch_agent` limited to the other `agents` (name: description).

    Without other agents, `switch_agent` is left out.
    """
    others = {other: agents[other] for other in sorted(agents) if other != name}
    found = dict(tools)
    tool = found.pop(TOOL, None)
    if tool is None or not others:
        return found
    described = "; ".join(f"{other}: {description}" for other, description in others.items())
    agent_type = {"type": "string", "enum": list(others), "description": described}
    properties = {**tool.parameters["properties"], "agent_type": agent_type}
    found[TOOL] = replace(tool, parameters={**tool.parameters, "properties": properties})
    return found
