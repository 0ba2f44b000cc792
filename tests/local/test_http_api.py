"""A template's HTTP API, served like API Gateway with payload format 2.0."""

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from codelab_local import LocalCloud


@pytest.fixture
def web(cloud: LocalCloud) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cloud.http, timeout=20) as client:
        yield client


def test_events_have_the_developer_guides_form(web: httpx.Client) -> None:
    event = web.get("/things/a%20b?x=1&x=2&y=", headers={"X-Own": "yes", "Cookie": "a=1; b=2"}).json()
    assert event["version"] == "2.0"
    assert event["routeKey"] == event["requestContext"]["routeKey"] == "GET /things/{name}"
    assert (event["rawPath"], event["rawQueryString"]) == ("/things/a b", "x=1&x=2&y=")
    assert event["pathParameters"] == {"name": "a b"}
    assert event["queryStringParameters"] == {"x": "1,2", "y": ""}
    assert event["cookies"] == ["a=1", "b=2"]
    assert (event["headers"]["x-own"], event["isBase64Encoded"]) == ("yes", False)
    assert "cookie" not in event["headers"]
    assert "body" not in event
    http = {"method": "GET", "path": "/things/a b", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1"}
    assert event["requestContext"]["http"].items() >= http.items()
    assert event["requestContext"]["stage"] == "$default"


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/things/known", "GET /things/known"),
        ("GET", "/things/other", "GET /things/{name}"),
        ("POST", "/things/known", "ANY /things/{proxy+}"),
        ("GET", "/things/one/two", "ANY /things/{proxy+}"),
    ],
)
def test_the_most_specific_route_matches(web: httpx.Client, method: str, path: str, route: str) -> None:
    assert web.request(method, path).json()["routeKey"] == route


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing"), ("GET", "/things"), ("GET", "/things/")])
def test_requests_without_a_route_get_404(web: httpx.Client, method: str, path: str) -> None:
    answer = web.request(method, path)
    assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})


@pytest.mark.parametrize(
    ("content_type", "body", "is_text"),
    [
        ("application/json; charset=utf-8", "{ü}".encode(), True),
        ("text/plain", b"plain", True),
        ("application/json", b"\xff", False),
        ("application/x-www-form-urlencoded", b"a=1", False),
    ],
)
def test_the_content_type_decides_between_text_and_base64(
    web: httpx.Client, content_type: str, body: bytes, is_text: bool
) -> None:
    event = web.post("/things/x", content=body, headers={"Content-Type": content_type}).json()
    assert event["isBase64Encoded"] is not is_text
    assert event["body"] == (body.decode() if is_text else base64.b64encode(body).decode())


def test_responses_may_be_binary_and_set_cookies(web: httpx.Client) -> None:
    answer = web.get("/things/x?do=binary")
    assert (answer.status_code, answer.content) == (201, bytes(range(256)))
    assert (answer.headers["content-type"], answer.headers["x-own"]) == ("application/octet-stream", "1")
    assert answer.headers.get_list("set-cookie") == ["a=1; Path=/", "b=2"]


def test_an_answer_without_a_status_is_the_body(web: httpx.Client) -> None:
    answers = [web.get("/things/x"), web.get("/things/x?do=text")]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert {answer.headers["content-type"] for answer in answers} == {"application/json"}
    assert (answers[0].json()["version"], answers[1].text) == ("2.0", "plain text")


def test_stage_variables_are_in_the_event(web: httpx.Client) -> None:
    assert web.get("/things/x").json()["stageVariables"] == {"colour": "blue"}


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/things/x?do=raise", 500, "Internal Server Error"),
        ("/things/x?do=nonsense", 500, "Internal Server Error"),
        ("/impatient?do=sleep&seconds=6", 503, "Service Unavailable"),
    ],
)
def test_failures_get_api_gateways_answers(web: httpx.Client, path: str, status: int, message: str) -> None:
    answer = web.get(path)
    assert (answer.status_code, answer.json()) == (status, {"message": message})


def test_the_authorizers_context_keeps_its_types(web: httpx.Client) -> None:
    context: dict[str, Any] = web.post("/things/x").json()["requestContext"]["authorizer"]["lambda"]
    assert (context["user"], context["number"]) == ("someone", 7)
    assert context["asked"].endswith("/$default/POST/things/x")


@pytest.mark.parametrize(
    ("wish", "status", "message"), [("deny", 403, "Forbidden"), ("raise", 500, "Internal Server Error")]
)
def test_the_authorizer_can_refuse(web: httpx.Client, wish: str, status: int, message: str) -> None:
    answer = web.post(f"/things/x?auth={wish}")
    assert (answer.status_code, answer.json()) == (status, {"message": message})


def test_a_body_over_ten_megabytes_is_refused(web: httpx.Client) -> None:
    assert web.post("/things/x", content=b"x" * (10 * 1024 * 1024 + 1)).status_code == 413


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"x" * 5_000_000, "text/plain", 200),
        (b'"' * 5_000_000, "text/plain", 413),  # In JSON it is twice as long.
        (b"x" * 5_000_000, "image/png", 413),  # As base64.
        (b"x" * 6_400_000, "text/plain", 413),
    ],
    ids=["plain", "escaped", "binary", "large"],
)
def test_a_body_whose_event_exceeds_six_megabytes_is_refused(
    web: httpx.Client, body: bytes, kind: str, status: int
) -> None:
    assert web.post("/things/x", content=body, headers={"Content-Type": kind}).status_code == status
