"""The project's own instructions for agents: its `AGENTS.md` files, which `hello` brings (`hello.instructions`).

They come from the workspace, so nothing in them changes what the client allows.
"""

from collections.abc import Awaitable, Callable, Sequence

from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components, joined
from codelab_client.tools.tree import Names, Tree
from codelab_client.tools.workspace import Ignored, Workspace, walk

NAME = "AGENTS.md"
#: What a session takes (docs/frames.md, `hello`): files, characters of one, and bytes of all.
_FILES = 8
_CHARS = 32_000
_BYTES = 128_000
_READ_BYTES = 1_000_000


async def project_instructions(
    workspace: Workspace, ignored: Ignored, paths_named: Callable[[str], Awaitable[Sequence[Names]]]
) -> list[dict[str, str]]:
    """The `path` and `content` of each AGENTS.md, nearest to the top first, as many as a session takes.

    ignored: which paths version control ignores. paths_named: the files with a name, also where `walk` does not come
    to. A long file is cut; one that is not UTF-8 text is left out.
    """
    walked = [
        names
        for names, node in await walk(workspace, (), recursive=True, ignored=ignored)
        if names[-1] == NAME and node.kind == "file"
    ]
    found = {names for names in (*walked, *await paths_named(NAME)) if _may_be_named(names)}
    files: list[dict[str, str]] = []
    for names in sorted(found, key=lambda names: (len(names), names)):
        try:
            data = (await workspace.read(names, _READ_BYTES)).data
        except ToolFailure:
            continue
        _add(files, names, data)
    return files


def topmost_instructions(tree: Tree) -> list[dict[str, str]]:
    """The same of the topmost file only, which is found at once."""
    files: list[dict[str, str]] = []
    try:
        if tree.kind((NAME,)) == "file":
            _add(files, (NAME,), tree.read((NAME,), _READ_BYTES).data)
    except ToolFailure:
        pass
    return files


def _add(files: list[dict[str, str]], names: Names, data: bytes) -> None:
    """Add a file if there is room for it."""
    try:
        content = data.decode()
    except UnicodeDecodeError:
        return
    if len(content) > _CHARS:
        cut = "\n[cut here]"
        content = content[: _CHARS - len(cut)] + cut
    added = {"path": joined(names), "content": content}
    size = sum(len(text.encode()) for file in (*files, added) for text in file.values())
    if content.strip() and len(files) < _FILES and size <= _BYTES:
        files.append(added)


def _may_be_named(names: Names) -> bool:
    """Whether the protocol takes the path."""
    try:
        return components(joined(names)) == names
    except ToolFailure:
        return False
