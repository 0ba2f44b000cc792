"""Clients' tools and agents: each connection declares its own, and which of the catalogue's tools it executes.

The agent can call the tools of the executor, and delegate to its agents. So another connection does not change what the
agent can do.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from codelab.agents import agents, subagents
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import Hello
from codelab.protocol.tools import CATALOGUE, ExecutorTools, canonical_name
from codelab.protocol.tools.declared import declared_tool
from codelab.sessions import keys
from codelab.sessions.items import ToolsItem, dumps
from codelab.turns.caller import Caller
from codelab.turns.draft import Draft

_Declaration = TypeVar("_Declaration")


def says_something(frame: Hello) -> bool:
    """Does a `hello` change what is known of the caller's tools and agents?"""
    declarations = (frame.capabilities.tools, frame.capabilities.tools_supported, frame.agents)
    return any(declaration is not None for declaration in declarations)


def declare(draft: Draft, caller: Caller, frame: Hello) -> None:
    """Replace the caller's declarations, from the next step on; a viewer's is ignored, because it executes nothing.

    Needs the stored tools, and removes those of closed connections. Raises ProtocolError INVALID_ARGUMENTS if an agent
    has the name of one of the server's.
    """
    if caller.viewer:
        return
    capabilities, raw_item = frame.capabilities, draft.item(keys.TOOLS)
    tools_item = ToolsItem.of(raw_item)
    declarations, supported_names = (
        _of_connected(draft, tools_item.by_connection),
        _of_connected(draft, tools_item.supported),
    )
    if capabilities.tools is not None:
        declarations.pop(caller.connection_id, None)
        if capabilities.tools:
            declarations[caller.connection_id] = [tool.model_dump() for tool in capabilities.tools]
    if capabilities.tools_supported is not None:
        names = {canonical_name(name) for name in capabilities.tools_supported}
        supported_names[caller.connection_id] = sorted(name for name in names if name in CATALOGUE)
    declared_agents = _agents(draft, caller, frame, _of_connected(draft, tools_item.agents))
    if declarations or supported_names or declared_agents:
        draft.put(ToolsItem(declarations, supported_names, declared_agents))
    elif raw_item is not None:
        draft.deletes.append(keys.TOOLS)


def _of_connected(draft: Draft, declarations: Mapping[str, _Declaration]) -> dict[str, _Declaration]:
    connection_ids = {*draft.register.connections, draft.register.executor}
    return {
        connection_id: declaration
        for connection_id, declaration in declarations.items()
        if connection_id in connection_ids
    }


def _agents(
    draft: Draft, caller: Caller, frame: Hello, agents_by_connection: dict[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """The agents by connection, after the caller has declared its own. Of many large ones, only the executor's stay."""
    if frame.agents is None:
        return agents_by_connection
    for index, agent in enumerate(frame.agents):
        if agent.name in agents() or agent.name in subagents():
            message = f"{agent.name} is an agent of the server; give yours another name"
            raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, message, details={"field": f"agents.{index}.name"})
    agents_by_connection.pop(caller.connection_id, None)
    if frame.agents:
        agents_by_connection[caller.connection_id] = [agent.model_dump() for agent in frame.agents]
    distinct_texts = set(map(dumps, agents_by_connection.values()))
    if sum(len(text.encode()) for text in distinct_texts) <= 2 * limits.AGENTS_BYTES:
        return agents_by_connection
    kept_ids = (caller.connection_id, draft.register.executor)
    return {name: declarations for name, declarations in agents_by_connection.items() if name in kept_ids}


def tools_of_connection(item: ToolsItem, connection_id: str) -> ExecutorTools:
    """What the connection executes, and its agents."""
    declarations = item.by_connection.get(connection_id, ())
    tool_names = item.supported.get(connection_id)
    return ExecutorTools(
        tuple(declared_tool(declaration) for declaration in declarations),
        None if tool_names is None else frozenset(tool_names),
        tuple(item.agents.get(connection_id, ())),
    )
