"""Read, write, invoke: what `user_message` calls, with items like its own."""

import json
import os
from typing import Any

from codelab import aws

TABLE, STEP = os.environ["TABLE"], os.environ["STEP"]
dynamodb, functions = aws.dynamodb_client(), aws.lambda_client()
_NEW = "attribute_not_exists(pk)"


def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Accept a message {"session", "content", "history"}."""
    message, connection = json.loads(event["body"]), event["requestContext"]["connectionId"]
    pk = {"S": message["session"]}
    key = {"pk": pk, "sk": {"S": "REGISTER"}}
    found = dynamodb.get_item(TableName=TABLE, Key=key, ConsistentRead=True).get("Item", {})
    n = int(found.get("version", {"N": "0"})["N"]) + 1
    values = {f":{index}": {"S": f"{n:024d}"} for index in range(13)}
    register = {
        "TableName": TABLE,
        "Key": key,
        "UpdateExpression": "SET " + ", ".join(f"#{index} = :{index}" for index in range(13)) + ", version = :next",
        "ConditionExpression": f"{_NEW} OR version = :version",
        "ExpressionAttributeNames": {f"#{index}": f"attribute_{index}" for index in range(13)},
        "ExpressionAttributeValues": {**values, ":version": {"N": str(n - 1)}, ":next": {"N": str(n)}},
    }
    body = {"content": {"S": message["content"]}, "role": {"S": "user"}, "at": {"N": "1"}, "turn_id": {"S": "t" * 24}}
    event_body = {"frame": {"S": json.dumps({"content": message["content"], "pad": "x" * 100})}}
    items = [(f"INPUT#{n}", body), (f"MESSAGE#{n:09d}", body), (f"EVENT#{n}a", event_body), (f"EVENT#{n}b", event_body)]
    puts = [
        {"Put": {"TableName": TABLE, "Item": {"pk": pk, "sk": {"S": sk}, **item}, "ConditionExpression": _NEW}}
        for sk, item in items
    ]
    dynamodb.transact_write_items(TransactItems=[{"Update": register}, *puts])
    functions.start(STEP, {**message, "n": n, "connection": connection, "user": "local", "turn_id": "t" * 24})
    return {"statusCode": 200}
