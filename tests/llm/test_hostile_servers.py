"""A model's server that means harm, or is broken, and the way to it: proxies, certificates, keys."""

from __future__ import annotations

import itertools
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab.http.cancellation import Cancellation
from codelab.llm.client import answers, connections
from codelab.llm.client.connections import Connections
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Call
from codelab.llm.config import RequestConfig
from codelab.llm.errors import Cancelled, DeadlineExceeded, InvalidRequest, Length, ModelError, TransportError

from tests.cases import cases
from tests.certificates import make_certificate
from tests.fakes.aws.server import AwsServer
from tests.fakes.http import Exchange, Script, event, response
from tests.fakes.model.wire import ScriptedServer, delta, failing
from tests.llm.schemas import STRING, array, obj

BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def received(transport: Any, call: Call | None = None, **more: Any) -> list[Any]:
    return [chunk for chunks in transport.send({**BODY, **more}, call or Call()) for chunk in chunks]


def endless(beginning: bytes, piece: bytes) -> Script:
    """An answer that goes on until the client hangs up."""

    def script(exchange: Exchange) -> None:
        exchange.send(beginning)
        while True:
            exchange.send(piece * (60_000 // len(piece)))

    return script


@pytest.mark.parametrize(
    ("script", "stream"),
    [
        (endless(b"HTTP/1.1 200 ", b"x"), True),
        (endless(b"HTTP/1.1 200 OK\r\nx: ", b"y"), True),
        (endless(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"), True),
        (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), True),
        (endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), True),
        (endless(HEAD + b"data: ", b"x"), True),
        (endless(HEAD, b": x\n\n"), True),
        (endless(HEAD, b"\n"), True),
        (endless(HEAD, b"{"), False),
        (endless(HEAD[:-2] + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"), True),
        (endless(HEAD[:-2] + b"transfer-encoding: chunked\r\n\r\n1;", b"x"), True),
        (endless(HEAD[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n"), True),
        (endless(b"HTTP/1.1 400 Bad Request\r\n\r\n", b"x"), True),
    ],
    ids=["status line", "header", "headers", "to be continued", "early hints", "line", "comments", "empty lines",
         "whole answer", "chunks", "chunk size", "trailers", "error"],
)  # fmt: skip
def test_what_has_no_end_is_cut_off(
    server: ScriptedServer, transport: Any, monkeypatch: pytest.MonkeyPatch, script: Script, stream: bool
) -> None:
    monkeypatch.setattr(connections, "_ANSWER_BYTES", 2 << 20)
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 1 << 20)
    server.answer(script)
    with pytest.raises(TransportError) as caught:
        received(transport, stream=stream)
    assert len(caught.value.message) < 300
    assert len(caught.value.body) <= 4000


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nx: ", HEAD + b"data: ", HEAD], ids=range(4))
def test_a_deadline_ends_what_trickles(server: ScriptedServer, transport: Any, beginning: bytes) -> None:
    def trickling(exchange: Exchange) -> None:
        exchange.send(beginning)
        for byte in itertools.cycle(b"HTTP/1.1" if not beginning else b"x"):
            exchange.send(bytes([byte]))
            time.sleep(0.01)

    server.answer(trickling)
    with pytest.raises(DeadlineExceeded):
        received(transport, Call(deadline=time.monotonic() + 0.2))


def test_a_cancel_interrupts_an_answer_without_a_head(server: ScriptedServer, transport: Any) -> None:
    hung_up = threading.Event()
    switch = Cancellation()

    def silent(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\n")
        switch.cancel()
        if exchange.closed_by_client(30):
            hung_up.set()

    server.answer(silent)
    with pytest.raises(Cancelled):
        received(transport, Call(switch))
    assert hung_up.wait(30)


def test_an_answer_that_is_left_open_is_complete_at_its_end(server: ScriptedServer, transport: Any) -> None:
    """And the connection is not used again."""

    def left_open(exchange: Exchange) -> None:
        exchange.begin()
        exchange.write(event(delta("a")) + DONE)
        exchange.closed_by_client(30)

    server.answer(left_open)
    assert received(transport, Call(deadline=time.monotonic() + 30)) == [delta("a")]
    assert received(transport) == [delta("a")]
    assert server.connections == 2


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [1]},
        {"choices": 5},
        {"choices": [{"index": "a", "delta": {"content": "x"}}]},
        {"choices": [{"index": 10**9, "delta": {"content": "x"}}]},
        {"choices": [{"delta": ["x"]}]},
        {"choices": [{"delta": {"content": 5}}]},
        {"choices": [{"delta": {"tool_calls": [5]}}]},
        {"choices": [{"delta": {"tool_calls": {"a": 1}}}]},
        {"choices": [{"delta": {"content": "x"}, "finish_reason": ["stop"]}]},
        {"usage": {"prompt_tokens": "many"}},
        {"usage": [1]},
    ],
    ids=str,
)
@pytest.mark.parametrize("strategy", ["native", "tool", "calls"])
def test_chunks_of_any_form_end_in_an_answer_or_an_error(
    server: ScriptedServer, transport: Any, chunk: dict[str, Any], strategy: Any
) -> None:
    server.answer(lambda exchange: exchange.events([chunk, delta(finish="stop")]))
    schema = (
        obj(a=STRING, calls=array({"anyOf": [obj(_tool={"const": "b"})]})) if strategy == "calls" else obj(a=STRING)
    )
    request = Request(RequestConfig("m", strategy=strategy), schema, BODY["messages"], retry=RetryPolicy(1))
    if strategy == "calls" and "['stop']" in str(chunk):  # a text, and then an end
        *_, done = request.stream(transport)
        assert done.result.solution == {"a": "x", "calls": []}  # type: ignore[union-attr]
        return
    with pytest.raises(ModelError):
        list(request.stream(transport))


def test_a_finish_reason_of_any_form_is_an_error(server: ScriptedServer, transport: Any) -> None:
    server.answer(lambda exchange: exchange.events([delta('{"a": "half', finish=["length"])]))  # type: ignore[arg-type]
    with pytest.raises(Length):
        list(Request(RequestConfig("m"), obj(a=STRING), BODY["messages"]).stream(transport))


# Keys.


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-secret\r\nx-more: 1", "sk-sécret"])
def test_a_key_that_is_no_header_is_neither_sent_nor_told(server: ScriptedServer, key: str) -> None:
    with pytest.raises(TransportError, match="API key") as caught:
        received(DirectTransport(base_url=server.url, api_key=key))
    assert "cret" not in str(caught.value)
    assert not server.requests


@pytest.mark.parametrize("script", [failing(500), lambda exchange: exchange.send(b"SSH-2.0\r\n")])
def test_no_error_tells_the_key(server: ScriptedServer, script: Script) -> None:
    server.answer(script)
    with pytest.raises(TransportError) as caught:
        received(DirectTransport(base_url=server.url, api_key="sk-secret"))
    assert "sk-secret" not in f"{caught.value} {caught.value.body} {caught.value.__context__}"


# Addresses, connections, proxies, certificates.


@cases(
    "url",
    [
        "",
        "api.openai.com/v1",
        "ftp://host/v1",
        "https:///v1",
        "http://host:port/v1",
        "http://[::1",
        f"http://{'a' * 64}.com/v1",
    ],
)
def test_an_address_that_is_no_url(url: str) -> None:
    with pytest.raises(InvalidRequest):
        DirectTransport(base_url=url, api_key="x")


def test_an_address_may_have_a_query_and_spaces(server: ScriptedServer) -> None:
    with AwsServer() as azure:
        azure.answers = [response(200, b"")]
        received(DirectTransport(base_url=f"{azure.url}/open ai/é/?api-version=1", api_key="x"))
        assert azure.received[0].path == "/open%20ai/%C3%A9/chat/completions?api-version=1"
        assert azure.received[0].headers["host"] == f"127.0.0.1:{azure.port}"


def test_connections_that_slept_are_not_used_again(server: ScriptedServer) -> None:
    now = 1_000.0
    server.answer(lambda exchange: exchange.json({}))
    kept = Connections(server.url, silence_s=10, clock=lambda: now)
    for slept, opened in ((0, 1), (55, 1), (55.1, 2), (0, 2), (-3600, 3)):
        now += slept
        response = kept.open("POST", "/chat/completions", {}, b"{}", Call())
        assert list(response.pieces()) == [b"{}"]
        response.close()
        assert server.connections == opened, "a clock that was set back tells nothing"
    kept.close()


def test_a_connection_that_was_closed_while_idle_is_replaced() -> None:
    with AwsServer() as server:
        server.closes = True
        transport = DirectTransport(base_url=server.url, api_key="x")
        for _ in range(3):
            received(transport, stream=False)
            assert server.closed.acquire(timeout=60)
        assert [it.connection for it in server.received] == [0, 1, 2]


def test_many_threads(server: ScriptedServer, transport: Any) -> None:
    server.answer(lambda exchange: exchange.events([delta(exchange.body["messages"][0]["content"])]))
    failed: list[str] = []

    def ask(name: str) -> None:
        for n in range(20):
            text = f"{name} {n}"
            if received(transport, messages=[{"role": "user", "content": text}]) != [delta(text)]:
                failed.append(text)

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert server.connections <= 8, "each is used by one thread at a time, and kept"


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.usefixtures("direct")
def test_https_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with AwsServer() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://ann:p%40ss@127.0.0.1:{proxy.port}")
        proxy.answers = [response(407, b"")]
        with pytest.raises(TransportError) as caught:
            received(DirectTransport(base_url="https://api.openai.com/v1", api_key="sk-secret"))
        assert caught.value.retryable
        assert "p@ss" not in str(caught.value)
        (got,) = proxy.received
        assert (got.method, got.path) == ("CONNECT", "api.openai.com:443")
        assert got.headers["proxy-authorization"] == "Basic YW5uOnBAc3M="
        assert "authorization" not in got.headers
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,.internal")
        with pytest.raises(TransportError):
            received(DirectTransport(base_url="https://127.0.0.1:9/v1", api_key="x"))
        assert len(proxy.received) == 1


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "https://proxy:443", "http://"])
def test_a_proxy_that_cannot_be_used_is_an_error_at_init(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(InvalidRequest, match="HTTPS_PROXY"):
        DirectTransport(base_url="https://api.openai.com/v1", api_key="x")
    DirectTransport(base_url="http://127.0.0.1:9/v1", api_key="x")


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The folder with `cert.pem` and `key.pem` of a server named localhost, signed by itself."""
    return make_certificate(tmp_path)


@pytest.fixture
def secured(authority: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The port of a TLS server that answers with `{}`, and the first lines it received."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    lines: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(plain, server_side=True) as connection:
                        connection.settimeout(30)
                        while b"{" not in (data := connection.recv(65536)):
                            lines.append(data)
                        lines.append(data)
                        connection.sendall(response(200, {}))
                        connection.recv(1)
                except OSError:
                    plain.close()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1], lines
        listener.shutdown(socket.SHUT_RDWR)


ASK = """
import sys
sys.path.insert(0, "layers/codelab")
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.transport import Call
from codelab.llm.errors import TransportError
try:
    print(*DirectTransport(base_url=sys.argv[1], api_key="x").send({"model": "m"}, Call()))
except TransportError as error:
    print(error.message)
"""


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize(
    ("host", "trusted", "said"),
    [
        ("localhost", True, "[{}]"),
        ("localhost", False, "CERTIFICATE_VERIFY_FAILED"),
        ("127.0.0.1", True, "CERTIFICATE_VERIFY_FAILED"),
    ],
)
def test_certificates_are_verified(
    authority: Path,
    secured: tuple[int, list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    trusted: bool,
    said: str,
) -> None:
    port, lines = secured
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority / "cert.pem"))
    command = [sys.executable, "-c", ASK, f"https://{host}:{port}/v1"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert said in run.stdout
    assert bool(lines) == (said == "[{}]"), "nothing is sent to a server that is not who it should be"
