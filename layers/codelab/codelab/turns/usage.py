"""What a turn costs: summed up over its Requests as whole numbers, and told with `turn_end`."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from codelab.config import Price
from codelab.llm.outcome import Usage
from codelab.llm.tokens import estimate_tokens
from codelab.protocol.outgoing import PromptDetails, TurnUsage
from codelab.sessions.items import dumps

#: DynamoDB would give a fraction back as another one: money is counted in nano-dollars.
_NANO = 1_000_000_000
_PARTS = ("system", "tools", "files", "history")


def counted(usage: Usage, price: Price | None) -> dict[str, int]:
    """The usage of one Request; what the provider did not say counts as zero."""
    prompt, completion, cached = usage.prompt or 0, usage.completion or 0, usage.cached or 0
    found = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached, "llm_calls": 1}
    if price is None:
        return {**found, "calls_without_price": 1}
    per_cached = price.prompt if price.cached is None else price.cached
    dollars = ((prompt - cached) * price.prompt + cached * per_cached + completion * price.completion) / 1_000_000
    return {**found, "cost_nano_usd": round(dollars * _NANO)}


def breakdown(
    tools: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]], files: str = ""
) -> dict[str, int]:
    """What the prompt of a step is made of, in tokens, estimated.

    `messages` begin with the system prompt; `files` is the part of them that shows the context files.
    """
    system, *conversation = messages
    files_tokens = estimate_tokens(files)
    spoken = sum(
        estimate_tokens((message["content"] or "") + dumps(message.get("tool_calls", ""))) for message in conversation
    )
    return {
        "system": _fixed_tokens(str(system["content"])),
        "tools": sum(_fixed_tokens(dumps(tool["content"])) for tool in tools),
        "files": files_tokens,
        "history": max(0, spoken - files_tokens),
    }


@lru_cache(maxsize=512)
def _fixed_tokens(text: str) -> int:
    """Prompts and tools are the same with every question."""
    return estimate_tokens(text)


def turn_usage(usage: Mapping[str, int]) -> TurnUsage:
    """The sums as clients get them. A turn costs what is known of all its Requests, or nothing is said."""
    has_price = "cost_nano_usd" in usage and "calls_without_price" not in usage
    return TurnUsage(
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        cached_tokens=usage.get("cached_tokens", 0),
        llm_calls=usage.get("llm_calls", 0),
        cost_usd=usage["cost_nano_usd"] / _NANO if has_price else None,
        prompt_details=PromptDetails(**{f"{part}_tokens": usage.get(part, 0) for part in _PARTS}),
    )
