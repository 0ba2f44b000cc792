"""Finds items in the emulated tables."""

import base64
from typing import Any

from codelab_local.emulator.aws_api import AwsApi

_MOST_ITEMS = 500
_MOST_PAGES = 40
_MOST_BYTES = 2_000_000
_BYTES_SHOWN = 64


def find_items(aws: AwsApi, match: str) -> dict[str, Any]:
    """Items of which a key contains the text, as plain JSON. `complete` is false if there are more.

    A scan, since only the application knows how it builds its keys. Raises :class:`AwsError`, OSError.
    """
    items: list[dict[str, Any]] = []
    size = 0
    for table in _call(aws, "ListTables", {})["TableNames"]:
        keys = {
            key["KeyType"]: key["AttributeName"]
            for key in _call(aws, "DescribeTable", {"TableName": table})["Table"]["KeySchema"]
        }
        partition, sort = keys["HASH"], keys.get("RANGE")
        scan: dict[str, Any] = {"TableName": table}
        if match:
            scan |= {
                "FilterExpression": " OR ".join(f"contains(#k{n}, :text)" for n in range(len(keys))),
                "ExpressionAttributeNames": {f"#k{n}": name for n, name in enumerate(keys.values())},
                "ExpressionAttributeValues": {":text": {"S": match}},
            }
        for _ in range(_MOST_PAGES):
            page = _call(aws, "Scan", scan)
            for item in page.get("Items", ()):
                values = {name: _plain(value) for name, value in item.items()}
                size += len(str(values))
                if len(items) == _MOST_ITEMS or size > _MOST_BYTES:
                    return {"items": _sorted(items), "complete": False}
                key = str(values.get(partition)), "" if sort is None else str(values.get(sort))
                items.append({"table": table, "partition": key[0], "sort": key[1], "item": values})
            if "LastEvaluatedKey" not in page:
                break
            scan["ExclusiveStartKey"] = page["LastEvaluatedKey"]
        else:
            return {"items": _sorted(items), "complete": False}
    return {"items": _sorted(items), "complete": True}


def _sorted(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(items, key=lambda item: (item["table"], item["partition"], item["sort"]))


def _call(aws: AwsApi, operation: str, body: dict[str, Any]) -> Any:
    return aws.target("dynamodb", f"DynamoDB_20120810.{operation}", body)


def _plain(value: dict[str, Any]) -> Any:
    """An attribute value of DynamoDB as JSON. Numbers stay texts if they are not exact; bytes are only described."""
    [(kind, payload)] = value.items()
    if kind == "M":
        return {name: _plain(part) for name, part in payload.items()}
    if kind == "L":
        return [_plain(part) for part in payload]
    if kind == "NULL":
        return None
    if kind == "N":
        return _number(payload)
    if kind == "NS":
        return [_number(part) for part in payload]
    if kind == "B":
        content = base64.b64decode(payload)
        return f"<{len(content)} bytes: {content[:_BYTES_SHOWN].hex()}{'…' if len(content) > _BYTES_SHOWN else ''}>"
    return payload  # S, BOOL, SS and BS


def _number(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() and len(text) < 16 else text
