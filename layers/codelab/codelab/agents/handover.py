"""Put the agents that an agent can hand over to into the schema of `switch_agent`, so the model can name no others."""

from collections.abc import Mapping
from dataclasses import replace

from codelab.protocol.tools import Tool

TOOL = "switch_agent"


def with_targets(tools: Mapping[str, Tool], name: str, agents: Mapping[str, str]) -> dict[str, Tool]:
    """The tools of the agent `name`, with `switch_agent` limited to the other `agents` (name: description).

    Without other agents, `switch_agent` is left out.
    """
    targets = {target: agents[target] for target in sorted(agents) if target != name}
    result = dict(tools)
    tool = result.pop(TOOL, None)
    if tool is None or not targets:
        return result
    description_list = "; ".join(f"{target}: {description}" for target, description in targets.items())
    agent_type = {"type": "string", "enum": list(targets), "description": description_list}
    properties = {**tool.parameters["properties"], "agent_type": agent_type}
    result[TOOL] = replace(tool, parameters={**tool.parameters, "properties": properties})
    return result
