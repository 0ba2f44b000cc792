"""AWS: one client of a service per process, with time-outs that end before API Gateway gives up on an event (29 s)."""

import os
from functools import cache

from codelab.aws.dynamodb import DynamoDB
from codelab.aws.functions import Functions
from codelab.aws.secrets import Secrets
from codelab.aws.signing_keys import SigningKeys


def uses_boto3() -> bool:
    """Is AWS called by boto3's clients instead of ours? AWS_CLIENT is `boto3`, or `direct`. Raises ValueError."""
    client = os.environ.get("AWS_CLIENT") or "direct"
    if client not in ("direct", "boto3"):
        raise ValueError(f"AWS_CLIENT must be 'direct' or 'boto3', not {client!r}")
    return client == "boto3"


@cache
def dynamodb_client() -> DynamoDB:
    """DynamoDB."""
    if uses_boto3():
        from codelab.aws.boto3_clients import Boto3DynamoDB

        return Boto3DynamoDB()
    return DynamoDB()


@cache
def lambda_client() -> Functions:
    """Lambda."""
    return _functions(None, None)


@cache
def waiting_lambda_client(read_s: float = 28) -> Functions:
    """Lambda, with so many seconds for a function. Nothing is retried: that would ask the model twice."""
    return _functions(1, read_s)


@cache
def secrets_client() -> Secrets:
    """Secrets Manager."""
    if uses_boto3():
        from codelab.aws.boto3_clients import Boto3Secrets

        return Boto3Secrets()
    return Secrets()


@cache
def signing_keys_client() -> SigningKeys:
    """KMS."""
    if uses_boto3():
        from codelab.aws.boto3_clients import Boto3SigningKeys

        return Boto3SigningKeys()
    return SigningKeys()


def _functions(attempts: int | None, read_s: float | None) -> Functions:
    client_type = Functions
    if uses_boto3():
        from codelab.aws.boto3_clients import Boto3Functions

        client_type = Boto3Functions
    return client_type(attempts=attempts) if read_s is None else client_type(attempts=attempts, read_s=read_s)
