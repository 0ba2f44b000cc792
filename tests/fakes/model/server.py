"""The scripted model as an OpenAI-compatible server in the test's process."""

import json
import time
from collections.abc import Mapping
from typing import Any

from tests.fakes.http import DONE, Exchange, HttpServer, event
from tests.fakes.model.script import SUMMARY, Says, answer_of, is_summary, properties, script_of
from tests.fakes.model.wire import USAGE, calls_functions, delta, in_pieces, native_calls, whole
from tests.waiting import PATIENCE


class ScriptedModel(HttpServer):
    """`with ScriptedModel() as model: model.script("name", Says("…"))`. `requests` are the bodies by name.

    `hung_up` names the scripts whose client did not stay until the end. `port` 0 is any that is free. The model `other`
    is asked for native calls.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__(port=port)
        self.requests: dict[str, list[dict[str, Any]]] = {}
        self.hung_up: list[str] = []
        self._scripts: dict[str, list[Says]] = {}

    @property
    def environment(self) -> dict[str, str]:
        url = f"{self.url}/v1"
        model = {"LLM_BASE_URL": url, "LLM_API_KEY": "scripted", "LLM_MODEL": "scripted", "LLM_MODELS": "other"}
        takes = {"scripted": {"images": True, "thinking": ["none", "high"]}, "other": {"strategy": "calls"}}
        return {**model, "LLM_CAPABILITIES": json.dumps(takes), "DEFAULT_AGENT": "universal"}

    def script(self, name: str, *answers: Says) -> str:
        """Register answers; returns the marker to put into the user's message."""
        self._scripts[name] = list(answers)
        self.requests[name] = []
        return f"[[{name}]]"

    def handle(self, exchange: Exchange) -> None:
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
            text, calls = _spoken(says.body(chooses=chooses), body)
            made: dict[str, Any] = {"tool_calls": calls} if calls else {}
            exchange.json(whole(text, **made))
        else:
            try:
                _stream(exchange, says, *_spoken(says.body(chooses=chooses), body))
            except ConnectionError:
                self.hung_up.append(name)  # As a cancelled turn does.

    def _next(self, name: str, said: int, repairs: int, body: Mapping[str, Any]) -> Says:
        self.requests.setdefault(name, []).append(dict(body))
        return answer_of(self._scripts.get(name, [Says("unscripted")]), said, repairs)


def _spoken(answer: str, body: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """What it writes, and its native calls if it is asked for such."""
    return native_calls(answer) if calls_functions(body) else (answer, [])


def _stream(exchange: Exchange, says: Says, text: str, calls: list[dict[str, Any]]) -> None:
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
        exchange.write(event(delta(piece)))
        time.sleep(says.delay)
    for chunk in (chunk for call in calls for chunk in in_pieces(call, says.piece)):
        exchange.write(event(chunk))
    usage = {**USAGE, "completion_tokens": len(pieces), "total_tokens": USAGE["prompt_tokens"] + len(pieces)}
    exchange.write(event(delta(finish="stop")) + event({"choices": [], "usage": usage}) + DONE)


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
