"""Remembers who is connected."""

import os
from typing import Any

import boto3

TABLE = boto3.resource("dynamodb").Table(os.environ["TABLE_NAME"])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    TABLE.put_item(Item={"connection_id": event["requestContext"]["connectionId"]})
    return {"statusCode": 200}
