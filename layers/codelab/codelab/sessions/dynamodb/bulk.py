"""`Bulk` over DynamoDB's batches."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from codelab.aws.dynamodb import DynamoDB
from codelab.sessions import keys
from codelab.sessions.dynamodb.values import to_dynamodb
from codelab.sessions.store import StoredItem

#: The most writes that DynamoDB allows in one BatchWriteItem.
_BATCH = 25
#: Seconds before the unprocessed writes of a throttled table are sent again.
_PAUSE_S = 0.05


class DynamoDBBulk:
    """Has no state except the client."""

    def __init__(self, client: DynamoDB, table: str) -> None:
        self._client = client
        self._table = table

    def keys(self, pk: str, limit: int) -> list[str]:
        sort_keys: list[str] = []
        request: Any = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": pk}},
            "ProjectionExpression": "sk",
            "ConsistentRead": True,
            "Limit": limit,
        }
        while not sort_keys:  # a page may contain only the register
            page = self._client.query(**request)
            sort_keys = [item["sk"]["S"] for item in page["Items"] if item["sk"]["S"] != keys.REGISTER]
            if not page.get("LastEvaluatedKey"):
                break
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
        return sort_keys

    def delete(self, pk: str, sort_keys: Iterable[str]) -> None:
        self._write([{"DeleteRequest": {"Key": {"pk": {"S": pk}, "sk": {"S": sk}}}} for sk in sort_keys])

    def copy(self, items: Iterable[StoredItem], pk: str) -> None:
        self._write([{"PutRequest": {"Item": to_dynamodb({**item, "pk": pk})}} for item in items])

    def _write(self, requests: Sequence[Any]) -> None:
        for start in range(0, len(requests), _BATCH):
            requests_left: Any = {self._table: requests[start : start + _BATCH]}
            while requests_left:
                requests_left = self._client.batch_write_item(RequestItems=requests_left).get("UnprocessedItems")
                if requests_left:
                    time.sleep(_PAUSE_S)
