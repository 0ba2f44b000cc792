"""Quotas on the running system: refusals on the WebSocket, on connecting, and over HTTP."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from codelab_local import LocalCloud
from websockets.exceptions import InvalidStatus

from tests.conftest import Open, opener
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.rest.test_identity import authorization
from tests.waiting import until


@pytest.fixture
def limited(limited_cloud: LocalCloud) -> Iterator[Open]:
    yield from opener(limited_cloud)


def as_user(user: str) -> dict[str, Any]:
    return {"options": {"additional_headers": authorization(user)}}


def all_in_one_minute() -> None:
    """Wait for the next minute if this one is almost over: the counters begin again with each minute."""
    until(lambda: time.time() % 60 < 50)


@pytest.mark.deep
def test_a_turn_over_the_limit_is_refused_until_another_ends(limited: Open, model: ScriptedModel) -> None:
    one, other = (limited(extensions=True, **as_user("ann")) for _ in range(2))
    may_go_on = threading.Event()
    slow = model.script("slow", Says("It is done.", until=may_go_on))
    one.say(f"{slow} take your time")
    one.expect("agent_status", status="thinking")
    other.say("me too", client_msg_id="m1")
    refused = other.expect("error")
    assert (refused["error_code"], refused["retryable"], refused["retry_after"]) == ("RATE_LIMITED", True, 5)
    assert refused["details"]["quota"] == "open_turns"
    may_go_on.set()
    one.idle()
    quick = model.script("quick", Says("Hello."))
    other.say(f"{quick} me too", client_msg_id="m1")
    assert other.expect("turn_end")["reason"] == "completed"
    quotas = other.request("hello")["quotas"]
    assert (quotas["open_turns"]["used"], quotas["messages_per_minute"]["limit"]) == (0, 60)


@pytest.mark.deep
def test_connections_over_the_limit_are_refused(limited: Open) -> None:
    all_in_one_minute()
    for _ in range(8):
        limited(**as_user("cid"))
    with pytest.raises(InvalidStatus, match="429"):
        limited(**as_user("cid"))
    limited(**as_user("dan"))


def test_requests_over_http_are_counted_and_refused_by_plan(limited_cloud: LocalCloud, model: ScriptedModel) -> None:
    headers = authorization("eve", codelab_plan="small")
    schema = {"type": "object", "properties": {"fruit": {"type": "string"}}, "required": ["fruit"]}
    marker = model.script("fruit", Says(raw='{"fruit": "apple"}'))
    request = {"context": [{"role": "user", "content": f"Name a fruit {marker}"}], "schema": schema}
    all_in_one_minute()
    with httpx.Client(base_url=f"{limited_cloud.http}/api/v1", headers=headers, timeout=60) as api:
        assert api.post("/requests", json=request).status_code == 200
        refused = api.post("/requests", json=request)
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= 60
        usage = api.get("/usage").json()
        assert usage["plan"] == "small"
        assert usage["quotas"]["requests_per_minute"].items() >= {"used": 1, "limit": 1}.items()
        assert usage["quotas"]["tokens_per_day"]["used"] > 0


def test_a_request_over_the_limit_is_refused_until_another_ends(
    limited_cloud: LocalCloud, model: ScriptedModel
) -> None:
    may_go_on = threading.Event()
    slow = model.script("slow fruit", Says(raw="{}", until=may_go_on))
    quick = model.script("quick fruit", Says(raw="{}"))

    def request(marker: str) -> dict[str, Any]:
        return {"context": [{"role": "user", "content": f"Name a fruit {marker}"}], "schema": {"type": "object"}}

    with (
        httpx.Client(base_url=f"{limited_cloud.http}/api/v1", headers=authorization("fay"), timeout=60) as api,
        ThreadPoolExecutor() as pool,
    ):
        all_in_one_minute()
        first = pool.submit(api.post, "/requests", json=request(slow))
        until(lambda: model.requests["slow fruit"])
        refused = api.post("/requests", json=request(quick))
        may_go_on.set()
        assert first.result().status_code == 200
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert refused.json()["error"]["details"]["quota"] == "open_turns"
        assert api.post("/requests", json=request(quick)).status_code == 200
