"""The tool catalogue as data (Tools Specification; Agent Protocol, "Доступные инструменты")."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.tools import commands, dialogue, files, git, server, web
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.tool import Example, Risk, Tool

__all__ = [
    "ALIASES",
    "CATALOGUE",
    "KNOWN_TOOLS",
    "Example",
    "ExecutorTools",
    "ResultForm",
    "Risk",
    "Tool",
    "canonical_name",
    "find_tool",
]

#: Every tool that may be called, in display order.
CATALOGUE: Mapping[str, Tool] = {
    tool.name: tool for tool in (*files.TOOLS, *commands.TOOLS, *git.TOOLS, *dialogue.TOOLS, *web.TOOLS, *server.TOOLS)
}

#: The catalogue and the tools that the policy knows but no agent gets.
KNOWN_TOOLS: Mapping[str, Tool] = {**CATALOGUE, **{tool.name: tool for tool in git.NOT_OFFERED}}

#: The tools of the seed documents that IDEs execute, as those have them.
SEED: Mapping[str, Tool] = {
    tool.name: tool.without_extras() for tool in CATALOGUE.values() if not (tool.server_side or tool.extension)
}

#: Other names of tools, accepted everywhere and never sent.
ALIASES: Mapping[str, str] = {
    "execute_command": "run_command",
    "search_in_code": "search_in_project",
    "search_files": "search_in_project",
    "write_to_file": "write_file",
}


#: Tools that take a diff, and the one that does the same for models that write no exact diffs: most of them.
PATCHES, EDITS = frozenset({"apply_patch", "apply_patch_review"}), "edit_file"


def canonical_name(name: str) -> str:
    """The catalogue's name for an alias; any other name unchanged."""
    return ALIASES.get(name, name)


def find_tool(name: str) -> Tool:
    """The tool of that name or alias. Raises ProtocolError TOOL_NOT_FOUND."""
    tool = CATALOGUE.get(canonical_name(name))
    if tool is None:
        raise ProtocolError(ErrorCode.TOOL_NOT_FOUND, f"Unknown tool {name[:64]!r}")
    return tool


@dataclass(frozen=True, slots=True)
class ExecutorTools:
    """What a session's executor executes: its `own` tools, and those of the catalogue in `supported`.

    None: it has not declared any, like a client of the seed documents, and executes their tools.
    agents: the agents that it has declared, see `AgentDeclaration`.
    """

    own: tuple[Tool, ...] = ()
    supported: frozenset[str] | None = None
    agents: tuple[Mapping[str, Any], ...] = ()

    @property
    def has_own_words(self) -> bool:
        """Does the model get names or words of this client alone?"""
        return bool(self.own or self.agents)

    def offered(self, tool: Tool) -> Tool | None:
        """A tool of the catalogue as this executor executes it, None if it does not."""
        if tool.server_side and not tool.extension:
            return tool
        if self.supported is None:
            return SEED.get(tool.name)
        return tool if tool.name in self.supported else None

    def without(self, names: frozenset[str]) -> "ExecutorTools":
        """The same without these tools, as far as it has the choice: a client of the seed documents has no other."""
        return self if self.supported is None else replace(self, supported=self.supported - names)

    def edits_texts(self) -> bool:
        """Does it execute the tool that replaces texts in a file?"""
        return self.supported is not None and EDITS in self.supported

    def find(self, name: str) -> Tool:
        """The tool of that name or alias. Raises ProtocolError TOOL_NOT_FOUND."""
        declared_tool = next((tool for tool in self.own if tool.name == name), None)
        tool = declared_tool or self.offered(find_tool(name))
        if tool is None:
            raise ProtocolError(ErrorCode.TOOL_NOT_FOUND, f"The connected IDE does not execute {name[:64]}")
        return tool
