"""Reading a chat history: the last question, and what became of every tool call made for it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["completed", "rejected", "failed", "pending"]

_ENVELOPES = {
    "completed": "completed", "success": "completed", "ok": "completed", "approved": "completed", "edited": "completed",
    "rejected": "rejected", "denied": "rejected", "expired": "rejected",
    "failed": "failed", "error": "failed", "cancelled": "failed", "timeout": "failed",
}  # fmt: skip


@dataclass
class Call:
    """One tool call of the history with its outcome."""

    name: str
    arguments: dict[str, Any]
    call_id: str = ""
    status: Status = "pending"
    result: Any = None
    code: str = ""
    message: str = ""
    feedback: str = ""
    edited: bool = False
    cut: bool = False
    """The result was too long for the context and has lost its middle."""

    @property
    def tool(self) -> str:
        """The catalogue's name: function names of providers have no dots (`git_diff`)."""
        return self.name.replace("git_", "git.", 1) if self.name.startswith("git_") else self.name

    @property
    def path(self) -> str:
        for key in ("path", "file_path", "file", "filename", "to"):
            if isinstance(self.arguments.get(key), str):
                return str(self.arguments[key])
        return ""


@dataclass
class Conversation:
    """`question` is the last user message; `calls` were made since, in order."""

    question: str = ""
    earlier: list[str] = field(default_factory=list)
    system: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or a list of OpenAI content parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (part.get("text", "") if isinstance(part, Mapping) else part for part in content)
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


def read(messages: Sequence[Mapping[str, Any]]) -> Conversation:
    """The conversation as the assistant needs it. Content it does not understand is kept as text."""
    conversation = Conversation()
    by_id: dict[str, Call] = {}
    for message in messages:
        role = message.get("role")
        text = text_of(message.get("content"))
        if role in {"system", "developer"}:
            conversation.system.append(text)
        elif role == "user":
            if conversation.question:
                conversation.earlier.append(conversation.question)
            conversation.question = text
            conversation.calls = []
        elif role == "assistant":
            for call in _calls_of(message, text):
                conversation.calls.append(call)
                by_id[call.call_id] = call
        elif role in {"tool", "function"}:
            answered = by_id.get(str(message.get("tool_call_id") or ""))
            if answered is None:
                answered = next((call for call in conversation.calls if call.status == "pending"), None)
            if answered is not None:
                settle(answered, text)
    return conversation


def _calls_of(message: Mapping[str, Any], text: str) -> list[Call]:
    calls = []
    for item in message.get("tool_calls") or []:
        function = item.get("function") or {}
        arguments = _json(function.get("arguments"))
        name = str(function.get("name", ""))
        if isinstance(arguments, dict) and isinstance(arguments.get("calls"), list):
            calls += _flat_calls(arguments["calls"])  # the answer itself was asked for as a function
        else:
            calls.append(Call(name, arguments if isinstance(arguments, dict) else {}, str(item.get("id", ""))))
    if not calls and text.lstrip().startswith("{"):
        answer = _json(text)
        if isinstance(answer, dict) and isinstance(answer.get("calls"), list):
            calls = _flat_calls(answer["calls"])
    return calls


def _flat_calls(items: Sequence[Any]) -> list[Call]:
    return [
        Call(str(item["_tool"]), {key: value for key, value in item.items() if key != "_tool" and value is not None})
        for item in items
        if isinstance(item, dict) and "_tool" in item
    ]


def settle(call: Call, content: str) -> None:
    """Read a tool message's content into `call`, whichever envelope it comes in."""
    value = _json(content)
    call.status, call.result = "completed", content if value is None else value
    if value is None and content.startswith("{"):
        call.cut, call.result = True, _of_cut_json(content)
    if not isinstance(value, dict):
        return
    edited = value.get("edited_arguments") or value.get("modified_arguments")
    if isinstance(edited, dict):
        call.arguments, call.edited = edited, True
    status = _ENVELOPES.get(str(value.get("status", "")).lower())
    error = value.get("error")
    if status == "rejected":
        call.status, call.feedback = "rejected", str(value.get("feedback") or value.get("reason") or "")
    elif error or status == "failed":
        call.status = "failed"
        if isinstance(error, dict):
            call.code, call.message = str(error.get("code") or ""), str(error.get("message") or "")
        else:
            call.code, call.message = str(value.get("error_code") or ""), str(error or value.get("message") or "")
    elif (status == "completed" and "result" in value) or (
        set(value) <= {"result", "edited_arguments", "modified_arguments", "call_id"} and "result" in value
    ):
        call.result = value["result"]


def _json(text: Any) -> Any:
    if isinstance(text, Mapping):
        return dict(text)
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None


_CONTENT = re.compile(r'"(?:content|stdout|diff)"\s*:\s*"')


def _of_cut_json(text: str) -> str:
    """What can be read of a JSON result whose middle is missing: its long text."""
    begin = _CONTENT.search(text)
    if begin is None:
        return text
    inside = re.sub(r'"[\s,}]*(?:"[^"]*"\s*:\s*[^{}"]*"?[^{}"]*"?[\s,}]*)*$', "", text[begin.end() :])
    plain = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
    return re.sub(r"\\(.)", lambda escape: plain.get(escape[1], escape[1]), inside, flags=re.DOTALL)


_CYRILLIC = re.compile(r"[А-Яа-яЁё]")
_LATIN_WORD = re.compile(r"[A-Za-z]{2,}")
_FILE_LIKE = re.compile(r"`[^`]*`|\S*[./\\]\S*")


def language(conversation: Conversation) -> Literal["ru", "en"]:
    """The language to answer in: the question's, else that of the questions before it."""
    for text in [conversation.question, *reversed(conversation.earlier)]:
        words = _FILE_LIKE.sub(" ", text)
        if _CYRILLIC.search(words):
            return "ru"
        if _LATIN_WORD.search(words):
            return "en"
    return "ru" if _CYRILLIC.search(conversation.question) else "en"
