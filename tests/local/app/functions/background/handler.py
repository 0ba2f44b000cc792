"""An asynchronous function: counts its attempts, and fails as often as the event says."""

import time
from typing import Any

from sample import count, record


def handler(event: dict[str, Any], context: Any) -> Any:
    attempt = count("attempts", event["name"])
    record("background", f"{event['name']}#{attempt}", {"request_id": context.aws_request_id})
    time.sleep(event.get("seconds", 0))
    if attempt <= event.get("failures", 0):
        raise RuntimeError(f"attempt {attempt} fails")
    return {"attempt": attempt}
