"""A model that says what a conversation tells it, in the worker's own process.

A user's message names its script as `[[name]]`; the n-th answer is given after n answers to that message, so that a
second attempt gets what the first one would have got.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codelab.llm.client.transport import Call
from codelab.llm.errors import TransportError

from tests.fakes.model.told_results import tells_only_results, text_of, without_reminder

_NAME = re.compile(r"\[\[([^\]]+)\]\]")

#: In a call: the id, which is random, of the call whose result was cut.
CUT = "<cut>"
_CUT_CALL = re.compile(r"call_id (call_[0-9a-f]{24})")

#: A piece of a script that is not said: time passes there, and other events happen.
PAUSE = "<pause>"
#: Another one: the model is silent for so long that the register is read.
SILENCE = "<silence>"
#: And another: the model waits to be stopped.
STOP = "<stop>"
#: Such a piece is a thought, not said.
THOUGHT = "<thought>"
#: Such a piece, the last one, comes with the end of the answer: the commit may find it unsent.
END = "<end>"


#: How long it waits, in seconds.
STOP_S = 20.0

#: What it answers to other questions than a turn's, by a field of the schema that is asked for.
_SOLUTIONS = {
    "open_tasks": {"summary": "A talk.", "decisions": [], "open_tasks": [], "files": [], "facts": []},
}
#: An agent that the tests add, with a model of its own.
OWN_MODEL = "reviewer"
#: A script whose messages it cannot summarise.
NO_SUMMARY = "no summary"


@dataclass(frozen=True, slots=True)
class Says:
    """One answer: pieces of text, each of which is sent before the next one is given, then calls.

    `status` refuses the request, `breaks` ends the connection before the calls. `invalid` is answered first, and the
    rest when the model is told so. `agent` answers if the model is to choose.
    """

    pieces: tuple[str, ...] = ()
    calls: tuple[dict[str, Any], ...] = ()
    status: int = 0
    breaks: bool = False
    invalid: str = ""
    agent: str = "coder"


def says(*pieces: str, calls: Sequence[dict[str, Any]] = ()) -> Says:
    return Says(pieces, tuple(calls))


Script = Mapping[str, Sequence[Says]]


class ScriptedTransport:
    """What a StepRunner gets instead of the openai SDK.

    `mark` comes before a piece is given; `sent` then blocks until the register was read, which is the last thing that
    is done for a piece; `pause` blocks while other events happen.
    """

    base_url = "http://model.invalid"

    def __init__(self, *, mark: Callable[[], None], sent: Callable[..., None], pause: Callable[[], None]) -> None:
        self.script: Script = {}
        self._mark, self._sent, self._pause = mark, sent, pause

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        asked = body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
        for field, solution in _SOLUTIONS.items():
            if field in asked:
                usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
                fails = field == "open_tasks" and f"[[{NO_SUMMARY}]]" in json.dumps(body["messages"])
                content = "That is hard to say." if fails else json.dumps(solution)
                said = {"message": {"content": content}, "index": 0, "finish_reason": "stop"}
                yield [{"choices": [said], "usage": usage}]
                return
        call.waits()
        answer = self._answer(body["messages"])
        if answer.status:
            raise TransportError("scripted refusal", status=answer.status)
        if answer.invalid and not _is_repair(body["messages"]):
            yield [_chunk(answer.invalid)]
        else:
            yield [_chunk(f'{{"agent": "{answer.agent}", "message": "' if "agent" in asked else '{"message": "')]
            yield from self._speak(answer, call)
            if answer.breaks:
                raise TransportError("scripted end of the connection")
            calls = json.dumps(answer.calls, ensure_ascii=False)
            if CUT in calls:
                calls = calls.replace(CUT, _CUT_CALL.findall(json.dumps(body["messages"]))[-1])
            end = answer.pieces[-1].removeprefix(END) if answer.pieces and answer.pieces[-1].startswith(END) else ""
            yield [_chunk(f'{end}", "calls": {calls}}}')]
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        yield [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}]

    def _speak(self, answer: Says, call: Call) -> Iterator[list[dict[str, Any]]]:
        for piece in answer.pieces:
            if piece.startswith(END):
                continue
            if piece == PAUSE:
                self._pause()
            elif piece == STOP:
                call.cancellation.wait(STOP_S)
            elif piece.startswith(THOUGHT):  # sent with the text, because the sender does not watch
                thought = {"content": None, "reasoning_content": piece.removeprefix(THOUGHT)}
                yield [{"choices": [{"index": 0, "delta": thought, "finish_reason": None}]}]
            else:
                self._mark()
                if piece != SILENCE:
                    yield [_chunk(json.dumps(piece, ensure_ascii=False)[1:-1])]
                self._sent(call, is_text=piece != SILENCE)
            call.check()

    def _answer(self, messages: Sequence[Mapping[str, Any]]) -> Says:
        asked, name = max(
            (position, found[-1])
            for position, message in enumerate(messages)
            if message["role"] == "user" and (found := _named(message))
        )
        said: int = sum(message["role"] == "assistant" for message in messages[asked:]) - _is_repair(messages)
        script = self.script[name]
        return script[min(said, len(script) - 1)]


def _is_repair(messages: Sequence[Mapping[str, Any]]) -> bool:
    last = messages[-1]
    return last["role"] == "user" and not (_named(last) or tells_only_results(last))


def _named(message: Mapping[str, Any]) -> list[str]:
    """The scripts that a message asks for."""
    return _NAME.findall(without_reminder(text_of(message["content"])))


def _chunk(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
