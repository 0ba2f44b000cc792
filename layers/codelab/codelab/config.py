"""The environment, read and validated once: every setting of the system has its name, type and default here.

The authorizer needs no pydantic, which would be a third of its init. So only settings that are JSON need it.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from codelab.json_settings import ModelCapabilities, PlanLimits, Price


class ConfigurationError(Exception):
    """An environment variable is missing or wrong. The message names it and says how to correct it."""


@dataclass(frozen=True)
class Limits:
    """What one user may use; 0 is no limit. A turn is open until it ends, also while it waits for a human."""

    messages_per_minute: int = 0
    requests_per_minute: int = 0
    tokens_per_day: int = 0
    connections_per_minute: int = 0
    stored_bytes_per_day: int = 0
    open_turns: int = 0

    @cached_property
    def are_counted(self) -> bool:
        """Whether anything but the open turns is limited."""
        return any(limit for name, limit in asdict(self).items() if name != "open_turns")


#: More than a person with several agents needs, and less than a thief wants.
USUAL_LIMITS = Limits(
    messages_per_minute=60,
    requests_per_minute=300,
    tokens_per_day=20_000_000,
    connections_per_minute=60,
    stored_bytes_per_day=1_000_000_000,
    open_turns=20,
)


class _ByPlan(dict[str, Limits]):
    def __missing__(self, plan: str) -> Limits:
        return self[""]


_DECIMAL = re.compile(r"[0-9]{1,2}(\.[0-9]{1,9})?")
_URL = re.compile(r"https?://[^/?#\s][!-~]*")
#: CloudFormation may write a Number as 120.0.
_WHOLE = re.compile(r"\s*[+-]?[0-9]+(\.0+)?\s*")

# Fields of Settings that are not plain text. Each reads its variable's text, and raises ValueError.


def _whole(default: int | None, *, minimum: int = 0, maximum: int | None = None, auto: bool = False) -> Any:
    """A whole number. auto: the text `auto` is None."""

    def read(text: str) -> int | None:
        if auto and text == "auto":
            return None
        if not _WHOLE.fullmatch(text):
            raise ValueError("must be a whole number" + (" or auto" if auto else ""))
        number = int(text.partition(".")[0])
        if number < minimum or (maximum is not None and number > maximum):
            bounds = f"{minimum} or more" if maximum is None else f"from {minimum} to {maximum}"
            raise ValueError(f"must be {bounds}")
        return number

    return field(default=default, metadata={"read": read})


def _share() -> Any:
    """A part of all, from 0 to 1; all by default."""

    def read(text: str) -> float:
        if not _DECIMAL.fullmatch(text) or float(text) > 1:
            raise ValueError("must be a number from 0 to 1")
        return float(text)

    return field(default=1.0, metadata={"read": read})


def _url() -> Any:
    def read(text: str) -> str:
        if not _URL.fullmatch(text):
            raise ValueError("must be an address that begins with http:// or https://")
        return text

    return field(default="", metadata={"read": read})


_TRUTH = {
    **dict.fromkeys(("true", "1", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("false", "0", "no", "off", "f", "n"), False),
}


def _flag(default: bool) -> Any:
    def read(text: str) -> bool:
        if text.lower() not in _TRUTH:
            raise ValueError("must be true or false")
        return _TRUTH[text.lower()]

    return field(default=default, metadata={"read": read})


def _choice(*values: str) -> Any:
    """One of the values; the first one is the default."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError("must be one of " + ", ".join(values))
        return text

    return field(default=values[0], metadata={"read": read})


def _names(*values: str) -> Any:
    """A set of these values, separated by commas."""

    def read(text: str) -> frozenset[str]:
        names = frozenset(name.strip() for name in text.split(","))
        if names - set(values):
            raise ValueError("must be of " + ", ".join(values) + ", with commas between")
        return names

    return field(default=frozenset(), metadata={"read": read})


def _json(of: str) -> dict[str, Any]:
    """An object whose values are `of` that model of `json_settings`."""

    def read(text: str) -> Mapping[str, Any]:
        if text.strip() == "{}":
            return {}
        from codelab import json_settings

        return json_settings.by_name(getattr(json_settings, of), text)

    return {"read": read}


#: Servers of small models. Told of five agents, they call the wrong tools or none, and routing costs a second prompt.
_ON_ONES_OWN_MACHINE = frozenset({"llama.cpp", "ollama", "ollama-chat"})

_PRICE, _CAPABILITIES, _PLAN_LIMITS = _json("Price"), _json("ModelCapabilities"), _json("PlanLimits")


@dataclass(frozen=True, eq=False, repr=False)
class Settings:
    """Field `table_name` is the variable `TABLE_NAME`, and so on. Seconds end in `_s`, milliseconds in `_ms`."""

    # Where things are; set by the template.
    table_name: str = ""
    payload_bucket: str = ""
    connections_url: str = ""
    #: Where clients connect, with `{session_id}` in place of the session's id.
    websocket_address: str = ""
    #: Where presigned URLs lead, for clients: the bucket's origin, unless another endpoint replaces AWS's.
    payload_origin: str = ""
    aws_endpoint_url: str = ""
    aws_endpoint_url_s3: str = ""
    llm_function: str = ""
    control_function: str = ""

    # Identity.
    auth_mode: Literal["jwt", "none"] = _choice("jwt", "none")
    jwt_secret: str = ""
    jwt_secret_arn: str = ""
    jwks_url: str = ""
    jwt_issuer: str = ""
    jwt_audience: str = ""
    #: What clients sign in with at the issuer; the server only passes it on.
    jwt_client_id: str = ""
    #: How far the `exp` of a token may be from its `iat`.
    jwt_max_age_s: int = _whole(86_400, minimum=1)
    #: What the edge in front of the APIs sends; without one, empty.
    edge_secret_arn: str = ""
    codelab_local: bool = _flag(False)

    # Whether the host of this process passes a body on while it is being made.
    rest_streaming: bool = _flag(False)

    # The model.
    llm_base_url: str = ""
    llm_model: str = "gpt-4.1-mini"
    #: What clients may choose, separated by commas; `llm_model` need not be repeated.
    llm_models: str = ""
    llm_provider: str = "openai"
    #: What calls it: our own client, or the openai SDK.
    llm_client: Literal["direct", "openai"] = _choice("direct", "openai")
    #: What calls AWS: our own clients, or boto3's. `codelab.aws` reads it.
    aws_client: Literal["direct", "boto3"] = _choice("direct", "boto3")
    llm_api_key: str = ""
    llm_api_key_secret_arn: str = ""
    #: An application of Microsoft Entra, whose secret the key then is, and where it signs in.
    llm_entra_tenant: str = ""
    llm_entra_client_id: str = ""
    llm_entra_authority: str = _url()
    #: By model: {"gpt-4.1-mini": {"prompt": 0.4, "completion": 1.6, "cached": 0.1}}
    llm_prices: "Mapping[str, Price]" = field(default_factory=dict, metadata=_PRICE)
    #: By model: {"my-model": {"window": 65536, "images": true, "thinking": ["none", "high"]}}
    llm_capabilities: "Mapping[str, ModelCapabilities]" = field(default_factory=dict, metadata=_CAPABILITIES)

    # What one user may use. What is not set is the usual limit, or none where everybody is the same user.
    messages_per_minute: int | None = _whole(None)
    requests_per_minute: int | None = _whole(None)
    tokens_per_day: int | None = _whole(None)
    connections_per_minute: int | None = _whole(None)
    stored_bytes_per_day: int | None = _whole(None)
    #: Slots of open turns; all of them are read at once where they are shown.
    open_turns: int | None = _whole(None, maximum=90)
    #: By the claim `codelab_plan` of a token: {"team": {"open_turns": 50}}
    plan_limits: "Mapping[str, PlanLimits]" = field(default_factory=dict, metadata=_PLAN_LIMITS)

    # Behaviour.
    hitl_enabled: bool = _flag(True)
    hitl_dangerous_tools: str = ""
    hitl_strict: bool = _flag(False)
    remember_commands: bool = _flag(False)
    sandboxed_commands: bool = _flag(False)
    tool_timeout_s: int = _whole(120, minimum=1)
    approval_timeout_s: int = _whole(86_400, minimum=1)
    max_steps: int = _whole(50, minimum=1)
    #: Equal calls with equal results that end a turn; 0: no limit.
    max_repeats: int = _whole(5, minimum=0)
    #: How much of a session the model is sent; None (`auto`): what fits its window, up to a ceiling.
    max_context_tokens: int | None = _whole(None, minimum=500, auto=True)
    max_context_messages: int | None = _whole(None, minimum=2, maximum=1_000, auto=True)
    stream_max_delay_ms: int = _whole(350)
    event_retention_s: int = _whole(86_400, minimum=60)
    #: Days without a message after which a session is erased; 0: never.
    session_retention_days: int = _whole(0, maximum=3_650)
    paths_lenient: bool = _flag(True)
    default_agent: str = "auto"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = _choice("INFO", "DEBUG", "WARNING", "ERROR")
    #: Whether lines of the log count as metrics of CloudWatch.
    metrics: bool = _flag(False)
    #: What lines of the log tell the webhook; of its own function also its secret, and the page that notices link to.
    webhook_events: frozenset[str] = _names("approval_requested", "turn_ended", "turn_failed")
    webhook_secret_arn: str = ""
    webhook_format: Literal["json", "slack"] = _choice("json", "slack")
    page_url: str = ""
    #: The key of KMS that signs pushes, without which nobody is pushed to, and the push services that users may name.
    web_push_key: str = ""
    web_push_hosts: str = ""
    #: Where the spans of turns are sent (OTLP over HTTP, as JSON), and of which share of all turns.
    otel_exporter_otlp_traces_endpoint: str = _url()
    otel_traces_sampler_arg: float = _share()

    @cached_property
    def limits(self) -> Mapping[str, Limits]:
        """The limits of a user by plan: those of the plan, else of the settings. An unknown plan counts as "", none."""
        usual = Limits() if self.auth_mode == "none" else USUAL_LIMITS
        by_plan = _ByPlan({"": _changed(usual, self)})
        by_plan.update((plan, _changed(by_plan[""], plan_limits)) for plan, plan_limits in self.plan_limits.items())
        return by_plan

    @cached_property
    def first_agent(self) -> str:
        """The agent of new sessions: what `default_agent` names, or what `auto` means for this provider."""
        if self.default_agent != "auto":
            return self.default_agent
        return "universal" if self.llm_provider in _ON_ONES_OWN_MACHINE else "orchestrator"

    @cached_property
    def offered_models(self) -> frozenset[str]:
        """The models that a client may choose."""
        names = (name.strip() for name in self.llm_models.split(","))
        return frozenset({self.llm_model, *filter(None, names)})


def _changed(limits: Limits, by: "Settings | PlanLimits") -> Limits:
    overrides = {limit.name: getattr(by, limit.name) for limit in fields(Limits)}
    return replace(limits, **{name: limit for name, limit in overrides.items() if limit is not None})


def variables() -> frozenset[str]:
    """The environment variables that are settings."""
    return frozenset(setting.name.upper() for setting in fields(Settings))


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from `environment`; an empty variable counts as unset. Raises ConfigurationError."""
    values: dict[str, Any] = {}
    for setting in fields(Settings):
        variable = setting.name.upper()
        text = environment.get(variable, "")
        if not text:
            continue
        try:
            values[setting.name] = setting.metadata["read"](text) if "read" in setting.metadata else text
        except ValueError as error:
            raise ConfigurationError(f"{variable}={text}: {error}; correct {variable} or unset it") from None
    configuration = Settings(**values)
    if configuration.auth_mode == "none" and not configuration.codelab_local:
        raise ConfigurationError("AUTH_MODE=none exists in the local cloud only; set AUTH_MODE=jwt")
    return configuration


@cache
def settings() -> Settings:
    """The settings of this process."""
    return read_settings(os.environ)
