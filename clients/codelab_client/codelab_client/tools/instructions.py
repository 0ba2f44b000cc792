"""The project's own instructions for agents: `AGENTS.md` files, as context files of a session.

The protocol carries them as `context_update`: the agent sees the content of the topmost file with every message, and
the names of the nested ones, which it reads when it works there. They come from the workspace, so nothing in them
changes what the client allows.
"""

from contextlib import suppress

from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import components, joined
from codelab_client.tools.tree import Names
from codelab_client.tools.workspace import Ignored, Workspace, walk

NAME = "AGENTS.md"
#: A session's context files, and the bytes of one (docs/protocol.md, "Context").
_FILES = 20
_BYTES = 300_000


async def project_instructions(workspace: Workspace, ignored: Ignored) -> list[dict[str, str]]:
    """The `data` of a `context_update` with `add_file` for each AGENTS.md, nearest to the top first; at most 20.

    ignored: which paths version control ignores. The topmost file has its content if it is UTF-8 text of at most
    300,000 bytes.
    """
    found: list[Names] = [
        names
        for names, node in await walk(workspace, (), recursive=True, ignored=ignored)
        if names[-1] == NAME and node.kind == "file" and _may_be_named(names)
    ]
    files = [{"path": joined(names)} for names in sorted(found, key=lambda names: (len(names), names))[:_FILES]]
    if files and files[0]["path"] == NAME:
        with suppress(ToolFailure, UnicodeDecodeError):
            files[0]["content"] = (await workspace.read((NAME,), _BYTES)).data.decode()
    return files


def _may_be_named(names: Names) -> bool:
    """Whether the protocol takes the path."""
    try:
        return components(joined(names)) == names
    except ToolFailure:
        return False
