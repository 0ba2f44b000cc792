"""The clients' own tools: each connection declares its own, and the agent can call those of the executor.

So another connection does not change which tools the agent can call.
"""

from collections.abc import Sequence

from codelab.protocol.tools import Tool
from codelab.protocol.tools.declared import ToolDeclaration, declared_tool
from codelab.sessions import keys
from codelab.sessions.items import ToolsItem
from codelab.turns.caller import Caller
from codelab.turns.draft import Draft


def declare(draft: Draft, caller: Caller, tools: Sequence[ToolDeclaration]) -> None:
    """Replace the caller's own tools from the next step on; a viewer has none, because it executes nothing.

    Needs the declared tools, and removes those of closed connections.
    """
    if caller.viewer:
        return
    register, stored = draft.register, draft.item(keys.TOOLS)
    there = {*register.connections, register.executor}
    known = {found: tools for found, tools in ToolsItem.of(stored).by_connection.items() if found in there}
    known.pop(caller.connection_id, None)
    if tools:
        known[caller.connection_id] = [tool.model_dump() for tool in tools]
    if known:
        draft.put(ToolsItem(known))
    elif stored is not None:
        draft.deletes.append(keys.TOOLS)


def declared_by(declared: ToolsItem, connection_id: str) -> list[Tool]:
    """The tools that the connection has declared."""
    return [declared_tool(declaration) for declaration in declared.by_connection.get(connection_id, ())]
