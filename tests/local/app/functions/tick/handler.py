from typing import Any

from sample import record


def handler(event: dict[str, Any], context: Any) -> Any:
    record("tick", context.aws_request_id, event)
