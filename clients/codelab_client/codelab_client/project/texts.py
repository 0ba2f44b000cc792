"""Markdown files that say something to the agent, by their names: those of a workspace, and the user's own.

Those of a workspace may be a stranger's. The user's own may be links, to wherever the user keeps such files; one into
the workspace is the workspace's.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codelab_client.config import config_folder
from codelab_client.safe_text import exact_line
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.tree import Tree

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

Say = Callable[[str], None]


@dataclass(frozen=True)
class TextFile:
    """A file. name: without its ending. place: the file, for people. is_users: the user has written it, or somebody
    who may write to the user's own folder.
    """

    name: str
    place: str
    text: str
    is_users: bool = False


def texts_of(workspace: Path, own_folder: str, folders: Sequence[str], most_bytes: int, say: Say) -> Iterator[TextFile]:
    """The user's own files in `own_folder` of the config folder, then those in the workspace's folders, in this order.

    say: tells what is left out, and why.
    """
    for name, place, data, is_users in (*_own(workspace, own_folder, most_bytes, say),
                                        *_of_workspace(workspace, folders, most_bytes, say)):  # fmt: skip
        if len(data) > most_bytes:
            say(f"{place} is left out: it has more than {most_bytes:,} bytes")
            continue
        try:
            yield TextFile(name, place, data.decode(), is_users)
        except UnicodeError:
            say(f"{place} is left out: it is not UTF-8")


def _of_workspace(
    workspace: Path, folders: Sequence[str], most_bytes: int, say: Say
) -> Iterator[tuple[str, str, bytes, bool]]:
    tree = Tree(workspace)
    try:
        for folder in folders:
            try:
                nodes = tree.scan(tuple(folder.split("/")))
            except ToolFailure:
                continue
            for node in nodes:
                name, place = node.name.removesuffix(".md"), f"{folder}/{node.name}"
                if name == node.name or not _NAME.fullmatch(name):
                    continue
                try:
                    data = tree.read(tuple(place.split("/")), most_bytes).data
                except ToolFailure as failure:
                    say(f"{place} is left out: {failure.message}")
                    continue
                yield name, place, data, False
    finally:
        tree.close()


def _own(workspace: Path, own_folder: str, most_bytes: int, say: Say) -> Iterator[tuple[str, str, bytes, bool]]:
    folder = config_folder() / own_folder
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".md" and _NAME.fullmatch(path.stem))
        root = workspace.resolve()
        is_users = not folder.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    continue
                data = file.read(most_bytes + 1)
            is_own = is_users and not path.resolve().is_relative_to(root)
        except (OSError, RuntimeError) as error:
            say(f"{path} is left out: {getattr(error, 'strerror', None) or error}")
            continue
        yield path.stem, exact_line(path), data, is_own
