"""The two tables."""

import os
from functools import cache
from typing import Any

import boto3
from boto3.dynamodb.conditions import Key


@cache
def orders() -> Any:
    return boto3.resource("dynamodb").Table(os.environ["ORDERS"])


@cache
def connections() -> Any:
    return boto3.resource("dynamodb").Table(os.environ["CUSTOMERS"])


def orders_of(customer: str) -> list[dict[str, Any]]:
    items = orders().query(KeyConditionExpression=Key("customer").eq(customer))["Items"]
    return [{name: value for name, value in item.items() if name != "customer"} for item in items]
