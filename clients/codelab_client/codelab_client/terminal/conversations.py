"""The user's conversations, as a list to choose from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codelab_client import last_sessions
from codelab_client.session.address import Address
from codelab_client.session.rest import Rest, RestError
from codelab_client.terminal import past
from codelab_client.terminal.picker import Choice

_MOST = 100
#: Messages that a preview is made of.
_NEWEST = 6
TITLE = "Go on with which conversation?"


async def conversations(rest_api: Rest, address: Address, workspace: Path) -> list[Choice]:
    """The latest ones, those of this folder first. Raises RestError."""
    page = await rest_api.get(f"/sessions?limit={_MOST}")
    items = page.get("sessions") if isinstance(page, dict) else None
    sessions = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    folders = last_sessions.folders(address)
    sessions.sort(key=lambda session: folders.get(str(session.get("session_id"))) != str(workspace))
    return [_choice(session, folders.get(str(session.get("session_id")), "")) for session in sessions]


def _choice(session: dict[str, Any], folder: str) -> Choice:
    session_id = str(session.get("session_id", ""))
    moment = str(session.get("last_activity", ""))[:16].replace("T", " ")
    name = str(session.get("title") or "")
    return Choice(session_id, name or session_id, "  ".join(filter(None, (moment, folder, session_id if name else ""))))


async def newest(rest_api: Rest, session_id: str) -> Sequence[str]:
    """The end of a conversation in a few lines."""
    try:
        page = await rest_api.history(session_id, _NEWEST)
    except RestError as error:
        return [str(error)]
    return past.preview(past.messages_of(page)) or ["nothing was said yet"]
