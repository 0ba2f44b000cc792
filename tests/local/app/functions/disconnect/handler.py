from typing import Any

from sample import record


def handler(event: dict[str, Any], _context: Any) -> Any:
    record("disconnect", event["requestContext"]["connectionId"], event)
    return {"statusCode": 200}
