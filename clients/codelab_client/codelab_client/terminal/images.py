"""Images in a message: files whose path the user pasted, or mentions with an @."""

import base64
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from codelab_client.config import config_folder
from codelab_client.safe_text import safe_line
from codelab_client.session.journal import state_folder
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components
from codelab_client.tools.tree import Tree

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


def attached(
    text: str, workspace: Path, limits: Mapping[str, Any], typed_text: str | None = None
) -> list[dict[str, Any]]:
    """The images that a message names, as its attachments. Raises ImageError.

    typed_text: what of the message the user has typed; None: all of it. Elsewhere in it, only mentions count.
    limits: those of the server; without any, it takes no attachments. A path that leads to no file is only a text.
    """
    named_files = list(_files(text, workspace))
    if typed_text not in (None, text):
        named_files = [*(file for file in named_files if file[1]), *_files(typed_text or "", workspace)]
    files = list(dict.fromkeys(file for file in named_files if file[0].is_file()))
    limit = limits.get("attachments")
    if type(limit) is not int or not files:
        return []
    if len(files) > limit:
        raise ImageError(f"The message names {len(files)} images; this server takes {limit} at most")
    return [_image(path, mention, workspace, limits.get("image_bytes")) for path, mention in files]


def _files(text: str, workspace: Path) -> list[tuple[Path, str]]:
    """The paths that a text names, each with its mention: empty if it was pasted as a whole path."""
    files = []
    for match in _PATH.finditer(text):
        name = match["single"] or match["double"] or _unescaped(match["bare"] or match["mention"])
        if name.startswith("file://"):
            name = unquote(name.removeprefix("file://").removeprefix("localhost"))
        if name.lower().endswith(_EXTENSIONS):
            path = workspace / Path(os.path.expanduser(name))  # noqa: PTH111 - it raises nothing
            files.append((path, name if match["mention"] else ""))
    return files


def _unescaped(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word.rstrip(".,;:!?)"))


def _image(path: Path, mention: str, workspace: Path, limit: Any) -> dict[str, Any]:
    limit = limit if type(limit) is int and limit > 0 else _NO_LIMIT
    data = _mentioned(mention, workspace, limit) if mention else _pasted(path, limit)
    if len(data) > limit:
        raise ImageError(f"{path} has more than the {limit:,} bytes that this server takes")
    kind = _kind(data)
    if not kind:
        raise ImageError(f"{path} is no PNG, JPEG, GIF or WebP image")
    name = safe_line(path.name, _NAME_CHARS)
    return {"type": "image", "name": name, "media_type": kind, "data": base64.b64encode(data).decode()}


def _pasted(path: Path, limit: int) -> bytes:
    """The content of a file that the user named by its whole path, and one byte more than `limit`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ImageError(f"{path} is not a file")
            return file.read(limit + 1)
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror}") from None


def _mentioned(mention: str, workspace: Path, limit: int) -> bytes:
    """The content of a file of the workspace. A repository may bring links: none is followed out of it."""
    tree = Tree(workspace, (state_folder(), config_folder()))
    try:
        return tree.read(components(mention), limit).data
    except ToolFailure as failure:
        if failure.code == "FILE_TOO_LARGE":
            raise ImageError(f"@{mention} has more than the {limit:,} bytes that this server takes") from None
        if failure.code == "PATH_OUTSIDE_WORKSPACE":
            raise ImageError(
                f"@{mention} leads out of the workspace, so it is not sent; its whole path without @ sends it"
            ) from None
        raise ImageError(failure.message) from None
    finally:
        tree.close()


def _kind(data: bytes) -> str:
    """The type that the content has, whatever the file is called."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""
