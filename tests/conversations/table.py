"""Reads and fills a session's items in the local cloud's table."""

import json
from collections.abc import Sequence
from typing import Any

from codelab.sessions.dynamodb.values import to_dynamodb
from codelab_local import LocalCloud


class Table:
    def __init__(self, cloud: LocalCloud) -> None:
        self.dynamodb = cloud.client("dynamodb")
        self.name = next(name for name in self.dynamodb.list_tables()["TableNames"] if "Table" in name)

    def items(self, session: str) -> list[dict[str, Any]]:
        pages = self.dynamodb.get_paginator("query").paginate(
            TableName=self.name,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"SESSION#local#{session}"}},
            ConsistentRead=True,
        )
        found = [item for page in pages for item in page["Items"]]
        return [{name: next(iter(value.values())) for name, value in item.items()} for item in found]

    def register(self, session: str) -> dict[str, Any]:
        return next(item for item in self.items(session) if item["sk"] == "REGISTER")

    def messages(self, session: str) -> list[dict[str, Any]]:
        return sorted((i for i in self.items(session) if i["sk"].startswith("MESSAGE#")), key=lambda item: item["sk"])

    def frames(self, session: str) -> list[dict[str, Any]]:
        """The logged frames in order."""
        found = sorted((i for i in self.items(session) if i["sk"].startswith("EVENT#")), key=lambda item: item["sk"])
        return [json.loads(item["frame"]) for item in found]

    def end_lease(self, session: str) -> None:
        """As if the time of the running step's lease were over."""
        self.dynamodb.update_item(
            TableName=self.name,
            Key=to_dynamodb({"pk": f"SESSION#local#{session}", "sk": "REGISTER"}),
            UpdateExpression="SET lease_until = :past, due_at = :past",
            ConditionExpression="attribute_exists(lease)",
            ExpressionAttributeValues=to_dynamodb({":past": 1}),
        )

    def set_last_activity(self, session: str, at: int) -> None:
        """As if the session had last been used at this time (ms)."""
        self.dynamodb.update_item(
            TableName=self.name,
            Key=to_dynamodb({"pk": f"SESSION#local#{session}", "sk": "REGISTER"}),
            UpdateExpression="SET last_activity = :at",
            ExpressionAttributeValues=to_dynamodb({":at": at}),
        )

    def fill(self, session: str, items: Sequence[dict[str, Any]]) -> None:
        """Write these items, which have no `pk`."""
        pk = f"SESSION#local#{session}"
        puts = [{"PutRequest": {"Item": to_dynamodb({"pk": pk, **item})}} for item in items]
        for start in range(0, len(puts), 25):
            self.dynamodb.batch_write_item(RequestItems={self.name: puts[start : start + 25]})
