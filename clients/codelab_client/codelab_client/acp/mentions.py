"""Mentions of files of the workspace in an editor's prompt: none is followed out of it.

An editor embeds the content of a file that the user mentions, also if the file is a link, which a repository may bring,
to a file of the user's elsewhere.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from codelab_client.acp.prompts import holding
from codelab_client.folders import Folders


def confined(blocks: Sequence[Mapping[str, Any]], folders: Folders) -> list[Mapping[str, Any]]:
    """The blocks of a prompt; in place of what leads out of the session's folders by a link, only its name."""
    return [_confined(block, folders) for block in blocks]


def _confined(block: Mapping[str, Any], folders: Folders) -> Mapping[str, Any]:
    resource = block.get("resource")
    uri = resource.get("uri") if isinstance(resource, Mapping) else block.get("uri")
    if block.get("type") not in ("resource", "image") or not isinstance(uri, str) or not _leads_out(uri, folders):
        return block
    return {"type": "resource_link", "uri": uri, "name": uri}


def _leads_out(uri: str, folders: Folders) -> bool:
    place = holding(uri, folders)
    if place is None:
        return False
    try:
        return not Path(unquote(urlsplit(uri).path)).resolve().is_relative_to(place[0].resolve())
    except (OSError, ValueError, RuntimeError):  # a circle of links, NUL
        return True
