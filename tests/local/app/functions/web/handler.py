"""Serves the sample's HTTP API and is its authorizer. The query's `do` (or `auth`) says what to do."""

import base64
import time
from typing import Any


def handler(event: dict[str, Any], _context: Any) -> Any:
    query = event.get("queryStringParameters") or {}
    if event.get("type") == "REQUEST":
        return _authorize(event, query.get("auth", "allow"))
    match query.get("do"):
        case "raise":
            raise RuntimeError("broken on purpose")
        case "sleep":
            time.sleep(float(query["seconds"]))
        case "binary":
            return {
                "statusCode": 201,
                "headers": {"Content-Type": "application/octet-stream", "X-Own": "1"},
                "cookies": ["a=1; Path=/", "b=2"],
                "body": base64.b64encode(bytes(range(256))).decode(),
                "isBase64Encoded": True,
            }
        case "text":
            return "plain text"
        case "nonsense":
            return {"statusCode": "not a number"}
    return event


def _authorize(event: dict[str, Any], wish: str) -> Any:
    if wish == "raise":
        raise Exception("Unauthorized")
    return {"isAuthorized": wish == "allow", "context": {"user": "someone", "number": 7, "asked": event["routeArn"]}}
