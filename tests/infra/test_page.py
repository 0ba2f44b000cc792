"""The page in the cloud: the function that serves it, what the stack allows it, and its way into the package."""

import base64
import gzip
import importlib.util
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from codelab_local.page import files as local_page

from infra import page as page_build
from infra.stack import page as stack_page
from infra.stack.deploy import summary
from infra.stack.stack import Refused, Stack, outputs
from tests.fakes.aws.emulated import TEMPLATE, EmulatedAws
from tests.permissions import grants, resources

FUNCTION = TEMPLATE.parent / "functions" / "page" / "handler.py"
ENVIRONMENT = {
    "WEBSOCKET_ADDRESS": "wss://ws1.execute-api.eu-west-1.amazonaws.com/v1?session_id={session_id}",
    "PAYLOAD_ORIGIN": "https://payloads.s3.eu-west-1.amazonaws.com",
    "JWKS_URL": "",
    "JWT_ISSUER": "",
    "JWT_CLIENT_ID": "",
    "SIGN_IN_ORIGINS": "",
}
FILES = {
    "index.html": b"<!doctype html>" + b" " * 500,
    "favicon.svg": b"<svg/>",
    "assets/index-AbC.js": b"export {};" * 99,
    ".vite/manifest.json": b"{}",
    ".built-from": b"digest",
}

Get = Callable[..., dict[str, Any]]


def packed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """The built function with the files of a page."""
    dist, built = folder / "dist", folder / "built"
    for name, content in FILES.items():
        (dist / name).parent.mkdir(parents=True, exist_ok=True)
        (dist / name).write_bytes(content)
    monkeypatch.setattr(page_build, "DIST", dist)
    monkeypatch.setattr(page_build, "build", lambda: None)
    built.mkdir()
    (built / "handler.py").write_bytes(FUNCTION.read_bytes())
    stack_page.put_into_package(built)
    return built


def loaded(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_handler", folder / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def get(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Get:
    built = packed(monkeypatch, tmp_path)

    def ask(path: str, environment: dict[str, str] | None = None, **headers: str) -> dict[str, Any]:
        for name, value in {**ENVIRONMENT, **(environment or {})}.items():
            monkeypatch.setenv(name, value)
        event = {"rawPath": path, "headers": {name.replace("_", "-"): value for name, value in headers.items()}}
        found: dict[str, Any] = loaded(built).handler(event, None)
        return found

    return ask


def policy(answer: dict[str, Any]) -> dict[str, list[str]]:
    directives = answer["headers"]["Content-Security-Policy"].split("; ")
    return {name: values for name, *values in map(str.split, directives)}


def test_the_page_is_served_compressed_and_revalidated(get: Get) -> None:
    answer = get("/", accept_encoding="gzip, deflate, br")
    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert gzip.decompress(base64.b64decode(answer["body"])) == FILES["index.html"]
    assert answer["headers"]["Content-Encoding"] == "gzip"
    assert answer["headers"]["Cache-Control"] == "no-cache"
    plain = get("/", accept_encoding="gzip;q=0, br")
    assert base64.b64decode(plain["body"]) == FILES["index.html"]
    assert "Content-Encoding" not in plain["headers"]
    again = get("/", if_none_match=answer["headers"]["ETag"])
    assert (again["statusCode"], "body" in again) == (304, False)


def test_files_with_a_digest_in_their_name_are_kept(get: Get) -> None:
    answer = get("/assets/index-AbC.js", accept_encoding="gzip")
    assert answer["headers"]["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer["headers"]["Content-Type"] == "text/javascript; charset=utf-8"
    assert get("/favicon.svg")["headers"]["Cache-Control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/handler.py",
        "/../handler.py",
        "/assets/../../handler.py",
        "/assets/%2e%2e/%2e%2e/handler.py",
        "//etc/passwd",
        "/index.html.gz",
        "/assets/",
        "/.built-from",
        "/.vite/manifest.json",
        "/assets\\index-AbC.js",
        "",
    ],
)
def test_nothing_else_is_served(get: Get, path: str) -> None:
    answer = get(path)
    assert answer["statusCode"] == 404
    assert policy(answer)["default-src"] == ["'none'"]


def test_the_page_has_the_headers_of_the_local_cloud(get: Get) -> None:
    answer = get("/")
    headers = {**local_page._HEADERS, "Strict-Transport-Security": "max-age=31536000"}
    assert {name: answer["headers"].get(name) for name in headers} == headers
    local = local_page._POLICY.format(addresses="https://payloads.s3.eu-west-1.amazonaws.com")
    ours = policy(answer)
    theirs = policy({"headers": {"Content-Security-Policy": local}})
    assert ours.pop("connect-src") == [
        "'self'",
        "wss://ws1.execute-api.eu-west-1.amazonaws.com",
        "https://payloads.s3.eu-west-1.amazonaws.com",
    ]
    theirs.pop("connect-src")
    assert ours == theirs


def test_the_page_may_ask_the_provider_where_users_sign_in(get: Get) -> None:
    signs = {
        "JWKS_URL": "https://login.example.com/keys",
        "JWT_ISSUER": "https://login.example.com/tenant/",
        "JWT_CLIENT_ID": "codelab",
        "SIGN_IN_ORIGINS": "https://tokens.example.com,https://more.example.com",
    }
    allowed = policy(get("/", signs))["connect-src"]
    assert allowed[3:] == ["https://login.example.com", "https://tokens.example.com", "https://more.example.com"]
    for missing in ("JWKS_URL", "JWT_CLIENT_ID"):
        assert len(policy(get("/", {**signs, missing: ""}))["connect-src"]) == 3


def test_the_function_has_no_permission() -> None:
    assert grants()["page"] == set()


def test_without_webpage_nothing_of_it_is_in_the_stack() -> None:
    kept = {name: one for name, one in resources().items() if one.get("Condition") != "ServesPage"}
    left = json.dumps(_without_page(kept))
    assert "ServesPage" not in left
    assert [name for name in set(resources()) - set(kept) if f'"{name}"' in left or f"${{{name}" in left] == []
    assert set(resources()) - set(kept) > {"PageFunction", "PageIntegration", "PageLog", "PageFunctionRole"}


def _without_page(value: Any) -> Any:
    """What CloudFormation sees if the condition is false."""
    if isinstance(value, dict):
        match value.get("Fn::If"):
            case ["ServesPage", _, otherwise]:
                return _without_page(otherwise)
        return {name: _without_page(one) for name, one in value.items()}
    return [_without_page(one) for one in value] if isinstance(value, list) else value


# -- before it is deployed -------------------------------------------------------------------------------------------

PROVIDER = {
    "WebPage": "true",
    "JwksUrl": "https://login.example.com/keys",
    "JwtIssuer": "https://login.example.com/",
    "JwtClientId": "codelab",
    "SignInOrigins": "",
}


@pytest.mark.parametrize(
    ("values", "said", "found"),
    [
        ({}, {}, []),
        ({"WebPage": "false"}, {"token_endpoint": "https://elsewhere.example.com/t"}, []),
        ({"JwksUrl": ""}, {"token_endpoint": "https://elsewhere.example.com/t"}, []),
        ({"JwtClientId": ""}, {}, [("set JwtClientId", False)]),
        ({"JwtIssuer": "http://login.example.com/"}, {}, [("not an https address", False)]),
        ({}, {"issuer": "https://login.example.com"}, [("give it exactly as it says", True)]),
        (
            {"SignInOrigins": "https://a.example.com"},
            {"token_endpoint": "https://b.example.com/t"},
            [("add SignInOrigins=https://a.example.com,https://b.example.com", True)],
        ),
        ({"SignInOrigins": "https://b.example.com"}, {"token_endpoint": "https://b.example.com/t"}, []),
    ],
)
def test_the_preflight_finds_what_keeps_users_from_signing_in(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], said: dict[str, str], found: list[tuple[str, bool]]
) -> None:
    told = {"issuer": PROVIDER["JwtIssuer"], "token_endpoint": "https://login.example.com/token", **said}
    monkeypatch.setattr(stack_page, "urlopen", lambda *_, **__: io.BytesIO(json.dumps(told).encode()))
    problems = list(stack_page.sign_in_problems({**PROVIDER, **values}))
    assert [stops for _, stops in problems] == [stops for _, stops in found]
    assert all(text in message for (message, _), (text, _) in zip(problems, found, strict=True)), problems


def test_a_page_that_cannot_be_built_stops_the_deployment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails() -> None:
        raise SystemExit("npm ended with 1")

    monkeypatch.setattr(page_build, "build", fails)
    with pytest.raises(Refused, match=r"npm ended with 1.*WebPage=false"):
        stack_page.put_into_package(tmp_path)


# -- deployed --------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_stack_serves_the_page_only_with_webpage(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmulatedAws() as aws:
        aws.use(monkeypatch)
        aws.create("without")
        aws.create("with", WebPage="true", RestDomain="api.example.com", CertificateArn=CERTIFICATE)
        aws.create("others", WebPage="true", AllowedOrigins="https://ide.example.com")
        assert "PageUrl" not in outputs(Stack("without").deployed())
        assert _answering(aws, "without") == {"rest-api"}
        assert _cors(aws, "without") == []
        for name, own, others in (
            ("with", ["https://api.example.com"], []),
            ("others", [], ["https://ide.example.com"]),
        ):
            deployed = Stack(name).deployed()
            found = outputs(deployed)
            assert _answering(aws, name) == {"page"}
            (first, *rest) = _cors(aws, name)
            assert ".execute-api." in first
            assert not first.endswith("/")
            assert rest == [*own, *others]
            assert found["PageUrl"] == f"{(own or [first])[0]}/"
            assert f"page       {found['PageUrl']}" in summary(Stack(name), deployed)
        aws.update("others", WebPage="false")
        assert _answering(aws, "others") == {"rest-api"}
        aws.update("others", WebPage="true")
        assert _answering(aws, "others") == {"page"}


CERTIFICATE = "arn:aws:acm:eu-central-1:123456789012:certificate/12345678-1234-1234-1234-123456789012"


def _api(aws: EmulatedAws, stack: str) -> dict[str, Any]:
    (found,) = [api for api in aws.client("apigatewayv2").get_apis()["Items"] if api["Name"] == f"{stack}-http"]
    return dict(found)


def _answering(aws: EmulatedAws, stack: str) -> set[str]:
    """The functions that answer at the page's addresses."""
    gateway, api = aws.client("apigatewayv2"), _api(aws, stack)["ApiId"]
    routes = {route["RouteKey"]: route["Target"] for route in gateway.get_routes(ApiId=api)["Items"]}
    targets = {routes[key].removeprefix("integrations/") for key in ("GET /", "GET /{file}", "GET /assets/{file}")}
    uris = [gateway.get_integration(ApiId=api, IntegrationId=target)["IntegrationUri"] for target in targets]
    return {uri.rsplit(f"function:{stack}-", 1)[1].split("/")[0] for uri in uris}


def _cors(aws: EmulatedAws, stack: str) -> list[str]:
    """The origins that may use the stack's bucket."""
    s3 = aws.client("s3")
    try:
        rules = s3.get_bucket_cors(Bucket=outputs(Stack(stack).deployed())["PayloadBucketName"])["CORSRules"]
    except s3.exceptions.ClientError:
        return []
    (rule,) = rules
    return list(rule["AllowedOrigins"])
