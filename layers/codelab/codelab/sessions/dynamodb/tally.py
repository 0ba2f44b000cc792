"""`Tally` over DynamoDB: one item per user and day."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from codelab.aws.dynamodb import DynamoDB
from codelab.aws.errors import ConditionFailed
from codelab.sessions import keys
from codelab.sessions.dynamodb.values import from_dynamodb
from codelab.sessions.spending import DAY_MS, Counters, Spending, attribute_of, earlier
from codelab.sessions.store import Over

#: The most attributes of past minutes that one count removes.
_STALE = 50


class DynamoDBTally:
    """Has no state except the client."""

    def __init__(self, client: DynamoDB, table: str) -> None:
        self._client = client
        self._table = table

    def count(
        self,
        user: str,
        spending: Spending,
        now: int,
        write_id: str,
        counters: Counters | None = None,
        limits: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        amounts = spending.amounts()
        if any(amounts[name] > bound for name, bound in limits.items()):
            raise Over(None)
        adds = {attribute_of(name, now): amount for name, amount in amounts.items() if amount}
        names = {f"#{index}": name for index, name in enumerate(adds)}
        stale_names = earlier(spending, now) if counters is None else counters.stale[:_STALE]
        stale = {f"#s{index}": name for index, name in enumerate(stale_names)}
        update = "SET #ttl = :ttl, #last = :last"
        if adds:
            update += " ADD " + ", ".join(f"#{index} :{index}" for index in range(len(adds)))
        values: dict[str, Any] = {f":{index}": {"N": str(amount)} for index, amount in enumerate(adds.values())}
        values |= {":ttl": {"N": str((now // DAY_MS + 2) * DAY_MS // 1000)}, ":last": {"S": write_id}}
        condition = "(attribute_not_exists(#last) OR #last <> :last)"
        if stale:
            update += " REMOVE " + ", ".join(stale)
        for index, (name, bound) in enumerate(limits.items()):
            names[f"#m{index}"] = attribute_of(name, now)
            values[f":m{index}"] = {"N": str(bound - amounts[name])}
            condition += f" AND (attribute_not_exists(#m{index}) OR #m{index} <= :m{index})"
        try:
            self._client.update_item(
                TableName=self._table,
                Key={"pk": {"S": keys.of_user(user)}, "sk": {"S": keys.usage_key(now)}},
                UpdateExpression=update,
                ConditionExpression=condition,
                ExpressionAttributeNames={**names, **stale, "#ttl": "ttl", "#last": "last"},
                ExpressionAttributeValues=values,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ConditionFailed as error:
            item = from_dynamodb(error.item)
            if item.get("last") != write_id:
                raise Over(item) from None
