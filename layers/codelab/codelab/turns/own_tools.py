"""The clients' own tools: each window declares its own, and those of the one that executes count.

So a window that only looks on, or that comes later, changes nothing of what the agent may call in the one that works.
"""

from collections.abc import Sequence

from codelab.protocol.tools import Tool
from codelab.protocol.tools.declared import ToolDeclaration, declared_tool
from codelab.sessions import keys
from codelab.sessions.items import ToolsItem
from codelab.turns.caller import Caller
from codelab.turns.draft import Draft


def declare(draft: Draft, caller: Caller, tools: Sequence[ToolDeclaration]) -> None:
    """These are the tools of the caller's window from the next step on; a viewer executes nothing and has none.

    Needs what the windows have declared. What is known of windows that are gone is left out.
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
    """The tools that a connection has declared."""
    return [declared_tool(declaration) for declaration in declared.by_connection.get(connection_id, ())]
