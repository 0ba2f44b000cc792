"""The nested template: a topic with its subscription, the alarms, the dashboard, the queries."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.observability.alarms import (
    OURS,
    STACK,
    Alarm,
    Metric,
    alarms,
    of_function,
    of_http,
    of_websocket,
    own,
    properties,
)
from infra.observability.queries import QUERIES
from infra.sam_template import parse

_NOTE = "# Written by `make docs` from infra/observability and template.yaml; do not edit.\n"
#: The parameters that the main template's conditions of functions need, by condition.
_CONDITIONS = {"StreamsOverRest": "RestStreaming", "ServesPage": "WebPage", "TellsAnybody": "Webhook"}
#: Of a graph, in the dashboard's units, and the seconds of a point.
_WIDTH, _HEIGHT, _PERIOD = 12, 6, 300

_PARAMETERS = {
    "Stack": {"Type": "String", "Description": "The name of the stack whose functions are watched."},
    "Email": {"Type": "String", "Description": "Where the mails are sent; its owner must confirm it."},
    "TokensPerDay": {"Type": "Number", "Description": "Model tokens of all users in 24 hours, from which on to ring."},
    "FailedInvocations": {"Type": "String", "Description": "The name of the queue of failed invocations."},
    "WebSocketApi": {"Type": "String", "Description": "The id of the WebSocket API."},
    "HttpApi": {"Type": "String", "Description": "The id of the HTTP API."},
    "RestStreaming": {"Type": "String", "Description": "Whether the stack has the function rest-stream."},
    "WebPage": {"Type": "String", "Description": "Whether the stack has the function page."},
    "Webhook": {"Type": "String", "Description": "Whether the stack has the function webhook."},
}


def functions(template: Path) -> dict[str, str]:
    """The functions of `template` by name without the stack's, each with its condition or ""."""
    resources = parse(template)["Resources"].values()
    return {
        one["Properties"]["FunctionName"]["Fn::Sub"].removeprefix("${AWS::StackName}-"): one.get("Condition", "")
        for one in resources
        if one["Type"] == "AWS::Serverless::Function"
    }


def document(template: Path) -> dict[str, Any]:
    """The nested template for `template`."""
    known = functions(template)
    watched = list(alarms(known))
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Alarms, a dashboard and saved queries for CodeLab Serverless.",
        "Parameters": _PARAMETERS,
        "Conditions": {
            condition: {"Fn::Equals": [{"Ref": parameter}, "true"]} for condition, parameter in _CONDITIONS.items()
        },
        "Resources": {
            "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": {"Fn::Sub": f"{STACK}-alarms"}}},
            "Mail": {
                "Type": "AWS::SNS::Subscription",
                "Properties": {"TopicArn": {"Ref": "Topic"}, "Protocol": "email", "Endpoint": {"Ref": "Email"}},
            },
            **{f"{_logical_id(alarm.name)}Alarm": _alarm(alarm) for alarm in watched},
            "Dashboard": {
                "Type": "AWS::CloudWatch::Dashboard",
                "Properties": {
                    "DashboardName": {"Fn::Sub": STACK},
                    "DashboardBody": {"Fn::Sub": json.dumps({"widgets": _widgets(known)}, indent=1)},
                },
            },
            **{
                f"{_logical_id(query.name)}Query": _query(query.name, query.text, query.functions or known)
                for query in QUERIES
            },
        },
    }


def text(template: Path) -> str:
    """The nested template as YAML."""
    return _NOTE + yaml.dump(document(template), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Text of several lines as it is read, and no anchors, which CloudFormation does not know."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None),
)


def _logical_id(name: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[ -]", name))


def _alarm(alarm: Alarm) -> dict[str, Any]:
    told = {"AlarmActions": [{"Ref": "Topic"}], "OKActions": [{"Ref": "Topic"}]}
    condition = {"Condition": alarm.condition} if alarm.condition else {}
    return {"Type": "AWS::CloudWatch::Alarm", **condition, "Properties": {**properties(alarm), **told}}


def _query(name: str, text: str, names: Sequence[str] | Mapping[str, str]) -> dict[str, Any]:
    conditions = names if isinstance(names, Mapping) else dict.fromkeys(names, "")
    groups: list[Any] = []
    for function, condition in conditions.items():
        group = {"Fn::Sub": f"/aws/lambda/{STACK}-{function}"}
        groups.append({"Fn::If": [condition, group, {"Ref": "AWS::NoValue"}]} if condition else group)
    named = {"Name": {"Fn::Sub": f"{STACK}/{name}"}, "LogGroupNames": groups, "QueryString": text}
    return {"Type": "AWS::Logs::QueryDefinition", "Properties": named}


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of the dashboard. With `expression` it shows only that: of the metrics, which are `m0`, `m1`, …"""

    title: str
    statistic: str
    metrics: Sequence[Metric]
    expression: str = ""

    def series(self) -> list[list[Any]]:
        """As the dashboard's JSON has them."""
        shown: list[list[Any]] = [
            [metric.namespace, metric.name, *(part for pair in metric.dimensions.items() for part in pair)]
            for metric in self.metrics
        ]
        if not self.expression:
            return shown
        hidden = [[*metric, {"id": f"m{n}", "visible": False}] for n, metric in enumerate(shown)]
        return [[{"expression": self.expression}], *hidden]


def of_model(metric: str) -> str:
    """An expression for all models' values of a metric that is counted for each model, whatever their names are."""
    return f"SEARCH('{{{OURS},service,model}} service=\"{STACK}\" MetricName=\"{metric}\"', 'Sum', {_PERIOD})"


def graphs(names: Iterable[str]) -> list[Graph]:
    """What the dashboard shows. `names`: the functions, without the stack's name."""
    return [
        Graph("Errors of the functions", "Sum", [of_function("Errors", name) for name in names]),
        Graph("Throttles of the functions", "Sum", [of_function("Throttles", name) for name in names]),
        Graph("Sweep: lag, and the oldest due session (ms)", "Maximum", [own("SweepLagMs"), own("OldestDueMs")]),
        Graph("Failures", "Sum", [own("StepsGivenUp"), own("HandlersFailed"), own("SummaryFailed"), own("SpansLost")]),
        Graph("Requests of the model", "Sum", [own("ModelRequests"), own("ModelErrors")]),
        Graph("Invalid answers, and calls that repaired them", "Sum", [own("InvalidAnswers"), own("ModelRepairs")]),
        Graph("First token, 95th percentile (ms)", "p95", [own("FirstTokenMs")]),
        Graph("Steps of a turn, 95th percentile", "p95", [own("TurnSteps")]),
        Graph("Waits for tools and approvals, median (ms)", "p50", [own("ToolWaitMs"), own("ApprovalWaitMs")]),
        Graph(
            "Model tokens",
            "Sum",
            [own("Tokens"), own("PromptTokens"), own("CachedTokens"), own("CacheWriteTokens")],
        ),
        Graph(
            "Cached share of the prompts (%)",
            "Sum",
            [own("CachedTokens"), own("PromptTokens")],
            "IF(m1 > 0, 100 * m0 / m1)",
        ),
        Graph("Model tokens by model", "Sum", [], of_model("Tokens")),
        Graph("Cost, where LlmPrices has it ($)", "Sum", [own("CostUsd")]),
        Graph("Cost by model ($)", "Sum", [], of_model("CostUsd")),
        Graph(
            "Steps that wait: age (ms), and dropped ones",
            "Maximum",
            [of_function("AsyncEventAge", "llm-request"), of_function("AsyncEventsDropped", "llm-request")],
        ),
        Graph("Frames and connections", "Sum", [of_websocket("MessageCount"), of_websocket("ConnectCount")]),
        Graph(
            "Errors that API Gateway sees",
            "Sum",
            [
                *(of_websocket(name) for name in ("ExecutionError", "IntegrationError", "ClientError")),
                *(of_http(name) for name in ("4xx", "5xx")),
            ],
        ),
    ]


def _widgets(names: Iterable[str]) -> list[dict[str, Any]]:
    """Two beside each other."""
    return [
        {
            "type": "metric",
            "x": _WIDTH * (n % 2),
            "y": _HEIGHT * (n // 2),
            "width": _WIDTH,
            "height": _HEIGHT,
            "properties": {
                "title": graph.title,
                "region": "${AWS::Region}",
                "stat": graph.statistic,
                "period": _PERIOD,
                "metrics": graph.series(),
            },
        }
        for n, graph in enumerate(graphs(names))
    ]
