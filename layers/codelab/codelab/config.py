"""The environment, read and validated once: every setting of the system has its name, type and default here."""

import os
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Json, ValidationError

Positive = Annotated[int, Field(ge=1)]


class ConfigurationError(Exception):
    """A variable of the environment is missing or wrong; the message names it and the cure."""


class Price(BaseModel):
    """What a model costs, in US dollars for a million tokens. `cached` is for those that the provider had cached."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: Annotated[float, Field(ge=0)]
    completion: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None


class Settings(BaseModel):
    """Field `table_name` is the variable `TABLE_NAME`, and so on. Seconds end in `_s`, milliseconds in `_ms`."""

    model_config = ConfigDict(frozen=True)

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
    codelab_local: bool = False

    # Does the host of this process pass a body on while it is being made?
    rest_streaming: bool = False

    # The model.
    llm_base_url: str = ""
    llm_model: str = "gpt-4.1-mini"
    llm_provider: str = "openai"
    llm_api_key: str = ""
    llm_api_key_secret_arn: str = ""
    #: By model: {"gpt-4.1-mini": {"prompt": 0.4, "completion": 1.6, "cached": 0.1}}
    llm_prices: Json[dict[str, Price]] = Field(default_factory=dict)

    # Behaviour.
    hitl_enabled: bool = True
    hitl_dangerous_tools: str = ""
    hitl_strict: bool = False
    tool_timeout_s: Positive = 120
    approval_timeout_s: Positive = 86_400
    max_steps: Positive = 50
    max_context_tokens: Annotated[int, Field(ge=500)] = 8_000
    max_context_messages: Annotated[int, Field(ge=2, le=97)] = 50
    stream_max_delay_ms: Annotated[int, Field(ge=0)] = 100
    event_retention_s: Annotated[int, Field(ge=60)] = 86_400
    paths_lenient: bool = True
    default_agent: str = "orchestrator"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from `environment`; an empty variable counts as unset. Raises ConfigurationError."""
    values = {name: environment.get(name.upper(), "") for name in Settings.model_fields}
    try:
        settings = Settings.model_validate({name: value for name, value in values.items() if value != ""})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]).upper()
        raise ConfigurationError(
            f"{name}={first['input']}: {first['msg'].lower()}; correct {name} or unset it"
        ) from None
    if settings.auth_mode == "none" and not settings.codelab_local:
        raise ConfigurationError("AUTH_MODE=none exists in the local cloud only; set AUTH_MODE=jwt")
    return settings


@cache
def settings() -> Settings:
    """The settings of this process."""
    return read_settings(os.environ)


def secret(value: str, arn: str) -> str:
    """`value` if it is set, else what Secrets Manager keeps under `arn`, else an empty string. Called at init only."""
    if value or not arn:
        return value
    from codelab import aws

    return aws.client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]
