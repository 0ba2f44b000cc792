"""DynamoDB: one method per operation, with the names and shapes of its API ("DynamoDB API Reference")."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4
from zlib import crc32

from codelab.aws.calls import Service
from codelab.aws.connections import Answer
from codelab.aws.errors import AwsUnreachable


class DynamoDB:
    """Raises AwsError: AwsRefused with DynamoDB's code, ConditionFailed, AwsUnreachable."""

    def __init__(self) -> None:
        self._service = Service("dynamodb")

    def get_item(self, **request: Any) -> dict[str, Any]:
        """Read an item."""
        return self._call("GetItem", request)

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        """Read up to 100 items."""
        return self._call("BatchGetItem", request)

    def query(self, **request: Any) -> dict[str, Any]:
        """Read items of one partition."""
        return self._call("Query", request)

    def put_item(self, **request: Any) -> dict[str, Any]:
        """Write an item."""
        return self._call("PutItem", request)

    def update_item(self, **request: Any) -> dict[str, Any]:
        """Change attributes of an item."""
        return self._call("UpdateItem", request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        """Delete an item."""
        return self._call("DeleteItem", request)

    def batch_write_item(self, **request: Any) -> dict[str, Any]:
        """Write or delete up to 25 items."""
        return self._call("BatchWriteItem", request)

    def transact_write_items(self, *, on_wait: Callable[[], object] | None = None, **request: Any) -> dict[str, Any]:
        """Write up to 100 items or none. A retry has the same ClientRequestToken, so it takes effect once.

        on_wait: see `Service.call`. boto3's client does not call it.
        """
        return self._call("TransactWriteItems", {"ClientRequestToken": str(uuid4()), **request}, on_wait)

    def _call(
        self, operation: str, request: dict[str, Any], on_wait: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        headers = {"X-Amz-Target": f"DynamoDB_20120810.{operation}", "Content-Type": "application/x-amz-json-1.0"}
        return self._service.call(operation, "/", headers, json.dumps(request).encode(), _read, on_wait)


def _read(answer: Answer) -> dict[str, Any]:
    """The answer's JSON. Raises AwsUnreachable if it is damaged: the call is repeated."""
    checksum = answer.headers.get("x-amz-crc32")
    if checksum is not None and int(checksum) != crc32(answer.body):
        raise AwsUnreachable("DynamoDB's answer does not have its checksum")
    try:
        found: dict[str, Any] = json.loads(answer.body.decode())
    except ValueError:
        raise AwsUnreachable("DynamoDB's answer is not JSON") from None
    return found
