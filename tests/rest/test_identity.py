"""Users and their sessions over HTTP, with real tokens."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from codelab_local import LocalCloud

from tests.conversations.test_identity import token
from tests.rest.test_sessions import refused


@pytest.fixture(scope="module")
def guarded(limited_cloud: LocalCloud) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=limited_cloud.http, timeout=40) as client:
        yield client


def authorization(user: str, expires_in: int = 600, **claims: Any) -> dict[str, str]:
    signed = token(user, iss=None, aud=None, exp=int(time.time()) + expires_in, **claims)
    return {"Authorization": f"Bearer {signed}"}


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer no.such.token"}, authorization("ann", -60)])
def test_requests_without_a_valid_token_get_401(guarded: httpx.Client, headers: dict[str, str]) -> None:
    for answer in (
        guarded.get("/api/v1/sessions", headers=headers),
        guarded.post("/api/v1/sessions", headers=headers, json={}),
        guarded.get("/api/v1/tools", headers=headers),
        guarded.get("/api/v1/chat/stream/mine", headers=headers),
        guarded.post("/api/v1/tools/execute", headers=headers, json={}),
    ):
        refused(answer, 401, "UNAUTHORIZED")


def test_health_and_documentation_need_no_token(guarded: httpx.Client) -> None:
    for path in ("/health", "/docs", "/openapi.json"):
        assert guarded.get(path).status_code == 200


def test_another_users_session_is_not_found(guarded: httpx.Client) -> None:
    ann, bob = authorization("ann"), authorization("bob")
    created = guarded.post("/api/v1/sessions", headers=ann, json={"user_id": "ann", "session_id": "mine"})
    assert created.status_code == 201
    foreign = [
        guarded.get("/api/v1/sessions/mine", headers=bob),
        guarded.get("/api/v1/chat/history/mine", headers=bob),
        guarded.get("/api/v1/context/mine", headers=bob),
        guarded.get("/api/v1/sessions/mine/pending-approvals", headers=bob),
        guarded.post("/api/v1/sessions/mine/fork", headers=bob, json={}),
        guarded.patch("/api/v1/sessions/mine", headers=bob, json={"title": "his"}),
        guarded.post("/api/v1/chat/message", headers=bob, json={"session_id": "mine", "message": "hello"}),
        guarded.delete("/api/v1/sessions/mine", headers=bob),
        guarded.get("/api/v1/chat/stream/mine", headers=bob),
        guarded.get("/api/v1/tools/calls/call_1", headers=bob, params={"session_id": "mine"}),
    ]
    absent = guarded.get("/api/v1/sessions/there_is_none", headers=bob)
    assert {answer.text for answer in foreign} == {absent.text}
    assert {answer.status_code for answer in foreign} == {404}
    assert guarded.get("/api/v1/sessions", headers=bob).json()["sessions"] == []
    assert guarded.get("/api/v1/sessions/mine", headers=ann).status_code == 200


def test_a_user_id_other_than_the_tokens_is_refused(guarded: httpx.Client) -> None:
    answer = guarded.post("/api/v1/sessions", headers=authorization("ann"), json={"user_id": "bob"})
    assert refused(answer, 403, "PERMISSION_DENIED") == {"field": "user_id"}


def test_an_event_source_can_send_its_token_in_the_query(guarded: httpx.Client) -> None:
    guarded.post("/api/v1/sessions", headers=authorization("zoe"), json={"session_id": "hers"})
    query = {"token": token("zoe", iss=None, aud=None), "last_seq": 0, "wait": 0}
    answer = guarded.get("/api/v1/chat/stream/hers", params=query)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


def test_a_stream_ends_with_its_token(guarded: httpx.Client) -> None:
    guarded.post("/api/v1/sessions", headers=authorization("kim"), json={"session_id": "short"})
    began = time.monotonic()
    with guarded.stream("GET", "/api/v1/chat/stream/short?last_seq=0", headers=authorization("kim", 6)) as answer:
        assert answer.read().startswith(b"retry:")
    assert time.monotonic() - began < 30, "not the 14 minutes that a stream may last"
