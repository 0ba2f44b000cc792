"""Large frames come from the server's own storage and go there: its frames cannot send the client anywhere else."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from codelab_client.session import http, payloads
from codelab_client.session.address import Address
from codelab_client.session.payload_hosts import PayloadHosts, RefusedHost

from tests.fakes.http import HttpServer, answering

STACK = Address.parse(
    "wss://a1.execute-api.eu-central-1.amazonaws.com/v1", "https://b2.execute-api.eu-central-1.amazonaws.com"
)
CHINA = Address.parse("wss://a1.execute-api.cn-north-1.amazonaws.com.cn/v1")
COMPANY = Address.parse("wss://codelab.example.com/v1", "https://codelab.example.com")
BUCKET = "codelab-payloadbucket-1x.s3.eu-central-1.amazonaws.com"
PUBLIC = "93.184.215.14"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[str]]:
    """What `/client-config` answers; the requests for it."""

    def answers(content: Any, status: int = 200) -> list[str]:
        asked: list[str] = []

        async def send(method: str, url: str, *_: Any, **__: Any) -> http.Response:
            asked.append(f"{method} {url}")
            if content is None:
                raise http.HttpError("no answer")
            return http.Response(status, json.dumps(content).encode())

        monkeypatch.setattr(http, "send", send)
        return asked

    return answers


def allows(address: Address, url: str, peer: str = PUBLIC) -> bool:
    hosts = PayloadHosts(address, lambda: peer)
    try:
        asyncio.run(hosts.check(url))
    except RefusedHost:
        return False
    return True


ELSEWHERE = (
    "https://evil.example/x", f"https://{BUCKET}.evil.example/x", "https://evil.example/" + BUCKET,
    f"https://{BUCKET}@evil.example/",
    f"https://evil.example#{BUCKET}", f"https://evil.example?{BUCKET}", f"https://evil.example\\@{BUCKET}/",
    "https://amazonaws.com/",
    "https://evil-amazonaws.com/", "https://b.s3.eu-central-1.evilamazonaws.com/", "https://s3.evil.com/",
    "https://s3evil.amazonaws.com/",
    "https://x.execute-api.eu-central-1.amazonaws.com/", "https://dynamodb.eu-central-1.amazonaws.com/",
    "https://bucket.s3-website.eu-central-1.amazonaws.com/", "https://169.254.169.254/latest/meta-data/",
    "https://127.0.0.1/",
    "https://localhost/", "https://[::1]/", "https://10.0.0.1/", "https://2130706433/", f"https://{BUCKET}:8443/x",
    f"http://{BUCKET}/x", f"ftp://{BUCKET}/x", "file:///etc/passwd", "//evil.example/x", "", "https://",
    f"https://{BUCKET} .evil.example/",
    f"https://{BUCKET}\n.evil.example/", f"https://{BUCKET}:99999/x", f"https://{BUCKET}:0/x",
    "https://s\u0131.amazonaws.com/",
)  # fmt: skip


@pytest.mark.parametrize("url", ELSEWHERE)
@pytest.mark.parametrize("named", [{}, {"payload_hosts": [BUCKET]}, None], ids=["older", "named", "silent"])
def test_a_frame_leads_nowhere_else(config: Callable[[Any], list[str]], url: str, named: Any) -> None:
    config(named)
    assert not allows(STACK, url)
    assert not allows(COMPANY, url)


def test_the_servers_hosts_are_reached(config: Callable[[Any], list[str]]) -> None:
    asked = config({"payload_hosts": [BUCKET, "storage.example.com:9000"]})
    for url in (f"https://{BUCKET}/items/a?X-Amz-Signature=1", f"https://{BUCKET}:443/a",
    "https://storage.example.com:9000/a",
                "https://codelab.example.com/a"):  # fmt: skip
        assert allows(COMPANY, url), url
    for url in ("https://storage.example.com/a", "https://codelab.example.com:8443/a",
                "https://other.s3.eu-central-1.amazonaws.com/a"):  # fmt: skip
        assert not allows(COMPANY, url), url
    assert set(asked) == {"GET https://codelab.example.com/client-config"}


@pytest.mark.parametrize("named", [{"auth": {}}, None, {"payload_hosts": "x"}], ids=["older", "silent", "odd"])
def test_with_an_older_server_the_partitions_s3_is_reached(config: Callable[[Any], list[str]], named: Any) -> None:
    config(named)
    usual = ("b-1.s3.eu-central-1.amazonaws.com", "b.c.s3.us-east-1.amazonaws.com", "bkt.s3.amazonaws.com",
    "s3.us-west-2.amazonaws.com",
             "bkt.s3-us-west-2.amazonaws.com", "bkt.s3.dualstack.ap-southeast-1.amazonaws.com",
             "bkt.s3.us-gov-west-1.amazonaws.com")  # fmt: skip
    other = (
        "bkt.s3.cn-north-1.amazonaws.com.cn",
        "bkt.s3.eusc-de-east-1.amazonaws.eu",
        "bkt.s3.us-iso-east-1.c2s.ic.gov",
    )
    for host in usual:
        assert allows(STACK, f"https://{host}/x"), host
        assert allows(COMPANY, f"https://{host}/x"), host
        assert not allows(CHINA, f"https://{host}/x"), host
    for host in other:
        assert not allows(STACK, f"https://{host}/x"), host
        assert allows(COMPANY, f"https://{host}/x"), host
    assert allows(CHINA, f"https://{other[0]}/x")


def test_the_configuration_is_read_once_and_again_after_a_failure(config: Callable[[Any], list[str]]) -> None:
    async def twice() -> None:
        hosts = PayloadHosts(COMPANY, lambda: PUBLIC)
        for _ in range(2):
            await hosts.check(f"https://{BUCKET}/x")

    asked = config({"payload_hosts": [BUCKET]})
    asyncio.run(twice())
    assert len(asked) == 1
    asked = config(None)
    asyncio.run(twice())
    assert len(asked) == 2


@contextmanager
def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str) -> Iterator[list[Any]]:
    """The name server gives these addresses, one after the other. Yields the addresses that are connected to."""
    found, connected = iter(answers), list[Any]()

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(found), port))]

    def connect(address: Any, **_: Any) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", resolve)
        patched.setattr(socket, "create_connection", connect)
        yield connected


@pytest.mark.parametrize(
    "private", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "100.64.0.1", "0.0.0.0"]
)
def test_a_public_name_with_a_private_address_is_not_reached(monkeypatch: pytest.MonkeyPatch, private: str) -> None:
    address = Address.parse("wss://a1.execute-api.eu-central-1.amazonaws.com/v1")
    hosts = PayloadHosts(address, lambda: PUBLIC)
    with resolving(monkeypatch, private, private) as connected:
        with pytest.raises(payloads.TransferError, match="not on the public internet"):
            asyncio.run(payloads.fetch(f"https://{BUCKET}/x", None, hosts))
        with pytest.raises(payloads.TransferError, match="not on the public internet"):
            asyncio.run(payloads.put(f"https://{BUCKET}/x", b"secret", {}, hosts))
        assert connected == []


def test_the_name_server_cannot_change_its_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own name may lead elsewhere when the payload is fetched than when the WebSocket was opened."""
    address = Address.parse("wss://evil.example/v1")
    with resolving(monkeypatch, PUBLIC, "127.0.0.1") as connected:
        with pytest.raises(payloads.TransferError):
            asyncio.run(payloads.fetch("https://evil.example/x", None, PayloadHosts(address, lambda: PUBLIC)))
        assert connected == [(PUBLIC, 443)]
    with resolving(monkeypatch, "127.0.0.1") as connected:
        with pytest.raises(payloads.TransferError, match="not on the public internet"):
            asyncio.run(payloads.fetch("https://evil.example/x", None, PayloadHosts(address, lambda: PUBLIC)))
        assert connected == []


def test_a_server_in_a_private_network_has_its_storage_there(monkeypatch: pytest.MonkeyPatch) -> None:
    address = Address.parse("wss://codelab.corp/v1")
    with resolving(monkeypatch, "10.0.0.7") as connected:
        with pytest.raises(payloads.TransferError, match="refused"):
            asyncio.run(payloads.fetch("https://codelab.corp/x", None, PayloadHosts(address, lambda: "10.0.0.7")))
        assert connected == [("10.0.0.7", 443)]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"])
def test_the_address_of_a_proxy_is_not_the_servers(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "http://10.0.0.1:3128")
    monkeypatch.setenv("NO_PROXY", "storage.example.com")
    hosts = PayloadHosts(Address.parse("wss://codelab.example.com/v1"), lambda: "10.0.0.1")
    may_reach = asyncio.run(hosts.check("https://codelab.example.com/x"))
    assert not may_reach("10.0.0.2")
    assert may_reach(PUBLIC)


def test_another_port_of_this_machine_is_not_the_local_clouds() -> None:
    with (
        HttpServer(answering({"payload_hosts": ["127.0.0.1:1"]})) as cloud,
        HttpServer(answering({"secret": 1})) as database,
    ):
        hosts = PayloadHosts(Address.parse(f"ws://127.0.0.1:{cloud.port}"), lambda: "127.0.0.1")
        for url in (f"{database.url}/x", f"http://localhost:{database.port}/x", f"http://[::1]:{database.port}/x"):
            with pytest.raises(payloads.TransferError, match="neither its own host"):
                asyncio.run(payloads.fetch(url, None, hosts))
            with pytest.raises(payloads.TransferError, match="neither its own host"):
                asyncio.run(payloads.put(url, b"{}", {}, hosts))
        assert database.received == []
        assert asyncio.run(payloads.fetch(f"http://localhost:{cloud.port}/s3/x", None, hosts)) is not None


def test_a_redirect_is_not_followed() -> None:
    with (
        HttpServer(answering({"secret": 1})) as elsewhere,
        HttpServer(answering({}, 302, {"Location": f"{elsewhere.url}/x"})) as cloud,
    ):
        hosts = PayloadHosts(Address.parse(f"ws://127.0.0.1:{cloud.port}"), lambda: "127.0.0.1")
        with pytest.raises(payloads.TransferError, match="HTTP 302"):
            asyncio.run(payloads.fetch(f"{cloud.url}/x", None, hosts))
        with pytest.raises(payloads.TransferError, match="HTTP 302"):
            asyncio.run(payloads.put(f"{cloud.url}/x", b"{}", {}, hosts))
        assert elsewhere.received == []


def test_a_ticket_cannot_name_any_header() -> None:
    ticket = {"Content-Type": "application/json", "If-None-Match": "*", "x-amz-meta-a": "b",
    "Content-Length": "1", "Host": "evil",
              "Authorization": "Bearer x", "Cookie": "a=b", "Transfer-Encoding": "chunked",
              "Origin": "https://x", "X-Number": 7}  # fmt: skip
    with HttpServer(answering({})) as cloud:
        hosts = PayloadHosts(Address.parse(f"ws://127.0.0.1:{cloud.port}"), lambda: "127.0.0.1")
        asyncio.run(payloads.put(f"{cloud.url}/x", b'{"a": 1}', ticket, hosts))
        (got,) = cloud.received
    names = got.headers
    assert got.content == b'{"a": 1}'
    assert (names["content-type"], names["if-none-match"], names["x-amz-meta-a"]) == ("application/json", "*", "b")
    assert names["host"] == f"127.0.0.1:{cloud.port}"
    assert names["content-length"] == "8"
    assert not names.keys() & {"authorization", "cookie", "transfer-encoding", "origin", "x-number"}
