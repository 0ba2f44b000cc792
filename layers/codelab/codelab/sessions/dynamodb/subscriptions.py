"""Users' push subscriptions in DynamoDB. Nothing of a session is read or written here."""

from typing import Any

from codelab.aws.dynamodb import DynamoDB
from codelab.sessions import keys
from codelab.sessions.dynamodb.values import from_dynamodb, to_dynamodb
from codelab.sessions.push_subscription import MOST, PushSubscription

#: A few more than may be there: two that are added at once may both be.
_PAGE = 2 * MOST


class DynamoDBSubscriptions:
    """Has no state except the client."""

    def __init__(self, client: DynamoDB, table: str) -> None:
        self._client = client
        self._table = table

    def of(self, user: str, now: int) -> list[PushSubscription]:
        """The user's subscriptions at the time `now` (ms), the one that was told of last first."""
        subscriptions = [
            PushSubscription(item["endpoint"], item["at"])
            for item in self._items(user)
            if item["ttl"] > now // 1000  # DynamoDB deletes some days later
        ]
        return sorted(subscriptions, key=lambda one: (-one.at, one.endpoint))

    def put(self, user: str, subscription: PushSubscription) -> None:
        """Add a subscription, or renew it. The oldest one of too many is removed."""
        other_subscriptions = [one for one in self.of(user, subscription.at) if one.id != subscription.id]
        for one in other_subscriptions[MOST - 1 :]:
            self.remove(user, one.id)
        item = {"pk": keys.of_subscriptions(user), **subscription.row()}
        self._client.put_item(TableName=self._table, Item=to_dynamodb(item))

    def remove(self, user: str, subscription_id: str) -> None:
        """Remove a subscription. It need not exist."""
        key = {"pk": keys.of_subscriptions(user), "sk": keys.subscription_key(subscription_id)}
        self._client.delete_item(TableName=self._table, Key=to_dynamodb(key))

    def remove_all(self, user: str) -> None:
        """Remove all of the user's subscriptions."""
        while items := self._items(user):
            for item in items:
                self.remove(user, item["sk"].partition("#")[2])

    def _items(self, user: str) -> list[dict[str, Any]]:
        page = self._client.query(
            TableName=self._table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": keys.of_subscriptions(user)}},
            ConsistentRead=True,
            Limit=_PAGE,
        )
        return [from_dynamodb(item) for item in page["Items"]]
