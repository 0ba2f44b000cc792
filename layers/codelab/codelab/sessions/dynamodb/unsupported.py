"""The features that models do not support, in an item that each process of `llm_request` and `/health` read."""

import time
from collections.abc import Callable, Mapping

from codelab.aws.dynamodb import DynamoDB
from codelab.aws.errors import AwsError
from codelab.observability import logger
from codelab.sessions.dynamodb.values import from_dynamodb, to_dynamodb

#: Not a session's partition: those have another prefix.
ITEM = {"pk": "health", "sk": "health"}


class UnsupportedItem:
    """An `UnsupportedStore`: one attribute `{model}|{feature}` per feature, with the time (seconds) of its expiry."""

    def __init__(self, client: DynamoDB, table: str, kept_s: float, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._table = table
        self._kept_s = kept_s
        self._clock = clock
        self._until: dict[str, float] = {}

    def load(self, base_url: str, model: str) -> Mapping[str, float]:
        """The features that other processes have found. Without an answer, this process finds them itself."""
        try:
            self._until |= _expiries(self._client, self._table, self._clock())
        except AwsError as error:
            logger().warning("unsupported features not read", extra={"error": str(error)})
        own = f"{model}|"
        return {name.removeprefix(own): until for name, until in self._until.items() if name.startswith(own)}

    def save(self, base_url: str, model: str, unsupported: frozenset[str]) -> None:
        """Store new features. A failure is only logged, so that it does not break the answer."""
        now = self._clock()
        until = int(now + self._kept_s)
        new = sorted(name for feature in unsupported if self._until.get(name := f"{model}|{feature}", 0) <= now)
        self._until.update(dict.fromkeys(new, until))
        logger().warning(
            "the provider does not support features", extra={"model": model, "refused": new, "until": until}
        )
        names = {"#ttl": "ttl", **{f"#n{index}": name for index, name in enumerate(new)}}
        try:
            self._client.update_item(
                TableName=self._table,
                Key=to_dynamodb(ITEM),
                UpdateExpression="SET " + ", ".join(f"{name} = :until" for name in names),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=to_dynamodb({":until": until}),
            )
        except AwsError as error:
            logger().warning("unsupported features not written", extra={"error": str(error)})


def read_unsupported(client: DynamoDB, table: str, now: float) -> dict[str, list[str]]:
    """The unsupported features at `now` (seconds), by model. Raises AwsError."""
    by_model: dict[str, list[str]] = {}
    for name in sorted(_expiries(client, table, now)):
        model, _, feature = name.partition("|")
        by_model.setdefault(model, []).append(feature)
    return by_model


def _expiries(client: DynamoDB, table: str, now: float) -> dict[str, float]:
    """When each feature expires (seconds), of those that have not. Raises AwsError."""
    item = from_dynamodb(client.get_item(TableName=table, Key=to_dynamodb(ITEM)).get("Item", {}))
    return {name: float(until) for name, until in item.items() if "|" in name and until > now}
