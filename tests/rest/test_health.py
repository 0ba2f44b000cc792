"""Health and documentation: open to everyone."""

import httpx
from codelab_local import LocalCloud


def test_health_is_told_as_the_seed_document_shows(cloud: LocalCloud) -> None:
    answer = httpx.get(f"{cloud.http}/health")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "healthy",
        "service": "agent-runtime",
        "version": "1.0.0",
        "dependencies": {"dynamodb": "connected", "llm": "available"},
    }


def test_the_documentation_is_served(cloud: LocalCloud) -> None:
    assert "swagger" in httpx.get(f"{cloud.http}/docs").text
    assert "/api/v1/sessions" in httpx.get(f"{cloud.http}/openapi.json").json()["paths"]
