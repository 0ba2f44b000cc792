"""DynamoDB: one method per operation, with the names and shapes of its API ("DynamoDB API Reference")."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from codelab.aws.calls import JsonService


class DynamoDB:
    """Raises AwsError: AwsRefused with DynamoDB's code, ConditionFailed, AwsUnreachable."""

    def __init__(self) -> None:
        self._service = JsonService("dynamodb", "DynamoDB_20120810", "application/x-amz-json-1.0")

    def get_item(self, **request: Any) -> dict[str, Any]:
        """Read an item."""
        return self._call("GetItem", request)

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        """Read up to 100 items."""
        return self._call("BatchGetItem", request)

    def query(self, **request: Any) -> dict[str, Any]:
        """Read items of one partition."""
        return self._call("Query", request)

    def scan(self, **request: Any) -> dict[str, Any]:
        """Read a part of a table or an index, whatever its keys."""
        return self._call("Scan", request)

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

        on_wait: see `JsonService.call`. boto3's client does not call it.
        """
        return self._call("TransactWriteItems", {"ClientRequestToken": str(uuid4()), **request}, on_wait)

    def _call(
        self, operation: str, request: dict[str, Any], on_wait: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        return self._service.call(operation, request, on_wait)
