"""The ways to ask a model for an answer that fits a schema, and which to try first.

`modes` makes the whole decision: it takes a profile, the Request's settings and the features known to be unsupported,
and yields the ways to ask in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from codelab.llm.config import RequestConfig
from codelab.llm.profiles import PastReasoning, Profile, Strategy


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to ask for an answer that fits a schema.

    strict: ask the provider to enforce the schema, or the parameters of each function (calls strategy). is_forced:
    force the function call (tool strategy). json_object: send response_format json_object (JSON strategy).
    """

    strategy: Strategy
    strict: bool = False
    is_forced: bool = False
    json_object: bool = True

    @property
    def needs(self) -> frozenset[str]:
        """The features that this mode needs, named as in `unsupported`."""
        features: set[str] = {self.strategy}
        if self.strict:
            features.add(self.strict_feature)
        if self.is_forced:
            features.add("tool_choice")
        if self.strategy == "json" and self.json_object:
            features.add("json_object")
        return frozenset(features)

    @property
    def strict_feature(self) -> str:
        """The feature `strict` of this strategy. That of functions is the same, whatever they are for."""
        return "native:strict" if self.strategy == "native" else "tool:strict"


def thinks(profile: Profile, config: RequestConfig) -> bool:
    """Whether the model will think before it answers."""
    if config.thinking is not None:
        return config.thinking
    if config.reasoning_effort is not None:
        return config.reasoning_effort != "none"
    return (
        profile.thinking_models is not None
        and re.search(profile.thinking_models, config.model, re.IGNORECASE) is not None
    )


def past_reasoning(profile: Profile, config: RequestConfig) -> PastReasoning:
    """Whether native calls of a conversation repeat the reasoning before them: only for a model that thinks."""
    if config.thinking is False or config.reasoning_effort == "none":
        return "dropped"
    if config.past_reasoning is not None:
        return config.past_reasoning
    return profile.past_reasoning if thinks(profile, config) else "dropped"


def shows_schema(profile: Profile, config: RequestConfig, mode: Mode) -> bool:
    """Whether the model sees the schema of a call in this mode without being told. In JSON mode, it is always told."""
    if config.shows_schema is not None:
        return config.shows_schema
    return not any(
        rule.strategy == mode.strategy
        and (rule.models is None or re.search(rule.models, config.model, re.IGNORECASE) is not None)
        for rule in profile.hides_schema
    )


def reads_calls(profile: Profile, config: RequestConfig) -> bool:
    """Whether the model reads native calls of a conversation, whichever way it is asked."""
    return profile.reads_calls is not None and re.search(profile.reads_calls, config.model, re.IGNORECASE) is not None


def modes(
    profile: Profile,
    config: RequestConfig,
    *,
    streaming: bool,
    strict: bool,
    has_functions: Callable[[], bool] = lambda: False,
    unsupported: Collection[str] = (),
) -> Iterator[Mode]:
    """The ways to ask, best first.

    streaming: whether the answer is streamed. strict: whether the schema has a strict form. has_functions: tells
    whether it is one for `calls`, if that is to be tried. unsupported: features that the provider does not support.
    """
    thinking = thinks(profile, config)
    excluded_features = set(unsupported) | {
        rule.feature
        for rule in profile.unsupported
        if rule.streaming in (None, streaming) and rule.thinking in (None, thinking)
    }
    strict = strict and config.strict
    for strategy in _strategies(profile, config):
        if strategy == "calls" and not has_functions():
            continue
        for mode in _LADDER[strategy]:
            if (strict or not mode.strict) and not (mode.needs & excluded_features):
                yield mode


def _strategies(profile: Profile, config: RequestConfig) -> Iterator[Strategy]:
    """The strategies to try. Behind `calls` come the profile's, because it does not fit every schema."""
    if config.strategy is not None:
        yield config.strategy
    if config.strategy in (None, "calls"):
        yield from (strategy for strategy in profile.order if strategy != config.strategy)


_LADDER: dict[str, tuple[Mode, ...]] = {
    "native": (Mode("native", strict=True), Mode("native")),
    "tool": (
        Mode("tool", strict=True, is_forced=True),
        Mode("tool", is_forced=True),
        Mode("tool", strict=True),
        Mode("tool"),
    ),
    "json": (Mode("json"), Mode("json", json_object=False)),
    "calls": (Mode("calls", strict=True), Mode("calls")),
}
