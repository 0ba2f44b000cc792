"""Sessions over HTTP: create, read, list."""

import json
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.conftest import Open

SEED = {"user_id": "user_123", "metadata": {"project_path": "/path/to/project"}}


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The error in an answer, which must have the common shape."""
    assert set(answer.json()) == {"error"}
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"code", "message", "details"}
    return error


def refused(answer: httpx.Response, status: int, code: str) -> Any:
    """The details of an answer's error, which must have this status and code."""
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (status, code)
    return error["details"]


def test_creating_a_session_matches_the_seed_document(api: httpx.Client) -> None:
    answer = api.post("/sessions", json=SEED)
    assert answer.status_code == 201
    assert set(answer.json()) == {"session_id", "created_at"}
    assert datetime.fromisoformat(answer.json()["created_at"]).utcoffset() is not None


def test_reading_a_session_matches_the_seed_document(api: httpx.Client) -> None:
    created = api.post("/sessions", json=SEED).json()
    shown = api.get(f"/sessions/{created['session_id']}").json()
    assert shown.items() >= {**SEED, **created, "last_activity": created["created_at"]}.items()


@pytest.mark.parametrize("body", [{"json": {}}, {}], ids=["an empty body", "no body"])
def test_a_session_can_be_created_without_fields(api: httpx.Client, body: dict[str, Any]) -> None:
    created = api.post("/sessions", **body).json()
    assert api.get(f"/sessions/{created['session_id']}").json()["metadata"] == {}


def test_an_idempotency_key_creates_one_session(api: httpx.Client) -> None:
    first, second = (api.post("/sessions", json=SEED, headers={"Idempotency-Key": "key-1"}) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    other = api.post("/sessions", json=SEED, headers={"Idempotency-Key": "key-2"})
    assert other.json()["session_id"] != first.json()["session_id"]


def test_creating_an_existing_session_does_not_change_it(api: httpx.Client, session: str) -> None:
    again = api.post("/sessions", json={"session_id": session, "metadata": {"late": True}})
    assert again.status_code == 200
    assert api.get(f"/sessions/{session}").json()["metadata"] == {}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/sessions/there_is_none", None),
        ("POST", "/sessions/there_is_none/fork", {}),
        ("GET", "/chat/history/there_is_none", None),
        ("POST", "/chat/message", {"session_id": "there_is_none", "message": "hello"}),
        ("POST", "/tools/execute", {"session_id": "there_is_none", "tool_name": "git.status", "arguments": {}}),
        ("GET", "/tools/calls/call_1?session_id=there_is_none", None),
    ],
    ids=["itself", "a fork", "the history", "a message", "a tool", "a call"],
)
def test_an_unknown_session_is_not_found(api: httpx.Client, method: str, path: str, body: Any) -> None:
    refused(api.request(method, path, json=body), 404, "SESSION_NOT_FOUND")


def test_a_session_made_on_the_websocket_can_be_read(api: httpx.Client, ide: Open) -> None:
    ide("rest_websocket")
    assert api.get("/sessions/rest_websocket").json()["metadata"] == {}


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ("{", 400, "INVALID_FORMAT", None),
        ('{"metadata": {"half": "\\ud800"}}', 400, "INVALID_FORMAT", None),
        ('{"metadata": {"much": 1e999}}', 400, "INVALID_FORMAT", None),
        (b"\xff", 400, "INVALID_FORMAT", None),
        ("[]", 422, "INVALID_ARGUMENTS", "body"),
        ('{"metadata": 1}', 422, "INVALID_ARGUMENTS", "metadata"),
        ('{"session_id": "a#b"}', 422, "INVALID_ARGUMENTS", "session_id"),
        ('{"user_id": ""}', 422, "INVALID_ARGUMENTS", "user_id"),
    ],
)
def test_invalid_fields_are_named(
    api: httpx.Client, body: str | bytes, status: int, code: str, field: str | None
) -> None:
    assert refused(api.post("/sessions", content=body), status, code).get("field") == field


def test_a_message_without_a_body_is_refused(api: httpx.Client) -> None:
    assert refused(api.post("/chat/message"), 422, "MISSING_FIELD")["field"] == "body"


def test_too_large_metadata_is_refused(api: httpx.Client) -> None:
    refused(api.post("/sessions", json={"metadata": {"x": "y" * 16_000}}), 413, "PAYLOAD_TOO_LARGE")


def test_sessions_are_listed_by_last_activity_in_pages(api: httpx.Client) -> None:
    made = [api.post("/sessions", json={"title": f"listed {n}"}).json()["session_id"] for n in range(5)]
    api.post("/chat/message", json={"session_id": made[0], "message": "hello"})
    found: list[str] = []
    cursor: str | None = None
    while not set(made) <= set(found):
        page = api.get("/sessions", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        assert len(page["sessions"]) <= 2
        found += [listed["session_id"] for listed in page["sessions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(found) == len(set(found))
    assert [name for name in found if name in made] == [made[0], *reversed(made[1:])]


def test_a_session_that_was_only_connected_to_is_not_listed(api: httpx.Client, ide: Open) -> None:
    for n in range(3):
        api.post("/sessions", json={"title": f"between visits {n}"})
        ide(f"only_visited_{n}")
    page = api.get("/sessions", params={"limit": 3}).json()
    assert [listed["title"] for listed in page["sessions"]] == [f"between visits {n}" for n in (2, 1, 0)]
    api.post("/chat/message", json={"session_id": "only_visited_0", "message": "hello"})
    names = [listed["session_id"] for listed in api.get("/sessions", params={"limit": 100}).json()["sessions"]]
    assert names[0] == "only_visited_0", "until it has a message"
    assert not {"only_visited_1", "only_visited_2"} & set(names)
    created = api.post("/sessions", json={}).json()["session_id"]
    assert created in [listed["session_id"] for listed in api.get("/sessions").json()["sessions"]]


def test_sessions_are_found_by_metadata_and_title(api: httpx.Client) -> None:
    for n in range(6):
        metadata = {"cwd": f"/home/ann/found/{n % 2}", "n": n}
        api.post("/sessions", json={"title": f"Sorting {n}", "metadata": metadata})

    def found(**params: Any) -> list[int]:
        """The numbers of the sessions on all pages, the newest first."""
        numbers: list[int] = []
        for _ in range(10):
            page = api.get("/sessions", params=params).json()
            numbers += [listed["metadata"]["n"] for listed in page["sessions"]]
            if page["next_cursor"] is None:
                break
            params["cursor"] = page["next_cursor"]
        return numbers

    in_one = json.dumps({"cwd": "/home/ann/found/1"})
    assert found(metadata=in_one, limit=2) == [5, 3, 1]
    assert found(metadata=in_one, title="sORTING 3") == [3]
    assert found(metadata=json.dumps({"cwd": "/home/ann/found/1", "n": 1})) == [1]
    assert found(metadata=json.dumps({"cwd": "/home/ann/found/1", "n": "1"})) == [], "another type is another value"


@pytest.mark.parametrize("metadata", ["{", "[]", "1", '"cwd"'])
def test_metadata_to_search_for_is_an_object(api: httpx.Client, metadata: str) -> None:
    answer = api.get("/sessions", params={"metadata": metadata})
    assert refused(answer, 422, "INVALID_ARGUMENTS") == {"field": "metadata"}


def test_invalid_cursors_are_refused(api: httpx.Client) -> None:
    answer = api.get("/sessions", params={"cursor": "bm9uc2Vuc2U"})
    assert refused(answer, 422, "INVALID_ARGUMENTS") == {"field": "cursor"}


def test_unknown_paths_and_methods_get_errors_in_the_apis_shape(api: httpx.Client) -> None:
    assert error_of(api.get("/nothing"))["code"] == "NOT_FOUND"
    refused(api.put("/sessions", json={}), 405, "METHOD_NOT_ALLOWED")


def test_a_trailing_slash_does_not_redirect(api: httpx.Client) -> None:
    refused(api.get("/sessions/", follow_redirects=False), 404, "NOT_FOUND")
