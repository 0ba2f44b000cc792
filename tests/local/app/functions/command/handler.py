"""Does what the message's `do` says."""

import json
import os
import time
from typing import Any

import words
from sample import lambdas, send

STEPS = int(os.environ["STEPS"]) if os.environ["STEPS"].isdigit() else None
if STEPS is None:
    raise ValueError(f"STEPS must be an integer, not {os.environ['STEPS']!r}")


def handler(event: dict[str, Any], context: Any) -> Any:
    if "requestContext" not in event:
        return _invoked(event, context)
    connection = event["requestContext"]["connectionId"]
    message = json.loads(event["body"])
    match message.get("do"):
        case "event":
            send(connection, event)
        case "raise":
            raise RuntimeError("broken on purpose")
        case "sleep":
            time.sleep(message["seconds"])
            send(connection, {"slept": message.get("name")})
        case "send":
            for n in range(message.get("times", 1)):
                send(connection, {"n": n, "text": "x" * message.get("size", 1)})
        case "background":
            lambdas.invoke(
                FunctionName=os.environ["BACKGROUND"], InvocationType="Event", Payload=json.dumps(message["payload"])
            )
            send(connection, {"accepted": True})
        case "word":
            send(connection, {"word": words.WORD})
    return {"statusCode": 200, "body": "the reply"}


def _invoked(event: dict[str, Any], context: Any) -> Any:
    match event.get("do"):
        case "environment":
            return dict(os.environ)
        case "pid":
            time.sleep(event.get("seconds", 0))
            return {
                "pid": os.getpid(),
                "remaining": context.get_remaining_time_in_millis(),
                "arn": context.invoked_function_arn,
            }
        case "exit":
            os._exit(3)
        case "raise":
            raise RuntimeError("broken on purpose")
        case "word":
            return words.WORD
    return event
