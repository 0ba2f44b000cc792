"""What the model is sent of the history: bounded, and in a form that no model refuses.

Whatever happened before, every tool call has exactly one result and every result its call, results follow the answer
that made the calls, and the messages in between alternate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.requests import estimate_tokens
from codelab.sessions.items import MessageItem, dumps
from codelab.turns.text import excerpt, shortened

#: The parts of the budget that the results of an answer's calls, and their arguments, may take before they are cut. If
#: even the newest answer does not fit, which may be in few characters of many tokens, they are cut further.
_RESULT_SHARE, _ARGUMENTS_SHARE = 0.5, 0.2
_HARDER = (1.0, 0.3, 0.1)
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
        for harder in _HARDER if not kept else _HARDER[:1]:
            messages = group.messages(int(harder * budget * _CHARS_PER_TOKEN))
            cost = sum(estimate_tokens((message["content"] or "") + _call_text(message)) for message in messages)
            if cost <= left:
                break
        left -= cost
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


@dataclass(frozen=True, slots=True)
class _Group:
    """A message; one that made calls together with their results, in its order."""

    message: MessageItem
    results: tuple[MessageItem | None, ...]

    def messages(self, budget: int) -> list[dict[str, Any]]:
        """As the model is sent them. `budget` is in characters; only calls and results are cut for it."""
        plain: dict[str, Any] = {"role": self.message.role, "content": self.message.content}
        calls = self.message.calls
        if not calls:
            return [plain]
        arguments_share = int(_ARGUMENTS_SHARE * budget / len(calls))
        result_share = int(_RESULT_SHARE * budget / len(calls))
        plain["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.tool, "arguments": dumps(shortened(call.arguments, arguments_share))},
            }
            for call in calls
        ]
        return [
            plain,
            *(
                {"role": "tool", "tool_call_id": call.call_id, "content": _result(found, result_share)}
                for call, found in zip(calls, self.results, strict=True)
            ),
        ]


def _result(found: MessageItem | None, most: int) -> str:
    return _NO_RESULT if found is None else excerpt(found.content, most, found.call_id, found.whole)


def _groups(history: Sequence[MessageItem]) -> list[_Group]:
    results = {message.call_id: message for message in history if message.role == "tool"}
    return [
        _Group(message, tuple(results.get(call.call_id) for call in message.calls))
        for message in history
        if message.role != "tool"
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
