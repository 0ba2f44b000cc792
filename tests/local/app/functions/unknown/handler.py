from typing import Any

from sample import send


def handler(event: dict[str, Any], _context: Any) -> Any:
    send(event["requestContext"]["connectionId"], {"default": event["body"]})
    return {"statusCode": 200}
