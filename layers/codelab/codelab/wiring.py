"""What a function is made of, wired at init from the environment."""

import json
from dataclasses import asdict
from functools import cache
from typing import Any

from codelab import aws
from codelab.config import settings
from codelab.delivery.management_api import ManagementApi
from codelab.delivery.payloads import Payloads
from codelab.delivery.post import Poster
from codelab.engine.engine import Engine
from codelab.sessions.dynamodb.store import DynamoDBStore
from codelab.sessions.register import Extent
from codelab.sessions.transition import Step
from codelab.turns.caller import Caller


@cache
def management_api() -> ManagementApi:
    """What posts to the connections."""
    return ManagementApi(settings().connections_url)


@cache
def engine() -> Engine:
    """The engine over the real clients. The table's has made one call without a network; the others are made at need,
    for most processes never see a large payload, and requests over HTTP seldom end in posts.
    """
    configured = settings()
    dynamodb = aws.client("dynamodb")
    aws.warm(dynamodb, "get_item", TableName="warm", Key={"pk": {"S": "warm"}})
    payloads = Payloads(lambda: aws.client("s3"), configured.payload_bucket)
    poster = Poster(management_api, payloads)
    return Engine(DynamoDBStore(dynamodb, configured.table_name), poster, payloads, configured, invoke_step)


def posting_engine(*, starts_steps: bool = False) -> Engine:
    """The engine for a function whose work ends in posts, and in the start of a step: what does that is made now."""
    made = engine()
    management_api()
    if starts_steps:
        aws.warm(aws.client("lambda"), "invoke", FunctionName="warm")
    return made


def invoke_resume(caller: Caller, last_seq: int) -> None:
    """Start a replay in `control`: nothing can be posted before `$connect` has returned."""
    event = {"kind": "resume", "caller": asdict(caller), "last_seq": last_seq}
    aws.client("lambda").invoke(
        FunctionName=settings().control_function, InvocationType="Event", Payload=json.dumps(event).encode()
    )


def invoke_step(user: str, session_id: str, step: Step) -> None:
    """Start the step in `llm_request` asynchronously; the answer says no more than that it was taken."""
    event = {
        "kind": "step",
        "user": user,
        "session_id": session_id,
        "turn_id": step.turn_id,
        "step": step.step,
        "attempt": step.attempt,
        "extent": asdict(step.extent),
    }
    aws.client("lambda").invoke(
        FunctionName=settings().llm_function, InvocationType="Event", Payload=json.dumps(event).encode()
    )


def step_of(event: dict[str, Any]) -> tuple[str, str, Step]:
    """The inverse of `invoke_step`: user, session id and step."""
    extent = Extent(**{**event["extent"], "files": tuple(event["extent"]["files"])})
    return event["user"], event["session_id"], Step(event["turn_id"], event["step"], event["attempt"], extent)
