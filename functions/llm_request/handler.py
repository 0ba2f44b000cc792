"""The only function that calls the model: for a step of a turn, or for one bare Request."""

import time
from typing import TYPE_CHECKING, Any

from codelab.process_start import begin_init

begin_init()

from codelab import aws, turn_log
from codelab.config import ConfigurationError, settings
from codelab.engine.ask_model import log_failure
from codelab.engine.meter import Ending, RequestCounts
from codelab.engine.step_runner import StepRunner
from codelab.llm.caller import CallerBounds
from codelab.llm.client.api import Api, api_named
from codelab.llm.client.bare import run_bare
from codelab.llm.client.bedrock import BedrockKey, BothApis, bedrock_base_url, converse_url, region_in
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.unsupported_cache import KEPT_S, UnsupportedFeatures
from codelab.llm.errors import ModelError, RequestError
from codelab.llm.outcome import Usage
from codelab.llm.profiles import PROFILES, Profile, profile_of
from codelab.llm.tokens import estimate_tokens
from codelab.observability import begin
from codelab.protocol.errors import ProtocolError
from codelab.protocol.outgoing import AgentStatus, AssistantMessage, TurnEnd
from codelab.secret import Secret, secret
from codelab.sessions.dynamodb.unsupported import UnsupportedItem
from codelab.sessions.items import dumps
from codelab.sessions.spending import Spending
from codelab.tracing import model_call
from codelab.turns import quotas
from codelab.turns.models import context_tokens, window_tokens
from codelab.turns.usage import usage_amounts
from codelab.wiring import bedrock_signature, posting_engine, step_of

if TYPE_CHECKING:
    from codelab.llm.client.entra import EntraToken
    from codelab.llm.client.openai_sdk import SdkTransport

#: Seconds reserved for returning an answer, and seconds that the model's endpoint may take for a health check.
_MARGIN_S = 2.0
_HEALTH_S = 5.0

service_settings = settings()
defaults = {"model": service_settings.llm_model, "provider": service_settings.llm_provider}
#: An event cannot prove its sender, so these bounds apply to all events.
bounds = CallerBounds(
    service_settings.offered_models,
    service_settings.llm_provider,
    context_tokens(service_settings.llm_model, service_settings),
)


def _transport() -> "DirectTransport | SdkTransport | BothApis":
    """What asks the provider that the settings name. Raises ConfigurationError, or InvalidRequest for its address."""
    provider = service_settings.llm_provider
    if provider not in PROFILES:
        known_names = ", ".join(PROFILES)
        raise ConfigurationError(
            f"LLM_PROVIDER={provider}: unknown provider; known are {known_names}; correct LLM_PROVIDER or unset it"
        )
    profiles = {(profile := profile_of(provider, model)).name: profile for model in service_settings.offered_models}
    transports = {name: _made(profile) for name, profile in profiles.items()}
    [only, *others] = transports.values()
    return BothApis(transports, service_settings.llm_model) if others else only


def _made(profile: Profile) -> "DirectTransport | SdkTransport":
    api = api_named(profile.api, lambda model: window_tokens(model, service_settings))
    endpoint = _endpoint(profile, api)
    if service_settings.llm_client == "direct":
        return DirectTransport(**endpoint, api=api)
    if profile.api != "chat_completions":
        raise ConfigurationError(
            f"LLM_CLIENT={service_settings.llm_client}: the SDK does not speak the API of LLM_PROVIDER={profile.name}; "
            "unset LLM_CLIENT"
        )
    from codelab.llm.client.openai_sdk import SdkTransport  # takes as long as all other imports together

    return SdkTransport(**endpoint)


def _endpoint(profile: Profile, api: Api) -> dict[str, Any]:
    """The address, and how a call proves whose it is."""
    base_url = service_settings.llm_base_url
    if profile.name == "bedrock":
        return {"base_url": base_url or bedrock_base_url(), "api_key": BedrockKey(region_in(base_url))}
    key = secret(service_settings.llm_api_key, service_settings.llm_api_key_secret_arn)
    if profile.name == "bedrock-converse":
        base_url = converse_url(base_url)
        if not key():  # A key of Bedrock is for those who have no role.
            return {"base_url": base_url, "sign": bedrock_signature(base_url)}
    base_url = base_url or api.base_url
    if service_settings.llm_entra_client_id or service_settings.llm_entra_tenant:
        return {"base_url": base_url, "api_key": _entra_token(key)}
    return {"base_url": base_url, "api_key": key, "key_header": profile.key_header}


def _entra_token(client_secret: Secret) -> "EntraToken":
    """What signs in at Microsoft Entra. Raises ConfigurationError, or InvalidRequest for its address."""
    from codelab.llm.client.entra import AUTHORITY, EntraToken

    tenant, client_id = service_settings.llm_entra_tenant, service_settings.llm_entra_client_id
    if not (tenant and client_id and client_secret()):
        raise ConfigurationError(
            "LLM_ENTRA_CLIENT_ID needs LLM_ENTRA_TENANT, and the application's secret in LLM_API_KEY (LlmApiKey); set "
            "all of them or none"
        )
    return EntraToken(tenant, client_id, client_secret, authority=service_settings.llm_entra_authority or AUTHORITY)


transport = _transport()
engine = posting_engine()
unsupported = UnsupportedFeatures(
    UnsupportedItem(aws.dynamodb_client(), service_settings.table_name, KEPT_S), lazy=True
)
runner = StepRunner(engine, transport, unsupported)
for frame in (AgentStatus, AssistantMessage, TurnEnd):  # Every turn sends them.
    frame.model_rebuild()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    """Run a step, a compaction, a bare Request or a health check.

    A step or a compaction is an event of `prepared_step`; it raises only what the OnFailure destination must repair.

    A Request is {"kind": "request", "context", "schema", "config"?, "timeout_s"?, "caller"?} and returns {"solution",
    "usage", "strategy", …}. Its errors are raised: the caller sees the type as the function's error, with a message
    without the provider's words, which are logged under the request's id. `caller` is {"user", "plan", "at"}: the user
    for whom it was counted as in progress at that time (ms). `rest_api` gives it, and gets {"errorType",
    "errorMessage"} instead of an error: a user's Request without an answer must not ring as a crash of the function.

    {"kind": "health"} returns {"available"}: whether the model's endpoint accepts the key.
    {"kind": "look", "user", "session_id", "message", "environment"} sends nothing, and returns what
    `StepRunner.next_request` does.
    """
    begin(request_id=context.aws_request_id)
    try:
        return handle(event, context)
    finally:
        turn_log.end(context.get_remaining_time_in_millis())


def handle(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    """What `handler` does with the event."""
    if event.get("kind") == "health":
        return {"available": transport.is_available(_HEALTH_S, service_settings.llm_model)}
    if event.get("kind") == "look":
        try:
            return runner.next_request(event["user"], event["session_id"], event["message"], event["environment"])
        except ProtocolError as error:
            return {"error": error.code, "errorMessage": error.message}
    if event.get("kind") == "request":
        seconds_left = context.get_remaining_time_in_millis() / 1000 - _MARGIN_S
        timeout_s = event.pop("timeout_s", seconds_left)
        deadline = time.monotonic() + min(
            seconds_left, timeout_s if isinstance(timeout_s, (int, float)) else seconds_left
        )
        caller = event.pop("caller", {})
        try:
            return _run_bare(event, caller, deadline)
        except RequestError as error:
            public_error = _public(error, context.aws_request_id)
            if caller:
                return {"errorType": type(public_error).__name__, "errorMessage": str(public_error)}
            raise public_error from None
    user, session_id, step = step_of(event)
    if event.get("kind") == "compact":
        runner.compact(user, session_id, context.get_remaining_time_in_millis)
        return None
    runner.run(user, session_id, step, context.get_remaining_time_in_millis, context.aws_request_id)
    return None


def _public(error: RequestError, request_id: str) -> RequestError:
    """The error as callers may see it. Logs the provider's words, which are not in it."""
    if not isinstance(error, ModelError):
        return error
    log_failure(error, request_id)
    return type(error)(f"{error.public_message} (request {request_id})")


def _model_of(request: dict[str, Any]) -> str:
    config = request.get("config")
    return (
        str(config.get("model") or service_settings.llm_model)
        if isinstance(config, dict)
        else service_settings.llm_model
    )


def _run_bare(request: dict[str, Any], caller: dict[str, Any], deadline: float) -> dict[str, Any]:
    """Run a Request and count its end and its tokens, even if it fails."""
    usage: Usage | None = None
    ending, model = Ending(), _model_of(request)
    try:
        with model_call(model, service_settings.llm_provider) as span:
            answer = run_bare(
                request, transport, defaults=defaults, bounds=bounds, unsupported=unsupported, deadline=deadline
            )
            usage = Usage(**answer["usage"])
            span.answered(usage, answer["finish_reason"])
        return answer
    except ModelError as error:
        usage, ending = error.usage, Ending.of(error)
        raise
    finally:
        tokens = 0
        if usage is not None:
            tokens = (usage.prompt or 0) + (usage.completion or 0) or estimate_tokens(dumps(request["context"]))
            asker = {"user": caller["user"]} if caller else {}  # there is no session, whose key would name the user
            counts = RequestCounts()
            counts.add(usage_amounts(usage, service_settings.llm_prices.get(model)), tokens, ending)
            counts.log(model, [], **asker)
        if caller:
            amounts = quotas.limited_amounts(engine.settings.limits[caller["plan"]], Spending(tokens=tokens, asking=-1))
            engine.count(caller["user"], amounts, at=caller.get("at"))
