"""What goes over the wire to `@connections`, beside what the SDK's own client sends there."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from codelab.aws.connections import STALE_S, Connections
from codelab.aws.errors import AwsTimeout, AwsUnreachable
from codelab.aws.session import session
from codelab.delivery.management_api import ManagementApi
from codelab.delivery.post import Poster, PostResult

from tests.fakes.aws.calls import scope_of
from tests.fakes.aws.server import AwsServer
from tests.fakes.http import response
from tests.waiting import PATIENCE, until

CONNECTION = "L0SM9cOFvHcCIhw="
DATA = '{"type":"pong","text":"Привет"}'.encode()


class Gateway(AwsServer):
    """API Gateway's `@connections` of one stage."""

    @property
    def url(self) -> str:
        return f"{super().url}/v1"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    values = {"ACCESS_KEY_ID": "AKIDEXAMPLE", "SECRET_ACCESS_KEY": "secret", "SESSION_TOKEN": "token"}
    for name, value in {**values, "DEFAULT_REGION": "eu-west-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setitem(Connections.__init__.__kwdefaults__, "read_s", PATIENCE)
    boto3.DEFAULT_SESSION = None
    session.cache_clear()
    yield
    boto3.DEFAULT_SESSION = None
    session.cache_clear()


@pytest.mark.parametrize(("hours", "posts"), [(2, 2), (0, 1)])
def test_a_post_that_is_refused_for_a_wrong_clock_is_signed_again(gateway: Gateway, hours: int, posts: int) -> None:
    """A 403 at the right time is a refusal; nothing is posted twice after it."""
    date = format_datetime(datetime.now(UTC) + timedelta(hours=hours), usegmt=True)
    refusal = f"HTTP/1.1 403 Forbidden\r\nDate: {date}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    gateway.answers = [refusal]
    assert ManagementApi(gateway.url).post(CONNECTION, DATA) == (200 if hours else 403)
    assert len(gateway.received) == posts


def test_a_post_and_a_delete_are_those_of_the_sdk(gateway: Gateway) -> None:
    api = ManagementApi(gateway.url)
    assert api.post(CONNECTION, DATA) == 200
    assert api.delete(CONNECTION) == 200
    sdk = boto3.client("apigatewaymanagementapi", endpoint_url=gateway.url)
    sdk.post_to_connection(ConnectionId=CONNECTION, Data=DATA)
    sdk.delete_connection(ConnectionId=CONNECTION)
    ours, theirs = gateway.received[:2], gateway.received[2:]
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.method, mine.path, mine.content) == (other.method, other.path, other.content)
        for name in ("host", "x-amz-security-token"):
            assert mine.headers[name] == other.headers[name]
        assert scope_of(mine.headers) == scope_of(other.headers)
        assert scope_of(mine.headers)[1:] == ["eu-west-1", "execute-api", "aws4_request"]


def test_what_arrives_is_what_was_signed(gateway: Gateway) -> None:
    ManagementApi(gateway.url).post(CONNECTION, DATA)
    (got,) = gateway.received
    signed = got.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(signed)
    request = AWSRequest(
        got.method,
        f"http://{got.headers['host']}{got.path}",
        {name: got.headers[name] for name in signed},
        got.content,
    )
    request.context["timestamp"] = got.headers["x-amz-date"]
    signer = SigV4Auth(boto3.Session().get_credentials(), "execute-api", "eu-west-1")
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert got.headers["authorization"].endswith(f"Signature={signature}")


def test_one_connection_is_kept_and_one_that_was_closed_meanwhile_is_replaced(gateway: Gateway) -> None:
    api = ManagementApi(gateway.url)
    assert api.post(CONNECTION, DATA) == 200
    gateway.closes = True
    assert api.post(CONNECTION, DATA) == 200
    assert gateway.closed.acquire(timeout=PATIENCE)
    assert api.post(CONNECTION, DATA) == 200
    first, second, third = (got.connection for got in gateway.received)
    assert first == second != third


@pytest.mark.parametrize("status", [200, 403, 410, 413, 429, 500, 503])
def test_the_status_is_the_answer_and_nothing_is_sent_twice(gateway: Gateway, status: int) -> None:
    gateway.answers = [response(status, b"")]
    assert ManagementApi(gateway.url).post(CONNECTION, DATA) == status
    assert len(gateway.received) == 1


def test_who_listens_no_more_has_surely_not_got_it() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(AwsUnreachable) as error:
            ManagementApi(f"http://127.0.0.1:{probe.getsockname()[1]}/v1").post(CONNECTION, DATA)
    assert error.value.never_arrived


def test_an_answer_that_does_not_come_leaves_open_whether_it_was_got(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ManagementApi(gateway.url)
    monkeypatch.setattr(api._connections, "_read_s", 0.05)
    gateway.answers = [None]
    with pytest.raises(AwsTimeout) as error:
        api.post(CONNECTION, DATA)
    assert not error.value.never_arrived
    until(lambda: gateway.received)
    assert len(gateway.received) == 1


def reset_at_next_data(connection: socket.socket) -> None:
    """What a peer does that had forgotten the connection: it reads nothing of what comes, and resets."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.recv(1, socket.MSG_PEEK)
    connection.close()


@dataclass
class Forgetful:
    """An HTTP server that answers one request on each connection and resets at the next one."""

    url: str
    answered: list[bytes] = field(default_factory=list)
    reset: int = 0


@pytest.fixture
def forgetful() -> Iterator[Forgetful]:
    listener = socket.create_server(("127.0.0.1", 0))
    found = Forgetful(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")

    def serve(connection: socket.socket) -> None:
        request = b""
        while not request.endswith(DATA):
            request += connection.recv(65536)
        found.answered.append(request)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with suppress(OSError):
            reset_at_next_data(connection)
            found.reset += 1

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    yield found
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(PATIENCE)


def test_a_reset_on_a_kept_connection_is_a_post_that_was_not_taken(forgetful: Forgetful) -> None:
    poster = Poster(lambda: api, payloads=None)  # type: ignore[arg-type]
    api = ManagementApi(forgetful.url)
    frame = json.loads(DATA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codelab.delivery.post.dumps", lambda frame: DATA.decode())
        assert poster.attempt(CONNECTION, frame) is PostResult.DONE
        assert poster.attempt(CONNECTION, frame) is PostResult.REFUSED, "reset: it may be sent again, to everyone"
        assert poster.post(CONNECTION, frame) is PostResult.DONE
        assert poster.post(CONNECTION, frame) is PostResult.DONE, "reset, and sent again"
    assert len(forgetful.answered) == 3
    until(lambda: forgetful.reset == 2)


def test_a_connection_that_was_closed_with_an_answer_due_may_have_taken_the_post(gateway: Gateway) -> None:
    gateway.answers = [b""]
    with pytest.raises(AwsUnreachable) as error:
        ManagementApi(gateway.url).post(CONNECTION, DATA)
    assert not error.value.never_arrived


def test_connections_that_slept_are_not_used_again(gateway: Gateway) -> None:
    now = 1_000.0
    api = ManagementApi(gateway.url, clock=lambda: now)
    api.post(CONNECTION, DATA)
    now += STALE_S
    api.post(CONNECTION, DATA)
    now += STALE_S + 0.1
    api.post(CONNECTION, DATA)
    api.post(CONNECTION, DATA)
    kept, same, other, other_too = (got.connection for got in gateway.received)
    assert kept == same != other == other_too
