"""The model without HTTP, as a transport of Requests: for tests of one process that look into it between two pieces."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from codelab.llm.client.transport import Call
from codelab.llm.errors import TransportError

from tests.fakes.model.script import SUMMARY, Says, answer_of, is_summary, properties, script_of
from tests.fakes.model.wire import USAGE, calls_functions, delta, in_pieces, native_calls, whole

Body = Mapping[str, Any]
Chunk = dict[str, Any]
#: Text, or chunks in OpenAI's form, or several of these.
Answer = str | Chunk | Iterable[str | Chunk]

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

#: A script whose messages it cannot summarise.
NO_SUMMARY = "no summary"

Script = Mapping[str, Sequence[Says]]


class InProcess:
    """Answers with what `answer` gives, if it does not raise. `requests` are the bodies; `asked` is told of each."""

    base_url = "http://model.invalid"

    def __init__(self, answer: Callable[[Body, Call], Answer], asked: Callable[[], object] = lambda: None) -> None:
        self.answer, self._asked = answer, asked
        self.requests: list[Body] = []

    def send(self, body: Body, call: Call) -> Iterator[list[Chunk]]:
        self._asked()
        self.requests.append(body)
        call.waits()
        answer, ends = self.answer(body, call), False
        for part in [answer] if isinstance(answer, str | dict) else answer:
            chunk = delta(part) if isinstance(part, str) else part
            ends = any(choice.get("finish_reason") for choice in chunk["choices"])
            yield [chunk]
        if not ends:
            yield [{**delta(finish="stop"), "usage": USAGE}]


class Queued(InProcess):
    """Gives the answers that a test has queued."""

    def __init__(self, asked: Callable[[], object] = lambda: None) -> None:
        super().__init__(lambda _body, _call: self.answers.pop(0), asked)
        self.answers: list[Answer] = []

    def says(self, message: str, *calls: dict[str, Any]) -> None:
        self.answers.append(Says(message, calls).body(chooses=False))


def says(*pieces: str, calls: Sequence[dict[str, Any]] = (), agent: str = "coder", natively: bool = False) -> Says:
    """An answer for `ScriptedTransport`, in pieces each of which is sent before the next one is given."""
    return Says(pieces=pieces, calls=calls, agent=agent, natively=natively)


def _thoughts(answer: Says) -> str:
    return "".join(piece.removeprefix(THOUGHT) for piece in answer.pieces if piece.startswith(THOUGHT))


def _told_thoughts(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """What an answer's calls came after, for each answer with calls."""
    return [message.get("reasoning_content", "") for message in messages if message.get("tool_calls")]


class ScriptedTransport:
    """What a StepRunner gets instead of the openai SDK.

    `mark` comes before a piece is given; `sent` then blocks until the register was read, which is the last thing that
    is done for a piece; `pause` blocks while other events happen. Native calls after a thought must come back with it.
    """

    base_url = InProcess.base_url

    def __init__(self, *, mark: Callable[[], None], sent: Callable[..., None], pause: Callable[[], None]) -> None:
        self.script: Script = {}
        self._mark, self._sent, self._pause = mark, sent, pause

    def send(self, body: Body, call: Call) -> Iterator[list[Chunk]]:
        told = json.dumps(body["messages"])
        if is_summary(body):
            yield [whole("That is hard to say." if f"[[{NO_SUMMARY}]]" in told else json.dumps(SUMMARY))]
            return
        call.waits()
        name, said, repairs = script_of(body["messages"])
        answer = answer_of(self.script[name], said, repairs)
        if answer.status != 200:
            raise TransportError("scripted refusal", status=answer.status)
        assert calls_functions(body) == answer.natively, "it is asked in another way"
        thoughts = [_thoughts(earlier) for earlier in self.script[name][:said] if earlier.natively]
        if any(thoughts):
            assert thoughts == _told_thoughts(body["messages"])[-len(thoughts) :], "the reasoning is not passed back"
        if answer.raw is not None:
            yield [delta(answer.raw)]
        elif answer.natively:
            yield from self._speak(answer, call)
            _, calls = native_calls(json.dumps({"message": "", "calls": answer.calls}))
            for native_call in calls:
                yield in_pieces(native_call, 5)
        else:
            chosen = f'"agent": "{answer.agent}", ' if "agent" in properties(body) else ""
            yield [delta(f'{{{chosen}"message": "')]
            yield from self._speak(answer, call)
            if answer.cut is not None:
                raise TransportError("scripted end of the connection")
            written = json.dumps(answer.calls, ensure_ascii=False)
            if CUT in written:
                written = written.replace(CUT, _CUT_CALL.findall(told)[-1])
            last = answer.pieces[-1] if answer.pieces else ""
            yield [delta(f'{last.removeprefix(END) if last.startswith(END) else ""}", "calls": {written}}}')]
        yield [{**delta(finish="stop"), "usage": USAGE}]

    def _speak(self, answer: Says, call: Call) -> Iterator[list[Chunk]]:
        for piece in answer.pieces:
            if piece.startswith(END):
                continue
            if piece == PAUSE:
                self._pause()
            elif piece == STOP:
                call.cancellation.wait(STOP_S)
            elif piece.startswith(THOUGHT):  # sent with the text, because the sender does not watch
                yield [delta(content=None, reasoning_content=piece.removeprefix(THOUGHT))]
            else:
                self._mark()
                if piece != SILENCE:
                    yield [delta(piece if answer.natively else json.dumps(piece, ensure_ascii=False)[1:-1])]
                self._sent(call, is_text=piece != SILENCE)
            call.check()
