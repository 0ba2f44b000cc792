"""What a step costs before and beside the model: processor time from the history that was read to the body of the call.

    python -m benchmarks.llm_preparing

The context, the Request and its run on an instant transport, and the estimate of the prompt's parts, with all tools of
an agent; for a history that the process has not seen, and for the same one again.
"""

import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from codelab.agents import agents
from codelab.llm.client.request import Request
from codelab.llm.client.transport import Call
from codelab.llm.config import RequestConfig
from codelab.sessions.items import MessageItem
from codelab.sessions.store import Conversation
from codelab.turns.context import assemble
from codelab.turns.model_answers import answer_schema, tool_messages
from codelab.turns.usage import breakdown

ROUNDS = 50
TEXT = "Some words of a conversation that goes on for a while, def f(x): return x[0] + 1. " * 4
AGENT = agents()["universal"]


class Instant:
    """A transport that encodes the body and has the answer."""

    base_url = "http://instant"

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        json.dumps(body)
        content = '{"message": "a", "calls": []}'
        yield [{"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": "stop"}]}]


def conversation(name: int, messages: int) -> Conversation:
    history = [
        MessageItem(n=n, role="assistant" if n % 2 else "user", content=f"{name} {n} {TEXT}", at=0, turn_id="t")
        for n in range(messages + 1)
    ]
    return Conversation(history=history, turn_n=messages)


def prepare_ms(read: Conversation) -> float:
    began = time.process_time()
    messages, tools = assemble(read, AGENT.prompt, budget=128_000), tool_messages(AGENT)
    request = Request(RequestConfig("m"), answer_schema(AGENT, has_title=False), messages)
    for _ in request.stream(Instant()):
        pass
    breakdown(tools, messages)
    return 1000 * (time.process_time() - began)


def main() -> int:
    names = itertools.count()
    prepare_ms(conversation(next(names), 2))
    for messages in (2, 50, 200):
        unseen, again = [], []
        for _ in range(ROUNDS):
            read = conversation(next(names), messages)
            unseen.append(prepare_ms(read))
            again.append(prepare_ms(read))
        new, seen = statistics.median(unseen), statistics.median(again)
        print(f"a step with {messages:3} messages, {len(AGENT.tools)} tools: {new:.2f} ms, the next one {seen:.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
