"""Checks what a deployment needs before anything is built, and says how to get what is missing.

Checks that the caller has no permission for are skipped.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, SSLError
from codelab.config import ConfigurationError, read_settings
from codelab.llm.profiles import PROFILES, profile_of

from infra.stack import environment
from infra.stack.page import sign_in_problems
from infra.stack.stack import Stack, parameters

#: Function names begin with the stack's name; the longest is `…-unknown-message`, and Lambda allows 64 characters.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,47}")
#: The suffix of parameters that reserve concurrent executions for one function.
_RESERVED = "ReservedConcurrency"
#: Lambda keeps at least this many unreserved. With fewer in total, a few users fill it; new accounts may have 10.
ENOUGH_CONCURRENCY = 100
_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws")
_BEDROCK = ("bedrock", "bedrock-converse")
#: Its permissions have another prefix than those of the runtime endpoint, which the template grants.
_MANTLE = "bedrock-mantle."
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
#: The states of a stack that was never complete, which `make deploy` replaces.
FAILED_CREATIONS = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
#: The states in which CloudFormation accepts no update and which do not end by themselves.
_STUCK = {
    "DELETE_FAILED": "run make destroy{argument}, then deploy again",
    "UPDATE_ROLLBACK_FAILED": "aws cloudformation continue-update-rollback --stack-name {name}, then deploy again",
}


@dataclass(frozen=True)
class Finding:
    """A problem. It stops the deployment, or (`stops` is False) limits what is deployed."""

    message: str
    stops: bool = True


def check(stack: Stack, template: Mapping[str, Any], given: Mapping[str, str], python: str) -> Iterator[Finding]:
    """The problems with deploying `template` as `stack` with the parameters `given`.

    python: the folder of the python3.13 that builds for Lambda, or empty.
    """
    if not _NAME.fullmatch(stack.name):
        yield Finding(
            f"STACK={stack.name} is not a valid name: a letter, then letters, digits and hyphens, at most 48 characters"
        )
    if not python:
        yield Finding(
            "Python 3.13 with pip is needed to build the functions' packages: install it, "
            "for example 'pyenv install 3.13' or 'apt-get install python3.13 python3.13-venv', then 'make clean' "
            "if another Python was used here before"
        )
    if not stack.region:
        yield Finding("no AWS region: export AWS_REGION=… (for example us-east-1), or run 'aws configure'")
    cannot_ask = _credentials(stack)
    if cannot_ask is not None:
        yield cannot_ask
        return
    if stack.region and _NAME.fullmatch(stack.name):
        yield from _account(stack, template, given)


def _credentials(stack: Stack) -> Finding | None:
    """The reason why AWS cannot be queried, if there is one."""
    if stack.session.get_credentials() is None:
        return Finding(
            "no AWS credentials: run 'aws configure' or 'aws sso login', or export AWS_PROFILE=… "
            "or AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=…"
        )
    if not stack.region:
        return Finding("the account was not checked, because that needs a region", stops=False)
    try:
        stack.client("sts").get_caller_identity()
    except NoCredentialsError as error:
        return Finding(f"unusable AWS credentials: {error}")
    except ClientError as error:
        why = error.response["Error"].get("Message") or error
        return Finding(f"AWS rejects the credentials ({why}): run 'aws sso login' or 'aws configure' again")
    except SSLError as error:
        return Finding(
            f"cannot verify the connection to AWS ({error}): behind a company's TLS proxy, export "
            "AWS_CA_BUNDLE=… with the company's certificates (PEM)"
        )
    except BotoCoreError as error:
        return Finding(f"cannot reach AWS: {error}")
    return None


def _account(stack: Stack, template: Mapping[str, Any], given: Mapping[str, str]) -> Iterator[Finding]:
    described = _ask(stack.describe)
    before = parameters(described) if described else {}
    defaults = {name: str(one.get("Default", "")) for name, one in template["Parameters"].items()}
    values = {**defaults, **before, **given}
    yield from _settings(values)
    if message := environment.problem(template, values, stack.name):
        yield Finding(message)
    yield from (Finding(message, stops) for message, stops in sign_in_problems(values))
    yield from _state(stack, described)
    if described is None:
        yield from _left_logs(stack, template)
    yield from _concurrency(stack, values, _reserved(before))
    yield from _retention(before, values)
    yield from _edge(before, values)
    if values.get("RestStreaming") == "true":
        yield from _foreign_layers(stack, template)
    if values["AccessLogs"] == "true":
        yield from _access_logs(stack)
    if values["LlmProvider"] in _BEDROCK and not values["LlmBaseUrl"]:  # Other endpoints have other model names.
        yield from _names(values)
        yield from _model(
            stack, values.get("LlmFoundationModel") or values["LlmModel"].rpartition("foundation-model/")[2]
        )


#: Parameters whose values only the functions' own settings can check: to CloudFormation, 0.5 is a number, too.
_CHECKED = {
    "JwtMaxAgeS": "JWT_MAX_AGE_S",
    "ToolTimeoutS": "TOOL_TIMEOUT_S",
    "ApprovalTimeoutS": "APPROVAL_TIMEOUT_S",
    "MaxSteps": "MAX_STEPS",
    "MaxRepeats": "MAX_REPEATS",
    "StreamMaxDelayMs": "STREAM_MAX_DELAY_MS",
    "EventRetentionS": "EVENT_RETENTION_S",
    "SessionRetentionDays": "SESSION_RETENTION_DAYS",
    "PlanLimits": "PLAN_LIMITS",
    "LlmPrices": "LLM_PRICES",
    "LlmCapabilities": "LLM_CAPABILITIES",
    "MaxContextTokens": "MAX_CONTEXT_TOKENS",
    "MaxContextMessages": "MAX_CONTEXT_MESSAGES",
    "TracesEndpoint": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "TracesRatio": "OTEL_TRACES_SAMPLER_ARG",
}


def _settings(values: Mapping[str, str]) -> Iterator[Finding]:
    """Parameter values that the template cannot check and that would make every function fail at init."""
    for name, variable in _CHECKED.items():
        try:
            read_settings({variable: values.get(name, "")})
        except ConfigurationError as error:
            yield Finding(f"{name}: {error}")
    url = values["LlmBaseUrl"]
    host = urlsplit(url).hostname or ""
    is_known = values["LlmProvider"] in PROFILES
    api = profile_of(values["LlmProvider"], values["LlmModel"]).api if is_known else "chat_completions"
    if api != "chat_completions" and values["LlmClient"] == "openai":
        yield Finding(
            f"the SDK of LlmClient=openai does not speak the API of LlmProvider={values['LlmProvider']} with "
            f"LlmModel={values['LlmModel']}: "
            "set LlmClient=direct"
        )
    if api == "ollama" and not url:
        yield Finding(
            f"LlmProvider={values['LlmProvider']} has no address: set LlmBaseUrl, such as https://host:11434/api"
        )
    if values["LlmProvider"] in _BEDROCK and url and not host.endswith(_AWS):
        yield Finding(
            f"LlmProvider={values['LlmProvider']} would send the role's token to LlmBaseUrl={url}, which is not AWS: "
            "set LlmBaseUrl= for Bedrock's own address, or the LlmProvider of that endpoint"
        )
    if values["LlmProvider"] in _BEDROCK and host.startswith(_MANTLE):
        yield Finding(
            f"the role has no permission for LlmBaseUrl={url}, so Bedrock would refuse every request: set LlmBaseUrl= "
            "for the runtime endpoint, or LlmProvider=generic with a Bedrock API key in LlmApiKey"
        )


def _state(stack: Stack, described: Mapping[str, Any] | None) -> Iterator[Finding]:
    status = described["StackStatus"] if described else ""
    if status in _STUCK:
        cure = _STUCK[status].format(argument=stack.argument, name=stack.name)
        yield Finding(f"the stack {stack.name} is in state {status}: {cure}")
    elif status.endswith("_IN_PROGRESS"):
        yield Finding(f"the stack {stack.name} is being changed ({status}): wait until that ends, then deploy again")


def _access_logs(stack: Stack) -> Iterator[Finding]:
    """The WebSocket API logs with a role of the account; without one, API Gateway refuses its stage."""
    account = _ask(stack.client("apigateway").get_account)
    if account is not None and not account.get("cloudwatchRoleArn"):
        yield Finding(
            f"API Gateway has no role to write logs in {stack.region}, which AccessLogs=true needs: set it as "
            "docs/operations.md#access-logs says, or deploy with AccessLogs=false"
        )


def _retention(before: Mapping[str, str], values: Mapping[str, str]) -> Iterator[Finding]:
    """A deployment that has more sessions erased than before says so: it is also what a wrong digit does."""
    name = "SessionRetentionDays"
    days = values[name]
    if before and days not in ("0", before.get(name, "0")):
        message = f"{name}={days}: sessions without a message for {days} days will be erased, the present ones included"
        yield Finding(f"{message} (make export saves them)", stops=False)


def _edge(before: Mapping[str, str], values: Mapping[str, str]) -> Iterator[Finding]:
    """Clients that know the addresses of before are refused as soon as there is an edge, and the other way round.

    A new edge has a new secret, without the versions of an earlier one.
    """
    if values["Edge"] == "true" and before.get("Edge") != "true" and values["EdgeSecretVersion"]:
        yield Finding(f"EdgeSecretVersion={values['EdgeSecretVersion']} is of an earlier edge: add EdgeSecretVersion=")
    if values["Edge"] == "true" and values["RestStreaming"] == "true":
        message = "Edge=true does not cover the function URL of RestStreaming=true, nor does its firewall"
        yield Finding(message, stops=False)
    if before and values["Edge"] != before.get("Edge", "false"):
        message = f"Edge={values['Edge']}: the WebSocket, the REST API and the page get other addresses"
        yield Finding(f"{message}; clients that use the present ones are refused from then on", stops=False)


def _foreign_layers(stack: Stack, template: Mapping[str, Any]) -> Iterator[Finding]:
    """The stream's layer is another account's, which publishes it region by region."""
    partition = stack.session.get_partition_for_region(str(stack.region))
    function = template["Resources"].get("RestStreamFunction", {}).get("Properties", {})
    for layer in function.get("Layers", ()):
        arn = str(layer.get("Fn::Sub", "") if isinstance(layer, dict) else layer)
        arn = arn.replace("${AWS::Partition}", partition).replace("${AWS::Region}", str(stack.region))
        if ":layer:" not in arn:
            continue
        try:
            stack.client("lambda").get_layer_version_by_arn(Arn=arn)
        except ClientError as error:
            message = f"the layer {arn} of RestStreaming=true cannot be read ({error.response['Error']['Code']})"
            yield Finding(f"{message}: the deployment fails if {stack.region} does not have it", stops=False)


def _left_logs(stack: Stack, template: Mapping[str, Any]) -> Iterator[Finding]:
    left = log_groups(stack, template)
    if left:
        yield Finding(
            f"an earlier stack of this name left {len(left)} log groups ({left[0]} …), so the new one cannot "
            f"create them: run make destroy{stack.argument} to remove them"
        )


def log_groups(stack: Stack, template: Mapping[str, Any]) -> list[str]:
    """The existing log groups of `template`, with their names in `stack`."""
    wanted = {
        resource["Properties"]["LogGroupName"]["Fn::Sub"].replace("${AWS::StackName}", stack.name)
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Logs::LogGroup"
    }

    def there() -> list[str]:
        pages = stack.client("logs").get_paginator("describe_log_groups")
        found = pages.paginate(logGroupNamePrefix=f"/aws/lambda/{stack.name}-")
        return sorted(wanted & {group["logGroupName"] for page in found for group in page["logGroups"]})

    return _ask(there) or []


def _reserved(values: Mapping[str, str]) -> int:
    """The concurrent executions that a stack's parameters reserve for single functions."""
    return sum(int(value or 0) for name, value in values.items() if name.endswith(_RESERVED))


def _concurrency(stack: Stack, values: Mapping[str, str], has: int) -> Iterator[Finding]:
    """values: the parameters. has: what the deployed stack reserves, which the new values replace."""
    wanted = _reserved(values)
    is_open = values.get("RestStreaming") == "true" and not int(values.get(f"Stream{_RESERVED}") or 0)
    answer = _ask(stack.client("lambda").get_account_settings)
    if answer is None:
        if is_open:
            yield _unbounded_streams("What it can reserve was not checked: that needs lambda:GetAccountSettings")
        return
    limit = answer["AccountLimit"]["ConcurrentExecutions"]
    unreserved = answer["AccountLimit"].get("UnreservedConcurrentExecutions", limit) + has
    most = max(0, unreserved - ENOUGH_CONCURRENCY)
    if wanted > most:
        yield Finding(
            f"{wanted} concurrent executions cannot be reserved: this account has {limit} in {stack.region}, "
            f"{unreserved} of them are unreserved, and Lambda keeps {ENOUGH_CONCURRENCY} for the other functions. "
            f"Reserve at most {most} (…{_RESERVED}), or request more"
        )
    elif is_open:
        yield _unbounded_streams(f"It can reserve {most - wanted} more in {stack.region}")
    if limit < ENOUGH_CONCURRENCY:
        yield Finding(
            f"this account runs at most {limit} concurrent Lambda executions in {stack.region}; more are "
            "throttled. Request more with 'aws service-quotas request-service-quota-increase "
            "--service-code lambda --quota-code L-B99A9384 --desired-value 1000'",
            stops=False,
        )


def _unbounded_streams(hint: str) -> Finding:
    return Finding(
        "RestStreaming=true without a reservation: each open stream holds a concurrent execution, so streams can take "
        f"all of the account's. Set it with PARAMETERS='Stream{_RESERVED}=…'. {hint}",
        stops=False,
    )


def _names(values: Mapping[str, str]) -> Iterator[Finding]:
    """Names of models of Bedrock from which the template makes no permission that suffices."""
    model = values["LlmModel"]
    if _is_profile(model) and not values.get("LlmFoundationModel") and not values.get("LlmModels"):
        profile = model.rpartition("/")[2]
        foundation_model = "…" if "application-inference-profile/" in model else profile.partition(".")[2]
        yield Finding(
            f"{model} is an inference profile, and the role also needs the model behind it: "
            f"add LlmFoundationModel={foundation_model}"
        )


def _model(stack: Stack, model: str) -> Iterator[Finding]:
    other = 'or choose another with PARAMETERS="LlmModel=…", or another provider (docs/deploy.md)'
    bedrock = stack.client("bedrock")
    try:
        if _is_profile(model):
            status = bedrock.get_inference_profile(inferenceProfileIdentifier=model)["status"]
            if status != "ACTIVE":
                yield Finding(f"the inference profile {model} is {status} in {stack.region}: wait for it, {other}")
            return
        answer = bedrock.get_foundation_model_availability(modelId=model)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("ResourceNotFoundException", "ValidationException"):
            yield Finding(
                f"Amazon Bedrock has no model {model} in {stack.region}: choose a region that has it, {other}"
            )
        elif error.response["Error"]["Code"] not in _DENIED:
            yield Finding(f"cannot check {model} in Amazon Bedrock: {error}", stops=False)
        return
    except BotoCoreError as error:  # A region without Bedrock has no such host.
        yield Finding(f"cannot reach Amazon Bedrock in {stack.region} ({error}): choose a region that has it, {other}")
        return
    yield from _availability(answer, model, str(stack.region), other)


def _availability(answer: Mapping[str, Any], model: str, region: str, other: str) -> Iterator[Finding]:
    catalog = f"https://console.aws.amazon.com/bedrock/home?region={region}#/model-catalog"
    if answer.get("regionAvailability") == "NOT_AVAILABLE":
        yield Finding(f"Amazon Bedrock does not offer {model} in {region}: choose a region that has it, {other}")
    elif answer.get("authorizationStatus") == "NOT_AUTHORIZED":
        yield Finding(f"this account may not use {model} in {region}: request access at {catalog}, {other}")
    elif answer.get("entitlementAvailability") == "NOT_AVAILABLE":
        yield Finding(f"this account has no access to {model} in {region} yet: enable it at {catalog}, {other}")
    elif answer.get("agreementAvailability", {}).get("status") in ("NOT_AVAILABLE", "ERROR"):
        # The first call subscribes to most models; some need a form.
        yield Finding(
            f"the terms of {model} are not accepted yet; the first call does that for most models: "
            f"if messages are refused, accept them at {catalog}",
            stops=False,
        )


def _is_profile(model: str) -> bool:
    """Is `model` an inference profile (`eu.vendor.model` or an ARN), not a foundation model (`vendor.model`)?"""
    return "inference-profile/" in model or bool(re.match(r"(us|us-gov|eu|apac|jp|au|ca|global)\.\w+\.", model))


def _ask(question: Any) -> Any:
    """The answer, or None if the caller lacks the permission."""
    try:
        return question()
    except ClientError as error:
        if error.response["Error"]["Code"] in _DENIED:
            return None
        raise
