"""Which conversation was the last one in each folder: `codelab --continue`."""

import contextlib
import json
import os
from pathlib import Path

from codelab_client.session.address import Address
from codelab_client.session.journal import state_folder

_KEPT = 200


def last_session(address: Address, workspace: Path) -> str | None:
    """The id of the last conversation with this server in this folder, if there was one."""
    found = _read().get(_key(address, workspace))
    return found if isinstance(found, str) else None


def remember(address: Address, workspace: Path, session_id: str) -> None:
    """Record the conversation as the last one. It is not worth an error if that fails."""
    known = _read()
    known.pop(_key(address, workspace), None)
    known[_key(address, workspace)] = session_id
    kept = dict(list(known.items())[-_KEPT:])
    with contextlib.suppress(OSError):
        draft = _file().with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(kept), "utf-8")
        draft.replace(_file())


def _key(address: Address, workspace: Path) -> str:
    return f"{address.origin} {workspace}"


def _file() -> Path:
    return state_folder() / "last_sessions.json"


def _read() -> dict[str, object]:
    try:
        found = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
