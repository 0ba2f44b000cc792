"""The files of the context over HTTP, shared with the WebSocket."""

import httpx
import pytest

from tests.conftest import Open
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.rest.test_sessions import refused

FILE = {"action": "add_file", "data": {"path": "/src/main.dart", "content": "void main() {}"}}


def test_changing_the_context_matches_the_seed_document(api: httpx.Client, session: str) -> None:
    answer = api.post(f"/context/{session}", json=FILE)
    assert answer.status_code == 200
    assert answer.json()["status"] == "updated"
    assert answer.json()["context_size"] > 0


def test_reading_the_context_matches_the_seed_document(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    marker = model.script("context", Says("I see"))
    api.post(f"/context/{session}", json=FILE)
    ide(session).ask(marker)
    shown = api.get(f"/context/{session}").json()
    assert shown["session_id"] == session
    assert [message["content"] for message in shown["messages"]] == [marker, "I see"]
    (file,) = shown["files"]
    assert (file["path"], file["reference"]) == ("src/main.dart", False)
    assert file["added_at"]
    assert shown["total_tokens"] > file["tokens"] > 0


def test_a_file_added_on_the_websocket_is_removed_over_http(api: httpx.Client, session: str, ide: Open) -> None:
    window = ide(session, extensions=True)
    window.request("context_update", action="add_file", data={"path": "a.py"})
    assert [file["reference"] for file in api.get(f"/context/{session}").json()["files"]] == [True]
    api.post(f"/context/{session}", json={"action": "remove_file", "data": {"path": "a.py"}})
    assert api.get(f"/context/{session}").json()["files"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"action": "add_file", "data": {"path": "../up"}}, 422, "PATH_OUTSIDE_WORKSPACE"),
        ({"action": "add_file", "data": {"path": ""}}, 422, "INVALID_PATH"),
        ({"action": "add_file", "data": {"path": "a", "content": "x" * 300_001}}, 413, "FILE_TOO_LARGE"),
        ({"action": "add_file", "data": {}}, 422, "MISSING_FIELD"),
        ({"action": "eat"}, 422, "INVALID_ARGUMENTS"),
        ({"action": "clear", "session_id": "another"}, 422, "INVALID_ARGUMENTS"),
    ],
)
def test_invalid_files_are_refused(
    api: httpx.Client, session: str, body: dict[str, object], status: int, code: str
) -> None:
    refused(api.post(f"/context/{session}", json=body), status, code)


def test_a_context_too_large_is_refused(api: httpx.Client, session: str) -> None:
    *added, one_more = (
        api.post(f"/context/{session}", json={"action": "add_file", "data": {"path": str(number)}})
        for number in range(21)
    )
    assert {answer.status_code for answer in added} == {200}
    refused(one_more, 413, "CONTEXT_TOO_LARGE")
