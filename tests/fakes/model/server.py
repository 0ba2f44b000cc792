"""A model with scripted answers: an OpenAI-compatible server in the test's process.

A script is named in the user's message as `[[name]]`; its n-th answer is given after n answers to that message, so
that a repeated request (a second attempt) gets the same one. So does a repair, if the answer has no `repaired` one.
"""

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from tests.fakes.http import Quiet, serving
from tests.fakes.model.told_results import tells_only_results

_NAME = re.compile(r"\[\[([^\]]+)\]\]")

#: How long to wait for `until`, in seconds.
_PATIENCE_S = 60.0
#: How the message to a model about an answer that is not valid begins.
_REPAIR = "That answer is not valid:"
#: The answer to a request for a summary.
_SUMMARY = json.dumps({"summary": "A talk.", "decisions": [], "open_tasks": [], "files": [], "facts": []})


@dataclass
class Says:
    """One answer. `text` is streamed in pieces of `piece` characters, `delay` seconds apart, after `silence` seconds
    and not before the event `until`. The second half waits for the event `halfway`.

    `status` other than 200 refuses the request; `cut` ends the connection after so many pieces, without a finish.
    `agent` answers if the model is to choose; `refuses_to_choose` is the status of a request to choose. `thought` is
    streamed before the text, as DeepSeek does it. `repaired` is what the model says when it is told that the answer is
    not valid; without it, the same again.
    """

    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    piece: int = 4
    delay: float = 0.0
    silence: float = 0.0
    until: threading.Event | None = None
    halfway: threading.Event | None = None
    status: int = 200
    cut: int | None = None
    raw: str | None = None
    agent: str = "universal"
    refuses_to_choose: int = 200
    thought: str = ""
    repaired: Self | None = None

    def wait(self) -> None:
        """Wait as long as the model is silent."""
        time.sleep(self.silence)
        if self.until is not None:
            self.until.wait(_PATIENCE_S)

    def body(self, *, chooses: bool) -> str:
        if self.raw is not None:
            return self.raw
        agent = {"agent": self.agent} if chooses else {}
        return json.dumps({**agent, "message": self.text, "calls": self.calls}, ensure_ascii=False)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A call as the model writes it; arguments that a strict schema makes nullable may be left out."""
    return {"_tool": tool, **arguments}


class ScriptedModel:
    """`with ScriptedModel() as model: model.script("name", Says("…"))`. `requests` are the bodies by name.

    `hung_up` names the scripts whose client did not stay until the end. `port` 0 is any that is free.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: dict[str, list[dict[str, Any]]] = {}
        self.hung_up: list[str] = []
        self._scripts: dict[str, list[Says]] = {}
        model = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                model.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        self._serving = serving(Handler, port)

    def __enter__(self) -> Self:
        self._port = self._serving.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__(None, None, None)

    @property
    def environment(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self._port}/v1"
        model = {"LLM_BASE_URL": url, "LLM_API_KEY": "scripted", "LLM_MODEL": "scripted", "LLM_MODELS": "other"}
        takes = {"scripted": {"images": True, "thinking": ["none", "high"]}}
        return {**model, "LLM_CAPABILITIES": json.dumps(takes), "DEFAULT_AGENT": "universal"}

    def script(self, name: str, *answers: Says) -> str:
        """Register answers; returns the marker to put into the user's message."""
        self._scripts[name] = list(answers)
        self.requests[name] = []
        return f"[[{name}]]"

    def answer(self, http: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        messages, repairs = body["messages"], 0
        while len(messages) > 1 and _text(messages[-1]["content"]).startswith(_REPAIR):
            messages, repairs = messages[:-2], repairs + 1
        last_user = max(n for n, it in enumerate(messages) if it["role"] == "user" and not tells_only_results(it))
        found = _NAME.findall(_text(messages[last_user]["content"]))
        name = found[-1] if found else ""
        said = sum(message["role"] == "assistant" for message in messages[last_user:])
        if "open_tasks" in _properties(body):
            says = Says(raw=_SUMMARY)
        else:
            script = self._scripts.get(name, [Says("unscripted")])
            self.requests.setdefault(name, []).append(body)
            says = script[min(said, len(script) - 1)]
            for _ in range(repairs):
                says = says.repaired or says
        chooses = "agent" in _properties(body)
        if chooses and says.refuses_to_choose != 200:
            says = Says(status=says.refuses_to_choose)
        if says.status != 200 or body.get("stream"):
            self._say(http, name, says, chooses=chooses)
        else:
            says.wait()
            message = {"role": "assistant", "content": says.body(chooses=chooses)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            _reply(http, 200, {"object": "chat.completion", "choices": [choice], "usage": usage})

    def _say(self, http: BaseHTTPRequestHandler, name: str, says: Says, *, chooses: bool) -> None:
        says.wait()
        if says.status != 200:
            _reply(http, says.status, {"error": {"message": "scripted refusal", "type": "scripted"}})
            return
        http.send_response(200)
        http.send_header("Content-Type", "text/event-stream")
        http.send_header("Connection", "close")
        http.end_headers()
        body = says.body(chooses=chooses)
        pieces = [body[start : start + says.piece] for start in range(0, len(body), says.piece)]
        thoughts = [says.thought[start : start + says.piece] for start in range(0, len(says.thought), says.piece)]
        try:
            for thought in thoughts:
                delta = {"content": None, "reasoning_content": thought}
                _chunk(http, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
                time.sleep(says.delay)
            for sent, piece in enumerate(pieces):
                if says.cut is not None and sent >= says.cut:
                    return
                if says.halfway is not None and sent == len(pieces) // 2:
                    says.halfway.wait(_PATIENCE_S)
                _chunk(http, {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
                time.sleep(says.delay)
            _chunk(http, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            usage = {"prompt_tokens": 100, "completion_tokens": len(pieces), "total_tokens": 100 + len(pieces)}
            _chunk(http, {"choices": [], "usage": usage})
            http.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            self.hung_up.append(name)  # As a cancelled turn does.
        finally:
            http.close_connection = True


def _reply(http: BaseHTTPRequestHandler, status: int, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    http.send_response(status)
    http.send_header("Content-Type", "application/json")
    http.send_header("Content-Length", str(len(body)))
    http.end_headers()
    http.wfile.write(body)


def _chunk(http: BaseHTTPRequestHandler, fields: dict[str, Any]) -> None:
    chunk = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": "scripted", **fields}
    http.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    http.wfile.flush()


def _properties(body: dict[str, Any]) -> dict[str, Any]:
    """The properties of the requested schema."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    found: dict[str, Any] = schema.get("properties", {})
    return found


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
