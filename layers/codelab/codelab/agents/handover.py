"""Put the agents that can be named into the schemas of `switch_agent` and `delegate`, so the model names no others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from codelab.protocol.tools import Tool
from codelab.protocol.tools.server import DELEGATE
from codelab.protocol.tools.words import visible

_SWITCH, _AGENT = "switch_agent", "agent"


def with_targets(
    tools: Mapping[str, Tool], name: str, agents: Mapping[str, str], subagents: Mapping[str, str]
) -> dict[str, Tool]:
    """The tools of the agent `name`, with `switch_agent` limited to the other `agents`, and `delegate` to `subagents`.

    Both are descriptions by name. A tool without an agent to name is left out.
    """
    others = {target: agents[target] for target in agents if target != name}
    return _naming(_naming(tools, _SWITCH, "agent_type", others), DELEGATE, _AGENT, subagents)


def with_declared_agents(tools: Mapping[str, Tool], agents: Sequence[Mapping[str, Any]]) -> dict[str, Tool]:
    """The tools, of which `delegate` names the agents that a client has declared, too.

    The names stand in its schema. The descriptions are a stranger's words, and reach the model as data.
    """
    tool = tools.get(DELEGATE)
    if tool is None or not agents:
        return dict(tools)
    target = tool.parameters["properties"][_AGENT]
    descriptions = {
        agent["name"]: visible(agent["description"]) for agent in agents if agent["name"] not in target["enum"]
    }
    if not descriptions:
        return dict(tools)
    names = f"the project's, which the user's first message describes: {', '.join(descriptions)}"
    target = {
        **target,
        "enum": [*target["enum"], *descriptions],
        "description": f"{target['description']}; {names}",
    }
    parameters = {**tool.parameters, "properties": {**tool.parameters["properties"], _AGENT: target}}
    words = "\n".join(f"{name}: {text}" for name, text in descriptions.items())
    untrusted_description = f"Agents of the project that can be delegated to:\n{words}"
    return {**tools, DELEGATE: replace(tool, parameters=parameters, untrusted_description=untrusted_description)}


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
