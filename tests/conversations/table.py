"""Reads a session's items from the local cloud's table."""

from typing import Any

from codelab_local import LocalCloud


class Table:
    def __init__(self, cloud: LocalCloud) -> None:
        self.dynamodb = cloud.client("dynamodb")
        self.name = next(name for name in self.dynamodb.list_tables()["TableNames"] if "Table" in name)

    def items(self, session: str) -> list[dict[str, Any]]:
        found = self.dynamodb.query(
            TableName=self.name,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"SESSION#local#{session}"}},
            ConsistentRead=True,
        )["Items"]
        return [{name: next(iter(value.values())) for name, value in item.items()} for item in found]

    def register(self, session: str) -> dict[str, Any]:
        return next(item for item in self.items(session) if item["sk"] == "REGISTER")

    def messages(self, session: str) -> list[dict[str, Any]]:
        return sorted((i for i in self.items(session) if i["sk"].startswith("MESSAGE#")), key=lambda item: item["sk"])
