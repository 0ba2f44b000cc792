"""Clients' tools: each connection declares its own, and which of the catalogue's it executes.

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

_Declaration = TypeVar("_Declaration")


def says_something(capabilities: Capabilities) -> bool:
    """Does a `hello` change what is known of the caller's tools?"""
    return capabilities.tools is not None or capabilities.tools_supported is not None


def declare(draft: Draft, caller: Caller, capabilities: Capabilities) -> None:
    """Replace the caller's declarations, from the next step on; a viewer's is ignored, because it executes nothing.

    Needs the stored tools, and removes those of closed connections.
    """
    if caller.viewer:
        return
    raw_item = draft.item(keys.TOOLS)
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
    if declarations or supported_names:
        draft.put(ToolsItem(declarations, supported_names))
    elif raw_item is not None:
        draft.deletes.append(keys.TOOLS)


def _of_connected(draft: Draft, declarations: Mapping[str, _Declaration]) -> dict[str, _Declaration]:
    connection_ids = {*draft.register.connections, draft.register.executor}
    return {
        connection_id: declaration
        for connection_id, declaration in declarations.items()
        if connection_id in connection_ids
    }


def tools_of_connection(item: ToolsItem, connection_id: str) -> ExecutorTools:
    """What the connection executes."""
    declarations = item.by_connection.get(connection_id, ())
    tool_names = item.supported.get(connection_id)
    return ExecutorTools(
        tuple(declared_tool(declaration) for declaration in declarations),
        None if tool_names is None else frozenset(tool_names),
    )
