"""Where a user's browser wants to be told that the agent waits: one item for each browser, in a partition of its own.

It is not the partition of the user's other items, so that the function that pushes may be allowed this one only.
"""

from dataclasses import dataclass
from typing import Any

from codelab.sessions import keys

#: The most browsers of a user. The one that was told of longest ago makes room.
MOST = 10
#: How long a browser counts that does not say again that it wants to be told. In seconds.
LIFE_S = 60 * 86_400


@dataclass(frozen=True, slots=True)
class PushSubscription:
    """endpoint: the address that its push service has given it. at: when it was last told of (ms)."""

    endpoint: str
    at: int

    @property
    def id(self) -> str:
        return keys.endpoint_digest(self.endpoint)

    def row(self) -> dict[str, Any]:
        return {
            "sk": keys.subscription_key(self.id),
            "endpoint": self.endpoint,
            "at": self.at,
            "ttl": self.at // 1000 + LIFE_S,
        }
