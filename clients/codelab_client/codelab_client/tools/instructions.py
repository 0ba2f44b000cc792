"""Instructions for agents, which `hello` brings (`hello.instructions`): notes, and the project's `AGENTS.md` files.

These come from the workspace, and from the folders above it in the user's repository if it is a part of one. Nothing in
them changes what the client allows. A link leads only to another Markdown file of the same project.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from codelab_client.notes import USERS_PATH, Notes
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components, joined
from codelab_client.tools.tree import Names, Tree
from codelab_client.tools.workspace import DiskWorkspace, Ignored, Workspace, walk

NAME = "AGENTS.md"
_SUFFIX = ".md"
#: What a session takes (docs/frames.md, `hello`): characters of a path, files, characters of one, and bytes of all.
_PATH_CHARS = 255
_FILES = 8
_CHARS = 32_000
_BYTES = 128_000
_READ_BYTES = 1_000_000


async def project_instructions(
    workspace: Workspace, find_ignored: Ignored, paths_named: Callable[[str], Awaitable[Sequence[Names]]]
) -> list[dict[str, str]]:
    """The `path` and `content` of each AGENTS.md, nearest to the top first, as many as a session takes.

    find_ignored: which paths version control ignores. paths_named: the files with a name, also where `walk` does not
    come to. A long file is cut; one that is not UTF-8 text is left out.
    """
    walk_names = [
        names
        for names, node in await walk(workspace, (), recursive=True, find_ignored=find_ignored)
        if names[-1] == NAME and node.kind in ("file", "symlink")
    ]
    paths = {names for names in (*walk_names, *await paths_named(NAME)) if _may_be_named(names)}
    files = [] if workspace.root is None else await asyncio.to_thread(_noted_and_above, workspace.root)
    for names in sorted(paths, key=lambda names: (len(names), names)):
        try:
            if isinstance(workspace, DiskWorkspace):
                _check_link(workspace.tree, names)
            data = (await workspace.read(names, _READ_BYTES)).data
        except ToolFailure:
            continue
        _add(files, joined(names), data)
    return files


def with_those_of(
    name: str, other_files: Sequence[Mapping[str, str]], files: list[dict[str, str]]
) -> list[dict[str, str]]:
    """The files, and those in another folder (see `folders`) for which there is room, with its name before the path."""
    for file in other_files:
        if not file["path"].startswith("../") and file["path"] != USERS_PATH:
            _add(files, f"{name}/{file['path']}", file["content"].encode())
    return files


def topmost_instructions(tree: Tree) -> list[dict[str, str]]:
    """The same of the topmost file and those above it, which are found at once."""
    files = _noted_and_above(tree.root)
    _add_from(tree, (NAME,), NAME, files)
    return files


def _noted_and_above(root: Path) -> list[dict[str, str]]:
    """The notes, and the files in the folders above."""
    return [*Notes(root).instructions(), *_above(root)]


def _above(root: Path) -> list[dict[str, str]]:
    """The files in the folders above, if the workspace is a part of a repository: from its top on."""
    top = next((folder for folder in (root, *root.parents) if _is_repository(folder)), root)
    files: list[dict[str, str]] = []
    if top == root:
        return files
    try:
        tree = Tree(top)
    except OSError:
        return files
    below = root.relative_to(top).parts
    for depth in range(len(below)):
        _add_from(tree, (*below[:depth], NAME), "../" * (len(below) - depth) + NAME, files)
    tree.close()
    return files


def _is_repository(folder: Path) -> bool:
    """Whether a folder is the top of a repository of this user; `/tmp/.git` may be somebody else's."""
    try:
        return (folder / ".git").lstat().st_uid == os.getuid()
    except OSError:
        return False


def _add_from(tree: Tree, names: Names, path: str, files: list[dict[str, str]]) -> None:
    try:
        _check_link(tree, names)
        _add(files, path, tree.read(names, _READ_BYTES).data)
    except ToolFailure:
        pass


def _check_link(tree: Tree, names: Names) -> None:
    """Raise ToolFailure for a link to another kind of file: `AGENTS.md -> .env` would send secrets unasked."""
    if not tree.real(names)[-1].casefold().endswith(_SUFFIX):
        raise ToolFailure("PERMISSION_DENIED", f"{joined(names)} is a link to something else")


def _add(files: list[dict[str, str]], path: str, data: bytes) -> None:
    """Add a file if there is room for it. path: its path for the model."""
    try:
        content = data.decode()
    except UnicodeDecodeError:
        return
    if len(content) > _CHARS:
        cut = "\n[cut here]"
        content = content[: _CHARS - len(cut)] + cut
    entry = {"path": path, "content": content}
    size = sum(len(text.encode()) for file in (*files, entry) for text in file.values())
    if content.strip() and len(files) < _FILES and size <= _BYTES:
        files.append(entry)


def _may_be_named(names: Names) -> bool:
    """Whether the protocol takes the path."""
    try:
        path = joined(names)
        return components(path) == names and len(path) <= _PATH_CHARS and "\t" not in path
    except ToolFailure:
        return False
