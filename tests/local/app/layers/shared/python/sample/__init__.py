"""What the sample's functions share, as a built layer has it (below `python/`)."""

import json
import os
from typing import Any

import boto3
from botocore.config import Config

CONFIG = Config(retries={"total_max_attempts": 1})
table = boto3.resource("dynamodb", config=CONFIG).Table(os.environ["TABLE"])
lambdas = boto3.client("lambda", config=CONFIG)
callback = boto3.client("apigatewaymanagementapi", endpoint_url=os.environ["CALLBACK_URL"], config=CONFIG)


def send(connection_id: str, value: Any) -> None:
    callback.post_to_connection(ConnectionId=connection_id, Data=json.dumps(value).encode())


def record(kind: str, name: str, value: Any) -> None:
    """Keep what a function saw, for a test to read."""
    table.put_item(Item={"pk": kind, "sk": name, "value": json.dumps(value)})
