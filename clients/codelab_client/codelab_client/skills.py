"""Skills of a project: folders with a SKILL.md, which the agent reads when it needs them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from codelab_client import front_matter
from codelab_client.execution import DeclaredTool, ToolCall, ToolOutcome
from codelab_client.safe_text import safe_line
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.tree import Tree

#: Where skills are looked for, in this order.
FOLDERS = (".agents/skills", ".codelab/skills", ".claude/skills")
NAME = "SKILL.md"
TOOL = "read_skill"
_MOST_SKILLS = 50
_MOST_BYTES = 100_000
#: Characters of a skill's description, and of all of them, which are a part of the tool's description (2,000 at most).
_DESCRIBED, _ALL_DESCRIBED = 200, 1_600
#: Characters of a line that are looked at for that.
_LOOKED_AT = 100_000
_SKILL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Skill:
    """A skill. folder: relative to the workspace."""

    name: str
    folder: str
    description: str


class Skills:
    """The skills of a workspace, as one read-only tool that reads one (a `ToolSource`).

    Anybody may have written them, so the tool's words are not trusted: the agent gets them as data.
    """

    def __init__(self, workspace: Path) -> None:
        self._tree = Tree(workspace)
        self._skills = {skill.name: skill for skill in found(self._tree)}

    @property
    def declared_tools(self) -> Sequence[DeclaredTool]:
        """The tool, if there are skills."""
        if not self._skills:
            return []
        lines, remaining = [], _ALL_DESCRIBED
        for skill in self._skills.values():
            line = f"- {skill.name}: {skill.description}"
            remaining -= len(line) + 1
            lines.append(line if remaining > 0 else f"- {skill.name}")
        listing = "\n".join(lines)[:1_800]
        return [
            DeclaredTool(
                TOOL,
                f"Read one of the project's skills, which say how something is done here, before you do it.\n{listing}",
                {
                    "type": "object",
                    "properties": {"name": {"type": "string", "enum": list(self._skills)}},
                    "required": ["name"],
                },
                read_only=True,
            )
        ]

    async def execute(self, call: ToolCall) -> ToolOutcome:
        """Read a skill."""
        skill = self._skills.get(str(call.arguments.get("name", "")))
        if skill is None:
            return ToolOutcome.failed("FILE_NOT_FOUND", f"There is no such skill; there are {', '.join(self._skills)}")
        text = _text(self._tree, f"{skill.folder}/{NAME}")
        if text is None:
            return ToolOutcome.failed("FILE_NOT_FOUND", f"{skill.folder}/{NAME} cannot be read")
        return ToolOutcome({"content": text, "folder": skill.folder})

    async def aclose(self) -> None:
        """Close the workspace."""
        self._tree.close()


def found(tree: Tree) -> list[Skill]:
    """The skills of a workspace. Anything else in the folders is left out."""
    skills: dict[str, Skill] = {}
    for folder in FOLDERS:
        try:
            names = [node.name for node in tree.scan(tuple(folder.split("/")))]
        except ToolFailure:
            continue
        for name in names:
            if len(skills) == _MOST_SKILLS or name in skills or not _SKILL.fullmatch(name):
                continue
            if (text := _text(tree, f"{folder}/{name}/{NAME}")) is not None:
                skills[name] = Skill(name, f"{folder}/{name}", _description(text))
    return list(skills.values())


def _text(tree: Tree, path: str) -> str | None:
    """The text of a file of the workspace; None if it cannot be read."""
    try:
        return tree.read(tuple(path.split("/")), _MOST_BYTES).data.decode("utf-8", "replace")
    except ToolFailure:
        return None


def _description(text: str) -> str:
    """The description of the front matter, else the first line that says something."""
    fields, text = front_matter.split(text)
    if fields.get("description"):
        return safe_line(fields["description"][:_LOOKED_AT], _DESCRIBED)
    line = next((line for line in text.splitlines() if line.strip("# -\t")), "")
    return safe_line(line.lstrip("# ")[:_LOOKED_AT], _DESCRIBED)
