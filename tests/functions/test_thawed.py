"""A process that Lambda has frozen: what it kept open is not used again."""

import boto3
from codelab.aws.connections import STALE_S
from codelab.aws.sdk import awake

from tests.fakes.aws.server import AwsServer


def test_the_connections_of_a_client_that_slept_are_not_used_again() -> None:
    now = 1_000.0
    with AwsServer() as table:
        made = boto3.client(
            "dynamodb",
            endpoint_url=table.url,
            region_name="eu-west-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )
        client = awake(made, clock=lambda: now)
        for slept in (0, STALE_S, STALE_S + 0.1, 0):
            now += slept
            client.get_item(TableName="table", Key={"pk": {"S": "x"}})
        client.close()
    kept, same, other, other_too = (it.connection for it in table.received)
    assert kept == same != other == other_too
