"""Deploys the template to the emulated CloudFormation, and reads the deployed stack.

Functions, routes and schedules come from the stack, not from the template, so conditions, parameters and intrinsics are
resolved.
"""

import io
import json
import re
import time
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from codelab_local.emulator.aws_api import AwsApi, AwsError
from codelab_local.host.errors import StartError, StateError
from codelab_local.host.notices import notice
from codelab_local.template.limits import Limit, limit_of
from codelab_local.template.open_api import OpenApi
from codelab_local.template.sam_template import CODE_BUCKET, CODE_KEY, TEMPLATE_KEY, Source, Template, without

STACK = "codelab-local"
DEPLOY_TIMEOUT = 120.0


@dataclass(frozen=True)
class Function:
    """A deployed function and its source.

    `retries`, `max_age` (seconds) and the destinations are its EventInvokeConfig.
    """

    name: str
    arn: str
    source: Source
    handler: str
    environment: dict[str, str]
    timeout: int
    memory: int
    retries: int = 2
    max_age: int = 21_600
    on_failure: str | None = None
    on_success: str | None = None

    @property
    def folder(self) -> Path:
        return self.source.folder


@dataclass(frozen=True)
class Route:
    """A route of an API. `function` is None if the integration is not a Lambda function."""

    key: str
    function: str | None
    timeout: float
    replies: bool
    authorizer: "Authorizer | None" = None


@dataclass(frozen=True)
class Authorizer:
    """A REQUEST authorizer; `identity_source` are expressions such as `route.request.header.Auth`.

    Of HTTP APIs only: `simple`, that it answers `isAuthorized` instead of a policy; `ttl`, how many seconds its answer
    is kept for requests with the same identity.
    """

    function: str
    identity_source: tuple[str, ...]
    simple: bool = False
    ttl: int = 0


@dataclass(frozen=True)
class Api:
    """A deployed WebSocket or HTTP API with its stage. `selection` is the expression that selects a message's route.

    `limit` is the stage's throttle, `limits` those of routes with their own, by route key.
    """

    api_id: str
    stage: str
    selection: str
    routes: dict[str, Route]
    stage_variables: dict[str, str]
    limit: Limit | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)


@dataclass(frozen=True)
class Schedule:
    """A deployed EventBridge rule or Scheduler schedule with a Lambda function as its target."""

    arn: str
    expression: str
    function: str
    source: str
    input: str | None


@dataclass(frozen=True)
class Deployment:
    """The stack's resources that the local cloud runs."""

    account: str
    region: str
    functions: tuple[Function, ...]
    api: Api
    http_api: Api | None
    schedules: tuple[Schedule, ...]
    #: Names of buckets by logical id.
    buckets: dict[str, str]
    #: Whether everything of the template is there.
    is_whole: bool = True


class _UnknownTypes(StartError):
    """The emulator does not know the types of some resources."""

    def __init__(self, message: str, types: str) -> None:
        super().__init__(message)
        self.types = frozenset(types.split(", "))


def deploy(aws: AwsApi, template: Template, parameters: dict[str, str], region: str) -> Deployment:
    """Create the stack (or update the one in STATE_DIR) and read it. Raises :class:`StartError`."""
    missing = [
        name
        for name, declaration in template.parameters.items()
        if isinstance(declaration, dict) and "Default" not in declaration and name not in parameters
    ]
    if missing:
        raise StartError(f"the template requires {', '.join(missing)}: set it with --parameter {missing[0]}=VALUE", 2)
    _upload_placeholder(aws)
    whole = template
    try:
        is_update = _deploy_stack(aws, template, parameters)
    except _UnknownTypes as error:
        template = without(template, error.types)
        is_update = _deploy_stack(aws, template, parameters)
    resources = _stack_resources(aws)
    if is_update:
        _check_tables(aws, resources.get("AWS::DynamoDB::Table", {}).values())
    api, http_api = _read_api(aws, resources, "WEBSOCKET"), _read_api(aws, resources, "HTTP")
    for name in resources.get("AWS::ApiGateway::RestApi", {}):
        notice(f"the API {name} is left out: the local cloud serves no REST APIs (v1)")
    if api is None:
        raise StartError("the template has no AWS::ApiGatewayV2::Api with ProtocolType WEBSOCKET")
    if http_api is not None and http_api.stage != "$default":
        raise StartError("the HTTP API's stage must be $default, because the name of any other is part of every path")
    return Deployment(
        account="000000000000",
        region=region,
        functions=_read_functions(aws, resources, template),
        api=api,
        http_api=http_api,
        schedules=(*_take_rules(aws, resources, is_update), *_take_scheduler(aws, resources, is_update)),
        buckets=dict(resources.get("AWS::S3::Bucket", {})),
        is_whole=template is whole,
    )


def _check_tables(aws: AwsApi, names: Iterable[str]) -> None:
    """Raise :class:`StateError` if STATE_DIR has a stack without its tables."""
    for name in names:
        try:
            aws.target("dynamodb", "DynamoDB_20120810.DescribeTable", {"TableName": name})
        except AwsError as error:
            raise StateError(f"the table {name} cannot be read: {error}") from None


def processed_template(aws: AwsApi) -> str:
    """The deployed template, after all transforms, as JSON."""
    answer = aws.cloudformation("GetTemplate", {"StackName": STACK, "TemplateStage": "Processed"})
    return answer.findtext(".//TemplateBody") or "{}"


def function_name(reference: str) -> str:
    """The function's name in a name, (partial) ARN or integration URI, with or without a qualifier."""
    match = re.search(r"(?:^|:)function:([A-Za-z0-9_-]+)", reference)
    return match.group(1) if match else reference.split(":")[0]


def _upload_placeholder(aws: AwsApi) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("README", "The local cloud runs the source tree in place.\n")
    try:
        aws.request("s3", "PUT", f"/{CODE_BUCKET}")
    except AwsError as error:
        if error.status != 409:  # It is in STATE_DIR.
            raise
    aws.request("s3", "PUT", f"/{CODE_BUCKET}/{CODE_KEY}", archive.getvalue(), {"Content-Type": "application/zip"})


def _deploy_stack(aws: AwsApi, template: Template, parameters: dict[str, str]) -> bool:
    """Create or update the stack. True if it existed; then an earlier run disabled its schedules."""
    # From S3, because a template in the request may only have 51,200 bytes.
    aws.request("s3", "PUT", f"/{CODE_BUCKET}/{TEMPLATE_KEY}", template.body.encode())
    request = {"StackName": STACK, "TemplateURL": f"https://s3.amazonaws.com/{CODE_BUCKET}/{TEMPLATE_KEY}"}
    for number, capability in enumerate(("IAM", "NAMED_IAM", "AUTO_EXPAND"), 1):
        request[f"Capabilities.member.{number}"] = f"CAPABILITY_{capability}"
    for number, (name, value) in enumerate(parameters.items(), 1):
        request[f"Parameters.member.{number}.ParameterKey"] = name
        request[f"Parameters.member.{number}.ParameterValue"] = value
    kept = False
    try:
        aws.cloudformation("CreateStack", request)
    except AwsError as error:
        if error.code == "AlreadyExistsException":
            kept = True
            try:
                aws.cloudformation("UpdateStack", request)
            except AwsError as update:
                if "No updates" not in str(update):
                    _raise_if_unknown(update)
                    raise StateError(f"cannot update the stack in STATE_DIR: {update}; delete STATE_DIR") from None
                return True
        elif "aws-sam-translator" in str(error):
            raise StartError(
                "the package aws-sam-translator, which expands the template, is missing: install it with ministack"
            ) from None
        else:
            _raise_if_unknown(error)
            raise StartError(f"CloudFormation rejects the template: {error}") from None
    _wait_for_stack(aws, kept=kept)
    return kept


def _raise_if_unknown(error: AwsError) -> None:
    if (match := re.search(r"Unrecognized resource types: \[(.+?)\]", str(error))) is not None:
        raise _UnknownTypes(f"CloudFormation rejects the template: {error}", match[1]) from None


def _wait_for_stack(aws: AwsApi, *, kept: bool) -> None:
    deadline = time.monotonic() + DEPLOY_TIMEOUT
    while time.monotonic() < deadline:
        answer = aws.cloudformation("DescribeStacks", {"StackName": STACK})
        status = answer.findtext(".//StackStatus") or ""
        if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return
        if not status.endswith("IN_PROGRESS"):
            error = StateError if kept else StartError
            raise error(f"cannot deploy the template ({status}): {_first_failure(aws)}")
        time.sleep(0.01)
    raise StartError(f"the deployment of the template timed out after {DEPLOY_TIMEOUT:.0f} s")


def _first_failure(aws: AwsApi) -> str:
    answer = aws.cloudformation("DescribeStackEvents", {"StackName": STACK})
    reasons = [
        f"{event.findtext('LogicalResourceId')}: {event.findtext('ResourceStatusReason')}"
        for event in answer.iter("member")
        if (event.findtext("ResourceStatus") or "").endswith("_FAILED")
        and "cancelled" not in (event.findtext("ResourceStatusReason") or "").lower()
    ]
    return reasons[-1] if reasons else "no reason given"


def _stack_resources(aws: AwsApi) -> dict[str, dict[str, str]]:
    """Physical ids by logical id, by resource type."""
    by_type: dict[str, dict[str, str]] = {}
    token = ""
    while True:
        request = {"StackName": STACK, **({"NextToken": token} if token else {})}
        answer = aws.cloudformation("ListStackResources", request)
        for member in answer.iter("member"):
            of_type = by_type.setdefault(member.findtext("ResourceType") or "", {})
            of_type[member.findtext("LogicalResourceId") or ""] = member.findtext("PhysicalResourceId") or ""
        token = answer.findtext("NextToken") or ""
        if not token:
            return by_type


def _read_functions(aws: AwsApi, resources: dict[str, dict[str, str]], template: Template) -> tuple[Function, ...]:
    items = aws.rest_all("lambda", "/2015-03-31/functions/", "Functions", "NextMarker", "Marker")
    configurations = {item["FunctionName"]: item for item in items}
    functions = []
    for logical_id, name in resources.get("AWS::Lambda::Function", {}).items():
        source = template.sources.get(logical_id)
        if source is None or name not in configurations:
            continue
        configuration = configurations[name]
        functions.append(
            Function(
                name=name,
                arn=configuration["FunctionArn"],
                source=source,
                handler=configuration["Handler"],
                environment=dict((configuration.get("Environment") or {}).get("Variables") or {}),
                timeout=int(configuration["Timeout"]),
                memory=int(configuration["MemorySize"]),
                **_event_invoke_config(aws, name),
            )
        )
    if not functions:
        raise StartError("the deployed stack has no function: does a Condition disable all of them?")
    return tuple(functions)


def _event_invoke_config(aws: AwsApi, name: str) -> dict[str, Any]:
    # The emulator only finds it with the qualifier that CloudFormation set.
    path = f"/2019-09-25/functions/{quote(name)}/event-invoke-config?Qualifier=%24LATEST"
    try:
        answer = aws.rest("lambda", "GET", path)
    except AwsError as error:
        if error.status == 404:
            return {}
        raise
    destinations = answer.get("DestinationConfig") or {}
    return {
        "retries": int(answer.get("MaximumRetryAttempts", 2)),
        "max_age": int(answer.get("MaximumEventAgeInSeconds") or 21_600),
        "on_failure": (destinations.get("OnFailure") or {}).get("Destination"),
        "on_success": (destinations.get("OnSuccess") or {}).get("Destination"),
    }


def _read_api(aws: AwsApi, resources: dict[str, dict[str, str]], protocol: str) -> Api | None:
    api = _find_api(aws, resources, protocol)
    if api is None:
        return None
    stage, routes = _read_stage_and_routes(aws, api, resources)
    selection = api.get("routeSelectionExpression") or "$request.body.action"
    limits = {key: limit_of(settings) for key, settings in (stage.get("routeSettings") or {}).items()}
    return Api(
        api["apiId"],
        stage["stageName"],
        selection,
        routes,
        dict(stage.get("stageVariables") or {}),
        limit_of(stage.get("defaultRouteSettings")),
        {key: limit for key, limit in limits.items() if limit is not None},
    )


def _find_api(aws: AwsApi, resources: dict[str, dict[str, str]], protocol: str) -> dict[str, Any] | None:
    apis: list[dict[str, Any]] = []
    for api_id in resources.get("AWS::ApiGatewayV2::Api", {}).values():
        api = aws.rest("apigateway", "GET", f"/v2/apis/{api_id}")
        if api.get("protocolType") == protocol:
            apis.append(api)
    for api in apis[1:]:
        notice(f"the API {api.get('name')} is left out: the local cloud serves one {protocol} API")
    return apis[0] if apis else None


def _read_stage_and_routes(
    aws: AwsApi, api: dict[str, Any], resources: dict[str, dict[str, str]]
) -> tuple[dict[str, Any], dict[str, Route]]:
    root = f"/v2/apis/{api['apiId']}"

    def items(kind: str) -> list[dict[str, Any]]:
        return aws.rest_all("apigateway", f"{root}/{kind}", "items", "nextToken", "nextToken")

    stages = items("stages")
    if not stages:
        raise StartError(f"the template's API {api.get('name')} has no AWS::ApiGatewayV2::Stage")
    integrations = {item["integrationId"]: item for item in items("integrations")}
    authorizers = {item["authorizerId"]: item for item in items("authorizers")}
    route_items = items("routes")
    open_api = None if route_items else _open_api(aws, api["apiId"], resources)
    if open_api is not None:
        route_items, integrations, authorizers = open_api.routes, open_api.integrations, open_api.authorizers
    if not route_items:
        notice(f"the API {api.get('name')} has no routes that the local cloud can read")
    routes = [_route(item, integrations, authorizers, api["protocolType"]) for item in route_items]
    return stages[0], {route.key: route for route in routes}


def _open_api(aws: AwsApi, api_id: str, resources: dict[str, dict[str, str]]) -> OpenApi | None:
    """The OpenAPI document that the deployed template has for an API."""
    logical_id = {value: name for name, value in resources["AWS::ApiGatewayV2::Api"].items()}[api_id]
    resource = json.loads(processed_template(aws))["Resources"].get(logical_id) or {}
    body = (resource.get("Properties") or {}).get("Body")
    if not isinstance(body, dict):
        return None
    identities = {name: value for of_type in resources.values() for name, value in of_type.items()}
    for name, function in resources.get("AWS::Lambda::Function", {}).items():
        identities[name] = f"arn:aws:lambda:::function:{function}"
    return OpenApi(body, identities)


def _route(item: dict[str, Any], integrations: dict[str, Any], authorizers: dict[str, Any], protocol: str) -> Route:
    integration = integrations.get(str(item.get("target", "")).partition("/")[2], {})
    uri = str(integration.get("integrationUri") or "")
    limit = 29.0 if protocol == "WEBSOCKET" else 30.0
    kind = item.get("authorizationType") or "NONE"
    authorizer = authorizers.get(str(item.get("authorizerId") or "")) if kind == "CUSTOM" else None
    if kind not in ("CUSTOM", "NONE"):
        notice(f"the route {item['routeKey']} is open here: the local cloud does not check {kind}")
    return Route(
        key=item["routeKey"],
        function=function_name(uri) if ":function:" in uri else None,
        timeout=min(limit, float(integration.get("timeoutInMillis") or 30_000) / 1000),
        replies=item.get("routeResponseSelectionExpression") == "$default",
        authorizer=_authorizer(authorizer, protocol) if authorizer else None,
    )


def _authorizer(item: dict[str, Any], protocol: str) -> Authorizer:
    sources = tuple(str(source) for source in item.get("identitySource") or ())
    ttl = int(item.get("authorizerResultTtlInSeconds") or 0) if protocol == "HTTP" else 0
    # If a template has no identity source, the emulator adds `$request.header.Authorization`. That is the syntax of
    # HTTP APIs, which only need one if results are cached.
    if not ttl:
        sources = tuple(source for source in sources if source != "$request.header.Authorization")
    if protocol == "HTTP" and item.get("authorizerPayloadFormatVersion") == "1.0":
        raise StartError(f"authorizer {item.get('name')}: the local cloud supports only payload format 2.0")
    function, simple = function_name(str(item.get("authorizerUri") or "")), bool(item.get("enableSimpleResponses"))
    return Authorizer(function, sources, simple, ttl)


def _take_rules(aws: AwsApi, resources: dict[str, dict[str, str]], kept: bool) -> list[Schedule]:
    """The stack's EventBridge schedule rules. Disables them in the emulator, which would run them in its own Lambda."""
    schedules = []
    for physical_id in resources.get("AWS::Events::Rule", {}).values():
        name = physical_id.rpartition("|")[2].rpartition("/")[2]
        rule = aws.target("events", "AWSEvents.DescribeRule", {"Name": name})
        if not rule.get("ScheduleExpression"):
            continue
        enabled = kept or rule.get("State") != "DISABLED"
        aws.target("events", "AWSEvents.DisableRule", {"Name": name})
        targets = aws.target("events", "AWSEvents.ListTargetsByRule", {"Rule": name}).get("Targets", [])
        for item in targets if enabled else ():
            if ":function:" in item["Arn"]:
                expression = rule["ScheduleExpression"]
                function = function_name(item["Arn"])
                schedules.append(Schedule(rule["Arn"], expression, function, "aws.events", item.get("Input")))
    return schedules


def _take_scheduler(aws: AwsApi, resources: dict[str, dict[str, str]], is_update: bool) -> list[Schedule]:
    """The same for EventBridge Scheduler (a function's `ScheduleV2` event)."""
    schedules = []
    for physical_id in resources.get("AWS::Scheduler::Schedule", {}).values():
        path = f"/schedules/{quote(physical_id.rpartition('/')[2])}"
        item = aws.rest("scheduler", "GET", path)
        if item.get("State") == "DISABLED" and not is_update:
            continue
        fields = ("FlexibleTimeWindow", "ScheduleExpression", "Target", "GroupName")
        aws.rest(
            "scheduler", "PUT", path, {**{name: item[name] for name in fields if name in item}, "State": "DISABLED"}
        )
        target = item["Target"]
        if ":function:" in target["Arn"]:
            expression = item["ScheduleExpression"]
            function = function_name(target["Arn"])
            schedules.append(Schedule(item["Arn"], expression, function, "aws.scheduler", target.get("Input")))
    return schedules
