"""SnapStart: copies of one process share neither connections nor random numbers; credentials and secrets are of now."""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.http import Exchange, HttpServer
from tests.functions import events
from tests.functions.system import JWT_SECRET
from tests.functions.test_authorize import bearer, token
from tests.processes import run

ROOT = Path(__file__).parents[2]


class Aws(HttpServer):
    """Lambda's credentials, which differ each time, and the services that the authorizer asks.

    The secret is rotated after the init.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The operation, the connection that it came on, and the access key that signed it.
        self.asked: list[tuple[str, int, str]] = []
        self.given = 0

    def handle(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            self.given += 1
            expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 300))
            keys = {"AccessKeyId": f"AKIA{self.given}", "SecretAccessKey": "secret", "Token": "token"}
            exchange.json({**keys, "Expiration": expires})
            return
        (key,) = re.findall(r"Credential=(\w+)/", exchange.headers["authorization"])
        operation = exchange.headers["x-amz-target"].rpartition(".")[2]
        self.asked.append((operation, exchange.connection, key))
        secret = JWT_SECRET if len(self.asked) > 1 else JWT_SECRET[::-1]
        exchange.json({"SecretString": secret} if operation == "GetSecretValue" else {})


def copies(*options: str) -> tuple[list[dict[str, Any]], Aws]:
    """What two copies of the authorizer's process answer, and what AWS was asked."""
    with Aws() as aws:
        variables = {
            "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
            "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:1",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{aws.url}/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "token",
            "AWS_ENDPOINT_URL": aws.url,
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AUTH_MODE": "jwt",
            "JWT_SECRET_ARN": "secret",
            "TABLE_NAME": "table",
            "PATH": os.environ["PATH"],
        }
        event = json.dumps(events.authorize(headers=bearer(token())))
        done = run(
            sys.executable, "-m", "tests.functions.copied", "authorize", event, *options, cwd=ROOT, env=variables
        )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"returned"')], aws


@pytest.mark.parametrize("hooks", [True, False], ids=["hooks", "no hooks"])
def test_two_copies_share_nothing_if_the_hooks_run(hooks: bool) -> None:
    """Without the hooks, they would draw the same numbers and write to the same connection."""
    (one, other), aws = copies(*([] if hooks else ["--no-hooks"]))
    assert (one["drawn"] != other["drawn"]) == hooks
    (at_init, *later) = aws.asked
    assert [operation for operation, _, _ in later] == 2 * ["GetSecretValue", "GetItem"]
    read_on = [connection for operation, connection, _ in aws.asked if operation == "GetSecretValue"]
    assert len(set(read_on)) == (3 if hooks else 1)
    # Ids, credentials and secrets need no hook.
    sessions = {answer["returned"]["context"]["session_id"] for answer in (one, other)}
    assert len(sessions) == 2
    assert at_init[2] not in {key for _, _, key in later}
