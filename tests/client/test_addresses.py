"""Where a client connects, and where it sends a token."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from codelab_client.session import Address, InsecureAddress, InvalidAddress, SessionError, connect
from codelab_client.session.address import is_secure
from codelab_client.session.rest import Rest, RestError

from tests.cases import cases
from tests.client.executing import CountingExecutor
from tests.fakes.http import Exchange, HttpServer


@cases(
    ("url", "secure"),
    [
        ("wss://box.example/prod", True),
        ("https://box.example", True),
        ("ws://localhost:8000", True),
        ("ws://LOCALHOST:8000", True),
        ("ws://127.0.0.1:8000", True),
        ("ws://127.8.9.1:8000", True),
        ("ws://[::1]:8000", True),
        ("ws://box.example:8000", False),
        ("http://10.0.0.7:8000", False),
        ("ws://0.0.0.0:8000", False),
        ("ws://localhost.evil.example", False),
        ("ws://127.0.0.1.evil.example", False),
        ("ws://[::ffff:8.8.8.8]:8000", False),
    ],
)
def test_a_token_goes_only_where_nobody_can_read_it_on_the_way(url: str, secure: bool) -> None:
    address = Address.parse(url)
    assert is_secure(address.url) is secure
    assert address.headers("", address.url) == {}
    assert Address.parse(url, insecure_token=True).headers("t", url) == {"Authorization": "Bearer t"}
    if secure:
        assert address.headers("t", address.url) == {"Authorization": "Bearer t"}
    else:
        with pytest.raises(InsecureAddress, match="--insecure-token"):
            address.headers("t", address.url)


@pytest.fixture
def redirecting() -> Iterator[HttpServer]:
    """A server that sends everybody elsewhere, but to itself."""

    def redirect(exchange: Exchange) -> None:
        exchange.answer(302, headers={"Location": f"ws://{exchange.headers['host']}/elsewhere"})

    with HttpServer(redirect) as running:
        yield running


async def test_no_token_is_sent_to_another_machine_without_encryption(tmp_path: Path) -> None:
    with pytest.raises(InsecureAddress, match="anybody on the way"):
        async with connect("ws://192.0.2.1:8000", tmp_path, token="t", state=tmp_path, executor=CountingExecutor()):
            pass
    rest = Rest(Address.parse("wss://box.example/prod", "http://192.0.2.1"), lambda: "t")
    with pytest.raises(RestError, match="anybody on the way"):
        await rest.get("/agents")


async def test_a_redirect_is_not_followed(tmp_path: Path, redirecting: HttpServer) -> None:
    with pytest.raises(SessionError, match="HTTP 302"):
        async with connect(
            f"ws://127.0.0.1:{redirecting.port}", tmp_path, token="t", state=tmp_path, executor=CountingExecutor()
        ):
            pass
    assert [it.path.startswith("/ws/") for it in redirecting.received] == [True]


async def test_a_proxy_of_the_environment_does_not_see_this_machines_connections(
    tmp_path: Path, redirecting: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, redirecting.url)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(SessionError, match="nothing listens there"):
        async with connect("ws://localhost:9", tmp_path, token="t", state=tmp_path, executor=CountingExecutor()):
            pass
    assert redirecting.received == []


def test_an_address_needs_a_scheme_a_host_and_no_password() -> None:
    for url in ("localhost:8000", "ftp://box", "ws://", "ws://ann:secret@box", "ws://box:port"):
        with pytest.raises(InvalidAddress):
            Address.parse(url)
