"""What was said in a session before, as ACP's updates."""

from collections.abc import Callable
from typing import Any

from codelab_client.acp import tool_calls
from codelab_client.folders import Folders
from codelab_client.safe_text import safe


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
