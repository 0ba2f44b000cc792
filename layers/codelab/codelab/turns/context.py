"""What the model is sent of the history: bounded, and in a form that no model refuses.

Whatever happened before, every tool call has exactly one result and every result its call, results follow the answer
that made the calls, and the messages in between alternate.
"""

from collections.abc import Sequence
from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.requests import estimate_tokens
from codelab.sessions.items import MessageItem, dumps
from codelab.turns.text import head_and_tail

#: The part of the budget that one tool result may take before its middle is cut out.
_RESULT_SHARE = 0.5
#: Characters that a token has at least, roughly; only for cutting.
_CHARS_PER_TOKEN = 3

_NO_RESULT = dumps({"error": {"code": "EXECUTION_FAILED", "message": "The call was interrupted; it has no result"}})


def assemble(history: Sequence[MessageItem], system: str, *, budget: int) -> list[dict[str, Any]]:
    """OpenAI chat messages: the system prompt, then the newest of the history that fit `budget` tokens.

    An answer and the results of its calls are kept or dropped together. Raises ProtocolError CONTEXT_TOO_LARGE if not
    even the newest group fits.
    """
    left = budget - estimate_tokens(system)
    kept: list[list[dict[str, Any]]] = []
    for group in reversed(_groups(history)):
        messages = _bounded(group, budget)
        left -= sum(estimate_tokens((message.get("content") or "") + _call_text(message)) for message in messages)
        if left < 0:
            if not kept:
                raise ProtocolError(
                    ErrorCode.CONTEXT_TOO_LARGE,
                    f"The message does not fit into the context of {budget} tokens",
                    retryable=False,
                )
            break
        kept.append(messages)
    found = [message for group in reversed(kept) for message in group]
    while found and found[0]["role"] != "user":  # a conversation begins with the user
        found.pop(0)
    return [{"role": "system", "content": system}, *_alternating(found)]


def _groups(history: Sequence[MessageItem]) -> list[list[dict[str, Any]]]:
    """One group a message; the results of calls belong to the answer that made them, in its order."""
    results = {message.call_id: message.content for message in history if message.role == "tool"}
    groups: list[list[dict[str, Any]]] = []
    for message in history:
        if message.role == "tool":
            continue
        plain: dict[str, Any] = {"role": message.role, "content": message.content}
        group = [plain]
        if message.calls:
            plain["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.tool, "arguments": dumps(call.arguments)},
                }
                for call in message.calls
            ]
            group += [
                {"role": "tool", "tool_call_id": call.call_id, "content": results.get(call.call_id, _NO_RESULT)}
                for call in message.calls
            ]
        groups.append(group)
    return groups


def _bounded(group: list[dict[str, Any]], budget: int) -> list[dict[str, Any]]:
    most = int(budget * _RESULT_SHARE * _CHARS_PER_TOKEN / max(1, len(group) - 1))
    return [
        {**message, "content": head_and_tail(message["content"], most)} if message["role"] == "tool" else message
        for message in group
    ]


def _call_text(message: dict[str, Any]) -> str:
    return "".join(call["function"]["arguments"] for call in message.get("tool_calls", ()))


def _alternating(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role become one message: a turn that failed has left a question without an answer."""
    found: list[dict[str, Any]] = []
    for message in messages:
        last = found[-1] if found else None
        if last is not None and last["role"] == message["role"] == "user":
            found[-1] = {"role": "user", "content": last["content"] + "\n\n" + message["content"]}
        else:
            found.append(message)
    return found
