"""The JSON examples of the seed documents, unchanged: `examples/*.md` has them under their headings.

An example's form determines its kind: a frame of the client or of the server, a call or a result without the frame
around it, a body of the REST API with its request line, the context of a Request.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("examples")

FROM_CLIENT = ("user_message", "tool_result", "hitl_decision", "context_update", "switch_agent")
FROM_SERVER = ("assistant_message", "tool_call", "agent_status", "error", "agent_switched")

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """One JSON value of a document. `place` is its heading, `n` its number in the document, from 1."""

    document: str
    n: int
    place: str
    request: str
    label: str
    value: Any

    @property
    def id(self) -> str:
        return f"{self.document}-{self.n}-{self.kind}"

    @property
    def kind(self) -> str:
        """`client`, `server`, `call`, `result`, `request` or `answer` (REST), `context`."""
        value = self.value
        if self.document == "agent_request":
            return "context"
        if self.document == "agent_runtime_api":
            return "request" if self.label.startswith("Request") else "answer"
        if value.get("type") in FROM_CLIENT:
            return "client"
        if value.get("type") in FROM_SERVER:
            return "server"
        if "tool_name" in value:
            return "call"
        if set(value) == {"result"}:
            return "result"
        raise ValueError(f"{self.document}, {self.place}: nothing is known of such an example: {value}")


@cache
def examples() -> tuple[Example, ...]:
    """All examples of all documents."""
    return tuple(example for file in sorted(FOLDER.glob("*.md")) for example in _of(file))


def of_kind(*kinds: str) -> list[Example]:
    return [example for example in examples() if example.kind in kinds]


def frames(frame_type: str) -> list[Example]:
    """The examples of frames of that type."""
    return [example for example in of_kind("client", "server") if example.value["type"] == frame_type]


def arguments_of(call: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, which the Tools Specification calls `args`."""
    found: dict[str, Any] = call["arguments"] if "arguments" in call else call["args"]
    return found


def _of(file: Path) -> list[Example]:
    found: list[Example] = []
    place = request = label = ""
    block: list[str] | None = None
    language = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("```") and block is None:
            block, language = [], line[3:]
        elif line == "```" and block is not None:
            text, block = "\n".join(block), None
            if language == "http":
                request = text.strip()
            else:
                for value in _values(text):
                    found.append(Example(file.stem, len(found) + 1, place, request, label, value))
        elif block is not None:
            block.append(line)
        elif line.startswith("#"):
            place, label = line.lstrip("# "), ""
        elif line.startswith("**"):
            label = line.strip("*: ")
    return found


def _values(text: str) -> list[Any]:
    """The JSON values of a block, which may have several frames, with comments in between or as a stream."""
    text = _COMMENT.sub("", text).replace("[...]", "[]").replace("data: ", "")
    found: list[Any] = []
    decoder = json.JSONDecoder()
    while text := text.strip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found
