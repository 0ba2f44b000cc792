"""Web Push (RFC 8030): tells users' browsers that an agent waits. A push has no content.

So the push service, which the browser has chosen, learns only that somebody is waited for. What waits, the page asks
the server, as every other client does. Users name the addresses that are asked here, so only known push services are.
"""

import re
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http import HTTPStatus
from urllib.parse import urlsplit

from codelab import aws, public_post
from codelab.aws.errors import AwsError
from codelab.config import settings
from codelab.observability import logger
from codelab.sessions.dynamodb.subscriptions import DynamoDBSubscriptions
from codelab.sessions.push_subscription import PushSubscription
from codelab.vapid import Vapid, application_server_key

#: The most characters of an endpoint.
ENDPOINT_CHARS = 2_000
#: Printable ASCII, so that everybody reads the same host in it: no user, no fragment, no backslash.
_ENDPOINT = re.compile(r"https://([a-z0-9.-]+(?::[0-9]{1,5})?)/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*")
#: How long a push service keeps a push for a browser that is not there, in seconds: as long as an approval is waited
#: for by default. A newer one takes its place.
_KEPT_S = 86_400
#: The topic under which a push replaces the one before it (RFC 8030, section 5.4): it says nothing.
_TOPIC = "codelab"
#: Seconds that a push service has to answer, and all of a batch together.
_PATIENCE_S, _BATCH_S = 5.0, 12.0
#: The most users and pushes of a batch, and how many are sent at a time.
_USERS, _PUSHES, _AT_ONCE = 100, 200, 8


def is_known(endpoint: str, hosts: str) -> bool:
    """Whether an endpoint is one of a push service that `hosts` names, separated by commas; `*.` stands for any names.

    A host without a port means that of https.
    """
    parsed = _ENDPOINT.fullmatch(endpoint)
    if parsed is None or len(endpoint) > ENDPOINT_CHARS:
        return False
    authority = parsed[1].removesuffix(":443")
    if ".." in authority or authority.startswith("."):
        return False
    return any(
        authority.endswith(host[1:]) if host.startswith("*.") else authority == host
        for host in (host.strip() for host in hosts.split(","))
        if host
    )


@cache
def public_key() -> str:
    """The key that a browser must know, as it takes it; empty if this server does not push. Raises AwsError."""
    arn = settings().web_push_key
    return application_server_key(aws.signing_keys_client().public_key(arn)) if arn else ""


@cache
def identity() -> Vapid:
    """How this server identifies itself. Its page is where a push service learns who operates it. Raises AwsError."""
    arn, page, client = settings().web_push_key, urlsplit(settings().page_url), aws.signing_keys_client()
    return Vapid(client.public_key(arn), lambda text: client.sign(arn, text), f"https://{page.netloc}", time.time)


def subscriptions() -> DynamoDBSubscriptions:
    """The users' subscriptions."""
    return DynamoDBSubscriptions(aws.dynamodb_client(), settings().table_name)


def tell(users: Iterable[str], now: int) -> None:
    """Push to the browsers of these users, once to each. now: milliseconds since the epoch.

    Does not raise, and takes a quarter of a minute at most. What a push service does not take is lost; a subscription
    that has ended is removed.
    """
    ends_at, store = time.monotonic() + _BATCH_S, subscriptions()
    try:
        pushes = [(user, one) for user in [*dict.fromkeys(users)][:_USERS] for one in store.of(user, now)][:_PUSHES]
        authorized_pushes = [
            (user, one, identity().authorization(one.endpoint)) for user, one in pushes if _is_known(one)
        ]
    except (AwsError, ValueError):
        logger().exception("nobody is pushed to")
        return
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="push") as pool:
        futures = [pool.submit(_push, store, *push, ends_at) for push in authorized_pushes]
        outcomes = [future.result() for future in futures]
    if refused := sorted(filter(None, outcomes)):
        logger().warning("pushes refused", extra={"reasons": refused})


def _is_known(subscription: PushSubscription) -> bool:
    return is_known(subscription.endpoint, settings().web_push_hosts)


def _push(
    store: DynamoDBSubscriptions, user: str, subscription: PushSubscription, authorization: str, ends_at: float
) -> str:
    """Why the push was not taken; empty if it was."""
    patience_s = min(_PATIENCE_S, ends_at - time.monotonic())
    if patience_s <= 0:
        return "no time"
    headers = {"TTL": str(_KEPT_S), "Urgency": "high", "Topic": _TOPIC, "Authorization": authorization}
    try:
        status = public_post.post(subscription.endpoint, headers, b"", patience_s)
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            store.remove(user, subscription.id)
            return ""
    except public_post.NotPosted as error:
        return str(error)
    except AwsError as error:
        return f"a subscription that has ended is not removed: {error}"
    return "" if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES else f"it answered with {status}"
