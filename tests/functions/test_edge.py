"""Behind an edge, both APIs refuse whoever goes around it, while its secret is rotated as well."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from codelab.gateway import edge

from infra.stack.rotate import LEARNT_S
from tests.functions import events
from tests.functions.system import Function, System
from tests.functions.template import REGION
from tests.functions.test_authorize import SESSION, bearer, effect, token
from tests.functions.test_rotated_secrets import keep

OLD, NEW = "the edge's secret", "the edge's next secret"
READING = "GetSecretValue"

Get = Callable[..., int]


@pytest.fixture
def behind(system: System) -> System:
    keep(system, "EdgeSecret", OLD)
    system.environment = {"EDGE_SECRET_ARN": "EdgeSecret"}
    return system


@pytest.fixture
def authorize(behind: System) -> Function:
    loaded = behind.load("authorize")
    behind.aws.reset()
    return loaded


def connects(function: Function, sent: str | None, name: str = "X-CodeLab-Edge") -> bool:
    headers = {**bearer(token()), **({} if sent is None else {name: sent})}
    answer = function(events.authorize(query=SESSION, headers=headers))
    assert ("context" in answer) == (effect(answer) == "Allow")
    return effect(answer) == "Allow"


WRONG = [None, "", OLD[:-1], f"{OLD}.", OLD.upper(), f"{OLD},{OLD}", "секрет", "\udcff", "x" * 9_000]


def test_only_who_comes_through_the_edge_connects(authorize: Function, behind: System) -> None:
    assert connects(authorize, OLD)
    assert connects(authorize, OLD, "x-codelab-edge")
    assert [sent for sent in WRONG if connects(authorize, sent)] == []
    assert behind.aws.calls.count(READING) == 3, "in a minute, however many are refused"


def test_who_goes_around_the_edge_is_refused_before_the_token_is_looked_at(authorize: Function) -> None:
    answer = authorize(events.authorize(query=SESSION, headers=bearer("not.a.token")))
    assert effect(answer) == "Deny"


def test_the_rest_api_refuses_in_the_form_of_its_errors(behind: System) -> None:
    def get(path: str, sent: str) -> dict[str, Any]:
        event = events.http("GET", path, headers={edge.HEADER: sent} if sent else {})
        found: dict[str, Any] = behind.function("rest_api")(event)
        return found

    for path in ("/api/v1/sessions", "/client-config", "/openapi.json"):
        assert get(path, OLD)["statusCode"] == 200
        refused = get(path, "")
        assert (refused["statusCode"], refused["headers"]) == (403, {"content-type": "application/json"})
        assert '"code":"PERMISSION_DENIED"' in refused["body"]
        assert get(path, f"{OLD},{OLD}")["statusCode"] == 403, "API Gateway joins the values of a repeated header"


def test_while_the_secret_is_rotated_both_values_are_good_for_old_and_new_processes(behind: System) -> None:
    before = behind.load("authorize")
    keep(behind, "EdgeSecret", NEW)
    after = behind.load("authorize")
    for process in (before, after):
        for _ in range(2):
            assert connects(process, OLD), "some of CloudFront's places still send it"
            assert connects(process, NEW)


def test_wrong_values_delay_what_a_process_learns_for_less_than_the_rotation_waits(
    authorize: Function, behind: System
) -> None:
    """Anybody can send them to the API's own address, also in the second before a rotation begins."""
    now = [1_000.0]
    comes_through = edge.edge_check(lambda: now[0])
    with behind.aws.paused():
        assert not comes_through({"headers": {edge.HEADER: "wrong"}})
    keep(behind, "EdgeSecret", NEW)
    with behind.aws.paused():
        assert not comes_through({"headers": {edge.HEADER: NEW}}), "or the rotation need not wait"
        now[0] += LEARNT_S
        assert comes_through({"headers": {edge.HEADER: NEW}})
        assert comes_through({"headers": {edge.HEADER: OLD}})


def test_a_value_that_is_withdrawn_is_forgotten(authorize: Function, behind: System) -> None:
    now = [1_000.0]
    old, new = ({"headers": {edge.HEADER: value}} for value in (OLD, NEW))
    comes_through = edge.edge_check(lambda: now[0])
    keep(behind, "EdgeSecret", NEW)
    with behind.aws.paused():
        assert comes_through(old)
        assert comes_through(new)
        assert comes_through(old), "as the value before"
        secrets = boto3.client("secretsmanager", region_name=REGION)
        stages = secrets.describe_secret(SecretId="EdgeSecret")["VersionIdsToStages"]
        (version,) = (identifier for identifier, names in stages.items() if "AWSPREVIOUS" in names)
        withdrawn = {"VersionStage": "AWSPREVIOUS", "RemoveFromVersionId": version}
        secrets.update_secret_version_stage(SecretId="EdgeSecret", **withdrawn)
        now[0] += 601
        assert comes_through(new)
        assert not comes_through(old)


def test_without_an_edge_nothing_is_looked_for(system: System) -> None:
    authorize = system.load("authorize")
    assert connects(authorize, None)
    assert connects(authorize, "anything")
