"""`refuse=STATUS` refuses, `post=1` posts to itself, `fail=1` raises; a `chat` subprotocol is echoed."""

from typing import Any

from botocore.exceptions import ClientError
from sample import callback, record


def handler(event: dict[str, Any], _context: Any) -> Any:
    query = event.get("queryStringParameters") or {}
    connection_id = event["requestContext"]["connectionId"]
    if "fail" in query:
        raise RuntimeError("connect is broken")
    if "refuse" in query:
        return {"statusCode": int(query["refuse"]), "body": "no"}
    if "post" in query:
        try:
            callback().post_to_connection(ConnectionId=connection_id, Data=b"too early")
            early = "posted"
        except ClientError as error:
            early = type(error).__name__
        event["early"] = early
    record("connect", connection_id, event)
    offered = event["headers"].get("Sec-WebSocket-Protocol", "")
    headers = {"Sec-WebSocket-Protocol": "chat"} if "chat" in offered else {}
    return {"statusCode": 200, "headers": headers}
