"""Which conversation was the last one in each folder (`codelab --continue`), and in which folder each was."""

import contextlib
import json
from pathlib import Path

from codelab_client import private_file
from codelab_client.private_file import PrivateFileError
from codelab_client.session.address import Address
from codelab_client.session.journal import state_folder

_KEPT = 200
_KEPT_FOLDERS = 2_000


def last_session(address: Address, workspace: Path) -> str | None:
    """The id of the last conversation with this server in this folder, if there was one."""
    session_id = _read(_LAST).get(_key(address, workspace))
    return session_id if isinstance(session_id, str) else None


def folders(address: Address) -> dict[str, str]:
    """The folders of the conversations with this server that this machine knows, by session id."""
    start = f"{address.origin} "
    items = _read(_FOLDERS).items()
    return {
        key.removeprefix(start): folder for key, folder in items if key.startswith(start) and isinstance(folder, str)
    }


def remember(address: Address, workspace: Path, session_id: str) -> None:
    """Record the conversation as the last one. It is not worth an error if that fails."""
    _record(_LAST, _key(address, workspace), session_id, _KEPT)
    _record(_FOLDERS, f"{address.origin} {session_id}", str(workspace), _KEPT_FOLDERS)


_LAST, _FOLDERS = "last_sessions.json", "session_folders.json"


def _key(address: Address, workspace: Path) -> str:
    return f"{address.origin} {workspace}"


def _record(name: str, key: str, value: str, limit: int) -> None:
    entries = _read(name)
    entries.pop(key, None)
    entries[key] = value
    with contextlib.suppress(PrivateFileError):
        private_file.write(state_folder() / name, json.dumps(dict(list(entries.items())[-limit:])))


def _read(name: str) -> dict[str, object]:
    try:
        content = json.loads(private_file.read(state_folder() / name, secret=False) or b"{}")
    except (PrivateFileError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
