"""Which MCP servers of which workspace the user trusts, exactly as they are described."""

import contextlib
import hashlib
import json
from dataclasses import astuple
from pathlib import Path
from typing import Literal

from codelab_client import private_file, private_folder
from codelab_client.mcp.config import ServerConfig
from codelab_client.private_file import PrivateFileError

Decision = Literal["trusted", "denied"]


class Trust:
    """The user's decisions, in a file of `state`. A server that is described differently is another one."""

    def __init__(self, state: Path, workspace: Path) -> None:
        self._file, self._workspace = state / "mcp_trust.json", str(workspace.resolve())

    def decision(self, server: ServerConfig) -> Decision | None:
        """What the user has decided about a server; None if nothing."""
        found = self._read().get(self._key(server))
        return found if found in ("trusted", "denied") else None  # type: ignore[return-value]

    def decide(self, server: ServerConfig, decision: Decision | None) -> None:
        """Record a decision, or forget it. If that fails, the user is asked again next time."""
        known = self._read()
        known.pop(self._key(server), None)
        if decision is not None:
            known[self._key(server)] = decision
        with contextlib.suppress(PrivateFileError):
            private_folder.ensure(self._file.parent)
            private_file.write(self._file, json.dumps(known))

    def _key(self, server: ServerConfig) -> str:
        described = json.dumps([self._workspace, *astuple(server)], sort_keys=True)
        return hashlib.sha256(described.encode("utf-8", "surrogatepass")).hexdigest()

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(private_file.read(self._file, secret=False) or b"{}")
        except (PrivateFileError, ValueError, RecursionError):  # nobody knows who has decided
            return {}
        return found if isinstance(found, dict) else {}
