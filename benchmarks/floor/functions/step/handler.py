"""Read, ask the model; append and post its first piece: what `llm_request` calls until then.

If the message says `fenced`, the step is also acquired while the model works, and the status is posted before the text,
while that is appended.
"""

import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from codelab import aws
from codelab.delivery.management_api import ManagementApi
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.transport import Call

TABLE = os.environ["TABLE"]
dynamodb = aws.dynamodb_client()
connections = ManagementApi(os.environ["CONNECTIONS_URL"])
threads = ThreadPoolExecutor(2)
model = DirectTransport(base_url=os.environ["LLM_BASE_URL"], api_key="bench")
#: As long as the real prompt with its schema of the answer.
PROMPT = {"role": "system", "content": "x" * 12_000}
STATUS = json.dumps({"type": "agent_status", "status": "thinking", "message": "Thinking", "pad": "x" * 40}).encode()
#: With a history, the request has that many messages before the user's.
SAID = [{"role": role, "content": "a question"} for role in ("user", "assistant")]


def handler(event: dict[str, Any], _context: Any) -> None:
    """Answer a message."""
    pk, n = {"S": event["session"]}, event["n"]
    names = ["REGISTER", "RULES", "USER_RULES", "TOOLS", f"EVENT#{n}a", f"MESSAGE#{n - 1:09d}", f"MESSAGE#{n:09d}"]
    keys = [{"pk": pk, "sk": {"S": name}} for name in names]
    dynamodb.batch_get_item(RequestItems={TABLE: {"Keys": keys, "ConsistentRead": True}})
    said = [*SAID * (event["history"] // 2), {"role": "user", "content": event["content"]}]
    body = {"model": "instant", "messages": [PROMPT, *said], "stream": True, "stream_options": {"include_usage": True}}
    text = ""
    fenced, connection = event.get("fenced", False), event["connection"]
    acquired = threads.submit(_acquire, pk, n) if fenced else None
    for chunks in model.send(body, Call()):
        for chunk in chunks:
            piece = chunk["choices"][0]["delta"].get("content", "") if chunk["choices"] else ""
            if piece and not text:
                text = piece
                if acquired is not None:
                    acquired.result()
                told = threads.submit(connections.post, connection, STATUS) if fenced else None
                _show(pk, n, connection, text, told)


def _acquire(pk: dict[str, str], n: int) -> None:
    changed = {
        "phase": {"S": "running"},
        "attempt": {"N": "1"},
        "lease": {"S": "l" * 61},
        "message_id": {"S": "m" * 28},
    }
    times = ("lease_until", "alive_until", "message_seq", "due_at")
    changed |= {name: {"N": "1795476067180"} for name in times}
    dynamodb.update_item(
        TableName=TABLE,
        Key={"pk": pk, "sk": {"S": "REGISTER"}},
        UpdateExpression="SET " + ", ".join(f"#{index} = :{index}" for index in range(len(changed))),
        ConditionExpression="version = :version",
        ExpressionAttributeNames={f"#{index}": name for index, name in enumerate(changed)},
        ExpressionAttributeValues={
            **{f":{index}": value for index, value in enumerate(changed.values())},
            ":version": {"N": str(n)},
        },
    )


def _show(pk: dict[str, str], n: int, connection: str, text: str, told: Future[int] | None) -> None:
    frame = json.dumps({"type": "assistant_message", "token": text, "pad": "x" * 100})
    logged = {"frame": {"S": frame}, "audience": {"S": "all"}, "ttl": {"N": "1895562475"}, "write_id": {"S": "w" * 66}}
    item = {"pk": pk, "sk": {"S": f"EVENT#{n}c"}, **logged}
    dynamodb.put_item(TableName=TABLE, Item=item, ConditionExpression="attribute_not_exists(pk)")
    if told is not None:
        told.result()
    connections.post(connection, frame.encode())
