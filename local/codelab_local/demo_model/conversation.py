"""Reads a chat history: the last question, its language, and the outcomes of the calls made for it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_FILE_LIKE = re.compile(r"`[^`]*`|\S*[./\\]\S*")
#: A line of a file as a model is shown it, with its number; and the notes below the last line.
_NUMBERED = re.compile(r"\d+\t")
_NOTE = re.compile(r"\[lines (?:(?P<first>\d+) to (?P<last>\d+) of (?P<total>\d+)|end with CRLF)\]")
#: What a client tells with a message, behind it.
_SITUATION = re.compile(r"\n\nAs the user's IDE tells, [^\n]*:\n(`{3,})\n.*?\n\1(?=\n|$)", re.DOTALL)
#: The end of a command's output.
_EXIT = re.compile(r"\[exit code (-?\d+)[^\n]*\]$")
#: How a turn tells the results of calls, each in a fence.
_RESULTS = "The results of these calls."
#: The user's words once more, and how to go on.
_REMINDER = re.compile(r"The task was:\n.*\n\nIf the task is done, [^\n]*\Z", re.DOTALL)
_RESULT = re.compile(r"^## \d+\. \S+\n(`{3,})\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)


@dataclass
class Call:
    """A call and its result. `outcomes` are the names by which a scenario's step may ask for it."""

    tool: str
    arguments: dict[str, Any]
    outcomes: set[str] = field(default_factory=lambda: {"failed"})
    values: dict[str, Any] = field(default_factory=dict)

    def settle(self, content: str) -> None:
        """Take the result, as the turn engine shows it to a model."""
        result = _json(content)
        self.outcomes = {"partial" if result is None and content.startswith("{") else "completed"}
        result = content if result is None else result
        if isinstance(result, dict) and isinstance(result.get("edited_arguments"), dict):
            self.arguments = result.pop("edited_arguments")
            self.outcomes.add("edited")
            result = result.get("result", result)
        if isinstance(result, dict):
            if result.get("status") == "rejected":
                self.outcomes = {"rejected"}
            elif result.get("error"):
                error = result["error"]
                self.outcomes = {"failed"}
                message = f"{error.get('code')}: {error.get('message')}" if isinstance(error, dict) else str(error)
                self.values["reason"] = message.removesuffix(".")  # it ends a sentence
            elif "exit_code" in result:
                self.outcomes.add("passed" if result["exit_code"] == 0 else "not_passed")
            elif result.get("success") is True:
                self.outcomes.add("succeeded")
            self.values |= {name: value for name, value in result.items() if isinstance(value, str | int)}
        elif self.tool == "run_command" and (end := _EXIT.search(str(result))) is not None:
            self.outcomes.add("passed" if end[1] == "0" else "not_passed")
            self.values["exit_code"] = int(end[1])
        text = _text(result)
        lines = text.splitlines()
        if self.tool == "read_file" and isinstance(result, str):
            if (whole := _whole_file(lines)) is not None:
                self.values["content"] = whole
            lines = _without_numbers(lines)
        self.values |= {
            "lines": len(lines),
            "head": "\n".join(line[:160] for line in lines[:8]),
            "tail": "\n".join(line[:160] for line in lines[-12:]),
            "result": text[:2000],
        }


@dataclass
class ChatHistory:
    """`rounds`: the calls since the question, an inner list for every answer of the model."""

    question: str = ""
    language: str = "en"
    system: str = ""
    rounds: list[list[Call]] = field(default_factory=list)


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content or ""


def read(messages: Sequence[Mapping[str, Any]]) -> ChatHistory:
    """The conversation that `messages` (as OpenAI has them) are."""
    conversation = ChatHistory()
    questions: list[str] = []
    open_calls: dict[str, Call] = {}
    for message in messages:
        role, text = message["role"], text_of(message.get("content"))
        if role in ("system", "developer"):
            conversation.system += text + "\n"
        elif role == "user":
            text = _SITUATION.sub("", text)
            results, text = _results(text) if conversation.rounds else ([], text)
            for call, result in zip(conversation.rounds[-1] if results else (), results, strict=False):
                call.settle(result)
            if text or not results:
                conversation.question, conversation.rounds = _last_question(text), []
                questions.append(conversation.question)
        elif role == "assistant" and (own := _own_calls(text)):
            conversation.rounds.append(own)
        elif role == "assistant":
            calls = {call.pop("id"): Call(**call) for call in map(_called, message.get("tool_calls") or ())}
            conversation.rounds += [list(calls.values())] if calls else []
            open_calls |= calls
        elif role == "tool" and message.get("tool_call_id") in open_calls:
            open_calls[message["tool_call_id"]].settle(text)
    conversation.language = next((language for language in map(_language, reversed(questions)) if language), "en")
    return conversation


def _own_calls(text: str) -> list[Call]:
    """The calls of an earlier answer in this model's own JSON."""
    answer = _json(text) if text.startswith("{") else None
    calls = answer.get("calls") if isinstance(answer, dict) else None
    items = [dict(call) for call in calls or () if isinstance(call, dict) and "_tool" in call]
    return [Call(str(item.pop("_tool")), item) for item in items]


def _results(text: str) -> tuple[list[str], str]:
    """The results of its calls that a message of the user tells, in their order, and what follows them."""
    if not text.startswith(_RESULTS):
        return [], text
    results = list(_RESULT.finditer(text))
    remainder = text[results[-1].end() :].strip() if results else ""
    return [result.group(2) for result in results], _REMINDER.sub("", remainder).strip()


def _called(item: Mapping[str, Any]) -> dict[str, Any]:
    function = item.get("function") or {}
    arguments = _json(function.get("arguments"))
    arguments = arguments if isinstance(arguments, dict) else {}
    return {"id": str(item.get("id")), "tool": str(function.get("name")), "arguments": arguments}


def _last_question(text: str) -> str:
    """The last paragraph: the ones before it are files that are shown, or questions whose turns have failed."""
    before, _, last = text.rpartition("\n\n")
    return text if before.rstrip().endswith(":") or "```" in last else last


def _language(text: str) -> str:
    """ru or en, empty where nothing but a file's name is said."""
    words = _FILE_LIKE.sub(" ", text[:1_000])
    return "ru" if re.search("[А-Яа-яЁё]", words) else "en" if re.search("[A-Za-z]{2}", words) else ""


def _text(result: Any) -> str:
    """What is worth showing of a result."""
    if not isinstance(result, dict):
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    texts = [str(result[name]) for name in ("content", "stdout", "stderr", "diff") if name in result]
    if texts:
        return "\n".join(text.rstrip("\n") for text in texts if text)
    for entries in result.values():
        if isinstance(entries, list):
            return "\n".join(_entry(entry) for entry in entries)
    return json.dumps(result, ensure_ascii=False)


def _without_numbers(lines: list[str]) -> list[str]:
    """The lines of a file, which are shown to a model with their numbers if the IDE says where they begin."""
    end = len(lines)
    while end and _NOTE.fullmatch(lines[end - 1]):
        end -= 1
    if not all(_NUMBERED.match(line) for line in lines[:end]):
        return lines
    return [line.partition("\t")[2] for line in lines[:end]]


def _whole_file(lines: list[str]) -> str | None:
    """The file whose numbered lines these are; None if they are a part of it. Its last line is taken to have an end."""
    notes = [note for line in lines[-2:] if (note := _NOTE.fullmatch(line))]
    counts = next((note for note in notes if note["total"]), None)
    file_lines = lines[: len(lines) - len(notes)]
    if counts is None or counts["first"] != "1" or counts["last"] != counts["total"]:
        return None
    if len(file_lines) != int(counts["total"]) or not all(map(_NUMBERED.match, file_lines)):
        return None
    end = "\r\n" if len(notes) > 1 else "\n"
    return "".join(f"{line.partition(chr(9))[2]}{end}" for line in file_lines)


def _entry(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    name = str(entry.get("path") or entry.get("name") or entry)
    return f"{name}/" if entry.get("type") == "directory" else name


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
