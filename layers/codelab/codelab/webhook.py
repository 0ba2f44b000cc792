"""Tells an operator's webhook what happens in sessions: one POST for a batch of notices, as JSON or as Slack wants it.

The body is signed: `X-CodeLab-Signature: t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of `SECONDS.BODY` by the key
of the stack's secret. A notice names a session, its user, tools and calls. Nothing that was said is in it.
"""

import hashlib
import hmac
import json
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.client import HTTPException
from ipaddress import ip_address
from socket import socket
from urllib.parse import quote, urlsplit

from codelab.http.cancellation import Cancellation
from codelab.http.responses import read_answer
from codelab.http.route import Route, connect

#: Seconds that a webhook has to answer.
PATIENCE_S = 10.0
#: The most bytes of an answer.
_ANSWER_BYTES = 64 << 10
_SPECIAL_IN_SLACK = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
#: What Slack reads as a format, and what is no name of a tool or user.
_FORMAT_IN_SLACK = re.compile(r"[*_~`\x00-\x1f\x7f]")
_HEADLINES = {
    "approval_requested": "waits for an approval",
    "turn_ended": "has finished",
    "turn_failed": "has ended with an error",
}


class WebhookError(Exception):
    """The webhook was not told. The message has no address, because the address may be a secret."""


@dataclass(frozen=True)
class Notice:
    """What happened in a session. id: the same if it is told again. at: milliseconds since the epoch.

    kind: `approval_requested` with the calls' ids and tools, `turn_ended` or `turn_failed`.
    """

    id: str
    at: int
    kind: str
    session_id: str
    user: str
    turn_id: str
    call_ids: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    url: str = ""


def notice_of(line: str, line_id: str, at: int, page_url: str) -> Notice | None:
    """The notice in a line of a function's log, None if it has none. page_url: of the page, empty without one."""
    try:
        fields = json.loads(line)
        return Notice(
            line_id,
            at,
            fields["kind"],
            fields["session_id"],
            fields["user"],
            fields["turn"],
            tuple(fields.get("call_ids", ())),
            tuple(fields.get("tools", ())),
            f"{page_url}#/s/{quote(fields['session_id'], safe='')}" if page_url else "",
        )
    except (ValueError, KeyError, TypeError):
        return None


def body_of(notices: Sequence[Notice], form: str) -> bytes:
    """What the webhook is sent in the form `json` or `slack`."""
    return _as_slack(notices) if form == "slack" else _as_json(notices)


def _as_json(notices: Sequence[Notice]) -> bytes:
    """`{"notices": […]}`, each with the fields of `Notice`."""
    return json.dumps({"notices": [asdict(notice) for notice in notices]}).encode()


def _as_slack(notices: Sequence[Notice]) -> bytes:
    """`{"text": …}` with a line for each notice, for an incoming webhook of Slack and of who takes the same."""
    return json.dumps({"text": "\n".join(map(_slack_line, notices))}).encode()


def _slack_line(notice: Notice) -> str:
    what = f" ({', '.join(map(_plain, notice.tools))})" if notice.tools else ""
    link = f" <{notice.url}|Open it>" if notice.url else ""
    headline = _HEADLINES.get(notice.kind, _plain(notice.kind))
    return f"CodeLab: session {_plain(notice.session_id)} of {_plain(notice.user)} {headline}{what}.{link}"


def _plain(text: str) -> str:
    """A text that Slack takes for nothing else: no mention, link or format."""
    text = _FORMAT_IN_SLACK.sub(" ", text)
    return "".join(_SPECIAL_IN_SLACK.get(character, character) for character in text)


def signature(key: str, body: bytes, seconds: int) -> str:
    """The value of the header `X-CodeLab-Signature`."""
    digest = hmac.new(key.encode(), b"%d.%b" % (seconds, body), hashlib.sha256)
    return f"t={seconds},v1={digest.hexdigest()}"


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet, and none of a network of its own."""
    parsed = ip_address(address.partition("%")[0])
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return parsed.is_global and not parsed.is_multicast


def post(url: str, key: str, body: bytes) -> None:
    """Post a signed body to a webhook at a public address. Follows no redirect, and uses no proxy.

    Raises WebhookError for any answer but a status of 200 to 299.
    """
    headers = {
        "User-Agent": "codelab",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        "X-CodeLab-Signature": signature(key, body, int(time.time())),
    }
    try:
        status = _exchanged(url, headers, body, time.monotonic() + PATIENCE_S)
    except (OSError, ValueError, HTTPException) as error:
        raise WebhookError(f"the webhook cannot be reached: {type(error).__name__}") from None
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise WebhookError(f"the webhook answered with {status}")


def _exchanged(url: str, headers: Mapping[str, str], body: bytes, ends_at: float) -> int:
    """The status of the answer."""
    parts, route = urlsplit(url), Route(url)
    if not route.is_secure:
        raise WebhookError("the webhook's address must begin with https://")
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=") + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target} HTTP/1.1", f"Host: {route.authority}", *(f"{name}: {it}" for name, it in headers.items())]
    connection = connect(route.host, parts.port or 443, _left(ends_at), Cancellation())
    try:
        if not is_public(str(connection.getpeername()[0])):
            raise WebhookError("the webhook is in a private network, where it is not told")
        connection.settimeout(_left(ends_at))
        connection = ssl.create_default_context().wrap_socket(connection, server_hostname=route.host)
        connection.sendall("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        head, _ = read_answer(lambda: _received(connection, ends_at))
        return head.status
    finally:
        connection.close()


def _received(connection: socket, ends_at: float) -> bytes:
    connection.settimeout(_left(ends_at))
    return connection.recv(_ANSWER_BYTES)


def _left(ends_at: float) -> float:
    return max(0.001, ends_at - time.monotonic())
