"""A page in the developer's browser cannot use the system on the developer's machine."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError
from codelab_local import LocalCloud
from codelab_local.emulator.aws_api import AwsApi
from codelab_local.emulator.signatures import Credentials
from codelab_local.template.sam_template import read_template
from websockets.sync.client import connect

from tests.cases import cases
from tests.conftest import TEMPLATE
from tests.local.test_start_and_stop import refused_settings
from tests.sampling import sampled
from tests.security.raw import ask, made_session, new_names, payload_bucket, sessions, upgrade

FOREIGN = [
    "https://evil.test",
    "http://evil.test:8000",
    "HTTPS://EVIL.TEST",
    "null",
    "NULL",
    "",
    "http://localhost.evil.test",
    "http://127.0.0.1.evil.test",
    "http://evillocalhost",
    "http://localhost@evil.test",
    "http://localhost:80@evil.test",
    "http://evil.test#localhost",
    "http://evil.test/localhost",
    "http://localhost, https://evil.test",
    "http://localhost https://evil.test",
    "http://0.0.0.0:8000",
    "http://128.0.0.1",
    "http://127.1.evil",
    "http://[::ffff:192.0.2.1]",
    "http://[fe80::1]",
    "file://",
    "data:text/html,x",
    "blob:http://localhost",
    "evil://localhost",
    "//localhost",
    "localhost",
]
LOOPBACK = [
    "http://localhost",
    "http://localhost:3000",
    "https://localhost:3000",
    "http://LocalHost:3000",
    "http://localhost.:3000",
    "http://ide.localhost:3000",
    "http://127.0.0.1:9",
    "http://127.0.0.2:65535",
    "http://[::1]:3000",
]
FOREIGN_HOSTS = [
    "evil.test",
    "evil.test:8000",
    "localhost.evil.test",
    "127.0.0.1.evil.test",
    "localhost@evil.test",
    "evil.test:80@localhost",
    "localhost:80:evil.test",
    "localhost/evil.test",
    "localhost, evil.test",
    "0.0.0.0",
    "0.0.0.0:8000",
    "192.168.1.5:8000",
    "[::ffff:192.0.2.1]",
    "[fe80::1]",
    "localhost..",
    ".",
    "[localhost]",
]
OWN_HOSTS = ["localhost", "LOCALHOST:8000", "localhost.:8000", "a.localhost", "127.0.0.1:1", "127.0.0.2", "[::1]:8000"]

#: Every kind of path on the public port.
PLACES = [
    ("GET", "/health"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/api/v1/sessions"),
    ("POST", "/api/v1/sessions"),
    ("DELETE", "/api/v1/sessions/x"),
    ("GET", "/api/v1/chat/stream/x"),
    ("GET", "/s3/bucket/items/x"),
    ("GET", "/nothing"),
    ("OPTIONS", "/api/v1/sessions"),
    ("OPTIONS", "*"),
]


@cases("origin", FOREIGN)
def test_a_foreign_page_cannot_join_a_session(demo_cloud: LocalCloud, origin: str) -> None:
    assert upgrade(demo_cloud, "attacked", [("Origin", origin)]) == 403


@cases("host", FOREIGN_HOSTS)
def test_dns_rebinding_cannot_join_a_session(demo_cloud: LocalCloud, host: str) -> None:
    """Its origin then matches the Host of its requests."""
    assert upgrade(demo_cloud, "attacked", [("Origin", f"http://{host}")], host=host) == 403
    assert upgrade(demo_cloud, "attacked", [], host=host) == 403


@cases("host", FOREIGN_HOSTS)
def test_dns_rebinding_cannot_list_sessions(demo_cloud: LocalCloud, host: str) -> None:
    answer = ask(demo_cloud.info["port"], "/api/v1/sessions", [("Sec-Fetch-Site", "same-origin")], host=host)
    assert answer.status == 403
    assert "sessions" not in answer.json


def test_dns_rebinding_cannot_read_files_with_a_tool(demo_cloud: LocalCloud) -> None:
    name = next(new_names)
    body = json.dumps({"session_id": name, "tool_name": "read_file", "arguments": {"path": ".env"}}).encode()
    with connect(demo_cloud.url(name), open_timeout=60) as ide:
        answer = ask(demo_cloud.info["port"], "/api/v1/tools/execute", method="POST", body=body, host="evil.test:8000")
        assert answer.status == 403
        ide.send('{"type": "user_message", "content": "Hello"}')
        seen: list[str] = []
        while "assistant_message" not in seen:
            seen.append(json.loads(ide.recv(60))["type"])
        assert "tool_call" not in seen


@cases("origin", FOREIGN)
def test_a_foreign_page_cannot_post_text(demo_cloud: LocalCloud, origin: str) -> None:
    """Without a preflight, a request would be processed although the page cannot read the answer."""
    name = next(new_names)
    headers = [("Origin", origin), ("Content-Type", "text/plain"), ("Sec-Fetch-Mode", "no-cors")]
    answer = ask(demo_cloud.info["port"], "/api/v1/sessions", headers, method="POST", body=made_session(name))
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers
    assert name not in sessions(demo_cloud)


@cases(("method", "target"), PLACES)
@cases(
    ("host", "headers"),
    [
        ("127.0.0.1", [("Origin", "https://evil.test")]),
        ("127.0.0.1", [("Origin", "null")]),
        ("evil.test", []),
        ("127.0.0.1", [("Sec-Fetch-Site", "cross-site")]),
        ("127.0.0.1", [("Origin", "https://evil.test"), ("Access-Control-Request-Method", "POST")]),
    ],
)
def test_a_foreign_page_cannot_reach_any_path(
    demo_cloud: LocalCloud, method: str, target: str, host: str, headers: list[tuple[str, str]]
) -> None:
    answer = ask(demo_cloud.info["port"], target, headers, method=method, host=host)
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("mode", ["navigate", "no-cors"])
def test_a_foreign_page_cannot_embed_or_open_anything(demo_cloud: LocalCloud, mode: str) -> None:
    """Images, scripts, frames and links carry no Origin."""
    headers = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", mode)]
    assert ask(demo_cloud.info["port"], "/docs", headers).status == 403


@cases(
    ("target", "headers", "status"),
    [
        ("/health", [("Host", "localhost"), ("Host", "evil.test")], 403),
        ("/health", [("Host", "evil.test"), ("Host", "localhost")], 403),
        ("/health", [], 400),
        ("/health", [("Host", "")], 400),
        ("/health", [("Host", "localhost"), ("Origin", "http://localhost"), ("Origin", "https://evil.test")], 403),
        ("/health", [("Host", "localhost"), ("Origin", "https://evil.test"), ("Origin", "http://localhost")], 403),
        ("http://evil.test/health", [("Host", "localhost")], 403),
        ("http://localhost@evil.test/health", [("Host", "localhost")], 403),
        ("http://localhost/health", [("Host", "evil.test")], 403),
        ("http://localhost/health", [("Host", "localhost")], 200),
    ],
)
def test_contradictory_headers_are_refused(
    demo_cloud: LocalCloud, target: str, headers: list[tuple[str, str]], status: int
) -> None:
    assert ask(demo_cloud.info["port"], target, headers, host=None).status == status


def test_every_request_of_a_connection_is_checked(demo_cloud: LocalCloud) -> None:
    with httpx.Client(base_url=demo_cloud.http, timeout=60) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/health", headers={"Origin": "https://evil.test"}).status_code == 403
        assert client.get("/health", headers={"Host": "evil.test"}).status_code == 403
        assert client.get("/health").status_code == 200


# Allowed requests.


def test_programs_other_than_browsers_are_not_affected(demo_cloud: LocalCloud) -> None:
    name, port = next(new_names), demo_cloud.info["port"]
    answer = ask(port, "/api/v1/sessions", method="POST", body=made_session(name), host="localhost:8000")
    assert answer.status == 201
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert upgrade(demo_cloud, name, []) == 101


@cases("host", OWN_HOSTS)
def test_every_loopback_name_is_trusted(demo_cloud: LocalCloud, host: str) -> None:
    assert ask(demo_cloud.info["port"], "/health", host=host).status == 200
    assert upgrade(demo_cloud, next(new_names), [], host=host) == 101


@cases("origin", LOOPBACK)
def test_a_web_ide_on_the_loopback_interface_works(demo_cloud: LocalCloud, origin: str) -> None:
    port, name = demo_cloud.info["port"], next(new_names)
    assert upgrade(demo_cloud, name, [("Origin", origin)]) == 101
    asked = [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")]
    page = [("Origin", origin), ("Sec-Fetch-Site", "cross-site")]  # localhost and 127.0.0.1 are different sites.
    for method, target, body, status in (
        ("OPTIONS", "/api/v1/sessions", b"", 204),
        ("POST", "/api/v1/sessions", made_session(name), 200),
        ("GET", f"/api/v1/sessions/{name}", b"", 200),
        ("GET", f"/api/v1/chat/stream/{name}?last_seq=0&wait=0", b"", 200),
        ("GET", "/no/route", b"", 404),  # By the gateway itself. "/nothing" would be a file of the page.
    ):
        headers = [*page, ("Content-Type", "application/json"), ("Connection", "close")]
        answer = ask(port, target, headers + (asked if method == "OPTIONS" else []), method=method, body=body)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, origin)
        assert answer.headers["vary"] == "Origin"
        if method == "OPTIONS":
            assert "POST" in answer.headers["access-control-allow-methods"]
            allowed = answer.headers["access-control-allow-headers"]
            assert {"authorization", "content-type", "idempotency-key", "last-event-id"} <= {*allowed.split(", ")}


@pytest.fixture(scope="module")
def opened() -> Iterator[LocalCloud]:
    origins = "https://IDE.example.com:443, tauri://localhost"
    environment = {"ALLOWED_ORIGINS": origins, "ALLOWED_HOSTS": "Box.lan,10.1.2.3"}
    with LocalCloud(TEMPLATE, environment=environment, parameters={"AllowedOrigins": ",".join(PAGES)}) as cloud:
        yield cloud


@pytest.mark.deep
def test_the_operator_can_allow_more_hosts_and_origins(opened: LocalCloud) -> None:
    port = opened.info["port"]
    for origin in ("https://ide.example.com", "https://ide.example.com:443", "tauri://localhost"):
        answer = ask(port, "/health", [("Origin", origin), ("Sec-Fetch-Site", "cross-site")])
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, origin)
        assert upgrade(opened, "s", [("Origin", origin)]) == 101
    for host in ("box.lan", "BOX.lan.:99", "10.1.2.3:8000"):
        assert ask(port, "/health", host=host).status == 200
    # A page of this server under the allowed name.
    assert ask(port, "/health", [("Origin", f"http://box.lan:{port}")], host=f"box.lan:{port}").status == 200


@pytest.mark.parametrize(
    "origin",
    sampled(
        [
            "http://ide.example.com",
            "https://ide.example.com:8443",
            "https://x.ide.example.com",
            "null",
            "http://box.lan",
        ]
    ),
)
def test_only_the_operators_hosts_and_origins_are_allowed(opened: LocalCloud, origin: str) -> None:
    assert ask(opened.info["port"], "/health", [("Origin", origin)], host="box.lan").status == 403


@pytest.mark.parametrize(
    ("headers", "host", "cure"),
    [
        ([("Origin", "https://Other.example.com:443")], "localhost", "ALLOWED_ORIGINS=https://other.example.com"),
        ([("Origin", "ide://localhost")], "localhost", "ALLOWED_ORIGINS=ide://localhost"),
        ([], "Crate.lan:8000", "ALLOWED_HOSTS=crate.lan"),
        ([], "192.168.1.5", "ALLOWED_HOSTS=192.168.1.5"),
        ([("Origin", "null")], "localhost", "null"),
        ([("Sec-Fetch-Site", "cross-site")], "localhost", "ALLOWED_ORIGINS"),
    ],
)
def test_a_refusal_names_the_setting_that_would_allow_it(
    opened: LocalCloud, headers: list[tuple[str, str]], host: str, cure: str
) -> None:
    answer = ask(opened.info["port"], "/health", headers, host=host)
    assert answer.status == 403
    assert cure in answer.json["message"]
    assert cure in opened.logs(), "a page's developer sees nothing of it in the browser"


@cases(
    ("environment", "what"),
    [
        ({"ALLOWED_ORIGINS": "*"}, "AUTH_MODE=none"),
        ({"ALLOWED_ORIGINS": "https://a.example, *", "AUTH_MODE": "none"}, "AUTH_MODE=none"),
        ({"ALLOWED_ORIGINS": "null"}, "'null'"),
        ({"ALLOWED_ORIGINS": "https://a.example/path"}, "https://a.example/path"),
        ({"ALLOWED_ORIGINS": "https://*.example"}, "https://*.example"),
        ({"ALLOWED_HOSTS": "*"}, "'*'"),
        ({"ALLOWED_HOSTS": "box.lan:8000"}, "without port"),
    ],
)
def test_allowing_every_origin_without_tokens_is_refused_at_start(environment: dict[str, str], what: str) -> None:
    assert what in refused_settings(TEMPLATE, **environment)


@pytest.mark.deep
def test_a_star_with_tokens_allows_all_but_null_origins() -> None:
    environment = {"ALLOWED_ORIGINS": "*", "AUTH_MODE": "jwt", "JWT_SECRET": "0123456789abcdef0123456789abcdef"}
    with LocalCloud(TEMPLATE, environment=environment) as cloud:
        port = cloud.info["port"]
        page = ("Origin", "https://any.example")
        assert ask(port, "/health", [page]).headers["access-control-allow-origin"] == page[1]
        assert ask(port, "/api/v1/sessions", [page]).status == 401
        assert ask(port, "/health", [("Origin", "null")]).status == 403
        assert ask(port, "/health", [page], host="evil.test").status == 403


# The cloud.

PAGES = ["https://ide.example.com", "http://other.example:8080"]


def cors(cloud: LocalCloud) -> tuple[Any, Any]:
    """The CORS settings of the HTTP API and the bucket."""
    keys = Credentials(cloud.info["access_key_id"], cloud.info["secret_access_key"])
    aws = AwsApi(int(cloud.info["emulator"].rpartition(":")[2]), cloud.info["region"], keys)
    (http,) = [item for item in aws.rest("apigateway", "GET", "/v2/apis")["items"] if item["protocolType"] == "HTTP"]
    aws.close()
    try:
        rules = cloud.client("s3").get_bucket_cors(Bucket=payload_bucket(cloud))["CORSRules"]
    except ClientError:
        rules = None
    return http.get("corsConfiguration"), rules


def test_the_cloud_allows_no_page_by_default(demo_cloud: LocalCloud) -> None:
    api, bucket = cors(demo_cloud)
    assert not api
    assert bucket is None


def test_the_cloud_allows_listed_pages(opened: LocalCloud) -> None:
    api, bucket = cors(opened)
    assert api["AllowOrigins"] == PAGES
    assert {"authorization", "content-type", "idempotency-key", "last-event-id"} <= {*api["AllowHeaders"]}
    assert api.get("AllowCredentials") in (None, False)
    (rule,) = bucket
    assert rule["AllowedOrigins"] == PAGES
    assert {*rule["AllowedMethods"]} == {"GET", "HEAD", "PUT"}


def test_preflights_are_answered_without_a_token(opened: LocalCloud) -> None:
    assert ask(opened.info["port"], "/api/v1/sessions", method="OPTIONS").status == 204


def test_the_template_accepts_only_http_origins_or_a_star() -> None:
    parameter = read_template(TEMPLATE).parameters["AllowedOrigins"]
    allowed = re.compile(parameter["AllowedPattern"])
    assert parameter["Default"] == ""
    for origin in ("", "*", *PAGES, ",".join(PAGES), "http://[::1]:3000"):
        assert allowed.fullmatch(origin), origin
    for wrong in (
        "*,https://a.example",
        "https://a.example, https://b.example",
        "https://a.example,",
        "null",
        "https://*.example.com",
        "https://a.example/",
        "https://a.example/x",
        "a.example",
        "https://a b",
    ):
        assert not allowed.fullmatch(wrong), wrong
