"""`hello`: what the client tells the server about itself. No I/O."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from codelab_client import __version__
from codelab_client.execution import (
    MOST_DECLARED_BYTES,
    MOST_DECLARED_TOOLS,
    DeclaredTool,
    DeclaresTools,
    OffersMoreTools,
    ToolExecutor,
)
from codelab_client.session.events import DELEGATE

_MOST_NAMES = 100
_PLATFORMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
_PLACE = re.compile(r"capabilities\.tools\.(\d+)(?:\.|$)")
_AGENT = re.compile(r"agents(?:\.(\d+))?(?:\.|$)")


class Hello:
    """The `hello` of a session, with the executor's own tools that the server takes.

    instructions: the project's, each with `path` and `content`; None leaves those that the session has. environment:
    where calls run; None as there.
    drafts: ask for drafts of calls. delegates: let the agent have subagents, whose calls the executor gets too.
    agents: those of the project, as the frame has them; None leaves those that this connection has declared.
    left_out, agents_left_out: why other tools and agents are not offered, by name.
    """

    def __init__(
        self,
        executor: ToolExecutor | None,
        instructions: Sequence[Mapping[str, str]] | None = None,
        *,
        drafts: bool = False,
        delegates: bool = True,
    ) -> None:
        self._executor, self.instructions, self._drafts = executor, instructions, drafts
        self._names_of_server = (DELEGATE,) if delegates else ()
        self.environment: Mapping[str, str] | None = None
        self._refusals: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        self.agents: Sequence[Mapping[str, Any]] | None = None
        self.agents_left_out: dict[str, str] = {}

    def frame(self) -> dict[str, Any]:
        """The frame as it must be sent now."""
        capabilities: dict[str, Any] = {"drafts": True} if self._drafts else {}
        if self._executor is not None:
            names = dict.fromkeys((*self._names_of_server, *self._executor.tools_supported))
            capabilities["tools_supported"] = [*names][:_MOST_NAMES]
        if isinstance(self._executor, DeclaresTools):
            capabilities["tools"] = [tool.declaration() for tool in self._tools(self._executor)]
        situation: dict[str, Any] = {} if self.environment is None else {"environment": dict(self.environment)}
        if self.instructions is not None:
            situation["instructions"] = [dict(file) for file in self.instructions]
        if self.agents is not None:
            situation["agents"] = [dict(agent) for agent in self.agents]
        return {
            "type": "hello",
            "client": {"name": "codelab", "version": __version__},
            "platform": _PLATFORMS.get(sys.platform, sys.platform[:32]),
            "capabilities": capabilities,
            **situation,
        }

    def refused(self, message: str, details: Mapping[str, Any]) -> bool:
        """The server refused the frame. Returns whether it must be sent again, without what it refuses."""
        if str(details.get("field", "")).startswith("instructions") and self.instructions:
            self.instructions = None
            return True
        if str(details.get("field", "")).startswith("environment") and self.environment:
            self.environment = None
            return True
        if (place := _AGENT.match(str(details.get("field", "")))) is not None and self.agents:
            refused_agents = (
                [self.agents[int(place[1])]] if place[1] and int(place[1]) < len(self.agents) else self.agents
            )
            self.agents_left_out |= {str(agent["name"]): message for agent in refused_agents}
            self.agents = [agent for agent in self.agents if agent not in refused_agents]
            return True
        if not isinstance(self._executor, DeclaresTools):
            return False
        names = [tool.name for tool in self._tools(self._executor)]
        place = _PLACE.match(str(details.get("field", "")))
        name = names[int(place[1])] if place is not None and int(place[1]) < len(names) else None
        self._refusals |= dict.fromkeys([name] if name is not None else names, message)
        return bool(names)

    def _tools(self, executor: DeclaresTools) -> list[DeclaredTool]:
        self.left_out = dict(self._refusals)
        tools: list[DeclaredTool] = []
        size = 2
        for tool in executor.offered_tools if isinstance(executor, OffersMoreTools) else executor.declared_tools:
            if tool.name in self._refusals:
                continue
            if tool.name.casefold() in (earlier.name.casefold() for earlier in tools):
                self.left_out[tool.name] = "another tool has this name"
                continue
            if len(tools) == MOST_DECLARED_TOOLS or size + tool.size > MOST_DECLARED_BYTES:
                limits = f"{MOST_DECLARED_TOOLS} tools of {MOST_DECLARED_BYTES:,} bytes"
                self.left_out[tool.name] = f"the server takes {limits} at most"
            else:
                tools.append(tool)
                size += tool.size
        return tools
