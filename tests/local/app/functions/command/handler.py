"""Does what the message's `do` says, and answers on the connection."""

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import phrases
import words
from botocore.exceptions import ClientError
from sample import callback, number_of, record, recorded, send

if not os.environ["STEPS"].isdigit():
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
                send(connection, {"n": n})
        case "manage":
            send(connection, _manage(message))
        case "record":
            record("message", message["name"], connection)
            send(connection, {"recorded": message["name"]})
        case "recorded":
            send(connection, _recorded(message["kind"], message["name"]))
    return {"statusCode": 200, "body": "the reply"}


def _manage(message: dict[str, Any]) -> Any:
    """Call `@connections` on another connection, and report the outcome."""
    other = {"ConnectionId": message["connection"]}
    try:
        match message["call"]:
            case "post":
                answer = callback().post_to_connection(Data=b"x" * message.get("size", 1), **other)
            case "get":
                answer = callback().get_connection(**other)
            case "delete":
                answer = callback().delete_connection(**other)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return {"status": status, "error": type(error).__name__, "code": error.response["Error"]["Code"]}
    metadata = answer.pop("ResponseMetadata")
    return {"status": metadata["HTTPStatusCode"], **json.loads(json.dumps(answer, default=str))}


def _recorded(kind: str, name: str) -> Any:
    deadline = time.monotonic() + 20
    while (found := recorded(kind, name)) is None and time.monotonic() < deadline:
        time.sleep(0.05)  # $disconnect comes shortly after the close.
    return found


def _invoked(event: dict[str, Any], context: Any) -> Any:
    match event.get("do"):
        case "environment":
            return dict(os.environ)
        case "describe":
            _sleep(event)
            return {
                "pid": os.getpid(),
                "remaining": context.get_remaining_time_in_millis(),
                "arn": context.invoked_function_arn,
                "cwd": str(Path.cwd()),
                "memory": context.memory_limit_in_mb,
                "random": random.random(),
            }
        case "sleep":
            _sleep(event)
        case "exit":
            os._exit(3)
        case "raise":
            raise RuntimeError("broken on purpose")
        case "word":
            return words.WORD
        case "phrase":
            return [phrases.PHRASE, phrases.SHARED]
        case "count":
            return number_of(event["kind"])
    return event


def _sleep(event: dict[str, Any]) -> None:
    """Say with a file that it has begun, and sleep so many seconds, or until another file is there."""
    if "begun" in event:
        Path(event["begun"]).touch()
    time.sleep(event.get("seconds", 0))
    while "until" in event and not Path(event["until"]).exists():
        time.sleep(0.02)
