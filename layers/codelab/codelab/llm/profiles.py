"""What providers support, as data.

A profile says which strategies to try in which order, and which features the provider does not support. (`calls` is
in no order: it is chosen.) Public capability tables are wrong in places, so this is only a first guess: a 400 that
blames a feature removes it (see `unsupported`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Strategy = Literal["native", "tool", "json", "calls"]
STRATEGIES: tuple[Strategy, ...] = ("native", "tool", "json", "calls")

#: The HTTP APIs of providers, see `client.api`.
ApiName = Literal["chat_completions", "responses", "messages", "ollama", "converse"]

#: How much a model is told to think.
Level = Literal["none", "low", "medium", "high"]
LEVELS: tuple[Level, ...] = ("none", "low", "medium", "high")

#: Whether native calls of a conversation repeat the reasoning before them: never; where it was kept; or the same, and
#: the provider refuses calls without it while the model thinks.
PastReasoning = Literal["dropped", "sent", "required"]
PAST_REASONING: tuple[PastReasoning, ...] = ("dropped", "sent", "required")


@dataclass(frozen=True, slots=True)
class UnsupportedWhen:
    """A feature that is unsupported if the call streams, or the model thinks, as given here. None: in either case."""

    feature: str
    streaming: bool | None = None
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class SchemaHidden:
    """A strategy with which the provider shows the schema to none of its models, or not to those with such a name.

    The schema is then only a grammar, and the prompt must describe the form of the answer (see `form`).
    """

    strategy: Strategy
    models: str | None = None


@dataclass(frozen=True, slots=True)
class Caching:
    """How a provider is asked to cache prompts, see `prompt_cache`. Those that do it unasked need none.

    has_key: `prompt_cache_key` leads calls of one conversation to the same cache. models: a pattern for the names of
    models that cache what is marked. mark: the field of a part of a message that marks its end. body: further fields.
    """

    has_key: bool = False
    models: str | None = None
    mark: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """A provider's dialect of the chat completions API, or what a Request asks of another API in the same words."""

    name: str
    api: ApiName = "chat_completions"
    order: tuple[Strategy, ...] = ("native", "tool", "json")
    unsupported: tuple[UnsupportedWhen, ...] = ()
    max_tokens_field: str = "max_tokens"
    # The header that takes the key; a token of Microsoft Entra goes into `Authorization` all the same.
    key_header: Literal["Authorization", "api-key", "x-api-key"] = "Authorization"
    stream_usage: bool = True
    # Features "keyword:NAME" for the keywords that strict schemas must not contain.
    unsupported_keywords: frozenset[str] = frozenset()
    # Where the model does not see the schema.
    hides_schema: tuple[SchemaHidden, ...] = ()
    # A pattern for the names of models whose template writes native calls of a conversation as the model was trained on
    # them, also in a request without `tools`. All others get past calls in the form of the answer, see `history`.
    reads_calls: str | None = None
    # Further fields of each native call of a conversation that is answered with `calls`.
    call_fields: Mapping[str, Any] = field(default_factory=dict)
    # Whether native calls repeat the reasoning before them, while the model thinks, see `past_reasoning`.
    past_reasoning: PastReasoning = "dropped"
    # The fields that ask for reasoning in a form that can be sent back.
    reasoning_body: Mapping[str, Any] = field(default_factory=dict)
    caching: Caching | None = None
    # Whether a message of the user may follow the results of native calls.
    takes_user_after_results: bool = True
    # Whether `tool_choice` names the function. If not, it is "required": the same, because there is only one function.
    forces_by_name: bool = True
    # A pattern for the names of models that think by default.
    thinking_models: str | None = None
    # The fields that switch thinking on and off.
    thinking_body: Mapping[bool, Mapping[str, Any]] = field(default_factory=dict)
    # The settings of a RequestConfig that ask for a level of thinking. Which levels a model has, `models` says.
    thinking_levels: Mapping[Level, Mapping[str, Any]] = field(default_factory=dict)


def _enabled(**options: Any) -> Mapping[bool, Mapping[str, Any]]:
    return {True: {"thinking": {"type": "enabled", **options}}, False: {"thinking": {"type": "disabled"}}}


def _budgets(**tokens: int) -> Mapping[Level, Mapping[str, Any]]:
    settings: dict[Level, Mapping[str, Any]] = {"none": {"thinking": False}}
    for level in LEVELS[1:]:
        body = {"thinking": {"type": "enabled", "budget_tokens": tokens[level]}}
        settings[level] = {"thinking": True, "extra_body": body}
    return settings


#: By the parameter `reasoning_effort`, by an object `reasoning`, and by a switch.
_EFFORTS: Mapping[Level, Mapping[str, Any]] = {level: {"reasoning_effort": level} for level in LEVELS}
_REASONING: Mapping[Level, Mapping[str, Any]] = {
    "none": {"thinking": False, "extra_body": {"reasoning": {"enabled": False}}},
    **{level: {"thinking": True, "extra_body": {"reasoning": {"effort": level}}} for level in LEVELS[1:]},
}
_SWITCH: Mapping[Level, Mapping[str, Any]] = {"none": {"thinking": False}, "high": {"thinking": True}}

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems")
#: A grammar only: the server's template does not write the schema into the prompt.
_GRAMMAR = (SchemaHidden("native"),)
_NO_STRICT = (UnsupportedWhen("native:strict"), UnsupportedWhen("tool:strict"))
#: Gemini 3 checks a signature of the reasoning before each call. This one stands for calls without theirs:
#: https://ai.google.dev/gemini-api/docs/thought-signatures
_NO_SIGNATURE = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}

#: Models that take marks for the cache through Converse; others refuse them.
_CACHING_ON_BEDROCK = r"claude-(?!(v2|instant|3-(opus|sonnet|haiku)|3-5-sonnet))|nova-(micro|lite|pro|premier|2)"
_THINKING_CLAUDE = r"claude-(fable|mythos|(opus|sonnet|haiku)-[5-9])"
#: The models that Bedrock serves through Converse and not through Chat Completions: those of these vendors, and all
#: whose ARN names no model.
_OF_CONVERSE = re.compile(
    r"(^|[./])(ai21|amazon|anthropic|cohere|meta|writer)\.|^arn:(?!.*:(foundation-model|inference-profile)/)",
    re.IGNORECASE,
)

#: GPT-5.6 and later write only at marks, if told so. Else they write at the last message, which may end with what the
#: next call does not repeat: https://developers.openai.com/api/docs/guides/prompt-caching
_OPENAI_CACHE = Caching(
    has_key=True,
    models=r"gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d)",
    mark={"prompt_cache_breakpoint": {"mode": "explicit"}},
    body={"prompt_cache_options": {"mode": "explicit"}},
)
#: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
_CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}

_BEARER: Literal["Authorization"] = "Authorization"
_API_KEY: Literal["api-key"] = "api-key"

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        *(
            Profile(
                name,
                max_tokens_field="max_completion_tokens",
                key_header=header,
                thinking_models=r"^(o\d|gpt-5)",
                thinking_levels=_EFFORTS,
                caching=_OPENAI_CACHE,
            )
            for name, header in (("openai", _BEARER), ("azure", _API_KEY))
        ),
        # Encrypted, because nothing is stored there: https://developers.openai.com/api/docs/guides/reasoning
        Profile(
            "openai-responses",
            api="responses",
            past_reasoning="sent",
            reasoning_body={"include": ["reasoning.encrypted_content"]},
            max_tokens_field="max_completion_tokens",
            thinking_models=r"^(o\d|gpt-5)",
            thinking_levels=_EFFORTS,
            caching=_OPENAI_CACHE,
        ),
        # It rejects bounds with a 400: https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
        Profile(
            "bedrock",
            unsupported=(UnsupportedWhen("tool:strict"),),
            max_tokens_field="max_completion_tokens",
            unsupported_keywords=frozenset(f"keyword:{name}" for name in _BOUNDS),
            hides_schema=(SchemaHidden("native", models=r"^(?!.*claude)"),),
            thinking_levels=_EFFORTS,
        ),
        # Schemas are enforced too (`strategy`), by some models. Forced tools are refused by models of other companies
        # than Anthropic and Amazon, and while Claude thinks.
        Profile(
            "bedrock-converse",
            api="converse",
            order=("tool", "json"),
            unsupported=(
                *_NO_STRICT,
                UnsupportedWhen("tool_choice", thinking=True),
                UnsupportedWhen("json_object"),
            ),
            past_reasoning="sent",
            thinking_models=_THINKING_CLAUDE,
            thinking_body=_enabled(),
            thinking_levels=_EFFORTS,
            caching=Caching(models=_CACHING_ON_BEDROCK, mark=_CACHE_CONTROL),
        ),
        # Its compatibility layer ignores response_format and strict, supports no forced tool while thinking, and does
        # not return the signatures of thoughts, without which it takes no calls then.
        Profile(
            "anthropic",
            order=("tool", "json"),
            unsupported=(
                *_NO_STRICT,
                UnsupportedWhen("tool_choice", thinking=True),
                UnsupportedWhen("json_object"),
                UnsupportedWhen("calls", thinking=True),
            ),
            thinking_body=_enabled(budget_tokens=4096),
            thinking_levels=_budgets(low=2_048, medium=8_192, high=24_576),
        ),
        # Forced tools are refused while thinking, and by some models always: those that think by default are asked
        # without force. Schemas are enforced too (`strategy`), but grammars of a step's size are refused as too large.
        # Reasoning goes back with its signature: https://platform.claude.com/docs/en/build-with-claude/extended-thinking
        Profile(
            "anthropic-messages",
            api="messages",
            order=("tool", "json"),
            unsupported=(
                *_NO_STRICT,
                UnsupportedWhen("tool_choice", thinking=True),
                UnsupportedWhen("json_object"),
            ),
            key_header="x-api-key",
            past_reasoning="sent",
            thinking_models=_THINKING_CLAUDE,
            thinking_body=_enabled(),
            thinking_levels=_EFFORTS,
            caching=Caching(models="", mark=_CACHE_CONTROL),
        ),
        Profile(
            "gemini",
            unsupported=(UnsupportedWhen("tool:strict"),),
            call_fields=_NO_SIGNATURE,
            past_reasoning="sent",
            thinking_models=r"gemini-(2\.5|[3-9])",
            thinking_levels=_EFFORTS,
        ),
        # It supports json_schema neither with streaming nor together with tools.
        Profile(
            "groq",
            unsupported=(UnsupportedWhen("native", streaming=True), UnsupportedWhen("tool:strict")),
            hides_schema=_GRAMMAR,
            thinking_levels=_EFFORTS,
        ),
        # It does not support json_schema. While thinking, it supports no forced tool, and takes calls only with their
        # reasoning: https://api-docs.deepseek.com/guides/thinking_mode
        Profile(
            "deepseek",
            order=("tool", "json"),
            unsupported=(*_NO_STRICT, UnsupportedWhen("tool", thinking=True)),
            past_reasoning="required",
            thinking_models=r"reasoner|r1|v[4-9]",
            thinking_body=_enabled(),
            thinking_levels=_SWITCH,
        ),
        # While thinking, it takes calls only with their reasoning:
        # https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model
        Profile(
            "moonshot",
            order=("tool", "json"),
            unsupported=(*_NO_STRICT, UnsupportedWhen("tool_choice")),
            past_reasoning="required",
            thinking_models=r"thinking|k2\.[5-9]",
            thinking_body=_enabled(),
            thinking_levels=_SWITCH,
            caching=Caching(has_key=True),
        ),
        Profile(
            "mistral",
            unsupported=(UnsupportedWhen("tool:strict"),),
            takes_user_after_results=False,
            thinking_models=r"magistral",
        ),
        # It passes the schema on. Hosts of open weights use it as a grammar only. Reasoning has one form for all:
        # https://openrouter.ai/docs/use-cases/reasoning-tokens
        Profile(
            "openrouter",
            unsupported=(UnsupportedWhen("tool:strict"),),
            past_reasoning="sent",
            hides_schema=(
                SchemaHidden("native", models=r"^(?!(openai|anthropic|google|mistralai)/(?!gpt-oss|gemma))"),
            ),
            thinking_levels=_REASONING,
            caching=Caching(models=r"^anthropic/", mark=_CACHE_CONTROL),
        ),
        Profile("ollama", unsupported=_NO_STRICT, hides_schema=_GRAMMAR, thinking_levels=_EFFORTS),
        Profile(
            "ollama-chat",
            api="ollama",
            unsupported=(*_NO_STRICT, UnsupportedWhen("tool_choice")),
            hides_schema=_GRAMMAR,
            thinking_body={True: {"think": True}, False: {"think": False}},
            thinking_levels=_EFFORTS,
        ),
        Profile(
            "vllm",
            unsupported=(UnsupportedWhen("tool:strict"),),
            hides_schema=_GRAMMAR,
            thinking_body={
                is_on: {"chat_template_kwargs": {"enable_thinking": is_on, "thinking": is_on}}
                for is_on in (True, False)
            },
            thinking_levels=_SWITCH,
        ),
        Profile("llama.cpp", unsupported=_NO_STRICT, hides_schema=_GRAMMAR, reads_calls="qwen", forces_by_name=False),
        Profile("generic", hides_schema=_GRAMMAR),
    )
}


def profile_of(provider: str, model: str) -> Profile:
    """The profile by which a model is asked: the provider's, but Bedrock has two APIs, and the model decides."""
    name = "bedrock-converse" if provider == "bedrock" and _OF_CONVERSE.search(model) else provider
    return PROFILES[name]
