"""Kept connections, credentials and endpoints."""

import contextlib
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import botocore
import botocore.loaders
import botocore.session
import certifi
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.credentials import RefreshableCredentials
from botocore.endpoint_provider import EndpointProvider
from codelab.aws.connections import STALE_S, Connections, trusted
from codelab.aws.dynamodb import DynamoDB
from codelab.aws.errors import AwsUnreachable
from codelab.aws.session import certificates, endpoint, region, session
from codelab.http.proxies import ProxyRefused

from tests.fakes.aws.server import AwsServer
from tests.fakes.http import response


def ask(connections: Connections, body: bytes = b"{}") -> int:
    return connections.send(connections.signer.signed("POST", "/", {}, body)).status


def used(server: AwsServer) -> list[int]:
    return [got.connection for got in server.received]


def test_a_connection_that_was_closed_while_idle_is_replaced_at_no_cost(server: AwsServer, rests: list[float]) -> None:
    server.closes = True
    table = DynamoDB()
    for _ in range(3):
        table.get_item(TableName="Table", Key={})
        assert server.closed.acquire(timeout=60)
    assert used(server) == [0, 1, 2]
    assert rests == [], "no attempt has failed"


def test_connections_that_slept_are_not_used_again(server: AwsServer) -> None:
    now = 1_000.0
    connections = Connections("dynamodb", server.url, clock=lambda: now)
    for slept in (0, STALE_S, STALE_S + 0.1, 0, -3600):
        now += slept
        ask(connections)
    assert used(server) == [0, 0, 1, 1, 2], "a clock that was set back tells nothing"


def test_processes_do_not_share_connections(server: AwsServer) -> None:
    forks = """if True:
        import os
        from codelab.aws.dynamodb import DynamoDB
        table = DynamoDB()
        table.get_item(by="parent")
        if os.fork() == 0:
            table.get_item(by="child")
            table.get_item(by="child")
        else:
            os.wait()
            table.get_item(by="parent")
    """
    subprocess.run([sys.executable, "-c", forks], check=True, timeout=60)
    assert used(server) == [0, 1, 1, 0]
    assert [got.body["by"] for got in server.received] == ["parent", "child", "child", "parent"]


def test_an_answer_that_comes_before_the_request_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of Lambda to an event of many megabytes. Then the connection is closed, with what nobody has read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections = Connections("lambda", f"http://127.0.0.1:{listener.getsockname()[1]}")

        def refuse() -> None:
            with listener.accept()[0] as connection:
                connection.recv(100)
                connection.sendall(response(413, {}))

        thread = threading.Thread(target=refuse)
        thread.start()
        assert ask(connections, bytes(8_000_000)) == 413
        thread.join(60)
        assert not connections._pool._idle


@pytest.mark.parametrize(
    ("taken", "told", "body", "never_arrived"),
    [(100, b"", bytes(8_000_000), True), (65_536, b"HTTP/1.1 200 OK\r\nContent-Le", b"{}", False)],
    ids=["cut off", "answer begun"],
)
def test_a_request_that_is_reset_has_arrived_if_its_answer_had_begun(
    taken: int, told: bytes, body: bytes, never_arrived: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections = Connections("lambda", f"http://127.0.0.1:{listener.getsockname()[1]}")

        def reset() -> None:
            with listener.accept()[0] as connection:
                connection.recv(taken)
                if told:
                    connection.sendall(told)
                    time.sleep(0.1)  # A reset discards what was not read before.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=reset)
        thread.start()
        with pytest.raises(AwsUnreachable) as error:
            ask(connections, body)
        assert error.value.never_arrived is never_arrived
        thread.join(60)


def test_nothing_that_listens(server: AwsServer) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(AwsUnreachable) as error:
            ask(Connections("dynamodb", f"http://127.0.0.1:{probe.getsockname()[1]}"))
    assert error.value.never_arrived


def test_requests_are_signed_with_the_credentials_of_now(server: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def refresh() -> dict[str, str]:
        made.append(1)
        left = timedelta(minutes=5 if len(made) == 1 else 60)  # the first ones are about to expire
        key = f"KEY{len(made)}"
        expires = (datetime.now(UTC) + left).isoformat()
        return {"access_key": key, "secret_key": "s", "token": f"token of {key}", "expiry_time": expires}

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    session()._credentials = RefreshableCredentials.create_from_metadata(refresh(), refresh, "test")  # type: ignore[attr-defined]
    connections = Connections("dynamodb", server.url)
    made[1:] = []
    ask(connections)
    (got,) = server.received
    assert "Credential=KEY2/" in got.headers["authorization"]
    assert got.headers["x-amz-security-token"] == "token of KEY2"


def test_no_credentials(server: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(AwsUnreachable, match="credentials"):
        ask(Connections("dynamodb", server.url))
    assert not server.received


def test_https_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with AwsServer() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://ann:pass@127.0.0.1:{proxy.port}")
        proxy.answers = [response(407, b"")]
        with pytest.raises(AwsUnreachable) as error:
            ask(Connections("dynamodb", "https://dynamodb.eu-west-1.amazonaws.com"))
        assert error.value.never_arrived
        (got,) = proxy.received
        assert (got.method, got.path) == ("CONNECT", "dynamodb.eu-west-1.amazonaws.com:443")
        assert got.headers["proxy-authorization"] == "Basic YW5uOnBhc3M="
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(AwsUnreachable):
            ask(Connections("dynamodb", "https://127.0.0.1:1"))
        assert len(proxy.received) == 1


def test_a_proxy_for_all_is_one_for_https(monkeypatch: pytest.MonkeyPatch) -> None:
    with AwsServer() as proxy:
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        proxy.answers = [response(403, b"")]
        with pytest.raises(AwsUnreachable, match="the proxy refused the connection: 403"):
            ask(Connections("dynamodb", "https://dynamodb.eu-west-1.amazonaws.com"))
        assert len(proxy.received) == 1


@pytest.mark.parametrize("proxy", ["socks5://user:secret@127.0.0.1:1080", "https://proxy:443", "http://", "http://[x"])
def test_a_proxy_that_cannot_be_used_is_an_error_at_init(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """As for models: it is not taken for another kind of proxy, which would wait for an answer in vain."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(ProxyRefused, match="HTTPS_PROXY does not name an http:// proxy") as error:
        Connections("dynamodb", "https://dynamodb.eu-west-1.amazonaws.com")
    assert "secret" not in str(error.value)


#: The descriptions of the services, read once.
LOADER = botocore.loaders.create_loader()

ELSEWHERE = "http://127.0.0.1:4566"


def _rules(service: str) -> Any:
    return LOADER.load_data(
        f"{service}/{LOADER.determine_latest_version(service, 'endpoint-rule-set-1')}/endpoint-rule-set-1"
    )


@pytest.mark.parametrize("service", ["dynamodb", "lambda", "secretsmanager"])
@pytest.mark.parametrize(
    ("region", "variables"),
    [
        ("us-east-1", {}),
        ("eusc-de-east-1", {}),
        ("eu-central-1", {}),
        ("cn-north-1", {}),
        ("us-gov-west-1", {}),
        ("us-gov-west-1", {"AWS_USE_FIPS_ENDPOINT": "true"}),
        ("us-east-1", {"AWS_USE_FIPS_ENDPOINT": "true"}),
        ("cn-north-1", {"AWS_USE_DUALSTACK_ENDPOINT": "true"}),
        ("eu-central-1", {"AWS_ENDPOINT_URL": ELSEWHERE}),
        ("eu-central-1", {"AWS_ENDPOINT_URL": ELSEWHERE, "AWS_ENDPOINT_URL_LAMBDA": "http://127.0.0.1:1"}),
        ("eu-central-1", {"AWS_ENDPOINT_URL_DYNAMODB": ELSEWHERE}),
        ("eu-central-1", {"AWS_ENDPOINT_URL_SECRETS_MANAGER": ELSEWHERE}),
        ("eu-central-1", {"AWS_ENDPOINT_URL": ELSEWHERE, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}),
    ],
)
def test_endpoints_are_the_sdks(
    monkeypatch: pytest.MonkeyPatch, service: str, region: str, variables: dict[str, str]
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    asked: list[str] = []

    def before_call(params: dict[str, Any], **_: Any) -> Any:
        asked.append(params["url"])
        return AWSResponse(params["url"], 200, HTTPHeaders(), None), {}

    sdk = botocore.session.Session()
    sdk.register_component("data_loader", LOADER)
    client: Any = sdk.create_client(service)
    client.meta.events.register_first("before-call", before_call)
    if service == "lambda":
        client.list_functions()
        assert asked == [endpoint(service) + "/2015-03-31/functions"]
    else:
        _ = client.list_tables() if service == "dynamodb" else client.list_secrets()
        assert asked == [endpoint(service) + "/"]


def test_the_regions_of_the_usual_partition_are_where_the_sdk_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    (usual,) = (it for it in LOADER.load_data("partitions")["partitions"] if it["id"] == "aws")
    regions = [name for name in usual["regions"] if not name.startswith("aws-")]
    assert len(regions) > 30
    for service in ("dynamodb", "lambda", "secretsmanager"):
        rules = EndpointProvider(_rules(service), LOADER.load_data("partitions"))
        for name in regions:
            monkeypatch.setenv("AWS_DEFAULT_REGION", name)
            sdks = rules.resolve_endpoint(Region=name, UseFIPS=False, UseDualStack=False).url
            assert endpoint(service) == sdks, (service, name)


def test_what_a_configuration_file_says_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = {"region": "eu-north-1", "endpoint_url": ELSEWHERE, "ca_bundle": "/company.pem"}
    (tmp_path / "config").write_text("[default]\n" + "".join(f"{name} = {value}\n" for name, value in said.items()))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert (region(), endpoint("lambda"), certificates()) == ("eu-north-1", ELSEWHERE, ("/company.pem", False))
    monkeypatch.setenv("AWS_CA_BUNDLE", "/other.pem")
    assert certificates() == ("/other.pem", False)


def test_amazons_certificates_are_tried_before_all_of_the_sdks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is refused that the SDK accepts, and nothing else is accepted."""
    for name in ("amazon", "other"):
        options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x"
        options += " -addext subjectAltName=IP:127.0.0.1"
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.pem")]
        subprocess.run(["openssl", "req", *options.split(), *files], check=True, capture_output=True)
    amazon, other = ((tmp_path / f"{name}.pem").read_text() for name in ("amazon", "other"))
    bundle = tmp_path / "bundle"
    monkeypatch.setattr("codelab.aws.connections.certificates", lambda: (str(bundle), True))

    def accepted(name: str, whole: bool) -> bool:
        """Whether a server with this certificate is; and whether all of the bundle was loaded for it."""
        trusted.cache_clear()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            connections = Connections("lambda", f"https://127.0.0.1:{listener.getsockname()[1]}")

            def serve() -> None:
                for _ in range(2 if whole else 1):
                    with (
                        contextlib.suppress(OSError),
                        context.wrap_socket(listener.accept()[0], server_side=True) as tls,
                    ):
                        tls.recv(10_000)
                        tls.sendall(response(200, {}))

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                return ask(connections) == 200
            except AwsUnreachable:
                return False
            finally:
                thread.join(60)

    bundle.write_text(f'# Label: "Amazon Root CA 1"\n# Serial: 1\n{amazon}\n# Label: "Other"\n{other}')
    assert [len(trusted(whole=whole).get_ca_certs()) for whole in (False, True)] == [1, 2]
    assert accepted("amazon", whole=False)
    assert accepted("other", whole=True)
    bundle.write_text(f'# Label: "Amazon Root CA 1"\n{amazon}')
    assert not accepted("other", whole=True)
    bundle.write_text(f'# Label: "Other"\n{other}')
    assert accepted("other", whole=False)


def test_the_sdks_bundles_have_amazons_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    for bundle in (certifi.where(), Path(botocore.__file__).with_name("cacert.pem")):
        trusted.cache_clear()
        monkeypatch.setattr("codelab.aws.connections.certificates", lambda bundle=bundle: (str(bundle), True))
        found = [dict(part for parts in it["subject"] for part in parts) for it in trusted().get_ca_certs()]
        names = {name.get("commonName") for name in found}
        assert {f"Amazon Root CA {n}" for n in range(1, 5)} <= names
        assert len(trusted(whole=True).get_ca_certs()) > 100
    trusted.cache_clear()


def test_in_lambda_no_sdk_is_imported(server: AwsServer) -> None:
    """The environment says all that it would find out."""
    program = """if True:
        import sys
        from codelab import wiring
        wiring.posting_engine(starts_steps=True)
        from codelab.aws.secrets import Secrets
        Secrets()
        print(*(name for name in ("botocore.session", "urllib3", "boto3") if name in sys.modules))
    """
    api = "https://api.execute-api.us-east-1.amazonaws.com/v1"
    names = ("PATH", "PYTHONPATH", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    for url in ({}, {"AWS_ENDPOINT_URL": server.url}):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "CONNECTIONS_URL": api, "HOME": "/nonexistent", **url},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert done.stdout == "\n"
