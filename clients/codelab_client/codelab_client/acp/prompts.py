"""The user's prompt, from ACP's content blocks to a message with attachments. No I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from codelab_client.acp.params import invalid, text
from codelab_client.folders import Folders
from codelab_client.safe_text import safe_line

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_NAME_CHARS = 255
#: Characters of an image's data; the server says how many bytes it takes.
_DATA_CHARS = 10_000_000


@dataclass(frozen=True)
class Limits:
    """What the server takes: characters of a message, attachments, characters of an attached text."""

    chars: int = 10_000
    attachments: int = 0
    attached_chars: int = 0

    @classmethod
    def of(cls, limits: Mapping[str, Any]) -> "Limits":
        """Read `session_info.limits`; what it does not say is as without extensions."""

        def number(name: str, default: int) -> int:
            value = limits.get(name)
            return value if type(value) is int and value >= 0 else default

        return cls(number("user_message_chars", 10_000), number("attachments", 0), number("attached_chars", 0))


@dataclass
class Message:
    """A message as `Session.prompt` takes it."""

    text: str
    attachments: list[dict[str, Any]] = field(default_factory=list)


def message(blocks: Sequence[Mapping[str, Any]], folders: Folders, limits: Limits) -> Message:
    """The message of a prompt. Raises RpcError INVALID_PARAMS.

    Links become mentions (`@path`) where they stand. Images are attached, and the texts of embedded files as far as
    the server takes them, the shortest first; the others are only mentioned, and the agent reads them itself.
    """
    parts: list[str] = []
    images: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                parts.append(text(block, "text", 10_000_000) if block.get("text") else "")
            case "resource_link":
                parts.append(mention(text(block, "uri"), folders))
            case "resource":
                resource = block.get("resource")
                if not isinstance(resource, dict):
                    raise invalid("resource must be an object")
                resource_name = mention(text(resource, "uri"), folders)
                parts.append(resource_name)
                if isinstance(content := resource.get("text"), str):
                    texts.append({"type": "text", **_name(resource_name), "content": content})
                else:
                    images.append(_image(resource, "blob", resource_name))
            case "image":
                resource_name = mention(text(block, "uri"), folders) if block.get("uri") else ""
                images.append(_image(block, "data", resource_name))
            case "audio":
                raise invalid("This agent does not take a prompt with audio")
            case _:
                raise invalid("prompt has a block of an unknown type")
    whole = "".join(parts)
    if not whole.strip() and images:
        whole = "(see the attachment)"
    if not whole.strip():
        raise invalid("The prompt is empty")
    if len(whole) > limits.chars:
        raise invalid(f"The prompt has {len(whole):,} characters; this server takes {limits.chars:,} at most")
    if len(images) > limits.attachments:
        raise invalid(f"The prompt has {len(images)} images; this server takes {limits.attachments} at most")
    fitting = [attachment for attachment in texts if 0 < len(attachment["content"]) <= limits.attached_chars]
    fitting.sort(key=lambda attachment: len(attachment["content"]))
    return Message(whole, [*images, *fitting[: limits.attachments - len(images)]])


def mention(uri: str, folders: Folders) -> str:
    """How a message names a resource: `@path` for a file of the session's folders, else its address."""
    place = holding(uri, folders)
    if place is None:
        return uri
    match = re.fullmatch(r"L(\d+)[:-]L?(\d+)", urlsplit(uri).fragment)
    lines = f" (lines {match[1]} to {match[2]})" if match else ""
    return f"@{place[1]}{lines}"


def holding(uri: str, folders: Folders) -> tuple[Path, str] | None:
    """The folder that the file of a resource's address is in, and its path as calls name it; None for any other."""
    try:
        parts = urlsplit(uri)
        return folders.holding(Path(unquote(parts.path))) if parts.scheme in ("file", "") else None
    except ValueError:
        return None


def _image(source: Mapping[str, Any], name: str, title: str) -> dict[str, Any]:
    """An image as an attachment."""
    kind = source.get("mimeType")
    if kind not in _IMAGES:
        raise invalid(f"This agent takes texts and images ({', '.join(_IMAGES)}), not {str(kind)[:100]}")
    return {"type": "image", **_name(title), "media_type": kind, "data": text(source, name, _DATA_CHARS)}


def _name(title: str) -> dict[str, str]:
    label = safe_line(title.removeprefix("@"), _NAME_CHARS)
    return {"name": label} if label else {}
