"""Agents that are files: a description of how somebody works, to whom the session's agent can give a part of its work.

They are in the workspace (`.codelab/agents/NAME.md`, and those of other agents where they mean the same) or the user's
own. One of the workspace may be a stranger's, so the server is told of it once the user has trusted it, exactly as it
is. Whatever it says, it may do no more than the agent that delegates to it.
"""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from codelab_client import front_matter
from codelab_client.project.texts import Say, TextFile, texts_of
from codelab_client.safe_text import exact, exact_line, safe, safe_line
from codelab_client.skills import TOOL as SKILLS
from codelab_client.tools.arguments import ALIASES, ARGUMENTS
from codelab_client.tools.dialogue import Dialogue
from codelab_client.tools.risks import risk_of
from codelab_client.trust import TrustFile

#: Where a workspace has agents, in this order.
FOLDERS = (".codelab/agents", ".claude/agents", ".opencode/agent", ".opencode/agents")
#: What the server takes (docs/protocol.md, "Agents of a project").
_MOST_AGENTS, _MOST_PROMPT_BYTES, _MOST_BYTES, _MOST_TOOLS = 16, 8_000, 32_000, 100
_MOST_FILES, _MOST_FILE_BYTES, _DESCRIBED = 100, 16_000, 500
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
#: Names that other agents have for the same tools, in lower case.
_PEERS = {
    "read": "read_file",
    "write": "write_file",
    "edit": "edit_file",
    "multiedit": "edit_file",
    "patch": "apply_patch",
    "ls": "list_files",
    "list": "list_files",
    "glob": "find_files",
    "grep": "search_in_project",
    "bash": "run_command",
    "webfetch": "fetch_url",
}
_MCP_TOOL = re.compile(r"mcp__(.+?)__(.+)")
#: What goes with a tool that an agent must not have: who may not write one file may not change another.
_CHANGES = frozenset(tool for tool in ARGUMENTS if risk_of(tool, {}) == "write")
_COMMANDS = frozenset(tool for tool in ARGUMENTS if risk_of(tool, {}) == "execute") | {"read_process"}
#: Other agents' names of models that say nothing here.
_MODEL_ALIASES = frozenset({"", "inherit", "sonnet", "opus", "haiku", "default"})
_TRUST, _LATER, _NEVER = "delegate to it, now and from now on", "not now", "never"


@dataclass(frozen=True)
class ProjectAgent:
    """An agent. place: its file, for people. text: all of the file. is_users: see `TextFile`.

    tools: those that it may have; None: all. without: those that it must not have. reads_only: its `mode` says so.
    """

    name: str
    place: str
    text: str
    description: str
    prompt: str
    tools: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    reads_only: bool = False
    model: str = ""
    is_users: bool = False

    def declaration(self, supported: Collection[str]) -> dict[str, Any]:
        """As `hello` declares it. supported: all tools that the client executes."""
        tools = self.tools
        if self.without:
            tools = frozenset(supported if tools is None else tools) - self.without
        return {
            "name": self.name,
            "description": self.description,
            "prompt": self.prompt,
            "tools": None if tools is None else sorted(tools)[:_MOST_TOOLS],
            "mode": "ask" if self.reads_only else None,
            "model": self.model or None,
        }

    @property
    def limits(self) -> str:
        """What it may use, in a line."""
        tools = "all tools of the agent that delegates" if self.tools is None else ", ".join(sorted(self.tools))
        parts = [f"tools: {tools or 'none'}"]
        if self.without:
            parts.append(f"without {', '.join(sorted(self.without))}")
        parts += ["only reads"] * self.reads_only + [f"model: {self.model}"] * bool(self.model)
        return exact_line("; ".join(parts))

    @property
    def question(self) -> str:
        """What the user decides about: all of it, each line of the description marked as such."""
        occasion = (
            "of this workspace describes an agent that yours may delegate to. It asks like yours, and may do no more."
        )
        lines = [
            f"{self.place} {occasion}",
            f"{self.name}: {exact_line(self.description)}",
            self.limits,
            *(f"│ {exact(line)}" for line in self.prompt.split("\n")),
        ]
        return "\n".join(lines)


class Declares(Protocol):
    """A session, as far as it matters here."""

    async def declare_agents(self, agents: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        """Declare these in place of earlier ones. Returns why some are left out, by name."""
        ...

    @property
    def model_names(self) -> Collection[str]:
        """The models that the user may choose; empty if the server does not say."""
        ...


@dataclass
class ProjectAgents:
    """The agents of one conversation, as they were when it began.

    state: where the user's decisions are. say: tells the user something. supported: all tools that the client executes
    now.
    """

    workspace: Path
    state: Path
    say: Say
    supported: Callable[[], Collection[str]]
    agents: Sequence[ProjectAgent] = ()
    _left_out: dict[str, str] = field(default_factory=dict)
    _session: Declares | None = None
    _has_declared: bool = False

    def __post_init__(self) -> None:
        self._trust = TrustFile(self.state, self.workspace)

    async def start(self, dialogue: Dialogue | None, session: Declares) -> None:
        """Declare the agents that are trusted, and ask about those that the user has not decided about.

        Without a dialogue, the user is only told of these. Raises SessionError.
        """
        self._session = session
        complaints: list[str] = []
        self.agents = await asyncio.to_thread(lambda: list(agents_of(self.workspace, complaints.append)))
        for complaint in complaints:
            self.say(safe(complaint))
        await self._declare()
        await self._ask(dialogue, [agent for agent in self.agents if self.decision(agent) is None])

    async def ask(self, dialogue: Dialogue, name: str = "") -> None:
        """Ask about the agent of this name, or about all that are not trusted. Raises SessionError."""
        await self._ask(
            dialogue, [agent for agent in self.agents if name in ("", agent.name) and not self.is_trusted(agent)]
        )

    async def _ask(self, dialogue: Dialogue | None, undecided_agents: Sequence[ProjectAgent]) -> None:
        if dialogue is None and undecided_agents:
            places = ", ".join(agent.place for agent in undecided_agents)
            self.say(f"You have not trusted these agents, so nobody delegates to them: {places}. /agents shows them")
            return
        for agent in undecided_agents:
            choice = await dialogue.choose(agent.question, (_TRUST, _LATER, _NEVER)) if dialogue is not None else None
            if choice not in (_TRUST, _NEVER):
                return
            await self.decide(agent, is_trusted=choice == _TRUST)

    async def decide(self, agent: ProjectAgent, *, is_trusted: bool) -> None:
        """The user trusts the agent as it is here, or does not want to be asked about it. Raises SessionError."""
        self._trust.decide(self.key(agent), agent.place, "trusted" if is_trusted else "denied")
        await self._declare()

    def key(self, agent: ProjectAgent) -> str:
        """Changes with the file and all of its text."""
        return self._trust.key(agent.place, agent.text)

    def decision(self, agent: ProjectAgent) -> str | None:
        """What the user has decided."""
        return "trusted" if agent.is_users else self._trust.decision(self.key(agent))

    def is_trusted(self, agent: ProjectAgent) -> bool:
        """Whether it may be declared."""
        return self.decision(agent) == "trusted"

    def find(self, name: str) -> ProjectAgent | None:
        """The agent of this name."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def listed(self) -> list[tuple[str, str]]:
        """Each agent, and what there is to know about it."""
        return [(agent.name, f"{agent.place}, {self._state(agent)}: {agent.description}") for agent in self.agents]

    def _state(self, agent: ProjectAgent) -> str:
        if (reason := self._left_out.get(agent.name)) is not None:
            return f"left out: {safe_line(reason)}"
        if agent.is_users:
            return "your own"
        return {"trusted": "trusted", "denied": "not trusted"}.get(self.decision(agent) or "", "not trusted yet")

    async def _declare(self) -> None:
        """Tell the server of those that are trusted, as many as it takes."""
        session = self._session
        trusted_agents = [agent for agent in self.agents if self.is_trusted(agent)]
        if session is None or not (trusted_agents or self._has_declared):
            return
        self._has_declared, self._left_out = True, {}
        declarations: list[dict[str, Any]] = []
        for agent in trusted_agents:
            declaration = agent.declaration(self.supported())
            if agent.model and agent.model not in session.model_names:
                self.say(f"{agent.place}: there is no model {exact_line(agent.model)} to choose; the session's answers")
                declaration["model"] = None
            size = len(json.dumps([*declarations, declaration], ensure_ascii=False).encode())
            if len(declarations) == _MOST_AGENTS or size > _MOST_BYTES:
                self._left_out[agent.name] = f"the server takes {_MOST_AGENTS} agents of {_MOST_BYTES:,} bytes at most"
            else:
                declarations.append(declaration)
        self._left_out |= await session.declare_agents(declarations)
        for name, reason in self._left_out.items():
            self.say(f"The agent {name} is left out: {safe_line(reason)}")


def agents_of(workspace: Path, say: Say) -> Iterator[ProjectAgent]:
    """The agents of a workspace and the user's own, which come first. Nothing is run, and nobody is told of them.

    say: tells what is left out, and why.
    """
    places: dict[str, str] = {}
    for number, file in enumerate(texts_of(workspace, "agents", FOLDERS, _MOST_FILE_BYTES, say)):
        if len(places) == _MOST_AGENTS or number == _MOST_FILES:
            say(f"There are more than {_MOST_AGENTS} agents: {file.place} and those after it are left out")
            return
        fields, prompt = front_matter.split(file.text)
        if _is_no_subagent(file, fields):
            continue
        name = (fields.get("name") if file.place.startswith(".claude/") else None) or file.name
        problem = _problem(name, prompt, places)
        if problem:
            say(f"{file.place} is left out: {problem}")
            continue
        places[name] = file.place
        yield _agent_of(name, file, fields, prompt.strip(), say)


def _is_no_subagent(file: TextFile, fields: Mapping[str, str]) -> bool:
    """Whether the file of another agent describes something else: who talks to the user, or who is switched off."""
    return file.place.startswith(".opencode/") and (fields.get("mode") == "primary" or fields.get("disable") == "true")


def _problem(name: str, prompt: str, places: Mapping[str, str]) -> str:
    """Why there can be no such agent; empty if there can."""
    if not _NAME.fullmatch(name):
        return f"its name {exact_line(name[:64])} must be at most 32 of a-z, 0-9, - and _, and begin with a letter"
    if name in places:
        return f"{name} is {places[name]}"
    if not prompt.strip():
        return "it has no text"
    if len(prompt.strip().encode()) > _MOST_PROMPT_BYTES:
        return f"its text has more than {_MOST_PROMPT_BYTES:,} bytes"
    return ""


def _agent_of(name: str, file: TextFile, fields: Mapping[str, str], prompt: str, say: Say) -> ProjectAgent:
    below = front_matter.lines_below(file.text)
    description = fields.get("description", "")
    if description in ("", ">", "|", ">-", "|-"):
        first_line = next((line for line in prompt.splitlines() if line.strip("# -\t")), name)
        description = " ".join(below.get("description", ())) or first_line.lstrip("# ")
    rights = _Rights(file.place, say)
    tools = rights.named(fields.get("tools"), below.get("tools", []))
    rights.withhold(_items(fields.get("disallowedTools", ""), below.get("disallowedTools", [])))
    rights.withhold(_denied(below.get("permission", [])))
    reads_only = rights.reads_only(fields)
    return ProjectAgent(
        name,
        file.place,
        file.text,
        safe_line(description, _DESCRIBED) or name,
        prompt,
        tools,
        frozenset(rights.without),
        reads_only,
        _model(fields.get("model", "")),
        file.is_users,
    )


class _Rights:
    """What a file says that an agent may use. What is not known here is left out with a word, and allows nothing."""

    def __init__(self, place: str, say: Say) -> None:
        self._place, self._say = place, say
        self.without: set[str] = set()

    def named(self, value: str | None, lines: Sequence[str]) -> frozenset[str] | None:
        """The tools that a file lists; None: all."""
        if value is None:
            return None
        switches = dict(_switches(lines)) if not value else {}
        if switches:  # opencode's: each tool that is not switched off
            self.withhold([name for name, is_on in switches.items() if not is_on and name != "*"])
            if switches.get("*", True):
                return None
            return self._known([name for name, is_on in switches.items() if is_on])
        items = _items(value, lines)
        return None if items == ["*"] else self._known(items)

    def withhold(self, names: Sequence[str]) -> None:
        """The agent must not have these."""
        for name in names:
            tool = self._tool(name.partition("(")[0])
            self.without |= {tool} | next((group for group in (_CHANGES, _COMMANDS) if tool in group), frozenset())

    def reads_only(self, fields: Mapping[str, str]) -> bool:
        """Whether the agent only reads. A mode in which more runs unasked is nobody's to choose but the user's."""
        mode = fields.get("permissionMode", "") or fields.get("mode", "")
        if mode in ("ask", "plan"):
            return True
        if mode not in ("", "default", "subagent", "all"):
            self._say(f"{self._place}: the mode {exact_line(mode[:64])} does not count; the session's does")
        if fields.get("permission"):
            self._say(f"{self._place}: its `permission` in one line cannot be read here, so the agent only reads")
        return bool(fields.get("permission"))

    def _known(self, names: Sequence[str]) -> frozenset[str]:
        tools: set[str] = set()
        for name in names:
            tool = self._tool(name)
            if tool in ARGUMENTS or tool == SKILLS or (_TOOL_NAME.fullmatch(tool) and "." in tool):
                tools.add(tool)
            else:
                self._say(
                    f"{self._place}: there is no tool {exact_line(name[:64])} here, so the agent does not have it"
                )
        return frozenset(tools)

    @staticmethod
    def _tool(name: str) -> str:
        if (match := _MCP_TOOL.fullmatch(name)) is not None:
            return f"{match[1]}.{match[2]}"
        return ALIASES.get(tool := _PEERS.get(name.casefold(), name), tool)


def _items(value: str, lines: Sequence[str]) -> list[str]:
    """The items of a list: in one line, with commas between them, or one a line."""
    text = value.strip().removeprefix("[").removesuffix("]")
    items = [*text.split(","), *(line.strip().removeprefix("-") for line in lines)]
    return [item for item in (item.strip().strip("'\"") for item in items) if item]


def _switches(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The names that lines set to true or false; what is neither is false. An item of a list is no such line."""
    for line in lines:
        name, colon, value = line.strip().partition(":")
        if colon and not name.startswith("-"):
            yield name.strip("'\""), value.strip() == "true"


def _denied(lines: Sequence[str]) -> list[str]:
    """The names of the tools that `permission` denies, for all or some arguments: nobody here can tell those apart."""
    names: list[str] = []
    current = ""
    outermost = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    for line in lines:
        name, _, value = line.strip().partition(":")
        if len(line) - len(line.lstrip()) == outermost:
            current = name.strip("'\"")
        if value.strip().strip("'\"") == "deny":
            names.append(current)
    return list(dict.fromkeys(names))


def _model(name: str) -> str:
    return "" if name in _MODEL_ALIASES or len(name) > 128 or not name.isprintable() else name
