"""The user's prompt, from ACP's content blocks to the text of a message. No I/O."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from codelab_client.acp.params import invalid, text


def message(blocks: Sequence[Mapping[str, Any]], root: Path, most: int) -> str:
    """The message of a prompt, at most so many characters long. Raises RpcError INVALID_PARAMS.

    Links become mentions (`@path`) where they stand. The texts of embedded files follow, the shortest first, as far as
    there is room; the others are only mentioned, and the agent reads them itself.
    """
    said, embedded = [], []
    for block in blocks:
        match block.get("type"):
            case "text":
                said.append(text(block, "text", 10_000_000) if block.get("text") else "")
            case "resource_link":
                said.append(mention(text(block, "uri"), root))
            case "resource":
                name, content = _resource(block.get("resource"), root)
                said.append(name)
                embedded.append((name, content))
            case "image" | "audio" as kind:
                raise invalid(f"This agent does not take a prompt with {kind}")
            case _:
                raise invalid("prompt has a block of an unknown type")
    whole = "".join(said)
    if not whole.strip():
        raise invalid("The prompt is empty")
    for name, content in sorted(embedded, key=lambda one: len(one[1])):
        added = _fenced(name, content)
        if len(whole) + len(added) <= most:
            whole += added
    if len(whole) > most:
        raise invalid(f"The prompt has {len(whole):,} characters; this server takes {most:,} at most")
    return whole


def mention(uri: str, root: Path) -> str:
    """How a message names a resource: `@path` for a file of the workspace, else its address."""
    try:
        parts = urlsplit(uri)
        path = Path(unquote(parts.path)).relative_to(root) if parts.scheme in ("file", "") else None
    except ValueError:
        return uri
    lines = (
        f" (lines {found[1]} to {found[2]})" if (found := re.fullmatch(r"L(\d+)[:-]L?(\d+)", parts.fragment)) else ""
    )
    return uri if path is None else f"@{path.as_posix()}{lines}"


def _resource(resource: Any, root: Path) -> tuple[str, str]:
    """The mention and the text of an embedded resource."""
    if not isinstance(resource, dict):
        raise invalid("resource must be an object")
    name = mention(text(resource, "uri"), root)
    content = resource.get("text")
    if not isinstance(content, str):
        raise invalid(f"{name[:200]} is not text: this agent takes embedded texts only")
    return name, content


def _fenced(name: str, content: str) -> str:
    """A text between fences that it does not contain itself."""
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n\n{name}:\n{fence}\n{content}\n{fence}"
