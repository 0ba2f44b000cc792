"""AWS: one client of a service per process, with time-outs that end before API Gateway gives up on an event (29 s)."""

from functools import cache

from codelab.aws.dynamodb import DynamoDB
from codelab.aws.functions import Functions
from codelab.aws.secrets import Secrets


@cache
def dynamodb_client() -> DynamoDB:
    """DynamoDB."""
    return DynamoDB()


@cache
def lambda_client() -> Functions:
    """Lambda."""
    return Functions()


@cache
def waiting_lambda_client(read_s: float = 28) -> Functions:
    """Lambda, with so many seconds for a function. Nothing is retried: that would ask the model twice."""
    return Functions(attempts=1, read_s=read_s)


@cache
def secrets_client() -> Secrets:
    """Secrets Manager."""
    return Secrets()
