"""What a scripted model says: the answer to a conversation, without a way to send it.

A script is named in the user's message as `[[name]]`; its n-th answer is given after n answers to that message, so
that a repeated request (a second attempt) gets the same one. So does a repair, if the answer has no `repaired` one.
"""

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tests.fakes.model.told_results import tells_only_results, text_of, without_reminder
from tests.waiting import PATIENCE

#: The function whose arguments are the whole answer.
_ANSWER = "generate_response"
_NAME = re.compile(r"\[\[([^\]]+)\]\]")

#: How the message to a model about an answer that is not valid begins.
_REPAIR = "That answer is not valid:"
#: The answer to a request for a summary.
SUMMARY = {"summary": "A talk.", "decisions": [], "open_tasks": [], "files": [], "facts": []}


@dataclass(frozen=True)
class Says:
    """One answer. `text` is streamed in pieces of `piece` characters, `delay` seconds apart, after `silence` seconds
    and not before the event `until`. The second half waits for the event `halfway`.

    `status` other than 200 refuses the request; `cut` ends the connection after so many pieces, without a finish.
    `agent` answers if the model is to choose; `refuses_to_choose` is the status of a request to choose. `thought` is
    streamed before the text, as DeepSeek does it. `raw` is said in place of all that. `repaired` is what the model says
    when it is told that the answer is not valid; without it, the same again. `pieces` is the text as `in_process` says
    it, and `natively` whether that is to be asked for native calls.
    """

    text: str = ""
    calls: Sequence[dict[str, Any]] = ()
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
    pieces: Sequence[str] = ()
    natively: bool = False

    def wait(self) -> None:
        """Wait as long as the model is silent."""
        time.sleep(self.silence)
        if self.until is not None:
            self.until.wait(2 * PATIENCE)

    def body(self, *, chooses: bool) -> str:
        if self.raw is not None:
            return self.raw
        agent = {"agent": self.agent} if chooses else {}
        return json.dumps({**agent, "message": self.text, "calls": list(self.calls)}, ensure_ascii=False)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A call as the model writes it; arguments that a strict schema makes nullable may be left out."""
    return {"_tool": tool, **arguments}


def is_summary(body: Mapping[str, Any]) -> bool:
    """Is the model asked for a summary?"""
    return "open_tasks" in properties(body)


def answer_function(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The function whose arguments are the answer, if the model is asked so."""
    functions: list[dict[str, Any]] = [tool["function"] for tool in body.get("tools", ())]
    return next((function for function in functions if function["name"] == _ANSWER), None)


def properties(body: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of the requested schema."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    if function := answer_function(body):
        schema = function["parameters"]
    found: dict[str, Any] = schema.get("properties", {})
    return found


def script_of(messages: Sequence[Mapping[str, Any]]) -> tuple[str, int, int]:
    """The name of the script, how many of its answers were given before, and how often the last one was repaired."""
    repairs = 0
    while len(messages) > 1 and text_of(messages[-1]["content"]).startswith(_REPAIR):
        messages, repairs = messages[:-2], repairs + 1
    last = max(n for n, it in enumerate(messages) if it["role"] == "user" and not tells_only_results(it))
    names = _NAME.findall(without_reminder(text_of(messages[last]["content"])))
    return names[-1] if names else "", sum(it["role"] == "assistant" for it in messages[last:]), repairs


def answer_of(script: Sequence[Says], said: int, repairs: int) -> Says:
    """The answer after `said` others; the last one again where the script has ended."""
    answer = script[min(said, len(script) - 1)]
    for _ in range(repairs):
        answer = answer.repaired or answer
    return answer
