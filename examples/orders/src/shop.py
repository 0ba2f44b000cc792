"""The HTTP API: what customers do. Everybody who watches the customer's orders is told."""

import json
import os
import uuid
from typing import Any

import boto3
from boto3.dynamodb.conditions import Key
from store import connections, orders

MANAGEMENT = boto3.client("apigatewaymanagementapi", endpoint_url=os.environ["LIVE_URL"])


def place(event: dict[str, Any], context: Any) -> dict[str, Any]:
    order = {"id": uuid.uuid4().hex, "state": "placed", "item": json.loads(event["body"])["item"]}
    orders().put_item(Item={"customer": _customer(event), **order})
    _tell(_customer(event), order)
    return {"statusCode": 201, "headers": {"content-type": "application/json"}, "body": json.dumps(order)}


def ship(event: dict[str, Any], context: Any) -> dict[str, Any]:
    key = {"customer": _customer(event), "id": event["pathParameters"]["id"]}
    answer = orders().update_item(
        Key=key,
        UpdateExpression="SET #state = :shipped",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={":shipped": "shipped"},
        ReturnValues="ALL_NEW",
    )
    order = {name: value for name, value in answer["Attributes"].items() if name != "customer"}
    _tell(_customer(event), order)
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": json.dumps(order)}


def _customer(event: dict[str, Any]) -> str:
    customer: str = event["requestContext"]["authorizer"]["lambda"]["customer"]
    return customer


def _tell(customer: str, order: dict[str, Any]) -> None:
    data = json.dumps({"type": "order", **order}).encode()
    for item in connections().query(KeyConditionExpression=Key("customer").eq(customer))["Items"]:
        try:
            MANAGEMENT.post_to_connection(ConnectionId=item["connection"], Data=data)
        except MANAGEMENT.exceptions.GoneException:
            connections().delete_item(Key={"customer": customer, "connection": item["connection"]})
