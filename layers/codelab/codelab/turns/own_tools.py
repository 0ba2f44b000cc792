"""What clients say of tools: each connection declares its own, and says which of the catalogue's it executes.

The agent can call those of the executor. So another connection does not change which tools the agent can call.
"""

from collections.abc import Mapping
from typing import TypeVar

from codelab.protocol.tools import CATALOGUE, ExecutorTools, canonical_name
from codelab.protocol.tools.declared import Capabilities, declared_tool
from codelab.sessions import keys
from codelab.sessions.items import ToolsItem
from codelab.turns.caller import Caller
from codelab.turns.draft import Draft

_Said = TypeVar("_Said")


def says_something(capabilities: Capabilities) -> bool:
    """Does a `hello` change what is known of the caller's tools?"""
    return capabilities.tools is not None or capabilities.tools_supported is not None


def declare(draft: Draft, caller: Caller, said: Capabilities) -> None:
    """Replace what the caller said before, from the next step on; a viewer's is ignored, because it executes nothing.

    Needs the stored tools, and removes those of closed connections.
    """
    if caller.viewer:
        return
    stored = draft.item(keys.TOOLS)
    known = ToolsItem.of(stored)
    declared, supported = _of_connected(draft, known.by_connection), _of_connected(draft, known.supported)
    if said.tools is not None:
        declared.pop(caller.connection_id, None)
        if said.tools:
            declared[caller.connection_id] = [tool.model_dump() for tool in said.tools]
    if said.tools_supported is not None:
        names = {canonical_name(name) for name in said.tools_supported}
        supported[caller.connection_id] = sorted(name for name in names if name in CATALOGUE)
    if declared or supported:
        draft.put(ToolsItem(declared, supported))
    elif stored is not None:
        draft.deletes.append(keys.TOOLS)


def _of_connected(draft: Draft, said: Mapping[str, _Said]) -> dict[str, _Said]:
    there = {*draft.register.connections, draft.register.executor}
    return {connection_id: it for connection_id, it in said.items() if connection_id in there}


def executed_by(item: ToolsItem, connection_id: str) -> ExecutorTools:
    """What the connection executes."""
    declared = item.by_connection.get(connection_id, ())
    supported = item.supported.get(connection_id)
    return ExecutorTools(
        tuple(declared_tool(declaration) for declaration in declared),
        None if supported is None else frozenset(supported),
    )
