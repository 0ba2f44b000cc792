"""What no state has: signs by which a change of it is seen all the same, so that undo can name it."""

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence

from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import joined
from codelab_client.tools.tree import Names, Tree

#: Entries of a folder that are looked at, and of all folders together.
_MOST_ENTRIES, _MOST_TOGETHER = 2_000, 10_000
#: The sign of a folder with more entries.
_TOO_MANY = "?"


def signs(tree: Tree, paths: Sequence[str]) -> dict[str, str]:
    """A sign for each path that exists. It changes when the file, or anything in the folder, changes."""
    sign_by_path: dict[str, str] = {}
    budget = _MOST_TOGETHER
    for path in paths:
        names = tuple(path.strip("/").split("/"))
        try:
            sign, count = _sign(tree, names, min(budget, _MOST_ENTRIES))
        except (OSError, ToolFailure):
            continue
        sign_by_path["/".join(names)] = sign
        budget -= count
    return sign_by_path


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """What became of each path that is not the same: deleted, new, changed, or not looked into."""
    change_by_path: dict[str, str] = {}
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if new is None:
            change_by_path[path] = "deleted"
        elif old is None:
            change_by_path[path] = "new"
        elif _TOO_MANY in (old, new):
            change_by_path[path] = "not looked into"
        elif old != new:
            change_by_path[path] = "changed"
    return change_by_path


def _sign(tree: Tree, names: Names, limit: int) -> tuple[str, int]:
    """The sign of a path, and how many entries were looked at."""
    top = tree.status(names)
    if not stat.S_ISDIR(top.st_mode):
        return _of(top), 0
    together, count = hashlib.sha256(), 0
    for below in tree.below(names):
        count += 1
        if count > limit:
            return _TOO_MANY, count
        with_name = f"{joined(below)}\0{_of(tree.status(below))}\0"
        together.update(os.fsencode(with_name))
    return together.hexdigest(), count


def _of(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "/"
    return f"{status.st_mode:o}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
