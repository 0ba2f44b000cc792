"""The coding assistant: from a conversation and the tools at hand to what is said and which tools are called."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codelab_local.demo_model.conversation import Conversation, language
from codelab_local.demo_model.intents import Intent, understand
from codelab_local.demo_model.new_files import changed, content_for, snippet, tests_for
from codelab_local.demo_model.phrases import Language, essay, say
from codelab_local.demo_model.reports import READ, RUN, WRITE, content_of, report
from codelab_local.demo_model.schemas import Tool
from codelab_local.demo_model.source import outline

Wanted = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Reply:
    """`message` is spoken before `calls` (tool, all its arguments) are made."""

    message: str
    calls: list[tuple[Tool, dict[str, Any]]] = field(default_factory=list)


def answer(conversation: Conversation, tools: Sequence[Tool], max_calls: int = 16) -> Reply:
    """The next step of the conversation; a finished one has no calls."""
    speech = language(conversation)
    question, intent = _current(conversation.question)
    if conversation.calls:
        wanted, message = _continue(conversation, question, intent, speech)
    else:
        wanted, message = _begin(intent, question, speech)
    calls: list[tuple[Tool, dict[str, Any]]] = []
    for name, given in wanted[:max_calls]:
        tool = _find(name, tools)
        if tool is None:
            return Reply(say("no_tool", speech, tool=name) + " " + say("demo", speech))
        calls.append((tool, tool.arguments(given)))
    return Reply(message, calls)


def _current(question: str) -> tuple[str, Intent]:
    """The last paragraph if it says what to do: the ones before may be questions whose turns have failed."""
    before, _, last = question.rpartition("\n\n")
    intent = understand(last)
    if before.strip() and (intent.kind in {"other", "thanks"} or "```" in last or before.rstrip().endswith(":")):
        return question, understand(question)
    return last, intent


def _find(name: str, tools: Sequence[Tool]) -> Tool | None:
    alike = next((group for group in (WRITE, RUN - {"run_persistent"}) if name in group), frozenset({name}))
    exact = next((tool for tool in tools if tool.name in {name, name.replace(".", "_")}), None)
    return exact or next((tool for tool in tools if tool.name in alike), None)


def _begin(intent: Intent, question: str, speech: Language) -> tuple[list[Wanted], str]:
    """The first step: the calls to make and what to say with them."""
    paths = intent.paths
    given: dict[str, Any]
    if intent.kind in {"read", "compare", "change", "tests"} and paths:
        sources = paths[:1] if intent.kind == "tests" else paths
        message = (
            say("reading", speech, path=sources[0])
            if len(sources) == 1
            else say("reading_many", speech, paths=", ".join(sources))
        )
        return [("read_file", {"path": path}) for path in sources], message
    if intent.kind == "create":
        if not paths:
            return [], say("which_file", speech)
        return [("write_file", {"path": path, "content": content_for(path, intent.text)}) for path in paths], ""
    if intent.kind == "run":
        if not intent.command:
            return [], say("which_command", speech)
        given = {"command": intent.command} | ({"cwd": intent.folder} if intent.folder != "." else {})
        return [("run_command", given)], say("running", speech, command=intent.command)
    if intent.kind == "list":
        given = {"path": intent.folder, "recursive": intent.recursive, "pattern": intent.pattern or None}
        return [("list_files", given)], say("listing", speech, path=intent.folder)
    if intent.kind == "diff":
        given = {"path": paths[0] if paths else ".", "staged": intent.staged or None}
        return [("git.diff", given)], say("diffing", speech)
    if intent.kind == "search":
        given = {"query": intent.text, "path": intent.folder if intent.folder != "." else None}
        return [("search_in_project", given)], say("searching", speech, text=intent.text)
    if intent.kind == "mkdir":
        return (
            ([("create_directory", {"path": intent.folder})], "")
            if intent.folder != "."
            else ([], say("which_folder", speech))
        )
    if intent.kind == "delete":
        return [("delete_file", {"path": path}) for path in paths], ""
    if intent.kind == "move":
        return [("move_file", {"from": paths[0], "to": paths[1]})], ""
    if intent.kind == "commit":
        return [("git.commit", {"message": intent.text})], ""
    if intent.kind in {"status", "log"}:
        return [(f"git.{intent.kind}", {"path": paths[0] if paths else "."})], say("looking", speech)
    return [], _talk(intent, question, speech)


def _talk(intent: Intent, question: str, speech: Language) -> str:
    demo = say("demo", speech)
    if intent.kind == "greeting":
        return f"{say('greeting', speech)} {demo}"
    if intent.kind in {"thanks", "farewell"}:
        return say(intent.kind, speech)
    if intent.kind == "about":
        return f"{demo}\n\n{say('about', speech)}"
    if intent.kind == "long":
        return essay(speech, intent.words, intent.text)
    if intent.kind == "code":
        name, code = snippet(intent.text)
        mark = name.lower().split()[0]
        return f"{say('code', speech, name=name)}\n```{mark}\n{code}\n```\n{say('code_end', speech)} {demo}"
    if not question.strip():
        return f"{say('greeting', speech)} {demo}"
    short = " ".join(question.split())
    quoted = short if len(short) <= 120 else short[:119] + "…"
    return f"{say('other', speech, question=quoted)} {demo}\n\n{say('about', speech)}"


def _continue(conversation: Conversation, question: str, intent: Intent, speech: Language) -> tuple[list[Wanted], str]:
    """A step after tool results: write what was to be changed, else report."""
    calls = conversation.calls
    read = [call for call in calls if call.name in READ and call.status == "completed"]
    changing = intent.kind == "change"
    if intent.kind in {"change", "tests"} and read and all(call.name in READ for call in calls):
        if any(call.cut for call in read):
            return [], say("too_long", speech, paths=", ".join(call.path for call in read if call.cut))
        if changing:
            wanted: list[Wanted] = [
                (
                    "write_file",
                    {"path": call.path, "content": changed(call.path, content_of(call), question)},
                )
                for call in read
            ]
            failed = [call for call in calls if call.status != "completed"]
            message = say("changing", speech, path=", ".join(call.path for call in read))
            return wanted, f"{report(failed, speech)}\n\n{message}" if failed else message
        content = content_of(read[0])
        path, text = tests_for(read[0].path, content, outline(read[0].path, content).functions)
        path = intent.paths[1] if len(intent.paths) > 1 else path
        return [("write_file", {"path": path, "content": text})], say("writing_tests", speech, path=path)
    if intent.kind == "tests" and any(call.name in WRITE for call in calls):
        calls = [call for call in calls if call.name in WRITE]
    return [], report(calls, speech, changing, compare=intent.kind == "compare")


def title(conversation: Conversation) -> str:
    """What the conversation is called: the first words of the question, behind whatever was put before it."""
    return " ".join(conversation.question.rpartition("\n\n")[2].split()[:6])


_AGENTS = {
    "read": "ask", "compare": "ask", "list": "ask", "diff": "ask", "search": "ask", "about": "ask", "greeting": "ask",
    "create": "coder", "change": "coder", "tests": "coder", "code": "coder", "move": "coder", "delete": "coder",
    "mkdir": "coder", "run": "debug",
}  # fmt: skip
_SPOKEN = re.compile(r"answer|message|text|content|summary|response|reply|explanation|reason|result|comment|output")


def prefer(conversation: Conversation, name: str, choices: tuple[Any, ...]) -> Any:
    """A value for a field of any other schema: a choice the question names, an agent fit for it, an answer as text."""
    question = conversation.question
    if not choices:
        if name == "reason":
            return say("suits", language(conversation))
        if _SPOKEN.fullmatch(name):
            return _begin(understand(question), question, language(conversation))[1] or None
        return None
    usual = _AGENTS.get(understand(question).kind)
    # Who is chosen stays for the whole conversation: where one does everything, another needs a clear reason.
    one_does_everything = "universal" in choices
    if one_does_everything and usual == "coder":
        return usual
    for choice in choices if not one_does_everything else ():
        if (
            isinstance(choice, str)
            and len(choice) > 2
            and re.search(rf"\b{re.escape(choice)}\b", question, re.IGNORECASE)
        ):
            return choice
    words = question.lower()
    if "debug" in choices and re.search(r"ошибк|баг|пада|не работает|\b(?:bug|error|crash|fail)", words):
        return "debug"
    if "architect" in choices and re.search(r"архитектур|спроектир|\b(?:architecture|design|plan)\b", words):
        return "architect"
    return "universal" if one_does_everything else usual
