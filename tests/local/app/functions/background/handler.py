"""An asynchronous function: counts its attempts, and fails as long as the event says."""

import time
from typing import Any

from sample import record, table


def handler(event: dict[str, Any], context: Any) -> Any:
    counted = table.update_item(
        Key={"pk": "attempts", "sk": event["name"]},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": 1},
        ReturnValues="ALL_NEW",
    )
    attempt = int(counted["Attributes"]["n"])
    record("background", f"{event['name']}#{attempt}", {"request_id": context.aws_request_id})
    time.sleep(event.get("seconds", 0))
    if attempt <= event.get("failures", 0):
        raise RuntimeError(f"attempt {attempt} fails")
    return {"attempt": attempt}
