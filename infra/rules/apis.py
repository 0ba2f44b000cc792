"""House rules for the APIs of API Gateway: what CloudFormation does with their parts."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

from infra.intrinsics import branches, references, target

_ROUTE, _STAGE = "AWS::ApiGatewayV2::Route", "AWS::ApiGatewayV2::Stage"
_PARTS = (_ROUTE, _STAGE, "AWS::ApiGatewayV2::Integration", "AWS::ApiGatewayV2::Authorizer")


class PartsOfAnApiAreMadeInTurn(CloudFormationLintRule):  # type: ignore[misc]
    """CloudFormation makes what does not depend on each other at once, and an API refuses two changes at once."""

    id = "E9007"
    shortdesc = "Each part of an API depends on the one before it"
    description = (
        "Of two routes, integrations, authorizers or stages of an API, one depends on the other, by DependsOn or a "
        'reference: else a deployment may fail with "concurrent modification".'
    )
    source_url = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-dependson.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        resources = cfn.get_resources()
        by_api: dict[str, list[str]] = {}
        for name, resource in resources.items():
            if resource["Type"] in _PARTS:
                by_api.setdefault(target(resource["Properties"].get("ApiId")), []).append(name)
        matches = []
        for parts in by_api.values():
            before = {name: _all_before(name, resources) for name in parts}
            ordered = [name for _, name in sorted((len(before[name]), name) for name in parts)]
            for earlier, later in itertools.pairwise(ordered):
                if earlier not in before[later]:
                    message = f"{earlier} and {later} may be made at once: let {later} depend on {earlier}"
                    matches.append(RuleMatch(["Resources", later], message))
        return matches


class ThrottledRoutesAreAlwaysThere(CloudFormationLintRule):  # type: ignore[misc]
    """A stage keeps the settings of a route that an update leaves out, and then refuses every update."""

    id = "E9008"
    shortdesc = "A stage's RouteSettings name routes that no condition leaves out"
    description = "Every route in RouteSettings is a route of the same API, without a Condition."
    source_url = "https://docs.aws.amazon.com/apigatewayv2/latest/api-reference/apis-apiid-stages-stagename.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        always: dict[str, set[str]] = {}
        for route in cfn.get_resources(_ROUTE).values():
            if "Condition" not in route:
                properties = route["Properties"]
                always.setdefault(target(properties.get("ApiId")), set()).add(str(properties.get("RouteKey")))
        matches = []
        for name, stage in cfn.get_resources(_STAGE).items():
            properties = stage["Properties"]
            settings = properties.get("RouteSettings", {})
            for key in settings.keys() - always.get(target(properties.get("ApiId")), set()):
                path = ["Resources", name, "Properties", "RouteSettings", key]
                matches.append(RuleMatch(path, f"{key} is no route that is always there"))
        return matches


class AccessLogsHaveNoTokens(CloudFormationLintRule):  # type: ignore[misc]
    """A token in a log is a token of everybody who may read the log, for as long as it is valid."""

    id = "E9010"
    shortdesc = "An access log has only variables that cannot hold a token, and a log group with retention"
    description = (
        "The format of AccessLogSettings is a literal that names only known variables: no header, no query string, no "
        "authorizer. Its destination is a log group of the template with RetentionInDays."
    )
    source_url = "https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-logging-variables.html"

    def match(self, cfn: Template) -> list[RuleMatch]:
        groups = cfn.get_resources("AWS::Logs::LogGroup")
        matches = []
        for name, stage in cfn.get_resources(_STAGE).items():
            path = ["Resources", name, "Properties", "AccessLogSettings"]
            for settings in branches(stage["Properties"].get("AccessLogSettings", [])):
                written = settings.get("Format", "")
                if not isinstance(written, str):
                    matches.append(RuleMatch(path, f"{name}: write the format as a literal, so that it can be checked"))
                    continue
                for variable in sorted(set(_VARIABLE.findall(written)) - _WITHOUT_TOKENS):
                    matches.append(RuleMatch(path, f"{name}: {variable} may hold a token, or is not known not to"))
                group = groups.get(target(settings.get("DestinationArn")))
                if group is None or "RetentionInDays" not in group["Properties"]:
                    matches.append(
                        RuleMatch(path, f"{name}: its log group is not in the template, or has no retention")
                    )
        return matches


#: A variable of a format, with all that may follow: `$context.authorizer.token`, `${context.path}`.
_VARIABLE = re.compile(r"\$\{?[A-Za-z][\w.$-]*")
_WITHOUT_TOKENS = frozenset(
    f"$context.{name}"
    for name in (
        *("requestId", "requestTimeEpoch", "identity.sourceIp", "routeKey", "status", "integration.status"),
        *("error.message", "eventType", "connectionId", "httpMethod", "path", "responseLength", "responseLatency"),
    )
)


def _all_before(name: str, resources: dict[str, Any]) -> set[str]:
    """What must be there before a resource."""
    ancestors: set[str] = set()
    queue = [name]
    while queue:
        for parent in _before(resources[queue.pop()]):
            if parent in resources and parent not in ancestors:
                ancestors.add(parent)
                queue.append(parent)
    return ancestors


def _before(resource: dict[str, Any]) -> Iterator[str]:
    depends = resource.get("DependsOn", [])
    yield from [depends] if isinstance(depends, str) else depends
    yield from references(resource.get("Properties", {}))
