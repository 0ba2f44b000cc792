"""Where calls may run that were decided elsewhere: by another window, over HTTP, by a rule or by a mode.

The client cannot see whether a human has approved such a call. So the user says for each server and folder whether its
word is enough.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from codelab_client import private_file
from codelab_client.private_file import PrivateFileError

_FILE = "decided_elsewhere.json"


@dataclass(frozen=True)
class Permission:
    """Allows a server's calls in a workspace, whoever approved them. at: when the user said so (ISO 8601)."""

    server: str
    workspace: str
    at: str

    @property
    def permission_id(self) -> str:
        """Names the permission, for the user."""
        return f"elsewhere-{hashlib.sha256(json.dumps([self.server, self.workspace]).encode()).hexdigest()[:8]}"


class Elsewhere:
    """The user's permissions, in a file of `state` that others cannot read, and that of one server and workspace.

    always: this server needs no permission, because the user's own client has started it.
    """

    def __init__(self, state: Path, server: str, workspace: Path, *, always: bool = False) -> None:
        self._server, self._workspace, self._always = server, workspace.resolve(), always
        # A file inside the workspace could be the work of the agent's commands.
        inside = state.resolve().is_relative_to(self._workspace)
        self._file = None if inside else state / _FILE
        self._unkept: list[Permission] = []  # counts until this process ends

    @property
    def is_allowed(self) -> bool:
        """Whether calls of this server may run in this workspace although they were decided elsewhere."""
        here = self._permission("").permission_id
        return self._always or any(permission.permission_id == here for permission in self.listed())

    def allow(self, *, for_good: bool = True) -> None:
        """Let them run from now on; not for good, or if that cannot be kept, until this process ends."""
        here = self._permission(_now())
        is_kept = for_good and self._keep([*self._permissions_without(here.permission_id), here])
        self._unkept = [] if is_kept else [here]

    def revoke(self, permission_id: str) -> bool:
        """Take a permission back. Returns whether there was one."""
        ids = [permission.permission_id for permission in self.listed()]
        self._unkept = [permission for permission in self._unkept if permission.permission_id != permission_id]
        self._keep(self._permissions_without(permission_id))
        return permission_id in ids

    def listed(self) -> list[Permission]:
        """All permissions, of every server and workspace, oldest first."""
        return [*self._kept(), *self._unkept]

    def _kept(self) -> list[Permission]:
        try:
            items = json.loads(private_file.read(self._file) or b"[]") if self._file is not None else []
        except (PrivateFileError, ValueError):
            return []
        entries = [_read(item) for item in items] if isinstance(items, list) else []
        return [item for item in entries if item is not None]

    def _permission(self, at: str) -> Permission:
        return Permission(self._server, str(self._workspace), at)

    def _permissions_without(self, permission_id: str) -> list[Permission]:
        return [permission for permission in self._kept() if permission.permission_id != permission_id]

    def _keep(self, permissions: list[Permission]) -> bool:
        if self._file is None:
            return False
        try:
            private_file.write(self._file, json.dumps([vars(permission) for permission in permissions]))
        except PrivateFileError:
            return False
        return True


def _read(entry: object) -> Permission | None:
    if not isinstance(entry, Mapping):
        return None
    server, workspace, at = (entry.get(name) for name in ("server", "workspace", "at"))
    if isinstance(server, str) and isinstance(workspace, str) and isinstance(at, str):
        return Permission(server, workspace, at)
    return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
