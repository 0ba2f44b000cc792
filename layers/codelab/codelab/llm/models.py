"""What models can take, as data: the window, images, how much they can be told to think, patches, and how to ask them.

No endpoint tells all of this, so it is a table by the name of the model. Providers put prefixes before a name and
versions behind it (`openai/gpt-5-mini`, `us.anthropic.claude-sonnet-4-20250514-v1:0`), so a row matches inside a name.
The operator's `LLM_CAPABILITIES` takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from codelab.llm.profiles import LEVELS, PROFILES, Level, PastReasoning, Strategy

#: The window of a model that the table does not know: the least that current models have.
UNKNOWN_WINDOW = 32_768


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """window: tokens of prompt and answer together. images: whether a prompt may have images.

    thinking: the levels that it can be told to think at; empty if its thinking cannot be set. patches: whether it gets
    the tools that take a diff beside `edit_file`. No row of the table has it: every model that was measured gets texts
    to replace right, and few get diffs right. strategy: how it is asked (see `RequestConfig`), instead of in its
    profile's order. No row has it either, until strategies are measured by model. past_reasoning: whether it gets its
    reasoning back (see `RequestConfig`), instead of as its profile says. text_calls: whether it writes calls as text,
    which then count with the strategy `calls` (see `text_calls`). subagents: whether it gets `delegate`.
    """

    window: int = UNKNOWN_WINDOW
    images: bool = False
    thinking: tuple[Level, ...] = ()
    patches: bool = False
    strategy: Strategy | None = None
    past_reasoning: PastReasoning | None = None
    text_calls: bool = False
    subagents: bool = True


_EFFORTS: tuple[Level, ...] = ("low", "medium", "high")

#: The first row counts whose pattern is found in the model's name.
_ROWS: tuple[tuple[str, ModelCapabilities], ...] = (
    (r"gpt-[6-9]", ModelCapabilities(1_000_000, images=True, thinking=_EFFORTS)),
    (r"gpt-5\.\d", ModelCapabilities(400_000, images=True, thinking=LEVELS)),
    (r"gpt-5-chat", ModelCapabilities(128_000, images=True)),
    (r"gpt-5", ModelCapabilities(400_000, images=True, thinking=_EFFORTS)),
    (r"gpt-4\.1", ModelCapabilities(1_047_576, images=True)),
    (r"gpt-4o|gpt-4-turbo", ModelCapabilities(128_000, images=True)),
    (r"gpt-oss", ModelCapabilities(131_072, thinking=_EFFORTS)),
    (r"gpt-3\.5", ModelCapabilities(16_385)),
    (r"\bo3-mini", ModelCapabilities(200_000, thinking=_EFFORTS)),
    (r"\bo[134](-|$)", ModelCapabilities(200_000, images=True, thinking=_EFFORTS)),
    (r"claude-(fable|mythos|opus-5[-.][5-9])", ModelCapabilities(200_000, images=True, thinking=_EFFORTS)),
    (r"claude-(3-7|3\.7|(opus|sonnet|haiku)-[4-9])", ModelCapabilities(200_000, images=True, thinking=LEVELS)),
    (r"claude", ModelCapabilities(200_000, images=True)),
    (r"gemini-2\.5-pro|gemini-[3-9]", ModelCapabilities(1_048_576, images=True, thinking=_EFFORTS)),
    (r"gemini-2\.5", ModelCapabilities(1_048_576, images=True, thinking=LEVELS)),
    (r"gemini", ModelCapabilities(1_048_576, images=True)),
    (r"gemma-?[3-9]", ModelCapabilities(128_000, images=True)),
    (r"deepseek", ModelCapabilities(128_000, thinking=("none", "high"))),
    (r"kimi-k2\.[5-9]", ModelCapabilities(262_144, images=True, thinking=("none", "high"))),
    (r"kimi-k[3-9]", ModelCapabilities(1_000_000)),
    (r"kimi|moonshot", ModelCapabilities(128_000)),
    (r"pixtral|mistral-(small|medium|large)-?(3\.[12]|latest|25|26)", ModelCapabilities(128_000, images=True)),
    (r"mistral|magistral|devstral|codestral|ministral", ModelCapabilities(128_000)),
    (r"grok", ModelCapabilities(131_072)),
    (r"qwen-?[23][.\d]*-?vl", ModelCapabilities(128_000, images=True)),
    (r"qwen3(?!-coder)(?!.*(instruct|thinking))", ModelCapabilities(128_000, thinking=("none", "high"))),
    (r"qwen3-coder", ModelCapabilities(256_000)),
    (r"qwen-?2\.5-?coder", ModelCapabilities(128_000, text_calls=True, subagents=False)),
    (r"qwen", ModelCapabilities(128_000)),
    (r"glm-4\.[5-9]v", ModelCapabilities(65_536, images=True)),
    (r"glm", ModelCapabilities(128_000)),
    (r"llama-?4", ModelCapabilities(128_000, images=True)),
    (r"llama-?3[.\-][123]", ModelCapabilities(128_000)),
    (r"nova-2", ModelCapabilities(1_000_000, images=True, thinking=LEVELS)),
    (r"nova-(lite|pro|premier)", ModelCapabilities(300_000, images=True)),
    (r"nova-micro", ModelCapabilities(128_000)),
)


@cache
def capabilities_of(name: str) -> ModelCapabilities:
    """The table's row for the model `name`."""
    return next((model for pattern, model in _ROWS if re.search(pattern, name, re.IGNORECASE)), ModelCapabilities())


def settable(model: ModelCapabilities, provider: str) -> tuple[Level, ...]:
    """The levels of thinking that the model has and that the profile `provider` can ask for."""
    return tuple(level for level in LEVELS if level in model.thinking and level in PROFILES[provider].thinking_levels)


def thinking_at(level: str, model: ModelCapabilities, provider: str) -> Mapping[str, Any]:
    """The settings of a RequestConfig that ask for this level; none if the model does not have it."""
    levels = PROFILES[provider].thinking_levels
    return next((levels[candidate] for candidate in settable(model, provider) if candidate == level), {})
