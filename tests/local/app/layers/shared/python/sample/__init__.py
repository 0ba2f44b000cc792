"""The sample functions' shared code, in a built layer (below `python/`)."""

import functools
import json
import os
from typing import Any

import boto3
from botocore.config import Config

TABLE = os.environ["TABLE"]
CONFIG = Config(retries={"total_max_attempts": 1})
table = boto3.client("dynamodb", config=CONFIG)


@functools.cache
def callback() -> Any:
    return boto3.client("apigatewaymanagementapi", endpoint_url=os.environ["CALLBACK_URL"], config=CONFIG)


def send(connection_id: str, value: Any) -> None:
    callback().post_to_connection(ConnectionId=connection_id, Data=json.dumps(value).encode())


def record(kind: str, name: str, value: Any) -> None:
    """Store what a function saw, for a test to read."""
    table.put_item(TableName=TABLE, Item={"pk": {"S": kind}, "sk": {"S": name}, "value": {"S": json.dumps(value)}})


def recorded(kind: str, name: str) -> Any:
    """What :func:`record` stored, or None."""
    key = {"pk": {"S": kind}, "sk": {"S": name}}
    item = table.get_item(TableName=TABLE, Key=key, ConsistentRead=True).get("Item")
    return json.loads(item["value"]["S"]) if item else None


def count(kind: str, name: str) -> int:
    """Add one to a counter and return it."""
    answer = table.update_item(
        TableName=TABLE,
        Key={"pk": {"S": kind}, "sk": {"S": name}},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
        ReturnValues="ALL_NEW",
    )
    return int(answer["Attributes"]["n"]["N"])


def number_of(kind: str) -> int:
    answer = table.query(
        TableName=TABLE, KeyConditionExpression="pk = :kind", ExpressionAttributeValues={":kind": {"S": kind}}
    )
    return int(answer["Count"])
