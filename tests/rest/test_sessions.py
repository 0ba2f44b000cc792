"""Sessions over HTTP: created, found again, listed."""

from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.conftest import Open

SEED = {"user_id": "user_123", "metadata": {"project_path": "/path/to/project"}}


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The refusal in an answer, which has the one shape that all have."""
    assert set(answer.json()) == {"error"}
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"code", "message", "details"}
    return error


def test_a_session_is_created_as_the_seed_document_shows(api: httpx.Client) -> None:
    answer = api.post("/sessions", json=SEED)
    assert answer.status_code == 201
    assert set(answer.json()) == {"session_id", "created_at"}
    assert datetime.fromisoformat(answer.json()["created_at"]).utcoffset() is not None


def test_a_session_is_shown_as_the_seed_document_shows(api: httpx.Client) -> None:
    created = api.post("/sessions", json=SEED).json()
    shown = api.get(f"/sessions/{created['session_id']}").json()
    assert {name: shown[name] for name in ("session_id", "user_id", "created_at", "last_activity", "metadata")} == {
        **SEED,
        **created,
        "last_activity": created["created_at"],
    }


@pytest.mark.parametrize("body", [{"json": {}}, {}], ids=["an empty body", "no body"])
def test_a_session_needs_nothing_to_be_said_of_it(api: httpx.Client, body: dict[str, Any]) -> None:
    created = api.post("/sessions", **body).json()
    assert api.get(f"/sessions/{created['session_id']}").json()["metadata"] == {}


def test_a_repeated_creation_with_one_key_gives_one_session(api: httpx.Client) -> None:
    first, second = (api.post("/sessions", json=SEED, headers={"Idempotency-Key": "key-1"}) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    other = api.post("/sessions", json=SEED, headers={"Idempotency-Key": "key-2"})
    assert other.json()["session_id"] != first.json()["session_id"]


def test_a_session_that_exists_is_not_changed_by_its_creation(api: httpx.Client, session: str) -> None:
    again = api.post("/sessions", json={"session_id": session, "metadata": {"late": True}})
    assert again.status_code == 200
    assert api.get(f"/sessions/{session}").json()["metadata"] == {}


def test_session_not_found(api: httpx.Client) -> None:
    answer = api.get("/sessions/there_is_none")
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "SESSION_NOT_FOUND"


def test_a_session_of_the_websocket_is_shown_too(api: httpx.Client, ide: Open) -> None:
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
def test_what_is_wrong_is_named(
    api: httpx.Client, body: str | bytes, status: int, code: str, field: str | None
) -> None:
    answer = api.post("/sessions", content=body)
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)
    assert error_of(answer)["details"].get("field") == field


def test_a_message_without_a_body_is_refused(api: httpx.Client) -> None:
    answer = api.post("/chat/message")
    assert (answer.status_code, error_of(answer)["code"]) == (422, "MISSING_FIELD")
    assert error_of(answer)["details"]["field"] == "body"


def test_too_much_metadata_is_refused(api: httpx.Client) -> None:
    answer = api.post("/sessions", json={"metadata": {"x": "y" * 16_000}})
    assert (answer.status_code, error_of(answer)["code"]) == (413, "PAYLOAD_TOO_LARGE")


def test_sessions_are_listed_by_last_activity_page_by_page(api: httpx.Client) -> None:
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


def test_a_cursor_of_no_list_is_refused(api: httpx.Client) -> None:
    answer = api.get("/sessions", params={"cursor": "bm9uc2Vuc2U"})
    assert (answer.status_code, error_of(answer)["details"]) == (422, {"field": "cursor"})


def test_what_is_no_path_and_no_method_of_the_api_is_refused_in_its_shape(api: httpx.Client) -> None:
    assert error_of(api.get("/nothing"))["code"] == "NOT_FOUND"
    refused = api.put("/sessions", json={})
    assert (refused.status_code, error_of(refused)["code"]) == (405, "METHOD_NOT_ALLOWED")


def test_a_path_with_a_slash_too_many_leads_nowhere_else(api: httpx.Client) -> None:
    answer = api.get("/sessions/", follow_redirects=False)
    assert (answer.status_code, error_of(answer)["code"]) == (404, "NOT_FOUND")
