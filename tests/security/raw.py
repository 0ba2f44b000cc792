"""An attacker's raw requests: any target, any headers, in any number."""

import itertools
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

import httpx
from botocore.credentials import Credentials
from codelab_local import LocalCloud

#: The headers of an upgrade, without those that a browser adds.
UPGRADE = (
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Version", "13"),
)

#: Session ids that no other test has.
new_names = (f"attacked_{n}" for n in itertools.count(1))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    port: int,
    target: str,
    headers: Sequence[tuple[str, str]] = (),
    *,
    method: str = "GET",
    body: bytes = b"",
    host: str | None = "127.0.0.1",
) -> Answer:
    """One request on a separate connection. `host` None: no Host header except those in `headers`."""
    sent = [*([("Host", host)] if host is not None else []), *headers]
    if body:
        sent.append(("Content-Length", str(len(body))))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent), "", ""]
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall("\r\n".join(lines).encode() + body)
        response = HTTPResponse(client, method=method)
        response.begin()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, b"" if response.status == 101 else response.read())


def upgrade(cloud: LocalCloud, session: str, headers: Sequence[tuple[str, str]], host: str | None = "127.0.0.1") -> int:
    """The status of a WebSocket handshake; 101 means connected."""
    return ask(cloud.info["port"], f"/ws/{session}", [*UPGRADE, *headers], host=host).status


def sessions(cloud: LocalCloud) -> set[str]:
    found = httpx.get(f"{cloud.http}/api/v1/sessions?limit=100", timeout=60).json()["sessions"]
    return {session["session_id"] for session in found}


def keys(cloud: LocalCloud) -> Credentials:
    """The keys of the functions, which every start makes anew."""
    return Credentials(cloud.info["access_key_id"], cloud.info["secret_access_key"])


def payload_bucket(cloud: LocalCloud) -> str:
    names: list[str] = [found["Name"] for found in cloud.client("s3").list_buckets()["Buckets"]]
    return next(name for name in names if "payload" in name)


def made_session(name: str) -> bytes:
    """The body that creates a session."""
    return json.dumps({"session_id": name}).encode()
