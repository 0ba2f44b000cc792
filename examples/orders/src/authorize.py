"""Who may use the two APIs. A real shop would verify a signature; here a token names its customer: `of-alice`."""

from typing import Any


def socket(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A policy, as WebSocket APIs want it."""
    customer = _customer(event["queryStringParameters"]["token"])
    statement = {
        "Effect": "Allow" if customer else "Deny",
        "Action": "execute-api:Invoke",
        "Resource": event["methodArn"],
    }
    return {
        "principalId": customer or "nobody",
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": {"customer": customer},
    }


def request(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The simple answer of HTTP APIs."""
    customer = _customer(event["headers"]["authorization"])
    return {"isAuthorized": bool(customer), "context": {"customer": customer}}


def _customer(token: str) -> str:
    return token.removeprefix("of-") if token.startswith("of-") else ""
