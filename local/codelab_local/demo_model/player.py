"""Plays the scenarios: which one a question asks for, and what is said and called next (scenarios/README.md)."""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from codelab_local.demo_model.conversation import Call, ChatHistory

SCENARIOS = Path(__file__).with_name("scenarios")
#: Tried behind a scenario's own steps.
_COMMON = "common"

#: Characters of a question by which a scenario is chosen: the patterns take time that grows with their square.
_LOOKED_AT = 1_000
#: What people put before what they want.
_COURTESY = (
    r"(?:please|hi|hello|hey|could|would|can|you|now|then|пожалуйста|привет|здравствуй\w*|а|теперь|можешь|мне|нам)"
)
_FILE = (
    r"(?<=«)[^»\n]+\.\w+(?=»)|(?<![\w/.\\@+~)-])(?!//|e\.g|i\.e)(?:(?:\(\w+\)|[\w./\\@+~-])*\.(?=\w*[^\W\d])\w{1,10}(?![\w/])"
    r"|(?:[\w./-]*/)?(?:Makefile|Dockerfile|README|LICENSE)\b)"
)
_POLITE = ("please", "пожалуйста")
#: With these words, what follows "run" is told, not written as a command.
_NO_PROGRAM = r"(?:an?|the|all|any|every|each|my|our|your|it|this|that|these|those|some|both|everything|one|two)\b"
_QUOTED = r"[`\"«“'](?P<{}>[^`\"»”'\n]+)[`\"»”']"
_SLOTS = {
    "file": rf"[`\"«“(]{{0,3}}(?P<file>{_FILE})",
    "folder": r"[`\"«“]?(?P<folder>\w[\w./@-]*\w/?|\./[\w./@-]*\w|\w)",
    # Quoted, or words that may be a program and its arguments: not "the linter".
    "command": rf"(?=[`«“]|(?!{_NO_PROGRAM})[!-~])[`«“]?(?P<command>[^\s`»”][^`»”\n]*)",
    "number": r"(?P<number>\d{1,4})",
    "agent": r"(?P<agent>[a-z]+)",
    "text": r":?\s*(?:```[^\n]*\n)?(?P<text>\S.*)",
    "old": _QUOTED.format("old"),
    "new": _QUOTED.format("new"),
}


@dataclass
class Reply:
    """The model's answer. It refuses if `refuse` is not empty. A call is (tool, arguments)."""

    say: str = ""
    think: str = ""
    refuse: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass(frozen=True)
class Scenario:
    """A file of scenarios/, its patterns compiled."""

    name: str
    data: Mapping[str, Any]
    patterns: tuple[re.Pattern[str], ...]


@cache
def scenarios() -> dict[str, Scenario]:
    """All scenarios in the order in which they are tried, including `common`."""
    by_name = {}
    for path in sorted(SCENARIOS.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        name = path.stem.lstrip("0123456789_")
        by_name[name] = Scenario(name, data, tuple(compiled(pattern) for pattern in data.get("asked", ())))
    return by_name


def compiled(pattern: str) -> re.Pattern[str]:
    """`run|execute the? {command}` as a regular expression; scenarios/README.md explains the syntax."""
    expression, gap = rf"^\W*+(?:{_COURTESY}\W++)*", ""
    for token in pattern.split():
        if token == "…":
            gap = r".*?"
            continue
        if token == ".":
            part = r"\W*$"
        elif slot := re.fullmatch(r"\{(\w+)\}", token):
            part = _SLOTS[slot[1]]
        else:
            words = "|".join(re.escape(word).replace(r"\*", r"\w*") for word in token.removesuffix("?").split("|"))
            part = rf"(?<!\w)(?:{words})(?!\w)"
        expression += f"{gap}(?:{part}[\\s,:]*)?" if token.endswith("?") else gap + part
        gap = "" if token.endswith("?") else r"[\s,:]*"
    return re.compile(expression, re.IGNORECASE | re.DOTALL)


def chosen(question: str) -> tuple[Scenario, dict[str, Any]]:
    """The first scenario that `question` asks for, and the values of its pattern's slots."""
    for scenario in scenarios().values():
        for pattern in scenario.patterns:
            if match := pattern.search(question[:_LOOKED_AT]):
                slots = {name: value for name, value in match.groupdict().items() if value}
                for name in {"text", "command"} & slots.keys():
                    slots[name] += question[match.end() :] if match.end() == _LOOKED_AT else ""
                return scenario, {name: _trimmed(name, value) for name, value in slots.items()}
    raise LookupError("no scenario fits any question")


def _trimmed(name: str, value: str) -> str:
    """The value of a slot without the end of its sentence or code fence."""
    value = value.strip()
    if name == "text":
        return value.removesuffix("```").rstrip()
    if name == "command":
        while (words := value.rsplit(None, 1))[-1].rstrip(".!").lower() in _POLITE and len(words) == 2:
            value = words[0].rstrip(",")
        bare = value.rstrip(".!")
        return bare if bare[-1:].isalnum() or bare.endswith(("'", '"')) else value
    return value


def answer(talk: ChatHistory, tools: set[str]) -> Reply:
    """The next step of the conversation. A step whose tool is not among `tools` becomes an apology."""
    scenario, slots = chosen(talk.question)
    files = list(dict.fromkeys(re.findall(_FILE, talk.question[:_LOOKED_AT]))) if "file" in slots else []
    short = " ".join(talk.question.split())[:120]
    slot_values = {"question": short, **scenario.data.get("given", {}), **slots, "file": ", ".join(files) or None}
    play = _Play(scenario, slot_values, files, talk.language)
    outcomes = [play.step(-1, None)]
    for calls in talk.rounds:
        position = max((index for index, reply in outcomes if reply.calls), default=len(play.steps))
        outcomes = [play.step(position, call) for call in calls]
    replies = [reply for _, reply in outcomes]
    all_calls = [call for reply in replies for call in reply.calls]
    unique_calls = [call for number, call in enumerate(all_calls) if call not in all_calls[:number]]
    if missing := [tool for tool, _ in unique_calls if tool not in tools]:
        return Reply(play.text("no_tool", {"tool": missing[0]}))
    say, think, refuse = (_joined(replies, name) for name in ("say", "think", "refuse"))
    return Reply(say, think, refuse, unique_calls)


@cache
def _setup() -> str:
    """The command that connects a real model, as it can be typed in any folder."""
    program = Path(sys.prefix) / "bin" / "codelab"
    if not program.exists():
        return "codelab setup"
    home = Path.home()
    return f"{f'~/{program.relative_to(home)}' if program.is_relative_to(home) else program} setup"


def _joined(replies: list[Reply], name: str) -> str:
    return "\n\n".join(dict.fromkeys(text for reply in replies if (text := getattr(reply, name))))


class _Unknown(Exception):
    """A step needs a value that is unknown."""


class _Play:
    """A scenario with the values from the question."""

    def __init__(self, scenario: Scenario, slots: dict[str, Any], files: list[str], language: str) -> None:
        common = scenarios()[_COMMON].data
        self.steps = [*scenario.data.get("step", ()), *common["step"]]
        self.texts, self.tables = {**common["texts"], "setup": _setup()}, scenario.data.get("by_extension", {})
        self.slots, self.files, self.language = slots, files, language

    def step(self, position: int, call: Call | None) -> tuple[int, Reply]:
        """The first step after `position` that follows `call` and whose values are all known, with its index."""
        outcomes = {"asked"} if call is None else call.outcomes
        values = self.slots if call is None else {**self.slots, **call.arguments, **call.values, "tool": call.tool}
        for index, step in enumerate(self.steps):
            after = step.get("after", "completed" if index else "asked")
            if index > position and after in outcomes:
                try:
                    return index, self.reply(step, values)
                except _Unknown:
                    continue
        return len(self.steps), Reply()

    def reply(self, step: Mapping[str, Any], values: dict[str, Any]) -> Reply:
        texts = {name: self.filled(step.get(name, ""), values) for name in ("say", "think", "refuse")}
        if "words" in step:
            texts["say"] = _lengthened(texts["say"], int(self.filled(step["words"], values)))
        calls = [
            (call["tool"], self.filled({name: part for name, part in call.items() if name != "tool"}, file_values))
            for call in step.get("calls", ())
            for file_values in self.each_file(call, values)
        ]
        return Reply(**texts, calls=calls)

    def each_file(self, call: Mapping[str, Any], values: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The values of each call: a call that names {file} is made once per file in the question."""
        if "{file}" in str(call):
            yield from ({**values, "file": file} for file in self.files)
        else:
            yield values

    def filled(self, part: Any, values: dict[str, Any]) -> Any:
        """`part` in the language of the conversation and with values for its {names}. Raises _Unknown."""
        if isinstance(part, dict):
            if "en" in part:
                return self.filled(part[self.language], values)
            return {name: self.filled(inner, values) for name, inner in part.items()}
        if isinstance(part, list):
            return [self.filled(inner, values) for inner in part]
        return re.sub(r"\{(\w+)\}", lambda name: self.text(name[1], values), part) if isinstance(part, str) else part

    def text(self, name: str, values: dict[str, Any]) -> str:
        if values.get(name) is not None:
            return str(values[name])
        if name == "replaced" and str(values.get("old")) in str(values.get("content")):
            return str(values["content"]).replace(values["old"], values["new"])
        if name in self.tables:
            extension = str(values.get("path") or values["file"]).rpartition(".")[2].lower()
            for extensions, text in self.tables[name].items():
                if extension in extensions.split() or extensions == "other":
                    return str(self.filled(text, values))
        if name not in self.texts:
            raise _Unknown(name)
        return str(self.filled(self.texts[name], values))


def _lengthened(text: str, words: int) -> str:
    """`text`, repeated up to `words` words."""
    sentences = text.split()
    return " ".join(sentences * (words // len(sentences)) + sentences[: words % len(sentences)])
