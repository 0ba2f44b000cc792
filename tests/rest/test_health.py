"""Health and documentation, which need no token."""

import httpx
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE


def test_health_matches_the_seed_document(cloud: LocalCloud) -> None:
    answer = httpx.get(f"{cloud.http}/health")
    dependencies = {"dynamodb": "connected", "llm": "available"}
    healthy = {"status": "healthy", "service": "agent-runtime", "version": "1.0.0", "dependencies": dependencies}
    assert (answer.status_code, answer.json()) == (200, healthy)


def test_the_documentation_is_served(cloud: LocalCloud) -> None:
    assert "swagger" in httpx.get(f"{cloud.http}/docs").text
    assert "/api/v1/sessions" in httpx.get(f"{cloud.http}/openapi.json").json()["paths"]


def test_health_shows_only_that_the_model_is_unavailable() -> None:
    with LocalCloud(TEMPLATE, environment={"LLM_BASE_URL": "http://127.0.0.1:9/secret"}) as alone:
        answer = httpx.get(f"{alone.http}/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["dependencies"] == {"dynamodb": "connected", "llm": "unavailable"}
    assert "secret" not in answer.text
