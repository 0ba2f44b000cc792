"""Revoking a user of a deployed stack: tokens that were signed until now are worthless, and connections are closed.

The stack's `sweep` function does it, so whoever may invoke that one may revoke.
"""

import json
from typing import Any, TextIO

from botocore.config import Config
from codelab.gateway.identity import USER_ID

from infra.stack.stack import Refused, Stack

# One attempt that outlives the function: a repeat would be another revocation.
_CONFIG = Config(read_timeout=70, retries={"total_max_attempts": 1})


def revoke(stack: Stack, user: str, out: TextIO) -> None:
    """Revoke `user`, the `sub` of the tokens, and say what came of it. Given again it revokes what was issued since.

    Raises Refused.
    """
    if not USER_ID.fullmatch(user):
        raise Refused(f"USER={user} must be 1 to 128 characters without '#'")
    stack.deployed()
    order = json.dumps({"kind": "revoke", "user": user}).encode()
    client = stack.session.client("lambda", config=_CONFIG)
    answer = client.invoke(FunctionName=f"{stack.name}-sweep", Payload=order)
    said: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise Refused(f"{stack.name}-sweep failed, try again: {said.get('errorMessage', said)}")
    out.write(f"{user} is revoked: {said['connections']} connections closed in {said['sessions']} sessions\n")
    if not said["complete"]:
        out.write("there are more sessions than there was time for: the sweep goes on, within a minute\n")
