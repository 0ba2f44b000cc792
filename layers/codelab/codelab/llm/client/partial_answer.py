"""The answer to one call, as far as it has been received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codelab.llm.client.answers import MISSHAPEN, misshapen
from codelab.llm.errors import TransportError
from codelab.llm.modes import Mode
from codelab.llm.outcome import Usage
from codelab.llm.strategies import Choice
from codelab.llm.text_calls import TextCalls


class PartialAnswer:
    """The choices of an answer, its usage, and what is wrong with it. text_calls: makes what a Choice takes."""

    __slots__ = ("call_pieces", "choices", "has_text", "is_finished", "mode", "problem", "thoughts", "usage")

    def __init__(self, n: int, mode: Mode, text_calls: Callable[[], TextCalls | None] = lambda: None) -> None:
        self.mode = mode
        self.choices = [Choice(mode, text_calls()) for _ in range(n)]
        self.usage = Usage()
        #: Whether text of an answer, or a part of its calls, has come.
        self.has_text = False
        #: The thoughts of the first choice, in pieces.
        self.thoughts = self.choices[0].thoughts
        #: The arguments of its calls, in pieces.
        self.call_pieces = self.choices[0].call_pieces
        #: All choices have a finish reason.
        self.is_finished = False
        #: What is wrong with the chunks, until `check` raises it.
        self.problem: TransportError | None = None

    def take(self, chunks: list[dict[str, Any]]) -> str:
        """Add chunks; return the new text of the first choice, up to a problem, which `check` raises."""
        texts: list[str] = []
        try:
            self._take(chunks, texts)
        except TransportError as error:
            self.problem = error.with_traceback(None)
        except MISSHAPEN as error:
            self.problem = misshapen(error)
        return "".join(texts)

    def check(self) -> None:
        """Raise TransportError if the chunks reported an error or were malformed."""
        problem, self.problem = self.problem, None
        try:
            if problem is not None:
                raise problem
        finally:
            del problem  # it would keep this frame, and the frame the error

    def _take(self, chunks: list[dict[str, Any]], texts: list[str]) -> None:
        for chunk in chunks:
            for choice in chunk.get("choices") or ():
                index = choice.get("index") or 0
                if not 0 <= index < len(self.choices):
                    raise ValueError("there is a choice that was not asked for")
                if choice.get("error"):
                    raise TransportError(f"the provider broke off: {choice['error']}", retryable=True)
                text = self.choices[index].take(choice)
                if choice.get("finish_reason") or self.is_finished:
                    self.is_finished = all(other.finish_reason for other in self.choices)
                if text or (self.mode.strategy == "calls" and self.choices[index].called):
                    self.has_text = True
                if text and index == 0:
                    texts.append(text)
            usage = chunk.get("usage") or _usage_elsewhere(chunk)
            if usage:
                # Some providers send a growing usage with each chunk: the last one counts.
                self.usage = Usage.parse(usage)

    def finish(self) -> str:
        """End the call; return the rest of the first choice's text."""
        for choice in self.choices[1:]:
            choice.finish()
        text = self.choices[0].finish()
        self.has_text = self.has_text or (self.mode.strategy == "calls" and bool(text))
        return text


def _usage_elsewhere(chunk: dict[str, Any]) -> Any:
    """The usage that Moonshot puts into the last choice, and Groq into a field of its own."""
    if "x_groq" in chunk:
        return (chunk["x_groq"] or {}).get("usage")
    choices = chunk.get("choices")
    return choices[0].get("usage") if choices else None
