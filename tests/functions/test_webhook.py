"""What waits and what has ended is told to the operator's webhook, and nothing of what was said."""

import base64
import gzip
import hashlib
import hmac
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab import public_post, webhook
from codelab.protocol.tools import CATALOGUE

from infra.intrinsics import text
from tests.cases import cases
from tests.certificates import make_certificate
from tests.fakes.model.script import call
from tests.functions.system import Function, System
from tests.functions.test_metrics import WRITE, broken, lines, refuse
from tests.functions.test_rotated_secrets import keep
from tests.permissions import of_type

ALL = "approval_requested,turn_ended,turn_failed"
READ = call("read_file", path="secret.py")
PATTERN = re.compile(r'\{ \$\.message = "([^"]*)" \}')
ID = "36000000000000000000000000000000000000000000000000000001"

Received = list[tuple[dict[str, str], bytes]]


@pytest.fixture
def told(system: System) -> System:
    """A connected session of a stack with a webhook that is told of all events, of which nobody reads the log."""
    system.environment = {"WEBHOOK_EVENTS": ALL, "LOG_LEVEL": "ERROR"}
    system.connect("c1", extensions=True)
    return system


def notices(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines that the stack's filters take."""
    patterns = {
        text(filter_["Properties"]["FilterPattern"]) for filter_ in of_type("AWS::Logs::SubscriptionFilter").values()
    }
    [pattern] = patterns
    message = PATTERN.fullmatch(pattern)
    assert message is not None
    return [line for line in lines(caplog) if line["message"] == message[1]]


# -- what is written to the log ----------------------------------------------------------------------------------------


def test_a_call_that_waits_and_the_ends_of_turns_are_written(told: System, caplog: pytest.LogCaptureFixture) -> None:
    [call_id] = told.ask("c1", "I write.", WRITE)
    told.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    told.send("c1", "tool_result", call_id=call_id, result={"ok": True})
    told.model.says("Done.")
    told.run_step()
    told.model.answers += [broken(refuse)] * 3
    told.say("c1")
    written = notices(caplog)
    assert [notice["kind"] for notice in written] == ["approval_requested", "turn_ended", "turn_failed"]
    assert (written[0]["call_ids"], written[0]["tools"]) == ([call_id], ["write_file"])
    assert {(notice["user"], notice["session_id"]) for notice in written} == {("ann", "s1")}
    assert all(notice["turn"] for notice in written)


def test_a_call_that_needs_nobody_and_a_cancel_are_not_written(told: System, caplog: pytest.LogCaptureFixture) -> None:
    told.ask("c1", "I read.", READ)
    told.send("c1", "control", type="cancel")
    assert told.item("REGISTER")["phase"] == "idle"
    assert notices(caplog) == []


def test_a_subagents_call_is_one_of_the_users_session(told: System, caplog: pytest.LogCaptureFixture) -> None:
    told.send("c1", "control", type="hello", capabilities={"tools_supported": list(CATALOGUE)})
    told.ask("c1", "", call("delegate", agent="universal", task="Write a.py"))
    told.model.says("", WRITE)
    told.run_step()
    [written] = notices(caplog)
    assert (written["kind"], written["session_id"], written["tools"]) == ("approval_requested", "s1", ["write_file"])


def test_a_stack_tells_only_what_it_is_to_tell(system: System, caplog: pytest.LogCaptureFixture) -> None:
    system.environment = {"WEBHOOK_EVENTS": "turn_failed"}
    system.connect("c1")
    system.ask("c1", "I write.", WRITE)
    assert notices(caplog) == []


def test_without_a_webhook_nothing_is_written(system: System, caplog: pytest.LogCaptureFixture) -> None:
    system.connect("c1")
    system.ask("c1", "I write.", WRITE)
    assert notices(caplog) == []


# -- what the webhook gets ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `cert.pem` and `key.pem` of a server named localhost, signed by itself."""
    return make_certificate(tmp_path_factory.mktemp("authority"))


class Server:
    """A webhook that answers with `answer`. `received` are the headers, by lower case names, and the body."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        self.url = f"https://localhost:{listener.getsockname()[1]}/hook/T1?a=b"
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        self.received: Received = []
        self.connections = 0
        self._listener, self._context = listener, context
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            try:
                with self._context.wrap_socket(plain, server_side=True) as connection:
                    self._take(connection)
                    connection.sendall(self.answer)
            except OSError:
                plain.close()

    def _take(self, connection: ssl.SSLSocket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        headers = {":": first, **{name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}}
        while len(body) < int(headers["content-length"]):
            body += connection.recv(65536)
        self.received.append((headers, body))


@pytest.fixture
def server(authority: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "cert.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Server(listener, context)
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def tells(system: System, server: Server, monkeypatch: pytest.MonkeyPatch) -> Function:
    """The function, for which this machine's own addresses are public ones."""
    monkeypatch.setattr(public_post, "is_public", lambda _: True)
    return loaded(system, server)


def loaded(system: System, server: Server, form: str = "json", page: str = "") -> Function:
    keep(system, "WebhookSecret", json.dumps({"url": server.url, "key": "the key"}))
    system.environment = {
        "WEBHOOK_SECRET_ARN": "WebhookSecret",
        "WEBHOOK_FORMAT": form,
        "PAGE_URL": page,
        "WEBHOOK_EVENTS": ALL,
    }
    return system.load("webhook")


def line(kind: str = "approval_requested", **fields: Any) -> str:
    given = {"kind": kind, "session_id": "s 1", "user": "ann", "turn": "t1", "tools": ["write_file"], "call_ids": ["k"]}
    return json.dumps({"level": "INFO", "message": "webhook notice", **given, **fields})


def event(*messages: str, kind: str = "DATA_MESSAGE") -> dict[str, Any]:
    """What CloudWatch Logs sends to a function."""
    taken = [{"id": ID, "timestamp": 1_700_000_000_000 + n, "message": it} for n, it in enumerate(messages)]
    batch = {"messageType": kind, "owner": "1", "logGroup": "g", "logStream": "s", "logEvents": taken}
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(batch).encode())).decode()}}


def test_a_batch_is_one_signed_post(tells: Function, server: Server, system: System) -> None:
    tells(event(line(), line("turn_failed", tools=[], call_ids=[])))
    [(headers, body)] = server.received
    first, second = json.loads(body)["notices"]
    assert first == {
        "id": ID,
        "at": 1_700_000_000_000,
        "kind": "approval_requested",
        "session_id": "s 1",
        "user": "ann",
        "turn_id": "t1",
        "call_ids": ["k"],
        "tools": ["write_file"],
        "url": "",
    }
    assert (second["kind"], second["tools"]) == ("turn_failed", [])
    assert headers[":"] == "POST /hook/T1?a=b HTTP/1.1"
    seconds, digest = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["x-codelab-signature"]).groups()  # type: ignore[union-attr]
    assert abs(int(seconds) - time.time()) < 3_600
    assert digest == hmac.new(b"the key", f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    assert system.aws.calls == ["GetSecretValue"]
    system.check_permissions()


def test_notices_are_those_that_a_conversation_has_written(
    told: System, server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_post, "is_public", lambda _: True)
    told.ask("c1", "The word is xyzzy.", call("write_file", path="xyzzy.py", content="xyzzy"))
    loaded(told, server)(event(*map(json.dumps, notices(caplog))))
    [(_, body)] = server.received
    assert json.loads(body)["notices"][0]["tools"] == ["write_file"]
    assert b"xyzzy" not in body, "nothing that was said"


def test_slack_gets_a_text_with_a_link_and_nothing_in_it_is_a_mention(
    tells: Function, server: Server, system: System
) -> None:
    slack = loaded(system, server, "slack", "https://page.example.com/")
    slack(event(line(tools=["<!channel>", "a*b`c\n"], user="<@U1>&"), line("turn_ended", session_id="a/b#c", tools=[])))
    [(_, body)] = server.received
    asks = "session s 1 of &lt;@U1&gt;&amp; waits for an approval (&lt;!channel&gt;, a b c )."
    assert json.loads(body)["text"].split("\n") == [
        f"CodeLab: {asks} <https://page.example.com/#/s/s%201|Open it>",
        "CodeLab: session a/b#c of ann has finished. <https://page.example.com/#/s/a%2Fb%23c|Open it>",
    ]


REFUSED, MOVED = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 302 Found\r\nLocation: https://a/\r\n\r\n"


@cases("answer", [REFUSED, MOVED, b"", b"SSH-2"])
def test_a_webhook_that_does_not_take_it_is_told_again_by_lambda(
    tells: Function, server: Server, answer: bytes
) -> None:
    server.answer = answer
    server.received.clear()
    with pytest.raises(webhook.WebhookError) as raised:
        tells(event(line()))
    assert "hook" not in str(raised.value).replace("webhook", ""), "the address may be a secret"
    assert len(server.received) == 1


def test_a_private_address_gets_nothing(system: System, server: Server) -> None:
    with pytest.raises(webhook.WebhookError, match="private network"):
        loaded(system, server)(event(line()))
    assert server.received == []


def test_an_address_without_tls_gets_nothing(system: System, server: Server) -> None:
    server.url = server.url.replace("https", "http")
    with pytest.raises(webhook.WebhookError, match="https"):
        loaded(system, server)(event(line()))
    assert server.connections == 0


@cases("messages", [[], ["no JSON"], ["[]"], ["{}"], ['{"kind": 1}'], ["\x00" * 100_000]])
def test_lines_that_are_no_notices_are_told_to_nobody(tells: Function, server: Server, messages: list[str]) -> None:
    tells(event(*messages))
    tells(event(line(), kind="CONTROL_MESSAGE"))
    assert server.connections == 0


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        *(("8.8.8.8", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", True)),
        *(("127.0.0.1", False), ("10.1.2.3", False), ("192.168.0.1", False), ("172.16.0.1", False)),
        *(("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False)),
        *(("::1", False), ("fe80::1%eth0", False), ("fd00:ec2::254", False), ("::ffff:169.254.169.254", False)),
    ],
)
def test_what_is_public(address: str, is_public: bool) -> None:
    assert public_post.is_public(address) == is_public
