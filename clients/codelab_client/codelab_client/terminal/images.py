"""Images in a message: files whose path the user pasted, or mentions with an @."""

import base64
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from codelab_client.safe_text import safe_line

#: A whole path as terminals paste it: in quotes, with escaped spaces, or as an address; or an @ before a file's name.
_PATH = re.compile(
    r"""(?:^|(?<=\s))(?:
        '(?P<single>(?:file:/|[/~])[^'\n]+)' | "(?P<double>(?:file:/|[/~])[^"\n]+)" |
        (?P<bare>(?:file://|[/~])(?:\\.|[^\s\\'"])+) | @(?P<mention>(?:\\.|[^\s\\@'"])+)
    )(?=[\s.,;:!?)]|$)""",
    re.VERBOSE,
)
_EXTENSIONS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_NAME_CHARS = 255
_NO_LIMIT = 10_000_000


class ImageError(Exception):
    """An image cannot be sent. The text says why."""


def attached(text: str, workspace: Path, limits: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The images that a message names, as its attachments. Raises ImageError.

    limits: those of the server; without any, it takes no attachments. A path that leads to no file is only a text.
    """
    files = list(dict.fromkeys(path for path in _paths(text, workspace) if path.is_file()))
    most = limits.get("attachments")
    if type(most) is not int or not files:
        return []
    if len(files) > most:
        raise ImageError(f"The message names {len(files)} images; this server takes {most} at most")
    return [_image(path, limits.get("image_bytes")) for path in files]


def _paths(text: str, workspace: Path) -> list[Path]:
    found = []
    for match in _PATH.finditer(text):
        named = match["single"] or match["double"] or _unescaped(match["bare"] or match["mention"])
        if named.startswith("file://"):
            named = unquote(named.removeprefix("file://").removeprefix("localhost"))
        if named.lower().endswith(_EXTENSIONS):
            found.append(workspace / Path(os.path.expanduser(named)))  # noqa: PTH111 - it raises nothing
    return found


def _unescaped(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word.rstrip(".,;:!?)"))


def _image(path: Path, most: Any) -> dict[str, Any]:
    most = most if type(most) is int and most > 0 else _NO_LIMIT
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ImageError(f"{path} is not a file")
            data = file.read(most + 1)
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror}") from None
    if len(data) > most:
        raise ImageError(f"{path} has more than the {most:,} bytes that this server takes")
    kind = _kind(data)
    if not kind:
        raise ImageError(f"{path} is no PNG, JPEG, GIF or WebP image")
    name = safe_line(path.name, _NAME_CHARS)
    return {"type": "image", "name": name, "media_type": kind, "data": base64.b64encode(data).decode()}


def _kind(data: bytes) -> str:
    """The type that the content has, whatever the file is called."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""
