"""House rules for the APIs of API Gateway: what CloudFormation does with their parts."""

import itertools
from collections.abc import Iterator
from typing import Any

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

from infra.intrinsics import references, target

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
