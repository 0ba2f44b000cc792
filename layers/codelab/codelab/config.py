"""The environment, read and validated once: every setting of the system has its name, type and default here."""

import os
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json, ValidationError

from codelab.llm.profiles import Level

Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
#: Slots of open turns; all of them are read at once where they are shown.
Turns = Annotated[int, Field(ge=0, le=90)]


class ConfigurationError(Exception):
    """An environment variable is missing or wrong. The message names it and says how to correct it."""


class Limits(BaseModel):
    """What one user may use; 0 is no limit. A turn is open until it ends, also while it waits for a human."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages_per_minute: Natural = 0
    requests_per_minute: Natural = 0
    tokens_per_day: Natural = 0
    connections_per_minute: Natural = 0
    stored_bytes_per_day: Natural = 0
    open_turns: Turns = 0

    @cached_property
    def are_counted(self) -> bool:
        """Whether anything but the open turns is limited."""
        return any(limit for name, limit in self if name != "open_turns")


class ChosenLimits(BaseModel):
    """Limits that differ from the usual ones; None for those that do not."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    messages_per_minute: Natural | None = None
    requests_per_minute: Natural | None = None
    tokens_per_day: Natural | None = None
    connections_per_minute: Natural | None = None
    stored_bytes_per_day: Natural | None = None
    open_turns: Turns | None = None


#: More than a person with several agents needs, and less than a thief wants.
USUAL_LIMITS = Limits(
    messages_per_minute=60,
    requests_per_minute=300,
    tokens_per_day=20_000_000,
    connections_per_minute=60,
    stored_bytes_per_day=1_000_000_000,
    open_turns=20,
)


class Price(BaseModel):
    """What a model costs, in US dollars for a million tokens. `cached` is for those that the provider had cached."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    prompt: Annotated[float, Field(ge=0)]
    completion: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None


class ModelCapabilities(BaseModel):
    """What a model can take, see `codelab.llm.models`; None for what its table says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window: Annotated[int, Field(ge=2_000)] | None = None
    images: bool | None = None
    thinking: list[Level] | None = None


#: `auto` is what fits the model.
_auto = BeforeValidator(lambda value: None if value == "auto" else value)


class _ByPlan(dict[str, Limits]):
    def __missing__(self, plan: str) -> Limits:
        return self[""]


class Settings(ChosenLimits):
    """Field `table_name` is the variable `TABLE_NAME`, and so on. Seconds end in `_s`, milliseconds in `_ms`.

    A limit on what one user may use that is not set is the usual one, or none where everybody is the same user.
    """

    # Where things are; set by the template.
    table_name: str = ""
    payload_bucket: str = ""
    connections_url: str = ""
    llm_function: str = ""
    control_function: str = ""

    # Identity.
    auth_mode: Literal["jwt", "none"] = "jwt"
    jwt_secret: str = ""
    jwt_secret_arn: str = ""
    jwks_url: str = ""
    jwt_issuer: str = ""
    jwt_audience: str = ""
    #: What clients sign in with at the issuer; the server only passes it on.
    jwt_client_id: str = ""
    #: How far the `exp` of a token may be from its `iat`.
    jwt_max_age_s: Positive = 86_400
    codelab_local: bool = False

    # Whether the host of this process passes a body on while it is being made.
    rest_streaming: bool = False

    # The model.
    llm_base_url: str = ""
    llm_model: str = "gpt-4.1-mini"
    #: What clients may choose, separated by commas; `llm_model` need not be repeated.
    llm_models: str = ""
    llm_provider: str = "openai"
    #: What calls it: our own client, or the openai SDK.
    llm_client: Literal["direct", "openai"] = "direct"
    llm_api_key: str = ""
    llm_api_key_secret_arn: str = ""
    #: By model: {"gpt-4.1-mini": {"prompt": 0.4, "completion": 1.6, "cached": 0.1}}
    llm_prices: Json[dict[str, Price]] = Field(default_factory=dict)
    #: By model: {"my-model": {"window": 65536, "images": true, "thinking": ["none", "high"]}}
    llm_capabilities: Json[dict[str, ModelCapabilities]] = Field(default_factory=dict)

    #: By the claim `codelab_plan` of a token: {"team": {"open_turns": 50}}
    plan_limits: Json[dict[str, ChosenLimits]] = Field(default_factory=dict)

    # Behaviour.
    hitl_enabled: bool = True
    hitl_dangerous_tools: str = ""
    hitl_strict: bool = False
    remember_commands: bool = False
    tool_timeout_s: Positive = 120
    approval_timeout_s: Positive = 86_400
    max_steps: Positive = 50
    #: How much of a session the model is sent; None (`auto`): what fits its window, up to a ceiling.
    max_context_tokens: Annotated[Annotated[int, Field(ge=500)] | None, _auto] = None
    max_context_messages: Annotated[Annotated[int, Field(ge=2, le=1_000)] | None, _auto] = None
    stream_max_delay_ms: Annotated[int, Field(ge=0)] = 350
    event_retention_s: Annotated[int, Field(ge=60)] = 86_400
    paths_lenient: bool = True
    default_agent: str = "orchestrator"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    #: Whether lines of the log count as metrics of CloudWatch.
    metrics: bool = False

    @cached_property
    def limits(self) -> Mapping[str, Limits]:
        """The limits of a user by plan: those of the plan, else of the settings. An unknown plan counts as "", none."""
        usual = Limits() if self.auth_mode == "none" else USUAL_LIMITS
        found = _ByPlan()
        for plan in ("", *self.plan_limits):
            rows = (usual, self, self.plan_limits.get(plan))
            said = [{name: getattr(row, name, None) for name in Limits.model_fields} for row in rows]
            found[plan] = Limits(**{name: value for row in said for name, value in row.items() if value is not None})
        return found

    @property
    def offered_models(self) -> frozenset[str]:
        """The models that a client may choose."""
        named = (name.strip() for name in self.llm_models.split(","))
        return frozenset({self.llm_model, *filter(None, named)})


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from `environment`; an empty variable counts as unset. Raises ConfigurationError."""
    values = {name: environment.get(name.upper(), "") for name in Settings.model_fields}
    try:
        settings = Settings.model_validate({name: value for name, value in values.items() if value != ""})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name, *inside = (str(part) for part in first["loc"])
        name = name.upper()
        where = f"{'.'.join(inside)}: " if inside else ""
        raise ConfigurationError(
            f"{name}={values[name.lower()]}: {where}{first['msg'].lower()}; correct {name} or unset it"
        ) from None
    if settings.auth_mode == "none" and not settings.codelab_local:
        raise ConfigurationError("AUTH_MODE=none exists in the local cloud only; set AUTH_MODE=jwt")
    return settings


@cache
def settings() -> Settings:
    """The settings of this process."""
    return read_settings(os.environ)
