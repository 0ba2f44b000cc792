"""Whether a request came through the edge: CloudFront, with its firewall, in front of both APIs.

The APIs' own addresses stay reachable. CloudFront sends a secret header, which replaces one that a viewer sends; a
request without it has gone around the edge. While the secret is rotated, CloudFront's places send the old value for
some minutes, so the value before (Secrets Manager's stage AWSPREVIOUS) is accepted as long as the secret has it.
"""

import hmac
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codelab import aws
from codelab.aws.errors import AwsRefused
from codelab.config import settings
from codelab.gateway.identity import headers_of
from codelab.secret import Secret

#: What template.yaml has CloudFront add.
HEADER = "x-codelab-edge"
#: How long a value is used before it is read again, in seconds.
_KEEP_S = 600


def edge_check(clock: Callable[[], float] = time.time) -> Callable[[Mapping[str, Any]], bool]:
    """A function that tells of an event of either API whether it came through the edge; without an edge, all did.

    Make it at init: it reads the secret. The function raises AwsError if the value before cannot be read.
    clock: seconds since the epoch.
    """
    arn = settings().edge_secret_arn
    return _EdgeSecret(arn, clock) if arn else lambda _event: True


class _EdgeSecret:
    def __init__(self, arn: str, clock: Callable[[], float]) -> None:
        self._arn, self._clock = arn, clock
        self._current = Secret(lambda: aws.secrets_client().get(arn), keep_s=_KEEP_S, clock=clock)
        self._previous: Secret | None = None

    def __call__(self, event: Mapping[str, Any]) -> bool:
        header = headers_of(event).get(HEADER, "").encode("utf-8", "surrogatepass")
        return bool(header) and any(_accepts(secret, header) for secret in self._secrets())

    def _secrets(self) -> Iterator[Secret]:
        yield self._current
        if self._previous is None:
            self._previous = Secret(self._read_previous, keep_s=_KEEP_S, clock=self._clock)
        yield self._previous

    def _read_previous(self) -> str:
        """The value before; empty if there is none."""
        try:
            return aws.secrets_client().get(self._arn, "AWSPREVIOUS")
        except AwsRefused as error:
            if error.code != "ResourceNotFoundException":
                raise
            return ""


def _accepts(secret: Secret, header: bytes) -> bool:
    value = secret()
    if hmac.compare_digest(header, value.encode()):
        return True
    return secret.renew(value) and hmac.compare_digest(header, secret().encode())
