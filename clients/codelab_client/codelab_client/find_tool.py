"""`find_tool`: the agent looks for a tool among those that there is no room for, and gets it.

The server takes so many tools of a client and no more, and each costs tokens in every step of a turn. Where there are
more, the first of them are declared, and with them this one, which finds others by what they are for. What it has found
is declared before it answers, so that the agent can call it from its next step on; the last of the others make room.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from codelab_client.execution import MOST_DECLARED_BYTES, MOST_DECLARED_TOOLS, DeclaredTool

NAME = "find_tool"
#: Tools that are found at once, that stay declared, and whose names are told where none fits.
_FOUND, _KEPT, _NAMED = 5, 12, 100
#: Characters of a question, and of a tool's description, that are looked at.
_ASKED_CHARS, _LOOKED_AT = 500, 2_000
#: Sources that the description of the tool names.
_SOURCES = 20
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
#: A shorter word is no beginning of another one.
_BEGINNING = 4


class FoundTools:
    """Which of many tools the agent gets."""

    def __init__(self) -> None:
        #: The names of those that were found, the newest first.
        self._found_names: list[str] = []

    def all(self, tools: list[DeclaredTool]) -> list[DeclaredTool]:
        """All tools, and if there is no room for them also `find_tool`."""
        return tools if len(_fitting(tools)) == len(tools) else [_tool(tools), *tools]

    def offered(self, tools: Sequence[DeclaredTool]) -> Sequence[DeclaredTool]:
        """Of those of `all`, `find_tool` and what it has found, and as many others as there is room for."""
        by_name = {tool.name: tool for tool in tools}
        first = [by_name.pop(name) for name in (NAME, *self._found_names) if name in by_name]
        return _fitting([*first, *by_name.values()])

    def find(self, need: str, tools: Sequence[DeclaredTool]) -> list[DeclaredTool]:
        """The tools that fit a need best, and about as well as the best one. From now on they are offered."""
        asked_words = _words(need[:_ASKED_CHARS])
        scores = {tool.name: _score(need, asked_words, tool) for tool in tools if tool.name != NAME}
        minimum = max(1, max(scores.values(), default=0) // 2)
        fitting_tools = [tool for tool in tools if scores.get(tool.name, 0) >= minimum]
        best = sorted(fitting_tools, key=lambda tool: -scores[tool.name])[:_FOUND]
        names = [tool.name for tool in best]
        self._found_names = [*names, *(name for name in self._found_names if name not in names)][:_KEPT]
        return best


def result(found_tools: Sequence[DeclaredTool], tools: Sequence[DeclaredTool]) -> dict[str, Any]:
    """The result of a call that has found these, of all tools.

    It has names alone: the words of a tool that the user does not trust come where the server fences them.
    """
    if found_tools:
        return {
            "found": [tool.name for tool in found_tools],
            "note": "You can call these tools from your next step on.",
        }
    names = [tool.name for tool in tools if tool.name != NAME][:_NAMED]
    return {"found": [], "note": "No tool fits these words. Ask for one by its name.", "tools": names}


def _tool(tools: Iterable[DeclaredTool]) -> DeclaredTool:
    counts = Counter(tool.name.split(".")[0] for tool in tools if "." in tool.name)
    sources = ", ".join(f"{source} ({count} tools)" for source, count in counts.most_common(_SOURCES))
    return DeclaredTool(
        NAME,
        f"Find a tool that is not in your list yet, by what it does or by its name, before you say that you cannot do "
        f"something. You can call what it finds from your next step on. It looks at all tools of: {sources}",
        {
            "type": "object",
            "properties": {"need": {"type": "string", "description": "What the tool should do, in a few words"}},
            "required": ["need"],
        },
        read_only=True,
        trusted=True,
    )


def _fitting(tools: Iterable[DeclaredTool]) -> list[DeclaredTool]:
    """The first tools that the server takes."""
    fitting_tools: list[DeclaredTool] = []
    room = MOST_DECLARED_BYTES - 2
    for tool in tools:
        if len(fitting_tools) < MOST_DECLARED_TOOLS and tool.size <= room:
            fitting_tools.append(tool)
            room -= tool.size
    return fitting_tools


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


def _score(need: str, asked_words: Iterable[str], tool: DeclaredTool) -> int:
    """How well a tool fits: its name counts more than what it says of itself."""
    name = tool.name.casefold()
    if need.strip().casefold() in (name, name.partition(".")[2]):
        return 1_000
    name_words, description_words = _words(tool.name), _words(tool.description[:_LOOKED_AT])
    return sum(3 * _fits(word, name_words) + _fits(word, description_words) for word in asked_words)


def _fits(word: str, words: Iterable[str]) -> bool:
    """Whether a word is among others, or one begins with the other: `issues` and `issue`."""
    if len(word) < _BEGINNING:
        return word in words
    return any(it.startswith(word) or (len(it) >= _BEGINNING and word.startswith(it)) for it in words)
