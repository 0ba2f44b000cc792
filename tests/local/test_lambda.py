"""Functions as Lambda runs them: environment, errors, timeouts, concurrency, asynchronous events."""

import functools
import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from codelab_local import LocalCloud
from codelab_local.functions.pool import NICENESS
from codelab_local.testing import FunctionError

from tests.local.conftest import APP
from tests.sampling import sampled
from tests.waiting import until


@pytest.fixture(scope="module")
def small() -> Iterator[LocalCloud]:
    """A cloud with two workers per function, short retries, and settings from the caller's environment."""
    environment = {"STEPS": "4", "PASSED": "through", "NOT_PASSED": "kept"}
    limits = {"LOCAL_CONCURRENCY": "2", "LOCAL_RETRY_MINUTE_S": "0.05"}
    with LocalCloud(APP / "template.yaml", environment={**environment, **limits}, env={"EXTRA": "given"}) as running:
        yield running


Invocations = list["Future[Any]"]


def sleepers(cloud: LocalCloud, pool: ThreadPoolExecutor, folder: Path, count: int) -> Invocations:
    """Functions that sleep, all at once, until `wake`."""
    begun = [folder / str(n) for n in range(count)]
    events = [{"do": "sleep", "begun": str(path), "until": str(folder / "awake")} for path in begun]
    running = [pool.submit(cloud.invoke, "command", event) for event in events]
    until(lambda: all(path.exists() for path in begun))
    return running


def wake(running: Invocations, folder: Path) -> None:
    (folder / "awake").touch()
    for one in running:
        one.result(30)


def failure(cloud: LocalCloud, **event: Any) -> Any:
    """The error object of a failed invocation."""
    with pytest.raises(FunctionError) as failed:
        cloud.invoke("command", event)
    return failed.value.answer


@functools.cache
def table_of(cloud: LocalCloud) -> tuple[Any, str]:
    """A client, and the name of the table: tests ask for it until something is there."""
    client = cloud.client("dynamodb")
    return client, client.list_tables()["TableNames"][0]


def all_recorded(cloud: LocalCloud, kind: str) -> dict[str, Any]:
    """What the functions recorded of this kind, by name."""
    table, name = table_of(cloud)
    items = table.query(
        TableName=name,
        KeyConditionExpression="pk = :kind",
        ExpressionAttributeValues={":kind": {"S": kind}},
        ConsistentRead=True,
    )["Items"]
    return {item["sk"]["S"]: json.loads(item["value"]["S"]) for item in items}


def recorded(cloud: LocalCloud, kind: str, name: str) -> Any:
    return all_recorded(cloud, kind).get(name)


def test_a_function_gets_its_event_and_returns_its_value(cloud: LocalCloud) -> None:
    event = {"text": "ünï 🙂", "list": [1, 2.5, None, True]}
    assert cloud.invoke("command", event) == event


def test_the_context_is_like_lambdas(cloud: LocalCloud) -> None:
    answer = cloud.invoke("command", {"do": "describe"})
    assert 0 < answer["remaining"] <= 25_000
    assert answer["arn"].startswith("arn:aws:lambda:us-east-1:000000000000:function:codelab-local-Command")
    assert (answer["cwd"], int(answer["memory"])) == (str(APP / "functions" / "command"), 128)


@pytest.mark.deep
def test_local_values_override_the_deployed_environment(small: LocalCloud) -> None:
    values = small.invoke("command", {"do": "environment"})
    assert values["BACKGROUND"] == small.functions()["background"]["name"]
    assert values["CALLBACK_URL"] == f"{small.info['internal']}/dev"
    assert values["GREETING"] == "hello"  # From pyproject.toml.
    assert values["STEPS"] == "4"  # The caller's, because the function declares it.
    assert values["PASSED"] == "through"  # The caller's, because pyproject.toml passes it.
    assert "NOT_PASSED" not in values
    assert values["EXTRA"] == "given"  # From --env.
    assert values["AWS_ENDPOINT_URL"] == small.info["emulator"]
    assert values["AWS_REGION"] == "us-east-1"
    assert values["AWS_LAMBDA_FUNCTION_NAME"] == small.functions()["command"]["name"]
    assert values["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "128"
    assert values["TZ"] == ":UTC"
    assert "HOME" not in values


def test_functions_have_the_variables_that_lambda_defines(cloud: LocalCloud) -> None:
    values = cloud.invoke("command", {"do": "environment"})
    name = cloud.functions()["command"]["name"]
    known = {
        "_HANDLER": "handler.handler",
        "AWS_REGION": "us-east-1",
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
        "LAMBDA_TASK_ROOT": str(APP / "functions" / "command"),
    }
    assert known.items() <= values.items()
    assert values["AWS_EXECUTION_ENV"].startswith("AWS_Lambda_python3.")
    others = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_LAMBDA_RUNTIME_API", "TZ"}
    assert others | {"AWS_LAMBDA_LOG_STREAM_NAME", "PATH", "PYTHONPATH"} <= values.keys()


@pytest.mark.parametrize(("kind", "status"), [("RequestResponse", 200), ("Event", 202), ("DryRun", 204)])
def test_each_kind_of_invocation_has_its_status(cloud: LocalCloud, kind: str, status: int) -> None:
    name = cloud.functions()["command"]["name"]
    assert cloud.client("lambda").invoke(FunctionName=name, InvocationType=kind, Payload=b"{}")["StatusCode"] == status


def test_a_function_error_has_a_header_and_not_a_status(cloud: LocalCloud) -> None:
    name = cloud.functions()["command"]["name"]
    answer = cloud.client("lambda").invoke(FunctionName=name, Payload=b'{"do": "raise"}')
    assert (answer["StatusCode"], answer["FunctionError"]) == (200, "Unhandled")


def test_an_exception_is_a_function_error(cloud: LocalCloud) -> None:
    answer = failure(cloud, do="raise")
    assert (answer["errorType"], answer["errorMessage"]) == ("RuntimeError", "broken on purpose")
    assert answer["stackTrace"]


def test_a_timed_out_function_is_killed_and_the_next_request_works(cloud: LocalCloud) -> None:
    name = str(uuid.uuid4())
    started = time.monotonic()
    with pytest.raises(FunctionError) as failed:
        cloud.invoke("background", {"name": name, "seconds": 30})
    assert "Task timed out after 3.00 seconds" in failed.value.answer["errorMessage"]
    assert 2.9 < time.monotonic() - started < 30
    assert cloud.invoke("background", {"name": f"{name} again"}) == {"attempt": 1}


def test_an_exiting_function_is_an_error_and_the_next_request_works(cloud: LocalCloud) -> None:
    answer = failure(cloud, do="exit")
    assert answer["errorType"] == "Runtime.ExitError"
    assert "exit status 3" in answer["errorMessage"]
    assert cloud.invoke("command", {"a": 1}) == {"a": 1}


@pytest.mark.parametrize("victim", sampled(["worker", "zygote"]))
def test_a_killed_process_fails_only_its_own_request(small: LocalCloud, victim: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        (running,) = sleepers(small, pool, tmp_path, 1)
        worker = psutil.Process(small.workers("command")[0])
        small.kill("command") if victim == "worker" else worker.parent().kill()
        with pytest.raises(FunctionError) as failed:
            running.result(20)
    assert failed.value.answer["errorType"] == "Runtime.ExitError"
    assert "signal: killed" in failed.value.answer["errorMessage"]
    assert small.invoke("command", {"a": 1}) == {"a": 1}


def test_a_workers_command_line_has_its_functions_folder(cloud: LocalCloud) -> None:
    cloud.invoke("command")
    for pid in cloud.workers("command"):
        words = [word for word in psutil.Process(pid).cmdline() if word]
        assert words[1:3] == ["-m", "codelab_local.functions.worker"]
        assert words[-1] == "command"


def test_a_worker_serves_requests_sequentially(cloud: LocalCloud) -> None:
    pids = {cloud.invoke("command", {"do": "describe"})["pid"] for _ in range(20)}
    assert pids <= set(cloud.workers("command"))


def test_concurrent_requests_have_separate_workers(small: LocalCloud, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]

    def wait_for_the_other(own: str, other: str) -> Any:
        return small.invoke("command", {"do": "describe", "begun": own, "until": other})

    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(wait_for_the_other, paths, reversed(paths)))
    assert len({answer["pid"] for answer in answers}) == 2
    assert len({answer["random"] for answer in answers}) == 2


def test_workers_beyond_the_processors_step_back(cloud: LocalCloud, tmp_path: Path) -> None:
    """Otherwise the emulator and the gateway, for which they all wait, would hardly run."""
    processors = os.cpu_count() or 1
    with ThreadPoolExecutor() as pool:
        wake(sleepers(cloud, pool, tmp_path, processors + 2), tmp_path)
    usual = psutil.Process(cloud.process.pid).nice()
    niceness = [psutil.Process(pid).nice() for pid in cloud.workers("command")]
    assert niceness.count(usual) == processors
    assert set(niceness) == {usual, min(usual + NICENESS, 19)}

    def is_served_as_usual() -> bool:
        return psutil.Process(cloud.invoke("command", {"do": "describe"})["pid"]).nice() == usual

    # At first those that step back may be the only ones that have asked for their next request.
    until(lambda: all(is_served_as_usual() for _ in range(5)))


def test_synchronous_calls_over_the_limit_get_429(small: LocalCloud, tmp_path: Path) -> None:
    client = small.client("lambda", config=Config(retries={"total_max_attempts": 1}))
    name = small.functions()["command"]["name"]
    with ThreadPoolExecutor() as pool:
        busy = sleepers(small, pool, tmp_path, 2)
        with pytest.raises(ClientError) as refused:
            client.invoke(FunctionName=name, Payload=b"{}")
        wake(busy, tmp_path)
    assert refused.value.response["Error"]["Code"] == "TooManyRequestsException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
    assert json.loads(client.invoke(FunctionName=name, Payload=b'{"a": 1}')["Payload"].read()) == {"a": 1}


def test_asynchronous_events_over_the_limit_wait(small: LocalCloud) -> None:
    names = [str(uuid.uuid4()) for _ in range(10)]
    for name in names:
        small.invoke("background", {"name": name, "seconds": 0.2}, asynchronous=True)
    for name in names:
        assert until(lambda name=name: recorded(small, "background", f"{name}#1"))
    assert len(small.workers("background")) <= 2


def test_a_burst_of_200_requests_is_served(cloud: LocalCloud) -> None:
    barrier = threading.Barrier(100)

    def invoke(number: int) -> Any:
        if number < 100:
            barrier.wait(30)
        return cloud.invoke("command", {"number": number})["number"]

    with ThreadPoolExecutor(100) as pool:
        assert sorted(pool.map(invoke, range(200))) == list(range(200))


def test_asynchronous_events_are_accepted_at_once(cloud: LocalCloud) -> None:
    name = str(uuid.uuid4())
    assert cloud.invoke("background", {"name": name}, asynchronous=True) is None
    assert until(lambda: recorded(cloud, "background", f"{name}#1"))


def test_a_failed_event_is_retried_with_the_same_request_id(small: LocalCloud) -> None:
    name = str(uuid.uuid4())
    small.invoke("background", {"name": name, "failures": 1}, asynchronous=True)
    second = until(lambda: recorded(small, "background", f"{name}#2"))
    assert second == recorded(small, "background", f"{name}#1")
    time.sleep(0.3)
    assert recorded(small, "failed", name) is None


def test_a_failing_event_goes_to_the_on_failure_destination(small: LocalCloud) -> None:
    name = str(uuid.uuid4())
    small.invoke("background", {"name": name, "failures": 99}, asynchronous=True)
    record = until(lambda: recorded(small, "failed", name))
    assert record["version"] == "1.0"
    assert record["requestPayload"] == {"name": name, "failures": 99}
    assert record["responsePayload"]["errorMessage"] == "attempt 2 fails"
    assert record["responseContext"] == {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"}
    context = record["requestContext"]
    # MaximumRetryAttempts is 1.
    assert (context["condition"], context["approximateInvokeCount"]) == ("RetriesExhausted", 2)
    assert context["functionArn"].endswith(":$LATEST")
    assert recorded(small, "background", f"{name}#1") == {"request_id": context["requestId"]}
    assert recorded(small, "background", f"{name}#3") is None


def test_a_timed_out_event_goes_to_the_on_failure_destination(small: LocalCloud) -> None:
    name = str(uuid.uuid4())
    small.invoke("background", {"name": name, "seconds": 10}, asynchronous=True)
    record = until(lambda: recorded(small, "failed", name))
    assert "Task timed out after 3.00 seconds" in record["responsePayload"]["errorMessage"]


@pytest.mark.parametrize(
    ("payload", "kind", "code"),
    [
        (b"not JSON", "RequestResponse", "InvalidRequestContentException"),
        (b'"' + b"x" * 6_300_000 + b'"', "RequestResponse", "RequestTooLargeException"),
        (b'"' + b"x" * 1_050_000 + b'"', "Event", "RequestTooLargeException"),
    ],
)
def test_invoke_refuses_what_lambda_refuses(cloud: LocalCloud, payload: bytes, kind: str, code: str) -> None:
    client = cloud.client("lambda")
    name = cloud.functions()["command"]["name"]
    with pytest.raises(ClientError, match=code):
        client.invoke(FunctionName=name, InvocationType=kind, Payload=payload)


def test_an_unknown_function_is_not_found(cloud: LocalCloud) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        cloud.client("lambda").invoke(FunctionName="nobody")


def test_functions_are_found_by_name_and_by_arn(cloud: LocalCloud) -> None:
    client = cloud.client("lambda")
    name = cloud.functions()["command"]["name"]
    for reference in (name, f"arn:aws:lambda:us-east-1:000000000000:function:{name}", f"{name}:$LATEST"):
        assert client.invoke(FunctionName=reference, Payload=b"{}")["StatusCode"] == 200


def test_the_schedule_runs_and_sends_an_eventbridge_event(cloud: LocalCloud) -> None:
    count = until(lambda: cloud.invoke("command", {"do": "count", "kind": "tick"}))
    assert until(lambda: cloud.invoke("command", {"do": "count", "kind": "tick"}) > count)
    event = next(iter(all_recorded(cloud, "tick").values()))
    assert (event["source"], event["detail-type"], event["detail"]) == ("aws.events", "Scheduled Event", {})
    assert event["resources"][0].startswith("arn:aws:events:us-east-1:000000000000:rule/")


def test_the_emulator_does_not_run_the_schedule_too(cloud: LocalCloud) -> None:
    rules = cloud.client("events").list_rules()["Rules"]
    assert [rule["State"] for rule in rules] == ["DISABLED"]


@pytest.mark.deep
def test_a_cold_start_imports_the_handler_in_every_worker() -> None:
    with LocalCloud(APP / "small.yaml", environment={"COLD": "1"}) as cloud:
        assert cloud.invoke("command", {"a": 1}) == {"a": 1}
        worker = psutil.Process(cloud.workers("command")[0])
        assert worker.cmdline()[-1] == "command"
        assert worker.ppid() == cloud.process.pid
        cloud.kill("command")
        assert cloud.invoke("command", {"a": 1}) == {"a": 1}
