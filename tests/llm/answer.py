"""What a Request yields, streamed or whole."""

from __future__ import annotations

from typing import Any, Self

from codelab.llm.client.request import Request
from codelab.llm.client.transport import Transport
from codelab.llm.outcome import Done, ItemDone, Result, TextDelta, ThinkingDelta


class Answer:
    """The result, and what was streamed before it or before an error: text, thoughts, and the last attempt's items."""

    result: Result

    def __init__(self) -> None:
        self.text = self.thoughts = ""
        self.items: list[Any] = []

    def read(self, request: Request, transport: Transport, *, streamed: bool = True, **bounds: Any) -> Self:
        if not streamed:
            self.result = request.run(transport, **bounds)
            return self
        attempt = 1
        for event in request.stream(transport, **bounds):
            assert not hasattr(self, "result"), "Done is the last event"
            match event:
                case TextDelta():
                    self.text += event.text
                case ThinkingDelta():
                    self.thoughts += event.text
                case ItemDone():
                    self.items = [*(self.items if event.attempt == attempt else ()), event.value]
                    attempt = event.attempt
                case Done():
                    self.result = event.result
        return self


def answer_of(request: Request, transport: Transport, *, streamed: bool = True, **bounds: Any) -> Answer:
    return Answer().read(request, transport, streamed=streamed, **bounds)
