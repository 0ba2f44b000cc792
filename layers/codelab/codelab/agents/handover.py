"""Put the agents that can be named into the schemas of `switch_agent` and `delegate`, so the model names no others."""

from collections.abc import Mapping
from dataclasses import replace

from codelab.protocol.tools import Tool
from codelab.protocol.tools.server import DELEGATE

_SWITCH = "switch_agent"


def with_targets(
    tools: Mapping[str, Tool], name: str, agents: Mapping[str, str], subagents: Mapping[str, str]
) -> dict[str, Tool]:
    """The tools of the agent `name`, with `switch_agent` limited to the other `agents`, and `delegate` to `subagents`.

    Both are descriptions by name. A tool without an agent to name is left out.
    """
    others = {target: agents[target] for target in agents if target != name}
    return _naming(_naming(tools, _SWITCH, "agent_type", others), DELEGATE, "agent", subagents)


def _naming(tools: Mapping[str, Tool], name: str, argument: str, agents: Mapping[str, str]) -> dict[str, Tool]:
    """The tools, of which one names one of these agents."""
    result = dict(tools)
    tool = result.pop(name, None)
    if tool is None or not agents:
        return result
    targets = {target: agents[target] for target in sorted(agents)}
    description_list = "; ".join(f"{target}: {description}" for target, description in targets.items())
    target = {"type": "string", "enum": list(targets), "description": description_list}
    properties = {**tool.parameters["properties"], argument: target}
    result[name] = replace(tool, parameters={**tool.parameters, "properties": properties})
    return result
