"""Other programs and users of the machine cannot use the ports behind the public one."""

import contextlib
import json
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from codelab_local import LocalCloud
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.cases import cases
from tests.fakes.ide.ide import Ide
from tests.functions import events
from tests.processes import command_lines
from tests.security.raw import ask, keys
from tests.waiting import until


def internal(cloud: LocalCloud) -> str:
    """The internal port's address without the secret."""
    parts = urlsplit(cloud.info["internal"])
    return f"{parts.scheme}://{parts.netloc}"


def secrets(cloud: LocalCloud) -> list[str]:
    return [cloud.info["secret_access_key"], urlsplit(cloud.info["internal"]).path.strip("/")]


def signed(cloud: LocalCloud, path: str, used: Credentials, service: str, body: bytes, **headers: str) -> httpx.Request:
    """A request to the emulator, signed with this key."""
    url = f"{cloud.info['emulator']}{path}"
    request = AWSRequest("POST", url, {name.replace("_", "-"): value for name, value in headers.items()}, body)
    SigV4Auth(used, service, cloud.info["region"]).add_auth(request)
    return httpx.Request("POST", url, headers=dict(request.headers.items()), content=body)


def send(request: httpx.Request) -> httpx.Response:
    with httpx.Client(timeout=60) as client:
        return client.send(request)


# The internal port.


def decision(session: str, call_id: str) -> dict[str, Any]:
    """An approval's event, as from API Gateway, with a user of the attacker's choice."""
    body = {"type": "hitl_decision", "call_id": call_id, "decision": "approve"}
    return events.message("forged=", events.authorizer_context(session, user="local"), body["type"], json.dumps(body))


@cases("prefix", ["", "/", f"/{'0' * 64}", "/worker/1", "/%2e"])
def test_a_forged_event_approves_nothing(demo_cloud: LocalCloud, prefix: str) -> None:
    url = f"{internal(demo_cloud)}{prefix}/2015-03-31/functions/hitl_decision/invocations"
    for kind in ("RequestResponse", "Event"):
        headers = {"X-Amz-Invocation-Type": kind}
        answer = httpx.post(url, json=decision("any", "call_any"), headers=headers, timeout=60)
        assert answer.status_code == 403


@cases(
    ("method", "path"),
    [
        ("GET", "/_local/functions"),
        ("GET", "/v1/@connections/x"),
        ("POST", "/v1/@connections/x"),
        ("GET", "/s3/"),
        ("GET", "/"),
        ("GET", ""),
    ],
)
def test_the_internal_port_requires_its_secret(demo_cloud: LocalCloud, method: str, path: str) -> None:
    answer = httpx.request(method, f"{internal(demo_cloud)}{path}", timeout=60)
    assert (answer.status_code, answer.json()) == (403, {"message": "Forbidden"})


def test_a_workers_events_cannot_be_stolen(demo_cloud: LocalCloud) -> None:
    """Workers are numbered, so their ids can be guessed."""
    for number in range(1, 60):
        url = f"{internal(demo_cloud)}/worker/{number}/2018-06-01/runtime/invocation/next"
        with contextlib.suppress(httpx.ReadTimeout):
            assert httpx.get(url, timeout=20).json() == {"message": "Forbidden"}
            continue
        pytest.fail(f"worker {number} would give its next event to anybody")


@pytest.mark.parametrize("origin", ["https://evil.test", "null", "http://localhost:3000"])
def test_pages_cannot_use_the_internal_port_even_with_the_secret(demo_cloud: LocalCloud, origin: str) -> None:
    answer = httpx.get(f"{demo_cloud.info['internal']}/_local/functions", headers={"Origin": origin}, timeout=60)
    assert answer.status_code == 403
    assert demo_cloud.functions(), "without an Origin it works"


# The emulator.

LIST_TABLES = {"X_Amz_Target": "DynamoDB_20120810.ListTables", "Content_Type": "application/x-amz-json-1.0"}


def test_the_emulator_refuses_unsigned_requests(demo_cloud: LocalCloud) -> None:
    headers = {"X-Amz-Target": LIST_TABLES["X_Amz_Target"]}
    assert httpx.post(demo_cloud.info["emulator"], json={}, headers=headers, timeout=60).status_code == 403
    assert httpx.get(demo_cloud.info["emulator"], timeout=60).status_code == 403


def test_the_emulator_refuses_other_keys(demo_cloud: LocalCloud) -> None:
    own = keys(demo_cloud)
    for key_id, secret in (
        ("local", "local"),
        ("local", own.secret_key),
        (own.access_key, "local"),
        (own.access_key, own.secret_key[:-1]),
        (own.access_key, own.access_key),
    ):
        request = signed(demo_cloud, "/", Credentials(key_id, secret), "dynamodb", b"{}", **LIST_TABLES)
        assert send(request).status_code == 403, key_id


def test_the_emulator_checks_that_a_body_matches_its_signature(demo_cloud: LocalCloud) -> None:
    request = signed(demo_cloud, "/", keys(demo_cloud), "dynamodb", b'{"Limit": 1}', **LIST_TABLES)
    assert send(request).status_code == 200
    forged = httpx.Request("POST", request.url, headers=dict(request.headers), content=b'{"Limit": 2}')
    assert send(forged).status_code == 403
    other = {**dict(request.headers), "x-amz-target": "DynamoDB_20120810.DescribeLimits"}
    assert send(httpx.Request("POST", request.url, headers=other, content=b'{"Limit": 1}')).status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.test", "null", "http://localhost:3000"])
def test_pages_cannot_use_the_emulator_even_with_the_keys(demo_cloud: LocalCloud, origin: str) -> None:
    answer = send(signed(demo_cloud, "/", keys(demo_cloud), "dynamodb", b"{}", **LIST_TABLES, Origin=origin))
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@cases(
    "path",
    [
        "/_ministack/reset",
        "/_ministack/config",
        "/_ministack/health",
        "/%5fministack/reset",
        "/_ministack%2freset",
        "/_localstack/health",
    ],
)
def test_the_emulators_administration_is_not_reachable(demo_cloud: LocalCloud, path: str) -> None:
    assert httpx.post(f"{demo_cloud.info['emulator']}{path}", timeout=60).status_code == 403
    assert httpx.get(f"{demo_cloud.info['emulator']}{path}", timeout=60).status_code == 403
    assert send(signed(demo_cloud, path, keys(demo_cloud), "s3", b"")).status_code == 403


@cases(
    ("service", "target"),
    [
        ("states", "AWSStepFunctions.ListStateMachines"),
        ("glue", "AWSGlue.GetJobs"),
        ("ssm", "AmazonSSM.DescribeParameters"),
        ("ecs", "AmazonEC2ContainerServiceV20141113.ListClusters"),
        ("athena", "AmazonAthena.ListWorkGroups"),
        ("codebuild", "CodeBuild_20161006.ListProjects"),
    ],
)
def test_the_emulator_runs_only_the_templates_services(demo_cloud: LocalCloud, service: str, target: str) -> None:
    headers = {"X_Amz_Target": target, "Content_Type": "application/x-amz-json-1.1"}
    assert send(signed(demo_cloud, "/", keys(demo_cloud), service, b"{}", **headers)).status_code >= 400


def test_the_emulator_refuses_websockets(demo_cloud: LocalCloud) -> None:
    """Its own WebSocket APIs would run the deployed functions' placeholders."""
    address = demo_cloud.info["emulator"].replace("http://", "ws://")
    with pytest.raises(InvalidStatus, match="403"), connect(f"{address}/_aws/execute-api/x/v1"):
        pass


# The stream server.


def test_only_the_documented_ports_are_open(demo_cloud: LocalCloud) -> None:
    """A server on another port would let every page and user of the machine bypass the public port's checks."""
    with Ide(demo_cloud.url("streamed")) as ide:
        ide.say("Hello")
        stream = f"{demo_cloud.http}/api/v1/chat/stream/streamed?last_seq=0&wait=0"
        until(lambda: httpx.get(stream, timeout=60).status_code == 200)
    named = {demo_cloud.info["port"], *(urlsplit(demo_cloud.info[name]).port for name in ("emulator", "internal"))}
    listening = {}
    for process, line in command_lines(demo_cloud).items():
        with contextlib.suppress(psutil.NoSuchProcess):
            for socket in process.net_connections("inet"):
                if socket.status == psutil.CONN_LISTEN:
                    listening[socket.laddr.port] = (socket.laddr.ip, line)
    assert {address for address, _ in listening.values()} == {"127.0.0.1"}
    others = {port: line for port, (_, line) in listening.items() if port not in named}
    # The demonstration model has no users and stores nothing.
    assert all("codelab_local.demo_model" in line for line in others.values()), others


# Secrets.


def test_no_command_line_contains_a_secret(demo_cloud: LocalCloud) -> None:
    """Other users of the machine can see command lines."""
    lines = [" ".join(line) for line in command_lines(demo_cloud).values()]
    assert len(lines) > 5
    assert not [line for line in lines if any(secret in line for secret in secrets(demo_cloud))]


def test_no_file_readable_by_others_contains_a_secret(demo_cloud: LocalCloud) -> None:
    folder = Path(demo_cloud.info["folder"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    info = next(Path(demo_cloud._folder.name).glob("info.json"))
    assert stat.S_IMODE(info.stat().st_mode) == 0o600


def test_no_answer_and_no_log_contains_a_secret(demo_cloud: LocalCloud) -> None:
    port = demo_cloud.info["port"]
    for path in ("/health", "/docs", "/openapi.json", "/nothing", "/s3/x/items/y", "/api/v1/sessions"):
        body = ask(port, path).body.decode()
        assert not [secret for secret in secrets(demo_cloud) if secret in body]
    assert not [secret for secret in secrets(demo_cloud) if secret in demo_cloud.logs()]


def test_every_start_has_new_secrets(demo_cloud: LocalCloud, cloud: LocalCloud) -> None:
    assert not {*secrets(demo_cloud)} & {*secrets(cloud)}
    assert all(len(secret) >= 32 for secret in secrets(demo_cloud))
