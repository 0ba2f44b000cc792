"""A small SAM application that follows every house rule. Tests break one rule at a time."""

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from infra.translate import translate

Template = dict[str, Any]

_CONNECTIONS = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/v1/POST/@connections/*"


def allow(action: str | list[str], resource: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource}


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _function(name: str, *statements: dict[str, Any]) -> dict[str, Any]:
    return {
        "Type": "AWS::Serverless::Function",
        "Properties": {
            "FunctionName": {"Fn::Sub": f"${{AWS::StackName}}-{name.lower()}"},
            "Runtime": "python3.13",
            "Handler": "handler.handler",
            "CodeUri": f"functions/{name.lower()}",
            "Timeout": 10,
            "LoggingConfig": {"LogGroup": {"Ref": f"{name}Log"}},
            "Policies": [policy(*statements)],
        },
    }


def _log(name: str) -> dict[str, Any]:
    group = {"Fn::Sub": f"/aws/lambda/${{AWS::StackName}}-{name.lower()}"}
    return {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": group, "RetentionInDays": 30}}


def good() -> Template:
    """Front calls Worker asynchronously; Worker's failures go to Failed; Front answers over a WebSocket."""
    worker_arn = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-worker"
    worker = _function("Worker", allow(["dynamodb:GetItem"], {"Fn::GetAtt": ["Table", "Arn"]}))
    worker["Properties"]["EventInvokeConfig"] = {
        "MaximumRetryAttempts": 0,
        "DestinationConfig": {"OnFailure": {"Type": "SQS", "Destination": {"Fn::GetAtt": ["Failed", "Arn"]}}},
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Transform": "AWS::Serverless-2016-10-31",
        "Resources": {
            "Front": _function(
                "Front",
                allow("lambda:InvokeFunction", {"Fn::Sub": worker_arn}),
                allow(["execute-api:ManageConnections"], {"Fn::Sub": _CONNECTIONS}),
            ),
            "FrontLog": _log("Front"),
            "Worker": worker,
            "WorkerLog": _log("Worker"),
            "Failed": {"Type": "AWS::SQS::Queue"},
            "Api": {
                "Type": "AWS::ApiGatewayV2::Api",
                "Properties": {
                    "Name": "api",
                    "ProtocolType": "WEBSOCKET",
                    "RouteSelectionExpression": "$request.body.type",
                },
            },
            "Table": {
                "Type": "AWS::DynamoDB::Table",
                "DeletionPolicy": "Retain",
                "UpdateReplacePolicy": "Retain",
                "Properties": {
                    "BillingMode": "PAY_PER_REQUEST",
                    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                    "DeletionProtectionEnabled": True,
                },
            },
        },
    }


def properties(template: Template, name: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][name]["Properties"]
    return found


def spoiled(spoil: Callable[[Template], Any]) -> Template:
    template = copy.deepcopy(good())
    spoil(template)
    return template


def write(template: Template, folder: Path) -> Path:
    path = folder / "template.json"
    path.write_text(json.dumps(template, indent=2))
    return path


def rules_broken(template: Template) -> set[str]:
    """The ids of the house rules that `template` breaks."""
    from cfnlint.template import Template as CfnTemplate

    seen = CfnTemplate("template.json", translate(copy.deepcopy(template)), ["us-east-1"])
    return {rule.id for rule in _rules() if rule.match(seen)}


@cache
def _rules() -> list[Any]:
    """The house rules. Every process of a test run imports this file, and one of them needs cfn-lint."""
    from infra.rules import apis, edge, functions, parameters, policies, storage

    return [
        policies.ConnectionsOfOneApiOnly(),
        functions.AsynchronousFunctionsFailSomewhere(),
        functions.FunctionsHaveTimeoutAndLog(),
        policies.NoWildcards(),
        functions.FunctionsHaveTheirOwnRole(),
        parameters.ParametersAreDescribed(),
        apis.PartsOfAnApiAreMadeInTurn(),
        apis.ThrottledRoutesAreAlwaysThere(),
        storage.TablesAreProtected(),
        apis.AccessLogsHaveNoTokens(),
        edge.EdgesKeepNothingOfUsers(),
        edge.EdgesAreKnownByASecret(),
    ]
