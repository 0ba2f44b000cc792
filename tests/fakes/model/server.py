"""The scripted model as a server in the test's process: OpenAI-compatible, or of another API."""

import json
import time
from collections.abc import Mapping
from typing import Any

from tests.fakes.http import DONE, Exchange, HttpServer, event
from tests.fakes.model.apis import Refused, SpokenApi, SpokenExchange
from tests.fakes.model.script import SUMMARY, Says, answer_function, answer_of, is_summary, properties, script_of
from tests.fakes.model.wire import USAGE, argument, calls_functions, delta, in_pieces, native_calls, whole
from tests.waiting import PATIENCE


class ScriptedModel(HttpServer):
    """`with ScriptedModel() as model: model.script("name", Says("…"))`. `requests` are the bodies by name.

    `hung_up` names the scripts whose client did not stay until the end. `refusals` say why requests were refused, which
    are against the rules of the API `spoken`; without one, it speaks chat completions. `port` 0 is any that is free.
    The model `other` is asked for native calls.
    """

    def __init__(self, port: int = 0, spoken: SpokenApi | None = None) -> None:
        super().__init__(port=port)
        self.refusals: list[str] = []
        self._spoken = spoken
        self.requests: dict[str, list[dict[str, Any]]] = {}
        self.hung_up: list[str] = []
        self._scripts: dict[str, list[Says]] = {}

    @property
    def environment(self) -> dict[str, str]:
        url = f"{self.url}/v1"
        model = {"LLM_BASE_URL": url, "LLM_API_KEY": "scripted", "LLM_MODEL": "scripted", "LLM_MODELS": "other"}
        if self._spoken is not None:
            model["LLM_PROVIDER"] = self._spoken.name
        takes = {"scripted": {"images": True, "thinking": ["none", "high"]}, "other": {"strategy": "calls"}}
        return {**model, "LLM_CAPABILITIES": json.dumps(takes), "DEFAULT_AGENT": "universal"}

    def script(self, name: str, *answers: Says) -> str:
        """Register answers; returns the marker to put into the user's message."""
        self._scripts[name] = list(answers)
        self.requests[name] = []
        return f"[[{name}]]"

    def handle(self, exchange: Exchange) -> None:
        if self._spoken is None:
            self._answer_script(exchange)
            return
        spoken = SpokenExchange.of(exchange, self._spoken)
        try:
            spoken.body  # noqa: B018
        except Refused as refusal:
            self.refusals.append(refusal.message)
            spoken.json({"error": {"message": refusal.message}}, refusal.status)
            return
        self._answer_script(spoken)
        exchange.closes = spoken.closes

    def _answer_script(self, exchange: Exchange) -> None:
        body = exchange.body
        if body is None:  # Whoever looks whether it is there.
            exchange.json({"object": "list", "data": []})
            return
        name, said, repairs = script_of(body["messages"])
        says = Says(raw=json.dumps(SUMMARY)) if is_summary(body) else self._next(name, said, repairs, body)
        chooses = "agent" in properties(body)
        if chooses and says.refuses_to_choose != 200:
            says = Says(status=says.refuses_to_choose)
        says.wait()
        if says.status != 200:
            exchange.json({"error": {"message": "scripted refusal", "type": "scripted"}}, says.status)
        elif not body.get("stream"):
            exchange.json(_whole(says.body(chooses=chooses), body))
        else:
            try:
                _stream(exchange, says, says.body(chooses=chooses), body)
            except ConnectionError:
                self.hung_up.append(name)  # As a cancelled turn does.

    def _next(self, name: str, said: int, repairs: int, body: Mapping[str, Any]) -> Says:
        self.requests.setdefault(name, []).append(dict(body))
        return answer_of(self._scripts.get(name, [Says("unscripted")]), said, repairs)


def _whole(answer: str, body: Mapping[str, Any]) -> dict[str, Any]:
    function = answer_function(body)
    if function is not None:
        call = {"id": "call_1", "type": "function", "function": {"name": function["name"], "arguments": answer}}
        return whole(None, tool_calls=[call])
    text, calls = _written(answer, body)
    made: dict[str, Any] = {"tool_calls": calls} if calls else {}
    return whole(text, **made)


def _written(answer: str, body: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """What it writes, and its native calls if it is asked for such."""
    return native_calls(answer) if calls_functions(body) else (answer, [])


def _stream(exchange: Exchange, says: Says, answer: str, body: Mapping[str, Any]) -> None:
    function = answer_function(body)
    text, calls = _written(answer, body)
    exchange.begin(chunked=False)
    for thought in _pieces(says.thought, says.piece):
        exchange.write(event(delta(content=None, reasoning_content=thought)))
        time.sleep(says.delay)
    pieces = _pieces(text, says.piece)
    for sent, piece in enumerate(pieces):
        if says.cut is not None and sent >= says.cut:
            return
        if says.halfway is not None and sent == len(pieces) // 2:
            says.halfway.wait(2 * PATIENCE)
        name = function["name"] if function and not sent else None
        exchange.write(event(argument(piece, name=name) if function else delta(piece)))
        time.sleep(says.delay)
    for chunk in (chunk for call in calls for chunk in in_pieces(call, says.piece)):
        exchange.write(event(chunk))
    usage = {**USAGE, "completion_tokens": len(pieces), "total_tokens": USAGE["prompt_tokens"] + len(pieces)}
    exchange.write(event(delta(finish="stop")) + event({"choices": [], "usage": usage}) + DONE)


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
