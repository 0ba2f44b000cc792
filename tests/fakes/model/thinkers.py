"""Models that think between calls, and refuse a history without the reasoning that their documents want back.

Each is a transport of Requests. What it has thought is counted, so that reasoning that was changed is refused too.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from codelab.llm.client.transport import Call
from codelab.llm.errors import TransportError
from codelab.llm.past_reasoning import ReasoningCollector

from tests.fakes.model.apis import Refused, spoken
from tests.fakes.model.converse import EVENT_STREAM
from tests.fakes.model.in_process import Body, Chunk, InProcess
from tests.fakes.model.wire import delta, in_pieces, whole

#: What stands for a signature that Gemini did not give.
SENTINEL = "skip_thought_signature_validator"


class Thinker:
    """Answers with the next of `answers`: a text, and calls with their arguments as JSON. `requests` are what it got,
    as the provider sees it; `refusals` what was wrong with them.
    """

    base_url = InProcess.base_url

    def __init__(self, provider: str, *answers: tuple[str, Sequence[tuple[str, str]]]) -> None:
        self.provider, self.answers = provider, list(answers)
        self.requests: list[Any] = []
        self.refusals: list[str] = []
        self._thoughts: list[str] = []
        self._spoken = spoken(provider)

    def send(self, body: Body, call: Call) -> Iterator[list[Chunk]]:
        call.waits()
        try:
            self._check(body)
        except Refused as refusal:
            self.refusals.append(refusal.message)
            raise TransportError(refusal.message, status=400) from None
        text, calls = self.answers.pop(0)
        self._thoughts.append(f"Thought {len(self._thoughts)}")
        native_calls: list[dict[str, Any]] = []
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": arguments}
            native = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
            native_calls.append({**native, **self._of_call(index)})
        finish = "tool_calls" if calls else "stop"
        if not body.get("stream"):
            yield from self._sent_whole(text, native_calls, finish)
            return
        chunks = [*self._reasoned(self._thoughts[-1]), *([delta(text)] if text else [])]
        chunks += [piece for native in native_calls for piece in in_pieces(native, 5)]
        yield from self._sent([*chunks, delta(finish=finish)])

    # What the provider checks.

    def _check(self, body: Body) -> None:
        if self._spoken is None:
            self.requests.append(body["messages"])
            check = _CHECKS.get(self.provider)
            if check is not None and body.get("tools") and body.get("thinking") != {"type": "disabled"}:
                check([it for it in body["messages"] if it.get("tool_calls")], self._thoughts)
            return
        api = self._spoken.client()
        headers = {**api.headers, "x-api-key": "k", "authorization": "k"}
        content, path = api.encode(body), api.path.format(model=quote(body["model"], safe=""))
        self._spoken.asked(SimpleNamespace(path=f"/v1{path}", headers=headers, content=content))  # type: ignore[arg-type]
        request = json.loads(content)
        self.requests.append(request.get("messages") or request["input"])

    # What it says.

    def _reasoned(self, thought: str) -> list[Chunk]:
        pieces = [thought[:4], thought[4:]]
        if self.provider == "gemini":
            return []
        if self.provider == "openrouter":
            details = [{"type": "reasoning.text", "index": 0, "text": piece} for piece in pieces]
            details.append({"type": "reasoning.text", "index": 0, "signature": thought[::-1]})
            return [delta(reasoning=it.get("text"), reasoning_details=[it]) for it in details]
        return [delta(reasoning_content=piece) for piece in pieces]

    def _of_call(self, index: int) -> dict[str, Any]:
        if self.provider != "gemini" or index:
            return {}
        return {"extra_content": {"google": {"thought_signature": self._thoughts[-1]}}}

    def _sent_whole(self, text: str, calls: list[dict[str, Any]], finish: str) -> Iterator[list[Chunk]]:
        collector = ReasoningCollector()
        for chunk in self._reasoned(self._thoughts[-1]):
            collector.take(chunk["choices"][0]["delta"])
        completion = whole(text, finish=finish, **collector.fields, **({"tool_calls": calls} if calls else {}))
        if self._spoken is None:
            yield [completion]
            return
        if self._spoken.content_type == EVENT_STREAM:  # every answer is a stream
            yield from self._sent(
                [*self._reasoned(self._thoughts[-1]), delta(text or None, **_calls(calls)), delta(finish=finish)]
            )
            return
        data = json.dumps(self._spoken.answering().whole(completion)).encode()
        yield from self._spoken.client().chunks(iter([data]), streams=False)

    def _sent(self, chunks: list[Chunk]) -> Iterator[list[Chunk]]:
        if self._spoken is None:
            yield chunks
            return
        answering = self._spoken.answering()
        data = answering.begin() + b"".join(map(answering.chunk, chunks)) + answering.end()
        yield from self._spoken.client().chunks(iter([data]), streams=True)


def _calls(calls: list[dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": calls} if calls else {}


def _need(is_met: object, message: str) -> None:
    if not is_met:
        raise Refused(message)


def _with_content(answers: Sequence[Mapping[str, Any]], thoughts: Sequence[str]) -> None:
    """https://api-docs.deepseek.com/guides/thinking_mode, and Moonshot's guide of its thinking models."""
    for number, answer in enumerate(answers):
        _need(answer.get("reasoning_content"), f"reasoning_content is missing in assistant tool call message {number}")
    _need_own([answer["reasoning_content"] for answer in answers], thoughts)


def _with_signatures(answers: Sequence[Mapping[str, Any]], thoughts: Sequence[str]) -> None:
    """https://ai.google.dev/gemini-api/docs/thought-signatures: the first call of each answer has one."""
    signatures = []
    for answer in answers:
        first = answer["tool_calls"][0].get("extra_content", {}).get("google", {}).get("thought_signature")
        _need(first, "Function call is missing a thought_signature")
        if first != SENTINEL:
            signatures.append(first)
            _need(not any("extra_content" in it for it in answer["tool_calls"][1:]), "it is given back as it came")
    _need_own(signatures, thoughts)


def _with_details(answers: Sequence[Mapping[str, Any]], thoughts: Sequence[str]) -> None:
    """https://openrouter.ai/docs/use-cases/reasoning-tokens: what is passed back is the whole entry."""
    details = [answer["reasoning_details"] for answer in answers if "reasoning_details" in answer]
    _need_own([detail["text"] for [detail] in details], thoughts)
    for [detail] in details:
        whole = {"type": "reasoning.text", "index": 0, "text": detail["text"], "signature": detail["text"][::-1]}
        _need(detail == whole, "Invalid signature")


def _need_own(given: Sequence[str], thoughts: Sequence[str]) -> None:
    rest = iter(thoughts)
    _need(all(it in rest for it in given), f"{given} is not what the model thought, in order")


_CHECKS: Mapping[str, Callable[[Sequence[Mapping[str, Any]], Sequence[str]], None]] = {
    "deepseek": _with_content,
    "moonshot": _with_content,
    "gemini": _with_signatures,
    "openrouter": _with_details,
}


_MARKS = ("cache_control", "prompt_cache_breakpoint")


def without_marks(messages: Any) -> Any:
    """What a provider got without its marks for the cache, which move on with each request."""
    if isinstance(messages, list):
        return [without_marks(it) for it in messages if not (isinstance(it, dict) and "cachePoint" in it)]
    if isinstance(messages, dict):
        kept = {name: without_marks(it) for name, it in messages.items() if name not in _MARKS}
        match kept.get("content"):
            case [{"type": "text", "text": text}]:  # as it is if it has no mark
                kept["content"] = text
        return kept
    return messages


def is_prefix(earlier: Sequence[Any], later: Sequence[Any]) -> bool:
    """Does the later request begin with all of the earlier one, byte for byte? The last message may go on."""
    *whole, last = [json.dumps(it) for it in without_marks(list(earlier))]
    begins = [json.dumps(it) for it in without_marks(list(later))[: len(whole) + 1]]
    return all(one == other for one, other in itertools.zip_longest(whole, begins[:-1])) and last == begins[-1]
