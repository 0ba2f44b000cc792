"""The answer when storage fails."""

from collections.abc import Iterator
from typing import Any

import pytest
from codelab import wiring
from codelab.aws.errors import AwsRefused, AwsTimeout
from codelab.gateway.identity import Identity
from codelab.rest.app import create_app
from codelab.rest.identity import remaining_ms, subject
from fastapi.testclient import TestClient

from tests.rest.test_sessions import refused

FAILURES = [
    AwsRefused("GetItem", "InternalServerError", "secret of the table", status=500),
    AwsTimeout("http://table: no answer in time"),
]


@pytest.fixture(params=FAILURES, ids=["refused", "timeout"])
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The API over a table that fails every call."""

    class Broken:
        def __getattr__(self, _operation: str) -> Any:
            def fail(**_: Any) -> None:
                raise request.param

            return fail

    monkeypatch.setenv("TABLE_NAME", "table")
    monkeypatch.setenv("CONNECTIONS_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    wiring.settings.cache_clear()
    wiring.engine.cache_clear()
    engine = wiring.engine()
    monkeypatch.setattr(engine.store, "_client", Broken())
    app = create_app()
    app.dependency_overrides[subject] = lambda: Identity("ann")
    app.dependency_overrides[remaining_ms] = lambda: lambda: 29_000
    yield TestClient(app, raise_server_exceptions=False)
    wiring.engine.cache_clear()
    wiring.settings.cache_clear()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/sessions/s1", None),
        ("GET", "/api/v1/sessions", None),
        ("GET", "/api/v1/chat/history/s1", None),
        ("GET", "/api/v1/chat/stream/s1", None),
        ("POST", "/api/v1/chat/message", {"session_id": "s1", "message": "hello"}),
        ("POST", "/api/v1/tools/execute", {"session_id": "s1", "tool_name": "read_file", "arguments": {"path": "a"}}),
        ("GET", "/api/v1/tools/calls/c1?session_id=s1", None),
    ],
)
def test_storage_failures_are_database_errors(broken: TestClient, method: str, path: str, body: Any) -> None:
    answer = broken.request(method, path, json=body)
    assert refused(answer, 500, "DATABASE_ERROR") == {"retryable": True}
    assert "secret" not in answer.text
