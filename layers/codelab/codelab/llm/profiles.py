"""What providers can do, as data.

A profile says which strategies to try in which order, and which combinations of strategy, streaming and thinking the
provider refuses. Public capability tables are wrong in places, so this is only the first guess: a 400 that blames a
feature removes it (see `downgrade`).

`modes` is the whole decision: from a profile, the request's circumstances and what has been refused so far to the
ordered list of ways to ask.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codelab.llm.config import RequestConfig, Strategy


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to ask for an answer in a shape.

    strict: ask the provider to enforce the schema. forced: name the function that must be called. typed: send
    response_format json_object (JSON strategy).
    """

    strategy: Strategy
    strict: bool = False
    forced: bool = False
    typed: bool = True

    @property
    def needs(self) -> frozenset[str]:
        """The features it relies on, by the names that `downgrade` uses."""
        features: set[str] = {self.strategy}
        if self.strict:
            features.add(f"{self.strategy}:strict")
        if self.forced:
            features.add("tool_choice")
        if self.strategy == "json" and self.typed:
            features.add("json_object")
        return frozenset(features)


@dataclass(frozen=True, slots=True)
class Unless:
    """A feature that is refused in some circumstances (None: whatever they are)."""

    feature: str
    streaming: bool | None = None
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A provider's dialect of the chat completions API."""

    name: str
    order: tuple[Strategy, ...] = ("native", "tool", "json")
    refuses: tuple[Unless, ...] = ()
    max_tokens_field: str = "max_tokens"
    stream_usage: bool = True
    # Keywords of JSON Schema that its strict schemas must not contain, as features that were refused.
    lacks: frozenset[str] = frozenset()
    # Whether a function is forced by its name, or by "required", which is the same where there is only one.
    forces_by_name: bool = True
    # Models that think unless told otherwise.
    thinks: str | None = None
    # What switches thinking on and off.
    thinking_body: Mapping[bool, Mapping[str, Any]] = field(default_factory=dict)

    def thinking(self, config: RequestConfig) -> bool:
        if config.thinking is not None:
            return config.thinking
        if config.reasoning_effort is not None:
            return config.reasoning_effort != "none"
        return self.thinks is not None and re.search(self.thinks, config.model, re.IGNORECASE) is not None


def _enabled(**more: Any) -> Mapping[bool, Mapping[str, Any]]:
    return {True: {"thinking": {"type": "enabled", **more}}, False: {"thinking": {"type": "disabled"}}}


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems")
_NO_STRICT = (Unless("native:strict"), Unless("tool:strict"))

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("openai", max_tokens_field="max_completion_tokens", thinks=r"^(o\d|gpt-5)"),
        Profile("azure", max_tokens_field="max_completion_tokens", thinks=r"^(o\d|gpt-5)"),
        # Bounds are refused by a 400: https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
        Profile(
            "bedrock",
            refuses=(Unless("tool:strict"),),
            max_tokens_field="max_completion_tokens",
            lacks=frozenset(f"keyword:{name}" for name in _BOUNDS),
        ),
        # Its compatibility layer ignores response_format and strict, and refuses a forced tool while thinking.
        Profile(
            "anthropic",
            order=("tool", "json"),
            refuses=(*_NO_STRICT, Unless("tool_choice", thinking=True), Unless("json_object")),
            thinking_body=_enabled(budget_tokens=4096),
        ),
        Profile("gemini", refuses=(Unless("tool:strict"),), thinks=r"gemini-(2\.5|[3-9])"),
        # json_schema neither with streaming nor beside tools.
        Profile("groq", refuses=(Unless("native", streaming=True), Unless("tool:strict"))),
        # json_schema is refused. While thinking, a forced tool is refused, and with any tool a history whose assistant
        # messages do not repeat their thoughts.
        Profile(
            "deepseek",
            order=("tool", "json"),
            refuses=(*_NO_STRICT, Unless("tool", thinking=True)),
            thinks=r"reasoner|r1|v[4-9]",
            thinking_body=_enabled(),
        ),
        Profile(
            "moonshot",
            order=("tool", "json"),
            refuses=(*_NO_STRICT, Unless("tool_choice")),
            thinks=r"thinking|k2\.[5-9]",
            thinking_body=_enabled(),
        ),
        Profile("mistral", refuses=(Unless("tool:strict"),), thinks=r"magistral"),
        Profile("openrouter", refuses=(Unless("tool:strict"),)),
        Profile("ollama", refuses=_NO_STRICT),
        Profile(
            "vllm",
            refuses=(Unless("tool:strict"),),
            thinking_body={
                on: {"chat_template_kwargs": {"enable_thinking": on, "thinking": on}} for on in (True, False)
            },
        ),
        Profile("llama.cpp", refuses=_NO_STRICT, forces_by_name=False),
        Profile("generic"),
    )
}


def modes(
    profile: Profile, config: RequestConfig, *, streaming: bool, strict: bool, refused: Collection[str] = ()
) -> Iterator[Mode]:
    """The ways to ask, best first. `strict`: whether the schema could be made so; `refused`: what was refused."""
    thinking = profile.thinking(config)
    never = set(refused) | {
        rule.feature
        for rule in profile.refuses
        if rule.streaming in (None, streaming) and rule.thinking in (None, thinking)
    }
    strict = strict and config.strict
    for strategy in profile.order if config.strategy is None else (config.strategy,):
        for mode in _LADDER[strategy]:
            if (strict or not mode.strict) and not (mode.needs & never):
                yield mode


_LADDER: dict[str, tuple[Mode, ...]] = {
    "native": (Mode("native", strict=True), Mode("native")),
    "tool": (
        Mode("tool", strict=True, forced=True),
        Mode("tool", forced=True),
        Mode("tool", strict=True),
        Mode("tool"),
    ),
    "json": (Mode("json"), Mode("json", typed=False)),
}
