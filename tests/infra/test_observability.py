"""Alarms, dashboard and queries: they watch what exists, they have a runbook, and CloudFormation takes them."""

import ast
import json
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import jwt
import pytest
import yaml
from awslambdaric import bootstrap
from codelab.gateway import tokens
from codelab.observability import MODEL_METRICS
from codelab_local.emulator.server import Emulator

from infra.observability.alarms import GATEWAY, LAMBDA, OURS, SQS, Metric, alarms
from infra.observability.queries import QUERIES
from infra.observability.template import document, functions, graphs
from infra.sam_template import parse
from tests.cases import cases
from tests.functions.test_metrics import CAUSES, WATCHED
from tests.golden.names import of_log
from tests.permissions import TEMPLATE, of_type, resources

ROOT = Path(__file__).parents[2]
NESTED = ROOT / "infra/observability.yaml"
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
PARAMETERS = {
    "Stack": "codelab",
    "Email": "ops@example.com",
    "TokensPerDay": "5",
    "FailedInvocations": "codelab-FailedInvocations",
    "WebSocketApi": "abc123",
    "HttpApi": "def456",
    "RestStreaming": "true",
    "WebPage": "true",
    "Webhook": "true",
}

#: Of AWS's documentation, "Types of metrics for Lambda functions" and "Available CloudWatch metrics for Amazon SQS":
#: the metrics with the dimension by which they may be read.
DOCUMENTED = {
    LAMBDA: (
        {"Errors", "Throttles", "AsyncEventAge", "AsyncEventsDropped", "DestinationDeliveryFailures"},
        "FunctionName",
    ),
    SQS: ({"ApproximateNumberOfMessagesVisible"}, "QueueName"),
    # "Monitor WebSocket API execution with CloudWatch metrics", and the same of HTTP APIs
    GATEWAY: ({"MessageCount", "ExecutionError", "IntegrationError", "ClientError", "5xx"}, "ApiId"),
}
ALARMS = {alarm.name: alarm for alarm in alarms(functions(TEMPLATE))}
METRICS = [
    metric for alarm in ALARMS.values() for metric in (alarm.metric, *alarm.operands.values()) if metric is not None
]


@cache
def nested() -> dict[str, Any]:
    """The template of what watches the stack, for reading."""
    template: dict[str, Any] = yaml.safe_load(NESTED.read_text())
    return template


@cache
def sections() -> dict[str, str]:
    """The runbook's sections, by anchor."""
    _, _, runbook = PAGE.partition("\n## Alarms\n")
    parts = re.split(r"^### (.+)$", runbook, flags=re.M)[1:]
    return {head.lower().replace(" ", "-"): text for head, text in zip(parts[::2], parts[1::2], strict=True)}


def test_every_alarm_has_its_section_and_every_section_its_alarm() -> None:
    assert {alarm.section for alarm in ALARMS.values()} == sections().keys()


@cases("name", ALARMS)
def test_a_section_names_its_alarms(name: str) -> None:
    alarm = ALARMS[name]
    (named,) = re.findall(r"^\*(.+)\*$", sections()[alarm.section], flags=re.M)
    assert name in named.split(", ") or "one for each function" in named
    assert (
        f"docs/operations.md#{alarm.section}" in nested()["Resources"][logical(name)]["Properties"]["AlarmDescription"]
    )


@cases("section", sections())
def test_a_section_says_what_to_do(section: str) -> None:
    assert re.findall(r"^- \*\*(\w+)[^*]*\*\*", sections()[section], flags=re.M) == ["Means", "Look", "Causes", "Cure"]


def test_every_query_that_the_page_names_is_saved_and_every_one_is_named() -> None:
    known = {query.name for query in QUERIES}
    assert {name for name in known if f"`{name}`" in PAGE} == known


@cases(
    ("kind", "message", "is_shown"),
    [
        ("KeyError", "'pk'", True),
        ("InvalidAnswer", "/a: missing (request 1)", True),
        ("Runtime.ImportModuleError", "Unable to import module 'handler'", True),
        ("Exception", "Unauthorized", False),  # a refused token
    ],
)
def test_the_query_errors_shows_a_crash_as_the_runtime_logs_it(kind: str, message: str, is_shown: bool) -> None:
    """As text that begins with `[ERROR]`, without a level."""
    said: list[str] = []
    crash = {"errorType": kind, "errorMessage": message, "stackTrace": ['  File "/var/task/handler.py", line 1\n']}
    bootstrap.log_error(crash, SimpleNamespace(log_error=lambda lines: said.append("\n".join(lines))))
    (query,) = [query.text for query in QUERIES if query.name == "errors"]
    (wanted,), (unwanted,) = re.findall(r"@message like /(.+)/", query), re.findall(r"@message not like /(.+)/", query)
    assert bool(re.search(wanted, said[0]) and not re.search(unwanted, said[0])) == is_shown


def test_every_reason_of_a_refused_token_that_the_page_explains_is_in_the_log() -> None:
    _, _, table = PAGE.partition("| `reason` in `refused tokens` |")
    rows = table.split("\n\n")[0].splitlines()[2:]
    reasons = [reason for row in rows for reason in re.findall(r"`([^`]+)`", row.split("|")[1])]
    libraries = [Path(jwt.__file__).with_name(name) for name in ("api_jws.py", "api_jwt.py", "exceptions.py")]
    said = "".join(path.read_text(encoding="utf-8") for path in (Path(tokens.__file__), *libraries))
    assert len(reasons) == 10
    for reason in reasons:
        assert reason.removesuffix("…").strip() in said, reason


def test_what_the_commands_of_the_page_name_exists() -> None:
    template = parse(TEMPLATE)
    for pattern, known in {
        r"OutputKey=='(\w+)'": template["Outputs"],
        r"--logical-resource-id (\w+)": template["Resources"],
        r"(?:ParameterKey=='|PARAMETERS=\")(\w+)": template["Parameters"],
        r"--function-name codelab-([\w-]+)": functions(TEMPLATE),
        r"\(#([\w-]+)\)": {re.sub(r"\W", "-", head.lower()) for head in re.findall(r"^##+ (.+)$", PAGE, flags=re.M)},
    }.items():
        named = set(re.findall(pattern, PAGE))
        assert named
        assert named <= set(known)


def test_every_metric_of_an_alarm_is_explained() -> None:
    for name in {metric.name for metric in METRICS if metric.namespace == OURS}:
        assert f"`{name}`" in PAGE.partition("## Alarms")[0]


def test_every_alarm_on_a_metric_of_ours_is_provoked_by_a_test() -> None:
    assert CAUSES.keys() == WATCHED.keys()
    assert {metric.namespace for metric in METRICS} == {OURS, *DOCUMENTED}


@cases("metric", [it for it in METRICS if it.namespace in DOCUMENTED], ids=lambda it: f"{it.name}")
def test_a_metric_of_aws_has_its_documented_name_and_an_existing_dimension(metric: Metric) -> None:
    names, dimension = DOCUMENTED[metric.namespace]
    assert metric.name in names
    (found,) = metric.dimensions.items()
    assert found[0] == dimension
    named = {one["Properties"]["FunctionName"]["Fn::Sub"] for one in of_type("AWS::Lambda::Function").values()}
    queue = {"Fn::GetAtt": ["FailedInvocations", "QueueName"]}
    if metric.namespace == LAMBDA:
        assert found[1].replace("${Stack}", "${AWS::StackName}") in named
        return
    given = resources()["Observability"]["Properties"]["Parameters"]
    if metric.namespace == GATEWAY:
        api = found[1].strip("${}")
        assert given[api] == {"Ref": api}
        kind = resources()[api]["Properties"]["ProtocolType"]
        assert kind == ("HTTP" if metric.name == "5xx" else "WEBSOCKET"), "the two have other metrics"
    else:
        assert given["FailedInvocations"] == queue


def test_errors_and_throttles_of_every_function_are_watched() -> None:
    for name in functions(TEMPLATE):
        assert {f"{name}-errors", f"{name}-throttles"} <= ALARMS.keys()


def test_asynchronous_failures_of_every_function_that_has_a_destination_are_watched() -> None:
    for function in of_type("AWS::Lambda::EventInvokeConfig").values():
        folder = resources()[function["Properties"]["FunctionName"]["Ref"]]["Properties"]["FunctionName"]["Fn::Sub"]
        assert f"{folder.removeprefix('${AWS::StackName}-')}-destination" in ALARMS


@cases(
    ("name", "points", "rings"),
    [
        ("websocket-clients-refused", {"messages": None, "refused": 400}, True),
        ("websocket-clients-refused", {"messages": None, "refused": 50}, False),
        ("websocket-clients-refused", {"messages": 300, "refused": 100}, True),
        ("websocket-clients-refused", {"messages": 900, "refused": 100}, False),
        ("websocket-clients-refused", {"messages": 900, "refused": None}, False),
        ("websocket-functions-refuse", {"messages": 200, "errors": 20}, True),
        ("websocket-functions-refuse", {"messages": 200, "errors": 5}, False),
        ("websocket-functions-refuse", {"messages": 200, "errors": None}, False),
        ("websocket-functions-refuse", {"messages": None, "errors": None}, False),
        ("model-errors", {"requests": 10, "errors": 10}, True),
        ("model-errors", {"requests": 4, "errors": 4}, False),
        ("model-errors", {"requests": None, "errors": None}, False),
    ],
)
def test_a_share_is_watched_also_when_a_metric_has_no_datapoint(
    name: str, points: dict[str, int | None], rings: bool
) -> None:
    """API Gateway reports no message when it refuses all. A formula with a missing value has no value."""
    alarm = ALARMS[name]
    functions_of_formulas = {
        "IF": lambda condition, then, otherwise: then if condition else otherwise,
        "FILL": lambda value, filling: filling if value is None else value,
    }
    try:
        value = eval(alarm.expression, {**functions_of_formulas, **points})
    except TypeError:  # a missing value
        value = None
    assert isinstance(alarm.threshold, int)
    assert (value is not None and value > alarm.threshold) == rings


def test_nothing_of_it_is_made_without_an_address() -> None:
    assert resources()["Observability"]["Condition"] == "HasAlarms"
    variables = of_type("AWS::Lambda::Function")["SweepFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["METRICS"] == {"Fn::If": ["HasAlarms", "true", "false"]}
    assert not of_type("AWS::CloudWatch::Alarm")


def test_the_template_gets_every_parameter_that_it_needs() -> None:
    assert resources()["Observability"]["Properties"]["Parameters"].keys() == document(TEMPLATE)["Parameters"].keys()
    assert PARAMETERS.keys() == document(TEMPLATE)["Parameters"].keys()


def test_the_dashboard_is_json_and_shows_every_metric_of_ours() -> None:
    body = document(TEMPLATE)["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    series = [it for widget in json.loads(body)["widgets"] for it in widget["properties"]["metrics"]]
    shown = {it[1] for it in series if it[0] == OURS}
    assert {metric.name for metric in METRICS if metric.namespace == OURS} <= shown
    assert shown == written_metrics()


def test_what_is_counted_for_each_model_is_shown_for_each_model() -> None:
    expressions = [it[0]["expression"] for graph in graphs([]) for it in graph.series() if len(it) == 1]
    searches = [re.fullmatch(r"SEARCH\('\{CodeLab,service,model\} (.+)', 'Sum', 300\)", it) for it in expressions]
    assert [it[1] for it in searches if it] == [f'service="${{Stack}}" MetricName="{name}"' for name in MODEL_METRICS]
    assert "user" not in "".join(expressions)


def test_every_metric_that_the_functions_write_is_explained() -> None:
    for name in written_metrics():
        assert f"`{name}`" in PAGE.partition("## Alarms")[0], name


def written_metrics() -> set[str]:
    sources = [path for folder in ("layers", "functions") for path in sorted((ROOT / folder).rglob("*.py"))]
    written = of_log([ast.parse(path.read_text(encoding="utf-8")) for path in sources])
    return {line.removeprefix("log metric ") for line in written if line.startswith("log metric ")}


def logical(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-")) + "Alarm"


# -- deployed ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Clients of an emulated account."""
    folder = tmp_path_factory.mktemp("aws") / "emulator"
    folder.mkdir()
    emulator = Emulator(folder, "us-east-1", None)
    emulator.start(["cloudformation", "monitoring", "sns", "s3"])
    emulator.wait()
    keys = emulator.credentials
    access = {"aws_access_key_id": keys.key_id, "aws_secret_access_key": keys.secret}
    yield lambda service: boto3.client(service, endpoint_url=emulator.url, region_name="us-east-1", **access)
    emulator.stop()


def test_cloudformation_makes_the_alarms_the_topic_and_the_dashboard(aws: Any) -> None:
    """Without what the emulator lacks: saved queries, and formulas over metrics. cfn-lint checks them (`make lint`)."""
    template = dict(nested())
    template["Resources"] = {
        name: resource
        for name, resource in template["Resources"].items()
        if resource["Type"] != "AWS::Logs::QueryDefinition" and "Metrics" not in resource["Properties"]
    }
    cloudformation = aws("cloudformation")
    given = [{"ParameterKey": name, "ParameterValue": value} for name, value in PARAMETERS.items()]
    cloudformation.create_stack(StackName="watch", TemplateBody=json.dumps(template), Parameters=given)
    until = time.monotonic() + 60
    while (stack := cloudformation.describe_stacks(StackName="watch")["Stacks"][0])["StackStatus"].endswith("PROGRESS"):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    made = {alarm["AlarmName"]: alarm for alarm in aws("cloudwatch").describe_alarms()["MetricAlarms"]}
    assert made.keys() == {f"codelab-{name}" for name, alarm in ALARMS.items() if not alarm.expression}
    (mail,) = aws("sns").list_subscriptions()["Subscriptions"]
    assert (mail["Protocol"], mail["Endpoint"]) == ("email", "ops@example.com")
    assert all(alarm["AlarmActions"] == alarm["OKActions"] == [mail["TopicArn"]] for alarm in made.values())
    assert made["codelab-tokens"]["Threshold"] == 5
    assert [board["DashboardName"] for board in aws("cloudwatch").list_dashboards()["DashboardEntries"]] == ["codelab"]
