"""The edge: CloudFront's function that turns paths into queries, what the stack makes of it, and its deployment."""

import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from codelab.config import Settings
from codelab.gateway import edge
from codelab_client.session.address import Address

from infra.intrinsics import decided, text
from infra.stack.deploy import summary
from infra.stack.page import is_served
from infra.stack.rotate import LEARNT_S, rotate
from infra.stack.stack import Stack, outputs, parameters
from tests.fakes.aws.emulated import TEMPLATE, EmulatedAws
from tests.infra.test_page import _answering, _cors
from tests.infra.test_stack import AT_THE_EDGE, template
from tests.permissions import resources

FUNCTIONS = TEMPLATE.parent / "functions"
REFUSED = {"statusCode": 403, "statusDescription": "Forbidden"}


def code() -> str:
    """The function's source, for the stage v1."""
    source: str = template["Resources"]["EdgePaths"]["Properties"]["FunctionCode"]["Fn::Sub"]
    assert set(re.findall(r"\$\{(\w+)\}", source)) == {"StageName"}
    return source.replace("${StageName}", "v1")


def answers(requests: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What the function answers to requests with these paths and queries, as CloudFront gives them to it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("this test runs JavaScript: install Node.js 18 or later")
    events = [
        {"version": "1.0", "request": {"method": "GET", "uri": uri, "querystring": query, "headers": {}, "cookies": {}}}
        for uri, query in requests
    ]
    script = f"{code()}\nconsole.log(JSON.stringify({json.dumps(events)}.map(handler)));"
    done = subprocess.run([node, "-"], input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


# -- paths -------------------------------------------------------------------------------------------------------------

TAKEN = {
    "/ws/user_session_123": "user_session_123",  # as the seed documents have it
    "/ws/a": "a",
    "/ws/A-Z_a.z:0": "A-Z_a.z:0",
    "/ws/A%3Ab": "A:b",
    "/ws/%61bc": "abc",
    "/ws/...": "...",
    "/ws/.a": ".a",
    f"/ws/{'x' * 128}": "x" * 128,
}
NOT_TAKEN = [
    "/ws",
    "/ws/",
    "/ws//",
    "/ws//a",
    "//ws/a",
    "/ws/a/",
    "/ws/a/../b",
    "/ws/a/%2e%2e/b",
    "/ws/a/%2E%2E/b",
    "/ws/../api/v1/sessions",
    "/api/v1/../../ws/a",
    "/ws/.",
    "/ws/..",
    "/ws/%2e",
    "/ws/%2e%2e",
    "/ws/%2E.",
    "/ws/%252e%252e",
    "/ws/%2561bc",
    "/ws/a%2fb",
    "/ws/a%2Fb",
    "/ws/a%5Cb",
    "/ws/a\\b",
    "/ws/a%00",
    "/ws/a%0a",
    "/ws/a%0A",
    "/ws/a%20b",
    "/ws/a b",
    "/ws/a+b",
    "/ws/a%",
    "/ws/a%zz",
    "/ws/%C0%AE%C0%AE",  # dots, too long in UTF-8
    "/ws/%FF",
    "/ws/a%23b",
    "/ws/a%3Fsession_id=b",
    "/ws/a%26session_id=b",
    "/ws/a;session_id=b",
    "/ws/{session_id}",
    "/ws/%D1%81%D0%B5%D1%81%D1%81%D0%B8%D1%8F",
    "/ws/сессия",
    "/WS/a",
    "/%77s/a",
    f"/ws/{'x' * 129}",
    f"/ws/{'%61' * 129}",
    f"/ws/{'x' * 8_000}",
    "",
]


def test_only_the_path_of_a_session_leads_to_the_websocket() -> None:
    for (path, session), answer in zip(TAKEN.items(), answers([(path, {}) for path in TAKEN]), strict=True):
        assert (answer["uri"], answer["querystring"]) == ("/v1", {"session_id": {"value": session}}), path
    for path, answer in zip(NOT_TAKEN, answers([(path, {}) for path in NOT_TAKEN]), strict=True):
        assert answer == REFUSED, path


def test_what_the_path_takes_the_authorizer_takes() -> None:
    from codelab.gateway.identity import SESSION_ID

    (pattern,) = re.findall(r"SESSION_ID = /\^(.*)\$/;", code())
    assert pattern.replace("$)", r"\Z)") == SESSION_ID.pattern


def test_the_clients_address_of_a_session_is_taken() -> None:
    address = Address.parse("wss://d111.cloudfront.net/ws/{session_id}")
    assert address.rest_url == "https://d111.cloudfront.net/api/v1"
    url = address.of("a:b.c", extensions=1)
    assert url == f"wss://d111.cloudfront.net/ws/{quote('a:b.c', safe='')}?extensions=1"
    (answer,) = answers([("/ws/a%3Ab.c", {"extensions": {"value": "1"}})])
    assert answer["querystring"] == {"session_id": {"value": "a:b.c"}, "extensions": {"value": "1"}}


# -- queries -----------------------------------------------------------------------------------------------------------

OTHERS = ["session_id", "session%5Fid", "%73ession_id", "session%5fid", "session_id%00", "Session_id", "x", "__proto__"]


def test_the_path_wins_over_any_spelling_of_the_parameter() -> None:
    several = {"value": "b", "multiValue": [{"value": "b"}, {"value": "c"}]}
    for name, answer in zip(OTHERS, answers([("/ws/a", {name: several}) for name in OTHERS]), strict=True):
        assert answer["querystring"] == {"session_id": {"value": "a"}}, name


def test_what_connect_reads_is_passed_on_as_it_is() -> None:
    """A parameter that the functions begin to read must get through the edge as well."""
    read: set[str] = set()
    files = [FUNCTIONS / "authorize/handler.py", FUNCTIONS / "connect/handler.py", Path(edge.__file__)]
    for file in (*files, Path(edge.__file__).with_name("identity.py")):
        read |= set(re.findall(r'query(?:_of\(event\))?\.get\("(\w+)"', file.read_text(encoding="utf-8")))
    assert "token" in read
    given = {name: {"value": f"{name}%2B1"} for name in read}
    (answer,) = answers([("/ws/a", {**given, "session_id": {"value": "b"}})])
    assert answer["querystring"] == {**given, "session_id": {"value": "a"}}


# -- the template ------------------------------------------------------------------------------------------------------


def config() -> dict[str, Any]:
    found: dict[str, Any] = resources()["Distribution"]["Properties"]["DistributionConfig"]
    return found


def test_without_it_nothing_of_it_is_in_the_stack() -> None:
    without = decided(resources(), "HasEdge", holds=False)
    gone = {"EdgeSecret", "EdgePaths", "EdgeAssets", "Distribution"}
    assert resources().keys() - without.keys() == gone
    left = json.dumps({name: {**one, "DependsOn": ""} for name, one in without.items()})
    assert [name for name in gone if f'"{name}"' in left or f"${{{name}" in left] == []


def test_only_the_functions_that_let_somebody_in_know_the_secret() -> None:
    knowing = {
        name
        for name, one in resources().items()
        if one["Type"] == "AWS::Lambda::Function" and "EDGE_SECRET_ARN" in one["Properties"]["Environment"]["Variables"]
    }
    assert knowing == {"AuthorizeFunction", "RestApiFunction"}


def test_nobody_is_refused_before_there_is_an_edge() -> None:
    """A distribution takes minutes, and fails if its name is another's. Meanwhile users have only the old addresses."""
    for function in ("AuthorizeFunction", "RestApiFunction"):
        variables = resources()[function]["Properties"]["Environment"]["Variables"]
        assert '{"Ref": "Distribution"}' in json.dumps(variables["EDGE_SECRET_ARN"]), function


def test_the_origins_send_what_the_functions_look_for() -> None:
    headers = [header for origin in config()["Origins"] for header in origin["OriginCustomHeaders"]]
    assert {header["HeaderName"] for header in headers} == {edge.HEADER}
    # CloudFront refuses to add headers with these beginnings.
    assert not edge.HEADER.startswith(("x-edge-", "x-amz-"))
    (value,) = {text(header["HeaderValue"]) for header in headers}
    assert value == "{{resolve:secretsmanager:${EdgeSecret}:SecretString:::${EdgeSecretVersion}}}"


def test_posts_use_the_apis_own_address_which_stays_open() -> None:
    for api in ("WebSocketApi", "HttpApi"):
        assert "DisableExecuteApiEndpoint" not in resources()[api]["Properties"]
    variables = resources()["LlmRequestFunction"]["Properties"]["Environment"]["Variables"]
    assert text(variables["CONNECTIONS_URL"]).startswith("https://${WebSocketApi}.execute-api.")


def test_the_address_that_clients_are_told_is_a_setting() -> None:
    told = resources()["RestApiFunction"]["Properties"]["Environment"]["Variables"]["WEBSOCKET_ADDRESS"]
    page = resources()["PageFunction"]["Properties"]["Environment"]["Variables"]["WEBSOCKET_ADDRESS"]
    assert told == page
    assert {"websocket_address", "edge_secret_arn"} <= set(Settings.__dataclass_fields__)


# -- deployed ----------------------------------------------------------------------------------------------------------

FIREWALL = "arn:aws:wafv2:us-east-1:123456789012:global/webacl/ours/12345678-1234-1234-1234-123456789012"


def distribution(aws: EmulatedAws, stack: str) -> dict[str, Any]:
    """The distribution of a stack, as CloudFront describes it."""
    (identifier,) = _physical(aws, stack, "AWS::CloudFront::Distribution")
    found: dict[str, Any] = aws.client("cloudfront").get_distribution(Id=identifier)["Distribution"]
    return found


def _physical(aws: EmulatedAws, stack: str, kind: str) -> list[str]:
    pages = aws.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    summaries = [one for page in pages for one in page["StackResourceSummaries"]]
    return [
        one["PhysicalResourceId"]
        for one in summaries
        if one["ResourceType"] == kind and one["ResourceStatus"] != "DELETE_COMPLETE"
    ]


def variables(aws: EmulatedAws, function: str) -> dict[str, str]:
    found: dict[str, str] = aws.function(function)["Environment"]["Variables"]
    return found


@pytest.mark.deep
def test_a_stack_has_one_address_with_the_page_or_without(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmulatedAws() as aws:
        aws.use(monkeypatch)
        aws.create("one", Edge="true", WebPage="true", EdgeWebAclArn=FIREWALL)
        host = distribution(aws, "one")["DomainName"]
        _has_one_address(aws, host)
        assert _answering(aws, "one") == {"page"}
        assert _cors(aws, "one") == [f"https://{host}"]
        aws.update("one", Edge="true", WebPage="false", EdgeWebAclArn=FIREWALL)
        assert _answering(aws, "one") == {"rest-api"}
        assert distribution(aws, "one")["DomainName"] == host, "clients know it"
        assert "PageUrl" not in outputs(Stack("one").deployed())
        aws.update("one", Edge="true", WebPage="true", EdgeWebAclArn=FIREWALL)
        assert _cors(aws, "one") == [f"https://{host}"]
        _can_be_rotated(aws)
        own = {"EdgeDomain": "codelab.example.com", "EdgeCertificateArn": AT_THE_EDGE}
        aws.update("one", Edge="true", WebPage="true", **own)
        _has_a_name_of_its_own(aws, host)
        aws.update("one", Edge="false", WebPage="true")
        assert _physical(aws, "one", "AWS::CloudFront::Distribution") == []
        assert variables(aws, "one-authorize")["EDGE_SECRET_ARN"] == ""
        assert ".execute-api." in outputs(Stack("one").deployed())["PageUrl"]
        assert is_served(Stack("one"), {})


def _has_one_address(aws: EmulatedAws, host: str) -> None:
    described = Stack("one").deployed()
    found = outputs(described)
    assert (found["WebSocketUrl"], found["RestUrl"]) == (f"wss://{host}/ws/{{session_id}}", f"https://{host}")
    assert found["PageUrl"] == f"https://{host}/"
    assert f"wss://{host}/ws/my_session" in summary(Stack("one"), described)
    for function in ("one-rest-api", "one-page"):
        assert variables(aws, function)["WEBSOCKET_ADDRESS"] == f"wss://{host}/ws/{{session_id}}"
    config = distribution(aws, "one")["DistributionConfig"]
    assert config["WebACLId"] == FIREWALL
    secret = aws.client("secretsmanager").get_secret_value(SecretId=found["EdgeSecretArn"])["SecretString"]
    assert len(secret) == 64
    sent = {
        (origin["Id"], header["HeaderValue"]) for origin in config["Origins"]["Items"] for header in _headers(origin)
    }
    assert sent == {("websocket", secret), ("http", secret)}
    assert variables(aws, "one-authorize")["EDGE_SECRET_ARN"] == found["EdgeSecretArn"]
    posts = variables(aws, "one-llm-request")["CONNECTIONS_URL"]
    assert ".execute-api." in posts


def _headers(origin: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = origin["CustomHeaders"]["Items"]
    return found


def _can_be_rotated(aws: EmulatedAws) -> None:
    """Whenever a rotation begins, the functions accept what CloudFront sends; a third value is never made."""
    arn = outputs(Stack("one").deployed())["EdgeSecretArn"]
    secrets, first = aws.client("secretsmanager"), _sent(aws)
    _rotated(aws, arn, accepted={*first})
    second = _sent(aws)
    assert first.isdisjoint(second)
    assert parameters(Stack("one").deployed())["WebPage"] == "true", "other parameters stay"
    secrets.put_secret_value(SecretId=arn, SecretString="begun")
    assert "finishing" in _rotated(aws, arn, accepted={"begun", *second})
    assert _sent(aws) == {"begun"}
    for value in ("by hand", "again by hand"):
        secrets.put_secret_value(SecretId=arn, SecretString=value)
    _rotated(aws, arn, accepted={"by hand", "again by hand"})
    assert _sent(aws) == {"again by hand"}


def _rotated(aws: EmulatedAws, arn: str, accepted: set[str]) -> str:
    """Rotate the secret. `accepted`: what the functions know besides a new value while CloudFront gets one."""
    secrets, out, waits = aws.client("secretsmanager"), io.StringIO(), []

    def get(stage: str) -> str:
        return str(secrets.get_secret_value(SecretId=arn, VersionStage=stage)["SecretString"])

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        assert accepted <= {get("AWSCURRENT"), get("AWSPREVIOUS")}

    rotate(Stack("one"), out, sleep)
    assert waits == [LEARNT_S]
    assert _sent(aws) == {get("AWSCURRENT")}
    with pytest.raises(ClientError, match="ResourceNotFound"):
        get("AWSPREVIOUS")
    return out.getvalue()


def _sent(aws: EmulatedAws) -> set[str]:
    origins = distribution(aws, "one")["DistributionConfig"]["Origins"]["Items"]
    return {header["HeaderValue"] for origin in origins for header in _headers(origin)}


def _has_a_name_of_its_own(aws: EmulatedAws, host: str) -> None:
    described = Stack("one").deployed()
    found = outputs(described)
    assert (found["WebSocketUrl"], found["RestUrl"]) == (
        "wss://codelab.example.com/ws/{session_id}",
        "https://codelab.example.com",
    )
    assert _cors(aws, "one") == ["https://codelab.example.com"]
    config = distribution(aws, "one")["DistributionConfig"]
    assert config["Aliases"]["Items"] == ["codelab.example.com"]
    assert config["ViewerCertificate"]["ACMCertificateArn"] == AT_THE_EDGE
    assert f"codelab.example.com must be a CNAME (or alias) of {host}" in summary(Stack("one"), described)
