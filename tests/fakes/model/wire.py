"""What OpenAI-compatible models send, and a server that sends one scripted answer after the other."""

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.http import Exchange, HttpServer, Script
from tests.fakes.model.apis import Refused, SpokenApi, SpokenExchange

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


class ScriptedServer(HttpServer):
    """Answers each request with the next script, and repeats the last one. `requests` are the bodies.

    spoken: the API of the server; without one, the chat completions API. A request against its rules is refused, and
    takes no script.
    """

    def __init__(self, *scripts: Script, spoken: SpokenApi | None = None) -> None:
        super().__init__()
        self.scripts = list(scripts)
        self._spoken = spoken

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    @property
    def requests(self) -> list[Any]:
        return [self._seen(exchange).body for exchange in self.received]

    def answer(self, *scripts: Script) -> None:
        self.scripts = list(scripts)

    def says(self, *texts: str, usage: dict[str, Any] | None = None, **finish: Any) -> None:
        """Answer with these texts, one per request, streamed if asked."""
        self.answer(*(saying(text, usage=usage, **finish) for text in texts))

    def _seen(self, exchange: Exchange) -> Exchange:
        return exchange if self._spoken is None else SpokenExchange.of(exchange, self._spoken)

    def handle(self, exchange: Exchange) -> None:
        answering = self._seen(exchange)
        try:
            answering.body  # noqa: B018
        except Refused as refusal:
            answering.json({"error": {"message": refusal.message}}, refusal.status)
            return
        self._answer_next(answering)
        exchange.closes = answering.closes

    def _answer_next(self, exchange: Exchange) -> None:
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        script(exchange)


def delta(text: str | None = None, *, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """A chunk of a streamed answer."""
    content = {} if text is None else {"content": text}
    choice = {"index": index, "delta": {**content, **more}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [choice]}


def argument(text: str, *, index: int = 0, name: str | None = None, finish: str | None = None) -> dict[str, Any]:
    """A chunk of a streamed function call."""
    function = {"arguments": text} | ({"name": name} if name else {})
    return delta(finish=finish, tool_calls=[{"index": index, "id": "call_1", "type": "function", "function": function}])


def whole(text: str | None, usage: Any = USAGE, *, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """An answer that is not streamed."""
    said = {"role": "assistant", "content": text, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return {"object": "chat.completion", "choices": [choice], "usage": usage}


def native_calls(text: str) -> tuple[str, list[dict[str, Any]]]:
    """An answer of a text and calls in JSON as what a model writes that calls functions: the text, and `tool_calls`.

    What stands before the JSON stays before the text; what is no such answer is the text.
    """
    for start in (match.start() for match in re.finditer("{", text)):
        try:
            answer = json.loads(text[start:])
        except ValueError:
            continue
        if not isinstance(answer, dict) or not all("_tool" in call for call in answer.get("calls", [{}])):
            break
        [said] = [value for name, value in answer.items() if name != "calls"] or [""]
        calls = []
        for index, call in enumerate(answer["calls"]):
            arguments = {name: value for name, value in call.items() if name != "_tool"}
            function = {"name": re.sub(r"[^\w-]", "_", call["_tool"]), "arguments": json.dumps(arguments)}
            calls.append({"index": index, "id": f"call_{index}", "type": "function", "function": function})
        return text[:start] + said, calls
    return text, []


def calls_functions(body: Mapping[str, Any]) -> bool:
    """Does this request ask for calls of functions, not for one that is the answer?"""
    return any(tool["function"]["name"] != "generate_response" for tool in body.get("tools", ()))


def in_pieces(call: dict[str, Any], size: int) -> list[dict[str, Any]]:
    """The chunks of a streamed call: its head, then its arguments."""
    function = call["function"]
    head = {**call, "function": {**function, "arguments": ""}}
    pieces = [function["arguments"][at : at + size] for at in range(0, len(function["arguments"]), size)]
    rest = [{"index": call["index"], "function": {"arguments": piece}} for piece in pieces]
    return [delta(tool_calls=[piece]) for piece in (head, *rest)]


def saying(
    text: str, *, usage: dict[str, Any] | None = None, finish: str = "stop", size: int = 5, **message: Any
) -> Script:
    """An answer in the requested form: streamed or whole, as content, as a function call, or as native calls."""

    def script(exchange: Exchange) -> None:
        if calls_functions(exchange.body):
            _say_natively(exchange, *native_calls(text), usage=usage, finish=finish, size=size, **message)
            return
        tools = exchange.body.get("tools")
        name = tools[0]["function"]["name"] if tools else None
        if not exchange.body.get("stream"):
            call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
            said = {"tool_calls": [call]} if tools else {}
            exchange.json(whole(None if tools else text, usage, finish=finish, **said, **message))
            return
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        chunks = [argument(p, name=None if i else name) if tools else delta(p) for i, p in enumerate(pieces)]
        if message:
            chunks.append(delta(**message))
        chunks.append(delta(finish=finish))
        if usage:
            chunks.append({"choices": [], "usage": usage})
        exchange.events(chunks)

    return script


def _say_natively(
    exchange: Exchange, text: str, calls: list[dict[str, Any]], *, usage: Any, finish: str, size: int, **message: Any
) -> None:
    if not exchange.body.get("stream"):
        said = {"tool_calls": calls} if calls else {}
        exchange.json(whole(text, usage, finish=finish, **said, **message))
        return
    chunks = [delta(text[at : at + size]) for at in range(0, len(text), size)]
    chunks += [chunk for call in calls for chunk in in_pieces(call, size)]
    chunks += [delta(**message)] if message else []
    exchange.events([*chunks, delta(finish=finish), *([{"choices": [], "usage": usage}] if usage else [])])


def failing(status: int, message: str = "no", **headers: str) -> Script:
    """An error in OpenAI's form."""
    error = {"message": message, "type": "x", "param": None, "code": None}
    return lambda exchange: exchange.json({"error": error}, status, **headers)
