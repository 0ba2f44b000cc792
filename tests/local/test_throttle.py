"""The throttles of a template's stages and routes, with API Gateway's own answers."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from codelab_local import LocalCloud
from codelab_local.gateway.throttle import Bucket, Throttle
from codelab_local.template.limits import Limit, limit_of
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.cases import cases
from tests.local.conftest import APP

BURST, ROUTE_BURST = 5, 3


@pytest.fixture(scope="module")
def throttling() -> Iterator[LocalCloud]:
    """A cloud that takes a few requests, and then one in 100 s."""
    bursts = {"Burst": str(BURST), "RouteBurst": str(ROUTE_BURST)}
    with LocalCloud(APP / "template.yaml", parameters=bursts) as running:
        yield running


def test_frames_and_connections_beyond_the_throttle_are_refused_as_by_api_gateway(throttling: LocalCloud) -> None:
    with connect(throttling.url()) as client:
        answers = []
        for _ in range(BURST + 2):
            client.send(json.dumps({"type": "command", "do": "event"}))
            answers.append(json.loads(client.recv(20)))
        refused = answers[BURST:]
        assert ["message" in answer for answer in answers] == [False] * BURST + [True] * 2
        assert all(set(answer) == {"message", "connectionId", "requestId"} for answer in refused)
        assert [answer["message"] for answer in refused] == ["Too Many Requests"] * 2
        connection_id = answers[0]["requestContext"]["connectionId"]
        assert refused[0]["connectionId"] == connection_id, "the connection stays open"
    for _ in range(ROUTE_BURST - 1):
        with connect(throttling.url()):
            pass
    with pytest.raises(InvalidStatus) as refusal, connect(throttling.url()):
        pass
    assert refusal.value.response.status_code == 429
    assert json.loads(refusal.value.response.body or b"")["message"] == "Too Many Requests"


def test_http_requests_beyond_the_throttle_of_the_stage_or_the_route_get_429(throttling: LocalCloud) -> None:
    with httpx.Client(base_url=throttling.http, timeout=20) as client:
        own = [client.get("/things/known") for _ in range(ROUTE_BURST + 1)]
        others = [client.get(f"/things/{n}") for n in range(BURST + 1)]
    for answers, most in ((own, ROUTE_BURST), (others, BURST)):
        assert [answer.status_code for answer in answers] == [200] * most + [429]
        assert answers[-1].json() == {"message": "Too Many Requests"}


def test_a_bucket_gives_its_burst_at_once_and_then_its_rate() -> None:
    now = 0.0
    bucket = Bucket(Limit(rate=2, burst=3), lambda: now)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now = 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]
    now = 100.0
    assert [bucket.take() for _ in range(4)] == [True, True, True, False], "it never holds more than the burst"


def test_a_routes_own_limit_replaces_that_of_the_stage() -> None:
    throttle = Throttle(Limit(0, 1), {"own": Limit(0, 2)}, lambda: 0.0)
    assert [throttle.admits(key) for key in ("own", "own", "own", "a", "b")] == [True, True, False, True, False]
    assert all(Throttle(None, {}).admits("a") for _ in range(100))


@cases(
    ("settings", "limit"),
    [
        ({"ThrottlingRateLimit": "2000", "ThrottlingBurstLimit": "50"}, Limit(2000, 50)),
        ({"throttlingRateLimit": 5, "throttlingBurstLimit": 10}, Limit(5, 10)),
        ({"ThrottlingRateLimit": 5}, Limit(5, 5)),
        ({"DetailedMetricsEnabled": True}, None),
        ({}, None),
        (None, None),
    ],
)
def test_limits_are_read_from_a_stages_settings(settings: dict[str, Any] | None, limit: Limit | None) -> None:
    assert limit_of(settings) == limit
