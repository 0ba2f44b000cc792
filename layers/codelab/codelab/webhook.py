"""Tells an operator's webhook what happens in sessions: one POST for a batch of notices, as JSON or as Slack wants it.

The body is signed: `X-CodeLab-Signature: t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of `SECONDS.BODY` by the key
of the stack's secret. A notice names a session, its user, tools and calls. Nothing that was said is in it.
"""

import hashlib
import hmac
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from urllib.parse import quote

from codelab import public_post

#: Seconds that a webhook has to answer.
PATIENCE_S = 10.0
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


def post(url: str, key: str, body: bytes) -> None:
    """Post a signed body to a webhook at a public address. Follows no redirect, and uses no proxy.

    Raises WebhookError for any answer but a status of 200 to 299.
    """
    headers = {
        "Content-Type": "application/json",
        "X-CodeLab-Signature": signature(key, body, int(time.time())),
    }
    try:
        status = public_post.post(url, headers, body, PATIENCE_S)
    except public_post.NotPosted as error:
        raise WebhookError(f"the webhook was not told: {error}") from None
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise WebhookError(f"the webhook answered with {status}")
