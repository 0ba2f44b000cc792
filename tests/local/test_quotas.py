"""Quotas that depend on time, shortened, and clients that do not read."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from codelab_local import LocalCloud
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.local.conftest import APP
from tests.waiting import until


@pytest.fixture(scope="module")
def impatient() -> Iterator[LocalCloud]:
    """A cloud with short limits, whose model cannot be reached."""
    limits = {"GATEWAY_IDLE_S": "1.7", "GATEWAY_CONNECTION_S": "3"}
    environment = {**limits, "LLM_BASE_URL": "http://127.0.0.1:9/v1"}
    with LocalCloud(APP / "template.yaml", environment=environment) as running:
        running.invoke("command")
        yield running


def do(client: ClientConnection, what: str, **fields: Any) -> None:
    client.send(json.dumps({"type": "command", "do": what, **fields}))


def answer(client: ClientConnection) -> Any:
    return json.loads(client.recv(15))


@pytest.mark.deep
def test_a_timed_out_integration_sends_an_error_frame_and_continues() -> None:
    limit = {"GATEWAY_INTEGRATION_TIMEOUT_S": "2"}
    with LocalCloud(APP / "template.yaml", environment=limit) as running, connect(running.url()) as client:
        do(client, "sleep", seconds=4, name="late")
        error = answer(client)
        assert error["message"] == "Endpoint request timed out"
        assert set(error) == {"message", "connectionId", "requestId"}
        assert answer(client) == {"slept": "late"}


def test_an_idle_connection_is_closed_with_1001(impatient: LocalCloud) -> None:
    started = time.monotonic()
    with connect(impatient.url()) as client, pytest.raises(ConnectionClosed, match="received 1001"):
        client.recv(20)
    assert time.monotonic() - started > 1.4


def test_a_busy_connection_is_closed_with_1001_at_its_maximum_age(impatient: LocalCloud) -> None:
    age = 0.0
    while age <= 2.5:
        times = [time.monotonic()]
        with connect(impatient.url()) as client, pytest.raises(ConnectionClosed, match="received 1001"):
            _keep_busy(client, times)
        times.append(time.monotonic())
        age = times[-1] - times[0]
        was_idle = max(later - earlier for earlier, later in pairwise(times)) > 1  # because this machine is busy
        assert age > 2.5 or was_idle


def _keep_busy(client: ClientConnection, times: list[float]) -> None:
    """Without waiting for answers, which may take long on a busy machine. Notes when it sends."""
    while True:
        do(client, "sleep", seconds=0.2)
        times.append(time.monotonic())
        with suppress(TimeoutError):
            client.recv(0.2)


def test_in_shuffle_mode_every_message_is_still_dispatched(cloud: LocalCloud) -> None:
    with connect(cloud.url()) as client:
        for number in range(40):
            client.send(f"message {number}")
        received = [answer(client)["default"] for _ in range(40)]
    assert sorted(received) == sorted(f"message {number}" for number in range(40))
    assert received != [f"message {number}" for number in range(40)]


def test_posts_to_a_client_that_does_not_read_get_429_at_once(cloud: LocalCloud) -> None:
    management = cloud.client("apigatewaymanagementapi", config=Config(retries={"total_max_attempts": 1}))
    with connect(cloud.url()) as other, connect(cloud.url(), max_queue=1, close_timeout=0.1) as slow:
        do(slow, "event")
        connection_id = answer(slow)["requestContext"]["connectionId"]
        with pytest.raises(ClientError) as refused:
            flood(management, connection_id, b"x" * 128 * 1024)
        assert refused.value.response["Error"]["Code"] == "LimitExceededException"
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
        do(other, "event")
        assert answer(other)["requestContext"]["eventType"] == "MESSAGE"


def flood(management: Any, connection_id: str, data: bytes) -> None:
    while True:
        management.post_to_connection(ConnectionId=connection_id, Data=data)


def test_health_names_unreachable_dependencies(impatient: LocalCloud) -> None:
    def asked() -> Any:
        return httpx.get(f"{impatient.http}/health", timeout=30).json()

    # On a busy machine DynamoDB may at first not answer in time.
    health = until(lambda: found if (found := asked())["dependencies"]["dynamodb"] == "connected" else None)
    assert health["status"] == "degraded"
    assert health["dependencies"] == {"dynamodb": "connected", "llm": "unavailable"}
