"""What the model is told of the place where calls run: `environment` of `hello` and of `user_message` (docs/frames.md).

`hello` tells what stays the same, and a message what may differ by the next one. All of it is data for the model.
"""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from codelab_client.sandbox.access import Guarantees
from codelab_client.tools.failure import ToolFailure

#: What the server takes: characters of a line.
_LINE_CHARS = 300
#: What the model gets: characters of the tree, names at the top, and names of a folder.
_TREE_CHARS, _TOPS, _NAMES = 3_000, 60, 12
#: Seconds that a message waits for git.
_PATIENCE_S = 0.5
_SYSTEMS = {"Darwin": "macOS"}


def place(
    root: Path | None, guarantees: Guarantees, *, network: bool, other_folders: Mapping[str, Path | None] | None = None
) -> dict[str, str]:
    """Where commands run in the folder `root`: None means in no folder of this machine, without commands.

    other_folders: the folders beside it, by name (see `folders`).
    """
    if root is None:
        return {}
    system = platform.system()
    reach = "anything that the user can reach"
    if guarantees.writes_only_there:
        reach = "commands write only in the workspace" + (", and cannot see the home folder" * guarantees.home_hidden)
        reach += ", with network" if network or not guarantees.no_network else ", without network"
    return {
        "os": _line(f"{_SYSTEMS.get(system, system)} {platform.release()}"),
        "shell": "sh",
        "workspace": _line((root.name or str(root)) + _beside(other_folders or {})),
        "sandbox": reach,
    }


def _beside(other_folders: Mapping[str, Path | None]) -> str:
    if not other_folders:
        return ""
    names = [f"{name}/ ({path})" for name, path in other_folders.items()]
    return f"; other folders, which calls can only read: {', '.join(names)}"


def tree(paths: Iterable[str]) -> str:
    """The two upper levels of these files, sorted; folders end with `/`. What is left out is counted."""
    names: dict[str, set[str]] = {}
    for path in paths:
        top, slash, tail = path.partition("/")
        below, deeper, _ = tail.partition("/")
        names.setdefault(top + slash, set()).add(below + deeper)
    tops = sorted(names)[:_TOPS]
    remaining = _TREE_CHARS - sum(len(name) + 1 for name in tops)
    lines: list[str] = []
    for name in tops:
        lines.append(_line(name))
        below_it = sorted(names[name] - {""})
        inner = [f"  {_line(name)}" for name in below_it[:_NAMES]]
        if len(below_it) > _NAMES:
            inner.append(f"  ({len(below_it) - _NAMES} more)")
        remaining -= sum(len(line) + 1 for line in inner)
        if remaining >= 0:
            lines += inner
    if len(names) > _TOPS:
        lines.append(f"({len(names) - _TOPS} more)")
    return "\n".join(lines)[: 2 * _TREE_CHARS]


async def situation(status: Callable[[], Awaitable[Mapping[str, Any]]] | None) -> dict[str, str]:
    """The date, and what git says within half a second. status: makes the result of git.status."""
    facts = {"date": datetime.now().astimezone().strftime("%A, %Y-%m-%d %H:%M (UTC%z)")}
    if status is not None:
        try:
            git_status = await asyncio.wait_for(status(), _PATIENCE_S)
        except ToolFailure as failure:
            if failure.code == "GIT_NOT_INITIALIZED":
                facts["git"] = "no repository"
        except (TimeoutError, OSError):
            pass
        else:
            facts["git"] = _summary(str(git_status.get("branch", "")), git_status["files"])
    return facts


def _summary(branch: str, files: Sequence[Mapping[str, Any]]) -> str:
    """The branch, and the names of what is not committed, as many as have room in a line."""
    states: dict[str, str] = {}
    for file in files:
        states.setdefault(file["path"], file["status"])
    start = f"branch {branch or '(none)'}; "
    if not states:
        return _line(start + "nothing to commit")
    listing = ""
    for count, (path, state) in enumerate(states.items()):
        item = f"{', ' if listing else ''}{state} {path}"
        if len(start) + len(listing) + len(item) > _LINE_CHARS - 20:
            listing += f" and {len(states) - count} more"
            break
        listing += item
    return _line(start + listing)


def _line(text: str) -> str:
    """`text` as the server takes it: printable, in one line."""
    return "".join(character if character.isprintable() else "?" for character in text)[:_LINE_CHARS]
