"""Health and documentation, which need no token."""

import httpx
import pytest
from codelab.config import Settings
from codelab.rest import client_config
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE


def test_health_matches_the_seed_document(cloud: LocalCloud) -> None:
    answer = httpx.get(f"{cloud.http}/health", timeout=60)
    dependencies = {"dynamodb": "connected", "llm": "available"}
    healthy = {"status": "healthy", "service": "agent-runtime", "version": "1.0.0", "dependencies": dependencies}
    assert (answer.status_code, answer.json()) == (200, healthy)


def test_a_client_is_told_where_to_connect(cloud: LocalCloud) -> None:
    told = httpx.get(f"{cloud.http}/client-config", timeout=60).json()
    assert told == {
        "websocket": "/ws/{session_id}",
        "auth": {"mode": "none"},
        "protocol_version": "1.0",
        "payload_hosts": [f"127.0.0.1:{cloud.info['port']}"],
    }


def test_a_client_of_a_deployed_system_is_told_how_to_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = Settings(
        connections_url="https://a1.execute-api.eu-central-1.amazonaws.com/v1",
        websocket_address="wss://ws.example.com?session_id={session_id}",
        jwt_issuer="https://login.example.com",
        jwt_client_id="codelab-cli",
        jwt_secret="never told",
        payload_bucket="codelab-payloads",
        payload_origin="https://codelab-payloads.s3.eu-central-1.amazonaws.com",
    )
    monkeypatch.setattr(client_config, "settings", lambda: deployed)
    told = client_config.get_client_config()
    assert told.websocket == "wss://ws.example.com?session_id={session_id}"
    assert told.payload_hosts == ["codelab-payloads.s3.eu-central-1.amazonaws.com"]
    assert told.auth.model_dump(exclude_none=True) == {
        "mode": "jwt",
        "issuer": "https://login.example.com",
        "client_id": "codelab-cli",
    }
    assert "never told" not in told.model_dump_json()


def test_the_documentation_is_served(cloud: LocalCloud) -> None:
    assert "swagger" in httpx.get(f"{cloud.http}/docs", timeout=60).text
    assert "/api/v1/sessions" in httpx.get(f"{cloud.http}/openapi.json", timeout=60).json()["paths"]


@pytest.mark.deep
def test_health_shows_only_that_the_model_is_unavailable() -> None:
    with LocalCloud(TEMPLATE, environment={"LLM_BASE_URL": "http://127.0.0.1:9/secret"}) as alone:
        answer = httpx.get(f"{alone.http}/health", timeout=60)
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["dependencies"] == {"dynamodb": "connected", "llm": "unavailable"}
    assert "secret" not in answer.text
