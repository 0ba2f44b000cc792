"""What sends a mail: metrics, statistics, thresholds. docs/operations.md has a section for each `section`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LAMBDA, SQS, GATEWAY, OURS = "AWS/Lambda", "AWS/SQS", "AWS/ApiGateway", "CodeLab"
STACK = "${Stack}"

#: The dimension of our own metrics: `service` in the lines of the log.
_SERVICE = {"service": STACK}
#: The authorizer refuses an invalid token (401) by an exception, which Lambda counts as an error.
_ERRORS = {"authorize": 100, "sweep": 1}
_USUAL_ERRORS = 3

_MINUTE, _FIVE, _DAY = 60, 300, 86_400


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its dimensions, whose values may have `${…}` of CloudFormation."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Alarm:
    """It rings when `metric` was over `threshold` in `datapoints` of the last `periods` (of `period` seconds).

    `section` is the section of docs/operations.md, `says` what the mail says. With `expression` it is a formula over
    `operands`, by their names in it. `condition` is the template's.
    """

    name: str
    section: str
    says: str
    threshold: float | Mapping[str, str]
    metric: Metric | None = None
    statistic: str = "Sum"
    period: int = _FIVE
    periods: int = 1
    datapoints: int = 1
    missing: str = "notBreaching"
    expression: str = ""
    operands: Mapping[str, Metric] = field(default_factory=dict)
    condition: str = ""


def alarms(functions: Mapping[str, str]) -> Iterator[Alarm]:
    """All alarms. `functions`: by name without the stack's, the condition under which each function exists, or ""."""
    for name, condition in functions.items():
        errors = _ERRORS.get(name, _USUAL_ERRORS)
        yield Alarm(
            f"{name}-errors",
            "function-errors",
            f"{name} has crashed, timed out or failed to start {errors} times or more in five minutes.",
            errors - 1,
            of_function("Errors", name),
            condition=condition,
        )
        yield Alarm(
            f"{name}-throttles",
            "function-throttles",
            f"Lambda has refused to run {name}, because too many functions run at once.",
            0,
            of_function("Throttles", name),
            condition=condition,
        )
    yield from _ASYNCHRONOUS
    yield from _GATEWAY
    yield from _OWN


def of_function(metric: str, name: str) -> Metric:
    """Lambda's metric of a function."""
    return Metric(LAMBDA, metric, {"FunctionName": f"{STACK}-{name}"})


def of_websocket(name: str) -> Metric:
    """API Gateway's metric of the WebSocket API."""
    return Metric(GATEWAY, name, {"ApiId": "${WebSocketApi}"})


def of_http(name: str) -> Metric:
    """API Gateway's metric of the HTTP API."""
    return Metric(GATEWAY, name, {"ApiId": "${HttpApi}"})


def own(name: str) -> Metric:
    """A metric that the functions write into their logs (codelab.observability)."""
    return Metric(OURS, name, _SERVICE)


_ASYNCHRONOUS = [
    Alarm(
        "steps-waiting",
        "steps-waiting",
        "Steps wait for more than ten seconds until llm_request runs.",
        10_000,
        of_function("AsyncEventAge", "llm-request"),
        statistic="Maximum",
        period=_MINUTE,
        periods=5,
        datapoints=3,
    ),
    Alarm(
        "steps-dropped",
        "steps-dropped",
        "Invocations of llm_request have failed, or were not run in time. The sweep repeats their steps.",
        2,
        of_function("AsyncEventsDropped", "llm-request"),
    ),
    *(
        Alarm(
            f"{name}-destination",
            "failure-not-recorded",
            f"Lambda could not record a failed invocation of {name} at its OnFailure destination.",
            0,
            of_function("DestinationDeliveryFailures", name),
        )
        for name in ("llm-request", "control", "sweep")
    ),
    Alarm(
        "failed-invocations",
        "failed-invocations",
        "A sweep or a replay has failed. The queue has the record.",
        0,
        Metric(SQS, "ApproximateNumberOfMessagesVisible", {"QueueName": "${FailedInvocations}"}),
        statistic="Maximum",
    ),
]

# Only API Gateway sees these: no function was asked, or its answer did not arrive.
_GATEWAY = [
    Alarm(
        "websocket-not-called",
        "api-gateway-errors",
        "API Gateway could not call the function of a route of the WebSocket API, three times or more in five minutes.",
        2,
        of_websocket("ExecutionError"),
    ),
    Alarm(
        "websocket-functions-refuse",
        "api-gateway-errors",
        "More than a twentieth of the frames to the WebSocket API ended with an error status of their function.",
        5,
        periods=2,
        datapoints=2,
        expression="IF(messages >= 100, 100 * errors / messages, 0)",
        operands={"messages": of_websocket("MessageCount"), "errors": of_websocket("IntegrationError")},
    ),
    Alarm(
        "websocket-clients-refused",
        "clients-refused",
        "API Gateway refuses more than a fifth of the frames and connections: throttles, or tokens.",
        20,
        periods=2,
        datapoints=2,
        # Without a message there is no datapoint, and a formula with a missing operand has none.
        expression="IF(FILL(messages, 0) + refused >= 100, 100 * refused / (FILL(messages, 0) + refused), 0)",
        operands={"messages": of_websocket("MessageCount"), "refused": of_websocket("ClientError")},
    ),
    Alarm(
        "http-failed",
        "api-gateway-errors",
        "Three requests or more to the HTTP API have ended with a status of 500 to 599 in five minutes.",
        2,
        of_http("5xx"),
    ),
]

_OWN = [
    Alarm(
        "sweep-lag",
        "sweep-lag",
        "The sweep has not run for three minutes, or takes too long: nothing repairs sessions.",
        120_000,
        own("SweepLagMs"),
        statistic="Maximum",
        period=_MINUTE,
        periods=3,
        datapoints=3,
        missing="breaching",
    ),
    Alarm(
        "oldest-due",
        "oldest-due",
        "A session has been due for more than five minutes: the sweep does not get to it, or cannot repair it.",
        300_000,
        own("OldestDueMs"),
        statistic="Maximum",
        period=_MINUTE,
        periods=3,
        datapoints=3,
    ),
    Alarm(
        "steps-given-up",
        "steps-given-up",
        "A turn was stuck: its step was interrupted three times, and the turn has ended with AGENT_ERROR.",
        0,
        own("StepsGivenUp"),
    ),
    Alarm(
        "handlers-failed",
        "handlers-failed",
        "A frame or a request has failed with an internal error, which its client was told.",
        0,
        own("HandlersFailed"),
    ),
    Alarm(
        "model-errors",
        "model-errors",
        "The model gives no answer to more than a fifth of the Requests.",
        20,
        period=_FIVE,
        periods=2,
        datapoints=2,
        expression="IF(requests >= 5, 100 * errors / requests, 0)",
        operands={"requests": own("ModelRequests"), "errors": own("ModelErrors")},
    ),
    Alarm(
        "first-token",
        "first-token",
        "One step in twenty waits for more than ten seconds for its first text.",
        10_000,
        own("FirstTokenMs"),
        statistic="p95",
        periods=3,
        datapoints=3,
    ),
    Alarm(
        "tokens",
        "tokens",
        "All users together have used more model tokens in 24 hours than AlarmTokensPerDay.",
        {"Ref": "TokensPerDay"},
        own("Tokens"),
        period=_DAY,
    ),
]


def properties(alarm: Alarm) -> dict[str, Any]:
    """The properties of `AWS::CloudWatch::Alarm`, without its actions."""
    watched: dict[str, Any]
    if alarm.metric is not None:
        is_percentile = alarm.statistic.startswith("p")
        few = {"EvaluateLowSampleCountPercentile": "ignore"} if is_percentile else {}
        statistic = {"ExtendedStatistic" if is_percentile else "Statistic": alarm.statistic}
        watched = {**_metric(alarm.metric), **statistic, **few, "Period": alarm.period}
    else:
        watched = {
            "Metrics": [
                {"Id": "value", "Expression": alarm.expression, "Label": alarm.name, "ReturnData": True},
                *(
                    {
                        "Id": name,
                        "MetricStat": {"Metric": _metric(metric), "Stat": alarm.statistic, "Period": alarm.period},
                        "ReturnData": False,
                    }
                    for name, metric in alarm.operands.items()
                ),
            ]
        }
    return {
        "AlarmName": {"Fn::Sub": f"{STACK}-{alarm.name}"},
        "AlarmDescription": f"{alarm.says} docs/operations.md#{alarm.section}",
        **watched,
        "EvaluationPeriods": alarm.periods,
        "DatapointsToAlarm": alarm.datapoints,
        "ComparisonOperator": "GreaterThanThreshold",
        "Threshold": alarm.threshold,
        "TreatMissingData": alarm.missing,
    }


def _metric(metric: Metric) -> dict[str, Any]:
    dimensions = [{"Name": name, "Value": {"Fn::Sub": value}} for name, value in metric.dimensions.items()]
    return {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
