"""A conversation's past on the screen: messages, answers, and calls with their outcome."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType

from codelab_client.execution import ToolOutcome
from codelab_client.terminal import cards

Messages = list[dict[str, Any]]


def messages_of(page: Mapping[str, Any]) -> Messages:
    """The messages of a page of the history that have a text."""
    messages = page.get("messages")
    items = messages if isinstance(messages, list) else []
    return [item for item in items if isinstance(item, dict) and isinstance(item.get("content"), str)]


def shown(messages: Messages) -> Iterator[RenderableType]:
    """What is printed of messages, oldest first."""
    results = {item["call_id"]: item["content"] for item in messages if isinstance(item.get("call_id"), str)}
    for message in messages:
        text = message["content"]
        if message.get("role") == "user":
            yield cards.user_message(text)
        elif message.get("role") == "assistant":
            if text.strip():
                yield cards.answer(text)
            calls = message.get("calls")
            for call in calls if isinstance(calls, list) else []:
                if isinstance(call, dict):
                    yield _call(call, results)


def last_answer(messages: Messages) -> str:
    """The newest text of the agent; empty if there is none."""
    texts = (message["content"] for message in reversed(messages) if message.get("role") == "assistant")
    return next((text for text in texts if text.strip()), "")


def _call(call: Mapping[str, Any], results: Mapping[str, str]) -> RenderableType:
    tool, arguments = str(call.get("tool_name", "")), call.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    call_id = call.get("call_id")
    result = results.get(call_id) if isinstance(call_id, str) else None
    if result is None:
        return cards.notice(f"◌ {cards.summary(tool, arguments)}  no outcome yet")
    return cards.finished(tool, arguments, _outcome(result))


def _outcome(text: str) -> ToolOutcome:
    """The outcome that the model was told, as far as its text says."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return ToolOutcome({"content": text})
    if isinstance(content, dict) and content.get("status") == "rejected":
        return ToolOutcome.failed("REJECTED", str(content.get("feedback") or "no reason was given"))
    error = content.get("error") if isinstance(content, dict) else None
    if isinstance(error, dict):
        return ToolOutcome.failed(str(error.get("code", "")), str(error.get("message", "")))
    return ToolOutcome(content)


def preview(messages: Messages, lines: int = 8) -> list[str]:
    """The newest messages in a few lines, for a list of conversations."""
    marks = {"user": "› ", "assistant": "  "}
    texts = [
        f"{marks[message['role']]}{text}"
        for message in messages
        if message.get("role") in marks and (text := message["content"].strip())
    ]
    return [line for text in texts[-lines:] for line in text.split("\n")[:3]][-lines:]
