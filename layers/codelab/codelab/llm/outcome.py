"""What a Request gives: events while the model writes, and one result.

Events are plain slotted objects, made once per streamed piece; nothing here validates or copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Usage:
    """Tokens, summed over all attempts. None where the provider did not say."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.prompt, other.prompt),
            _sum(self.completion, other.completion),
            _sum(self.cached, other.cached),
            _sum(self.reasoning, other.reasoning),
        )

    @classmethod
    def parse(cls, raw: Any) -> Usage:
        """From the `usage` object of an OpenAI-compatible answer; whatever is missing stays None."""
        if not isinstance(raw, dict):
            return cls()
        prompt_details = raw.get("prompt_tokens_details")
        completion_details = raw.get("completion_tokens_details")
        cached = _count(prompt_details, "cached_tokens")
        if cached is None:
            cached = _count(raw, "prompt_cache_hit_tokens")  # DeepSeek's name for it
        prompt, completion = _count(raw, "prompt_tokens"), _count(raw, "completion_tokens")
        reasoning = _count(completion_details, "reasoning_tokens")
        if (
            completion is not None
            and reasoning
            and _count(raw, "total_tokens") == (prompt or 0) + completion + reasoning
        ):
            completion += reasoning  # xAI counts thoughts beside the completion, others within it
        return cls(prompt, completion, cached, reasoning)

    def as_dict(self) -> dict[str, int | None]:
        return {
            "prompt": self.prompt,
            "completion": self.completion,
            "cached": self.cached,
            "reasoning": self.reasoning,
        }


def _sum(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


def _count(raw: Any, name: str) -> int | None:
    value = raw.get(name) if isinstance(raw, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(slots=True)
class Result:
    """The outcome of a Request.

    `solution` is the first choice in the shape of the caller's schema, `solutions` are all `n`; `strategy` is the one
    that was used in the end; `attempts` counts the calls made; `streamed` is the text handed out as deltas, by field.
    """

    solution: Any
    solutions: list[Any]
    usage: Usage
    strategy: str
    attempts: int
    finish_reason: str | None
    streamed: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class TextDelta:
    """New characters of a streamed string field. `field` is its path, joined with dots."""

    field: str
    text: str


@dataclass(slots=True)
class ItemDone:
    """An item of the streamed array is complete, in the shape of the caller's schema.

    It is not validated yet: the solution in `Done` is. When an answer had to be repaired, the items of a later
    `attempt` replace those of the earlier ones.
    """

    index: int
    value: Any
    attempt: int = 1


@dataclass(slots=True)
class ThinkingDelta:
    """New characters of the model's thoughts, where the provider shows them. They are no part of the answer.

    A repair, and a call that is made again before any text of the answer came, thinks anew, with another `attempt`.
    """

    text: str
    attempt: int = 1


@dataclass(slots=True)
class Done:
    """The last event of a stream."""

    result: Result


Event = TextDelta | ItemDone | ThinkingDelta | Done
