"""Read, write, invoke: what `user_message` calls, with items of the same attributes and size."""

import json
import os
from typing import Any

from codelab import aws

TABLE, STEP = os.environ["TABLE"], os.environ["STEP"]
dynamodb, functions = aws.dynamodb_client(), aws.lambda_client()
_NEW = "attribute_not_exists(pk)"
_CONNECTION = {
    **{name: {"N": "0"} for name in ("generation", "joined_seq", "issued", "expires", "replaying_until")},
    **{name: {"BOOL": False} for name in ("extensions", "viewer", "args_profile", "greeted")},
    "joined": {"N": "1795476067180"},
}
#: What a session's register has beside what a message changes.
_REST = {
    "owner": {"S": "local"},
    "session_id": {"S": "floor"},
    "created_at": {"N": "1795476067180"},
    "agent": {"S": "universal"},
    "generation": {"N": "1"},
    "conn#L0PStd25PLvKobQ=": {"M": _CONNECTION},
    "title": {"S": "pieces=1 rate=20"},
    "executor": {"S": "L0PStd25PLvKobQ="},
    "context_used": {"N": "10"},
    "usage": {"M": {f"of_part_{part}": {"N": "538"} for part in range(9)}},
}


def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Accept a message {"session", "content", "history"}."""
    message, connection = json.loads(event["body"]), event["requestContext"]["connectionId"]
    pk = {"S": message["session"]}
    key = {"pk": pk, "sk": {"S": "REGISTER"}}
    found = dynamodb.get_item(TableName=TABLE, Key=key, ConsistentRead=True).get("Item")
    if found is None:
        dynamodb.put_item(TableName=TABLE, Item={**key, **_REST, "version": {"N": "0"}})
        found = {"version": {"N": "0"}}
    n = int(found["version"]["N"]) + 1
    now = {"N": str(1795476067180 + n)}
    changed = {
        "last_activity": now,
        "status": {"S": "thinking"},
        "phase": {"S": "dispatched"},
        "turn_id": {"S": f"{n:024d}"},
        "step": {"N": "1"},
        "dispatched_at": now,
        **{name: {"N": str(n)} for name in ("turn_seq", "announced_seq", "last_seq", "history_n", "turn_n", "tokens")},
        "post#1": {"M": {"last": {"N": str(n)}, "at": now}},
    }
    fixed = {"version": {"N": str(n)}, "due_at": now, "due_shard": {"S": "due2"}}
    register = {
        "TableName": TABLE,
        "Key": key,
        "UpdateExpression": "SET "
        + ", ".join(f"#{index} = :{index}" for index in range(len(changed)))
        + ", version = :version, due_at = :due_at, due_shard = :due_shard",
        "ConditionExpression": "version = :before",
        "ExpressionAttributeNames": {f"#{index}": name for index, name in enumerate(changed)},
        "ExpressionAttributeValues": {
            **{f":{index}": value for index, value in enumerate(changed.values())},
            **{f":{name}": value for name, value in fixed.items()},
            ":before": {"N": str(n - 1)},
        },
    }
    body = {"content": {"S": message["content"]}, "role": {"S": "user"}, "at": now, "seq": {"N": str(n)}}
    told = {**body, "turn_id": {"S": "t" * 24}, "message_id": {"S": "m" * 24}, "tokens": {"N": "6"}}
    frame = json.dumps({"content": message["content"], "pad": "x" * 100})
    logged = {"frame": {"S": frame}, "audience": {"S": "all"}, "ttl": {"N": "1895562475"}}
    items = [(f"INPUT#{n}", body), (f"MESSAGE#{n:09d}", told), (f"EVENT#{n}a", logged), (f"EVENT#{n}b", logged)]
    puts = [
        {"Put": {"TableName": TABLE, "Item": {"pk": pk, "sk": {"S": sk}, **item}, "ConditionExpression": _NEW}}
        for sk, item in items
    ]
    dynamodb.transact_write_items(TransactItems=[{"Update": register}, *puts])
    functions.start(STEP, {**message, "n": n, "connection": connection, "user": "local", "turn_id": "t" * 24})
    return {"statusCode": 200}
