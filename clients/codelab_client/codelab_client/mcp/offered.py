"""A tool as a server offers it, and its words as the agent and the user may see them."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from codelab_client.execution import DeclaredTool
from codelab_client.mcp.schemas import usable
from codelab_client.safe_text import safe

if TYPE_CHECKING:
    from mcp import types

#: Characters of a description, and of a text in the schema of the arguments.
_DESCRIBED, _TEXT_CHARS = 2_000, 1_000
_NAME_CHARS = 64
_WRONG = re.compile(r"[^A-Za-z0-9_.-]")
#: Texts of a schema that only describe. All others say what is valid, and stay as they are.
_WORDS = frozenset({"title", "description", "$comment"})
#: What is no word to a reader: a name, a number, a pattern without spaces.
_PLAIN = re.compile(r"\S{0,64}")


@dataclass(frozen=True)
class OfferedTool:
    """A tool of a server."""

    server: str
    tool: "types.Tool"

    @cached_property
    def name(self) -> str:
        """The name that the agent calls it by."""
        return f"{self.server}.{_WRONG.sub('_', self.tool.name)}"[:_NAME_CHARS]

    @cached_property
    def digest(self) -> str:
        """A digest that changes when its name, its words, its arguments or its annotations change."""
        tool = self.tool
        annotations = tool.annotations.model_dump(by_alias=True) if tool.annotations else None
        parts = [tool.name, tool.title, tool.description, annotations, tool.input_schema]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def says_it_reads(self) -> bool:
        """Whether the server says that it only reads."""
        return bool(self.tool.annotations and self.tool.annotations.read_only_hint)

    @cached_property
    def description(self) -> str:
        """What the server says of it."""
        return safe((self.tool.description or self.tool.title or self.tool.name)[:_DESCRIBED])[:_DESCRIBED]

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The schema of its arguments as a session takes it, with words that can be shown."""
        schema: dict[str, Any] = _with_safe_words(usable(self.tool.input_schema))
        return schema

    def declared(self, *, trusted: bool) -> DeclaredTool:
        """The tool as the server of the session gets it. trusted: the user trusts it as it is."""
        reads = trusted and self.says_it_reads
        return DeclaredTool(self.name, self.description, self.parameters, read_only=reads, trusted=trusted)


def described(tools: Sequence[OfferedTool]) -> str:
    """Tools with all their words, for the user."""
    return "\n".join(line for tool in tools for line in _lines(tool))


def _lines(tool: OfferedTool) -> Iterator[str]:
    note = "runs without asking, because it only reads" if tool.says_it_reads else "asks before each call"
    yield f"{tool.name} {note}"
    texts = [tool.description, *(f"{place}: {text}" for place, text in _texts(tool.parameters, ""))]
    yield from (f"    {line}" for text in texts for line in safe(text).split("\n"))


def _texts(schema: Any, place: str) -> Iterator[tuple[str, str]]:
    """All texts of a schema that a reader could take for words, each with its place."""
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            if not _PLAIN.fullmatch(name):
                yield place, name
            yield from _texts(value, place if name in ("properties", "items", *_WORDS) else f"{place}.{name}"[-60:])
    elif isinstance(schema, list):
        for value in schema:
            yield from _texts(value, place)
    elif isinstance(schema, str) and not _PLAIN.fullmatch(schema):
        yield place.removeprefix("."), schema


def _with_safe_words(node: Any, *, names: bool = False) -> Any:
    """A schema with its descriptions bounded and made safe. names: the keys are names of arguments, not keywords."""
    if isinstance(node, Mapping):
        return {
            key: safe(value[:_TEXT_CHARS])[:_TEXT_CHARS]
            if key in _WORDS and not names and isinstance(value, str)
            else _with_safe_words(value, names=not names and key in ("properties", "$defs", "definitions"))
            for key, value in node.items()
        }
    return [_with_safe_words(value) for value in node] if isinstance(node, list) else node
