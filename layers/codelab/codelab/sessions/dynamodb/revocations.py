"""`Revocations` over DynamoDB: one item in the user's own partition, which is never deleted.

Times of tokens are whole seconds; a token issued in the second of the revocation is revoked. The authorizer imports
this at every cold start, so it imports little.
"""

from typing import Any

from codelab.aws.dynamodb import DynamoDB
from codelab.aws.errors import ConditionFailed
from codelab.sessions import keys

#: Time (ms) after which the sweep repeats a revocation, for connections that were just being opened or after a crash.
_LOOK_AGAIN_MS = 10_000


class DynamoDBRevocations:
    """Has no state except the client."""

    def __init__(self, client: DynamoDB, table: str) -> None:
        self._client = client
        self._table = table

    def revoked_at(self, user: str) -> int:
        answer = self._client.get_item(
            TableName=self._table, Key=_key(user), ConsistentRead=True, ProjectionExpression="revoked_at"
        )
        return int(answer["Item"]["revoked_at"]["N"]) if "Item" in answer else 0

    def revoke(self, user: str, now: int) -> int:
        revoked_at = now // 1000
        key = _key(user)
        self._client.update_item(
            TableName=self._table,
            Key=key,
            UpdateExpression="SET revoked_at = :at, due_at = :due, due_shard = :shard REMOVE seen_to",
            ExpressionAttributeValues={
                ":at": {"N": str(revoked_at)},
                ":due": {"N": str(now + _LOOK_AGAIN_MS)},
                ":shard": {"S": keys.due_shard(keys.of_user(user))},
            },
        )
        return revoked_at

    def pending(self, user: str) -> tuple[int, tuple[int, str] | None]:
        item = self._client.get_item(TableName=self._table, Key=_key(user), ConsistentRead=True).get("Item", {})
        activity, hash_, session_id = item.get("seen_to", {}).get("S", "").partition("#")
        return int(item.get("revoked_at", {}).get("N", 0)), (int(activity), session_id) if hash_ else None

    def save_progress(self, user: str, revoked_at: int, seen_to: tuple[int, str] | None = None) -> None:
        change, values = "REMOVE due_at, due_shard, seen_to", {":at": {"N": str(revoked_at)}}
        if seen_to is not None:
            change, values[":seen"] = "SET seen_to = :seen", {"S": f"{seen_to[0]}#{seen_to[1]}"}
        try:
            self._client.update_item(
                TableName=self._table,
                Key=_key(user),
                UpdateExpression=change,
                ConditionExpression="revoked_at = :at",
                ExpressionAttributeValues=values,
            )
        except ConditionFailed:
            return


def _key(user: str) -> dict[str, Any]:
    return {"pk": {"S": keys.of_user(user)}, "sk": {"S": keys.REVOKED}}
