"""What the model's provider refuses, as the operator is shown it: in the one item that `/health` reads anyway.

Every process of `llm_request` learns for itself and tells it here; nobody decides anything by it.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from codelab.observability import logger
from codelab.sessions.dynamodb.values import from_dynamodb, to_dynamodb

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

#: No session's partition: those begin otherwise.
ITEM = {"pk": "health", "sk": "health"}


class Refusals:
    """A `Store` of what was learnt: an attribute `{model}|{feature}`, with the second in which it is forgotten."""

    def __init__(
        self, client: "DynamoDBClient", table: str, kept_s: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._table = table
        self._kept_s = kept_s
        self._clock = clock
        self._until: dict[str, float] = {}

    def load(self, base_url: str, model: str) -> Iterable[str]:
        """Nothing: to ask would be one more call before the first token of a process."""
        return ()

    def save(self, base_url: str, model: str, refused: frozenset[str]) -> None:
        """Tell what is new. A failure is logged: it must not cost the answer that is being asked for."""
        now = self._clock()
        until = int(now + self._kept_s)
        new = sorted(name for feature in refused if self._until.get(name := f"{model}|{feature}", 0) <= now)
        self._until.update(dict.fromkeys(new, until))
        logger().warning("the provider refuses features", extra={"model": model, "refused": new, "until": until})
        names = {"#ttl": "ttl", **{f"#n{index}": name for index, name in enumerate(new)}}
        try:
            self._client.update_item(
                TableName=self._table,
                Key=to_dynamodb(ITEM),
                UpdateExpression="SET " + ", ".join(f"{name} = :until" for name in names),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=to_dynamodb({":until": until}),
            )
        except (ClientError, BotoCoreError) as error:
            logger().warning("refusals not told", extra={"error": str(error)})


def read_refused(client: "DynamoDBClient", table: str, now: float) -> dict[str, list[str]]:
    """The features that are done without at `now` (seconds), by model. Raises what the SDK raises."""
    item = from_dynamodb(client.get_item(TableName=table, Key=to_dynamodb(ITEM)).get("Item", {}))
    found: dict[str, list[str]] = {}
    for name, until in sorted(item.items()):
        model, bar, feature = name.partition("|")
        if bar and until > now:
            found.setdefault(model, []).append(feature)
    return found
