"""House rules for IAM policies, applied after SAM's translation."""

import re
from fnmatch import fnmatchcase
from typing import Any

from cfnlint.rules import CloudFormationLintRule, RuleMatch
from cfnlint.template import Template

from infra.intrinsics import branches, statements, text

_MANAGE_CONNECTIONS = "execute-api:ManageConnections"
# Actions without resource types: AWS only accepts `*` for them.
_WITHOUT_RESOURCES = frozenset({"bedrock:CallWithBearerToken", "xray:PutTraceSegments", "xray:PutTelemetryRecords"})
# Policies to write the function's own log and traces. Other managed policies grant more than a function needs.
_MANAGED_POLICIES = frozenset(
    {"service-role/AWSLambdaBasicExecutionRole", "AWSXRayDaemonWriteAccess", "AWSXrayWriteOnlyAccess"}
)
_CONNECTIONS = re.compile(r"/(?P<stage>[^/]+)/(?:POST|GET|DELETE)/@connections/")


def _actions(statement: dict[str, Any]) -> list[str]:
    return [str(action) for action in branches(statement.get("Action", []))]


class ConnectionsOfOneApiOnly(CloudFormationLintRule):  # type: ignore[misc]
    """With permission on `*`, a function could write to and close the connections of every API in the account."""

    id = "E9001"
    shortdesc = "ManageConnections names the API, the stage and the method"
    description = (
        "execute-api:ManageConnections is granted on …:{api}/{stage}/POST/@connections/* (GET, DELETE), never on *."
    )
    source_url = (
        "https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-websocket-control-access-iam.html"
    )

    def match(self, cfn: Template) -> list[RuleMatch]:
        matches = []
        for path, statement in statements(cfn.get_resources()):
            if not any(fnmatchcase(_MANAGE_CONNECTIONS.lower(), action.lower()) for action in _actions(statement)):
                continue
            for resource in branches(statement.get("Resource", "*")):
                where = text(resource)
                connections = _CONNECTIONS.search(where)
                api = where[: connections.start()].rsplit(":", 1)[-1] if connections else "*"
                if connections is None or "*" in api or "*" in connections["stage"]:
                    message = f"{_MANAGE_CONNECTIONS} on {where}: name the API, the stage and the method"
                    matches.append(RuleMatch(path, message))
        return matches


class NoWildcards(CloudFormationLintRule):  # type: ignore[misc]
    """A statement on `*` grants access to everything else in the account."""

    id = "E9004"
    shortdesc = "A policy names its actions and its resources"
    description = (
        "No Allow on the resource *, no wildcard action, no NotAction or NotResource, no broad managed policy."
    )
    source_url = "https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html#grant-least-privilege"

    def match(self, cfn: Template) -> list[RuleMatch]:
        matches = []
        for path, statement in statements(cfn.get_resources()):
            actions = _actions(statement)
            if {"NotAction", "NotResource"} & statement.keys():
                matches.append(RuleMatch(path, "NotAction and NotResource allow more than intended"))
            matches += [RuleMatch(path, f"the action {action} is a wildcard") for action in actions if "*" in action]
            if set(actions) <= _WITHOUT_RESOURCES:
                continue
            for resource in branches(statement.get("Resource", "*")):
                # `*`, and ARNs that name no resource, such as arn:aws:dynamodb:*:*:table/*
                where = text(resource)
                arn = re.sub(r"\$\{[^}]*\}", "x", where)
                if not where.strip("*") or re.fullmatch(r"arn:[^:]*:[^:]*:[^:]*:[^:]*:(?:[\w-]+[:/])?\*", arn):
                    matches.append(RuleMatch(path, f"{', '.join(actions)} on {where}: name the resource"))
        for name, resource in cfn.get_resources("AWS::IAM::Role").items():
            for arn in branches(resource.get("Properties", {}).get("ManagedPolicyArns", [])):
                if text(arn).split(":policy/")[-1] not in _MANAGED_POLICIES:
                    path = ["Resources", name, "Properties", "ManagedPolicyArns"]
                    matches.append(
                        RuleMatch(path, f"{name} has the managed policy {text(arn)}: name actions and resources")
                    )
        return matches
