"""The usage of a turn: summed up over its Requests in whole numbers, and sent with `turn_end`."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from codelab.llm.encoding import TextMessage
from codelab.llm.outcome import Usage
from codelab.llm.tokens import PER_MESSAGE, estimate_content, estimate_reasoning, estimate_tokens
from codelab.protocol.outgoing import PromptDetails, TurnUsage
from codelab.sessions.items import dumps

if TYPE_CHECKING:
    from codelab.json_settings import Price

#: Money is counted in whole nano-dollars, because DynamoDB changes fractions.
_NANO = 1_000_000_000
#: The provider's count and the estimate differ by no more, in thousandths.
_LEAST_SCALE, _MOST_SCALE = 500, 2_500
#: Not summed up: the tokens of the newest prompt.
CONTEXT = "context"
_PARTS = ("system", "tools", "files", "history")
_NO_CALLS = estimate_tokens(dumps(""))


def usage_amounts(usage: Usage, price: "Price | None") -> dict[str, int]:
    """The usage of one Request by name; what the provider did not report counts as zero."""
    prompt, completion, cached = usage.prompt or 0, usage.completion or 0, usage.cached or 0
    writes = min(usage.cache_writes or 0, max(0, prompt - cached))
    amounts = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached, "llm_calls": 1}
    if writes:
        amounts["cache_write_tokens"] = writes
    if price is None:
        return {**amounts, "calls_without_price": 1}
    per_cached = price.prompt if price.cached is None else price.cached
    per_write = price.prompt if price.cache_write is None else price.cache_write
    per_prompt = (prompt - cached - writes) * price.prompt + cached * per_cached + writes * per_write
    dollars = (per_prompt + completion * price.completion) / 1_000_000
    return {**amounts, "cost_nano_usd": round(dollars * _NANO)}


def scale(amounts: Mapping[str, int], last_scale: int) -> int:
    """The provider's count of a prompt per 1,000 estimated tokens, by a step's usage; `last_scale` if there is none.

    A small change, and one that no tokenizer explains, are ignored.
    """
    reported_tokens, estimated_tokens = amounts.get("prompt_tokens", 0), sum(amounts.get(part, 0) for part in _PARTS)
    if amounts.get("llm_calls") != 1 or not estimated_tokens:
        return last_scale
    new_scale = reported_tokens * 1000 // estimated_tokens
    if not _LEAST_SCALE <= new_scale <= _MOST_SCALE or abs(new_scale - last_scale) <= last_scale // 20:
        return last_scale
    return new_scale


def estimated_usage(prompt_tokens: int, streamed_text: str, price: "Price | None") -> dict[str, int]:
    """The usage of a Request that was broken off, so that the provider reported none: marked as an estimate."""
    usage = Usage(prompt=prompt_tokens, completion=estimate_tokens(streamed_text))
    return {**usage_amounts(usage, price), "estimated_calls": 1}


def breakdown(
    tools: Sequence[Mapping[str, Any]],
    messages: Sequence[Mapping[str, Any]],
    files: str = "",
    tool_descriptions: str = "",
) -> dict[str, int]:
    """The estimated tokens of the parts of a step's prompt, by name.

    `messages` begin with the system prompt; `files` is their part with the context files, `tool_descriptions` that with
    descriptions of tools.
    """
    system, *conversation = messages
    files_tokens, described_tokens = estimate_tokens(files), estimate_tokens(tool_descriptions)
    conversation_tokens = sum(map(_spoken, conversation))
    return {
        "system": _fixed_tokens(str(system["content"])),
        "tools": described_tokens + sum(_fixed_tokens(dumps(tool["content"])) for tool in tools),
        "files": files_tokens,
        "history": max(0, conversation_tokens - files_tokens - described_tokens),
    }


def _spoken(message: Mapping[str, Any]) -> int:
    if type(message) is TextMessage:
        return message.tokens - PER_MESSAGE + _NO_CALLS
    calls = estimate_tokens(dumps(message["tool_calls"])) if "tool_calls" in message else _NO_CALLS
    return estimate_content(message["content"]) + calls + estimate_reasoning(message)


@lru_cache(maxsize=512)
def _fixed_tokens(text: str) -> int:
    """Cached, because prompts and tools are the same in every Request."""
    return estimate_tokens(text)


def turn_usage(usage: Mapping[str, int]) -> TurnUsage:
    """The sums as clients get them, with a cost only if the cost of every Request is known."""
    has_price = "cost_nano_usd" in usage and "calls_without_price" not in usage
    return TurnUsage(
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        cached_tokens=usage.get("cached_tokens", 0),
        cache_write_tokens=usage.get("cache_write_tokens") or None,
        llm_calls=usage.get("llm_calls", 0),
        estimated=True if usage.get("estimated_calls") else None,
        cost_usd=usage["cost_nano_usd"] / _NANO if has_price else None,
        prompt_details=PromptDetails(**{f"{part}_tokens": usage.get(part, 0) for part in _PARTS}),
    )
