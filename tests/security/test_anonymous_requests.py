"""Requests of nobody cost the operator little: each runs one function at most, which refuses it."""

import httpx
from codelab_local import LocalCloud

from tests.cases import cases
from tests.rest.test_sessions import refused


def runs(cloud: LocalCloud) -> int:
    """How many invocations the functions have had, without the sweep, which a schedule runs."""
    return sum(sum(one["served"]) for folder, one in cloud.functions().items() if folder != "sweep")


@cases("token", [None, "no.such.token"])
@cases(
    ("method", "path"),
    [
        ("GET", "/api/v1/sessions"),
        ("POST", "/api/v1/requests"),
        ("GET", "/api/v1/usage"),
        ("DELETE", "/api/v1/sessions/s1"),
        ("GET", "/api/v1/tools"),
    ],
)
def test_a_request_without_a_valid_token_runs_one_function(
    limited_cloud: LocalCloud, method: str, path: str, token: str | None
) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    before = runs(limited_cloud)
    answer = httpx.request(method, f"{limited_cloud.http}{path}", headers=headers, timeout=40)
    assert runs(limited_cloud) - before == 1
    refused(answer, 401, "UNAUTHORIZED")
