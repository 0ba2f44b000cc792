"""What was said in a session before, as ACP's updates."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from codelab_client.acp import tool_calls
from codelab_client.folders import Folders
from codelab_client.safe_text import safe
from codelab_client.session.rest import Rest, of_session

_PAGE = 100
#: Messages that are shown at most: the newest.
_MOST = 1_000


async def messages(rest_api: Rest, session_id: str) -> tuple[list[dict[str, Any]], int]:
    """The newest messages of a session, oldest first, and the `seq` that they reach to. Raises RestError."""
    newest: list[dict[str, Any]] = []
    path = f"/chat/history/{of_session(session_id)}?limit={_PAGE}"
    last_seq, cursor = 0, None
    while len(newest) < _MOST:
        page = await rest_api.get(path if cursor is None else f"{path}&cursor={quote(cursor, safe='')}")
        page_messages = page.get("messages") if isinstance(page, dict) else None
        if not isinstance(page_messages, list):
            break
        if cursor is None and isinstance(page.get("last_seq"), int):
            last_seq = max(0, page["last_seq"])
        newest = [message for message in page_messages if isinstance(message, dict)] + newest
        cursor = page.get("next_cursor")
        if not isinstance(cursor, str):
            break
    return newest[-_MOST:], last_seq


def replay(past_messages: list[dict[str, Any]], folders: Folders, send: Callable[[dict[str, Any]], None]) -> None:
    """Tell messages to the editor."""
    for message in past_messages:
        role, text = message.get("role"), message.get("content")
        if not isinstance(text, str):
            continue
        if role == "user":
            send({"sessionUpdate": "user_message_chunk", **_chunk(message, text)})
        elif role == "assistant":
            if text.strip():
                send({"sessionUpdate": "agent_message_chunk", **_chunk(message, text)})
            for call in _calls(message):
                arguments = call.get("arguments")
                call_arguments = arguments if isinstance(arguments, dict) else {}
                fields = tool_calls.announced(str(call.get("tool_name")), call_arguments, folders)
                update = {"sessionUpdate": "tool_call", "toolCallId": call["call_id"], "status": "completed"}
                send({**update, **fields})
        elif role == "tool" and isinstance(message.get("call_id"), str):
            content = [tool_calls.shown(tool_calls.fenced(tool_calls.shortened(safe(text))))]
            send({"sessionUpdate": "tool_call_update", "toolCallId": message["call_id"], "content": content})


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("calls")
    items = calls if isinstance(calls, list) else []
    return [call for call in items if isinstance(call, dict) and isinstance(call.get("call_id"), str)]


def _chunk(message: dict[str, Any], text: str) -> dict[str, Any]:
    value = message.get("message_id")
    message_id = {"messageId": value} if isinstance(value, str) and value else {}
    return {"content": {"type": "text", "text": safe(text)}, **message_id}
