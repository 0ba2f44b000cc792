"""The WebSocket API: who watches, and what they ask."""

import json
from typing import Any

from store import connections, orders_of


def connect(event: dict[str, Any], context: Any) -> dict[str, Any]:
    connections().put_item(Item=_key(event))
    return {"statusCode": 200}


def disconnect(event: dict[str, Any], context: Any) -> dict[str, Any]:
    connections().delete_item(Key=_key(event))
    return {"statusCode": 200}


def list_orders(event: dict[str, Any], context: Any) -> dict[str, Any]:
    customer = event["requestContext"]["authorizer"]["customer"]
    return {"statusCode": 200, "body": json.dumps({"type": "orders", "orders": orders_of(customer)})}


def _key(event: dict[str, Any]) -> dict[str, str]:
    request = event["requestContext"]
    return {"customer": request["authorizer"]["customer"], "connection": request["connectionId"]}
