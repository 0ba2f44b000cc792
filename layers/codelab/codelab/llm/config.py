"""The configuration of a Request, validated before any call is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from codelab.llm.errors import InvalidRequest, json_pointer
from codelab.llm.profiles import PAST_REASONING, PROFILES, STRATEGIES, PastReasoning, Strategy


@dataclass(frozen=True, slots=True)
class RequestConfig:
    """Which model to call, and how.

    model: the provider's model id. provider: the name of a profile (see `profiles`). temperature, top_p, seed,
    max_output_tokens, reasoning_effort: sent if given. thinking: whether the model thinks before it answers; None
    leaves it to the profile. n: how many solutions. max_repairs: how often an invalid answer is sent back.
    stream_fields: the string fields to stream, each a name or a dotted path. stream_items: the array whose items are
    yielded one by one. strategy: use only this one; behind `calls`, the profile's others, because it does not fit every
    schema. text_calls: whether a call that the model writes as text counts, with `calls` (see `text_calls`). strict:
    False never asks for strict schemas. shows_schema: whether the provider shows the schema to the model; None leaves
    it to the profile. past_reasoning: whether native calls repeat the reasoning before them (see
    `profiles`); None leaves it to the profile. open_objects: "close" drops further keys of objects that do not mention
    additionalProperties, "keep" keeps them. extra_body: further fields of the provider's request, sent unchanged.
    """

    model: str
    provider: str = "openai"
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    thinking: bool | None = None
    n: int = 1
    max_repairs: int = 2
    stream_fields: tuple[str, ...] = ("message",)
    stream_items: str | None = "calls"
    strategy: Strategy | None = None
    text_calls: bool = False
    strict: bool = True
    shows_schema: bool | None = None
    past_reasoning: PastReasoning | None = None
    open_objects: Literal["close", "keep"] = "close"
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: Any, pointer: str = "/config") -> RequestConfig:
        """Parse JSON settings at `pointer`. Raises InvalidRequest with the pointer of the invalid value."""
        if not isinstance(raw, Mapping):
            raise InvalidRequest("the configuration is not an object", pointer)
        field_names = {f.name for f in fields(cls)}
        for name in raw:
            if name not in field_names:
                raise InvalidRequest(f"unknown setting {name!r}", pointer + json_pointer(name))
        if "model" not in raw:
            raise InvalidRequest("the model is missing", f"{pointer}/model")
        values = dict(raw)
        if isinstance(values.get("stream_fields"), list):
            values["stream_fields"] = tuple(values["stream_fields"])
        config = cls(**values)
        config.check(pointer)
        return config

    def changed(self, **changes: Any) -> RequestConfig:
        """A copy with some settings replaced."""
        return replace(self, **changes) if changes else self

    def check(self, pointer: str = "/config") -> None:
        """Raise InvalidRequest for a setting that is wrong or contradicts another."""

        def bad(name: str, message: str) -> InvalidRequest:
            return InvalidRequest(message, f"{pointer}/{name}")

        if not isinstance(self.model, str) or not self.model.strip():
            raise bad("model", "the model's name is empty")
        if self.provider not in PROFILES:
            raise bad("provider", f"unknown provider {self.provider!r}; known are {', '.join(PROFILES)}")
        for name, low, high in (("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0)):
            value = getattr(self, name)
            if value is not None and not (_number(value) and low <= value <= high):
                raise bad(name, f"{name} must be a number from {low:g} to {high:g}")
        for name, minimum in (("n", 1), ("max_repairs", 0), ("max_output_tokens", 1), ("seed", None)):
            value = getattr(self, name)
            if value is None and name in ("max_output_tokens", "seed"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or (minimum is not None and value < minimum):
                raise bad(name, f"{name} must be a whole number" + ("" if minimum is None else f" from {minimum}"))
        if self.reasoning_effort is not None and not isinstance(self.reasoning_effort, str):
            raise bad("reasoning_effort", "reasoning_effort must be a string")
        for name in ("thinking", "text_calls", "strict", "shows_schema"):
            value = getattr(self, name)
            if not isinstance(value, bool) and not (name in ("thinking", "shows_schema") and value is None):
                raise bad(name, f"{name} must be true or false")
        if not isinstance(self.stream_fields, tuple) or not all(isinstance(f, str) and f for f in self.stream_fields):
            raise bad("stream_fields", "stream_fields must be a list of field names")
        if self.stream_items is not None and (not isinstance(self.stream_items, str) or not self.stream_items):
            raise bad("stream_items", "stream_items must be the name of an array field")
        if self.strategy is not None and self.strategy not in STRATEGIES:
            raise bad("strategy", f"unknown strategy {self.strategy!r}; known are {', '.join(STRATEGIES)}")
        if self.past_reasoning not in (None, *PAST_REASONING):
            raise bad("past_reasoning", f"past_reasoning must be one of {', '.join(PAST_REASONING)}")
        if self.open_objects not in ("close", "keep"):
            raise bad("open_objects", 'open_objects must be "close" or "keep"')
        if not isinstance(self.extra_body, Mapping):
            raise bad("extra_body", "extra_body must be an object")
        for name in ("model", "messages", "stream", "stream_options", "response_format", "tools", "tool_choice", "n"):
            if name in self.extra_body:
                raise bad(f"extra_body/{name}", f"{name} is set by the Request itself")
        if self.thinking is False and self.reasoning_effort not in (None, "none", "minimal"):
            raise bad("reasoning_effort", "a reasoning effort contradicts thinking: false")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
