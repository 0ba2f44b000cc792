from typing import Any

from sample import record


def handler(event: dict[str, Any], _context: Any) -> Any:
    record("failed", event["requestPayload"]["name"], event)
