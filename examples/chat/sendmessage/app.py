"""Sends the `data` of a message to everybody who is connected."""

import json
import os
from typing import Any

import boto3

TABLE = boto3.resource("dynamodb").Table(os.environ["TABLE_NAME"])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    address = event["requestContext"]
    management = boto3.client(
        "apigatewaymanagementapi", endpoint_url=f"https://{address['domainName']}/{address['stage']}"
    )
    data = str(json.loads(event["body"])["data"]).encode()
    for item in TABLE.scan(ProjectionExpression="connection_id")["Items"]:
        try:
            management.post_to_connection(ConnectionId=item["connection_id"], Data=data)
        except management.exceptions.GoneException:
            TABLE.delete_item(Key=item)
    return {"statusCode": 200}
