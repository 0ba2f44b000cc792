"""What a Request returns: events while the model writes, and one result.

Each streamed piece makes an event, so events are slotted objects that neither validate nor copy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from codelab.llm.past_reasoning import Reasoning


@dataclass(slots=True)
class Usage:
    """Tokens, summed over all attempts. None if the provider does not report them.

    cached, cache_writes: parts of `prompt`, read from the provider's cache and written to it. reasoning: a part of
    `completion`.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    cache_writes: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.prompt, other.prompt),
            _sum(self.completion, other.completion),
            _sum(self.cached, other.cached),
            _sum(self.reasoning, other.reasoning),
            _sum(self.cache_writes, other.cache_writes),
        )

    @classmethod
    def parse(cls, raw: Any) -> Usage:
        """Parse the `usage` object of an OpenAI-compatible answer. What is missing stays None."""
        if not isinstance(raw, dict):
            return cls()
        prompt_details = raw.get("prompt_tokens_details")
        completion_details = raw.get("completion_tokens_details")
        cached_tokens = _count(prompt_details, "cached_tokens")
        for name in _CACHED_TOKEN_FIELDS if cached_tokens is None else ():
            cached_tokens = cached_tokens if cached_tokens is not None else _count(raw, name)
        prompt, completion = _count(raw, "prompt_tokens"), _count(raw, "completion_tokens")
        reasoning = _count(completion_details, "reasoning_tokens")
        if (
            completion is not None
            and reasoning
            and _count(raw, "total_tokens") == (prompt or 0) + completion + reasoning
        ):
            completion += reasoning  # xAI does not count thoughts as part of the completion
        return cls(prompt, completion, cached_tokens, reasoning, _count(prompt_details, "cache_write_tokens"))

    def as_dict(self) -> dict[str, int | None]:
        return asdict(self)


#: Names of cached tokens at the top of `usage`: DeepSeek's, Mistral's, Moonshot's and Hugging Face's.
_CACHED_TOKEN_FIELDS = ("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens")


#: More is not a number of tokens: it would be counted, and stored.
_MOST_TOKENS = 10**12


def _sum(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


def _count(raw: Any, name: str) -> int | None:
    value = raw.get(name) if isinstance(raw, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None


@dataclass(slots=True)
class Result:
    """The outcome of a Request.

    solution: the first choice, in the shape of the schema. solutions: all `n` choices. strategy: the one of the last
    call. attempts: the calls made. repairs: those that asked for a valid answer after an invalid one. streamed: the
    text of the deltas, by field. reasoning: of the first choice, for the next Request; None if it is not sent back.
    has_text_call: the model has written the call of `solution` as text (see `text_calls`).
    """

    solution: Any
    solutions: list[Any]
    usage: Usage
    strategy: str
    attempts: int
    finish_reason: str | None
    streamed: dict[str, str] = field(default_factory=dict)
    repairs: int = 0
    reasoning: Reasoning | None = None
    has_text_call: bool = False


@dataclass(slots=True)
class TextDelta:
    """New characters of a streamed string field. field: its path, joined with dots."""

    field: str
    text: str


@dataclass(slots=True)
class ItemDone:
    """An item of the streamed array is complete, in the shape of the caller's schema.

    It is not validated yet; the solution in `Done` is. If an answer had to be repaired, the items of a later `attempt`
    replace those of earlier ones.
    """

    index: int
    value: Any
    attempt: int = 1


@dataclass(slots=True)
class ItemDelta:
    """New characters of a string in an item of the streamed array that is not complete. name: its path in the item.

    Nothing is validated: it is for showing how far the model is. Keys are those of the form that the model writes.
    """

    index: int
    name: str
    text: str


@dataclass(slots=True)
class ItemsDropped:
    """The items of which `ItemDelta` has told are void: the model is asked once more."""


@dataclass(slots=True)
class ThinkingDelta:
    """New characters of the model's thoughts, if the provider shows them. They are not part of the answer.

    When a call is repeated, the model thinks again, with another `attempt`.
    """

    text: str
    attempt: int = 1


@dataclass(slots=True)
class Done:
    """The last event of a stream."""

    result: Result


Event = TextDelta | ItemDone | ItemDelta | ItemsDropped | ThinkingDelta | Done
