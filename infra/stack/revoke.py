"""Revokes a user of a deployed stack: invalidates tokens issued until now, and closes connections.

The stack's `sweep` function does this, so permission to invoke it is permission to revoke.
"""

import json
from typing import Any, TextIO

from botocore.config import Config
from codelab.gateway.identity import USER_ID

from infra.stack.stack import Refused, Stack

# One attempt, longer than the function's timeout: a retry would revoke again.
_CONFIG = Config(read_timeout=70, retries={"total_max_attempts": 1})


def revoke(stack: Stack, user: str, out: TextIO) -> None:
    """Revoke `user` (the tokens' `sub`) and print the outcome. Can be repeated for newer tokens.

    Raises Refused.
    """
    if not USER_ID.fullmatch(user):
        raise Refused(f"USER={user} must have 1 to 128 characters and no '#'")
    stack.deployed()
    order = json.dumps({"kind": "revoke", "user": user}).encode()
    client = stack.session.client("lambda", config=_CONFIG)
    answer = client.invoke(FunctionName=f"{stack.name}-sweep", Payload=order)
    said: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise Refused(f"{stack.name}-sweep failed; try again: {said.get('errorMessage', said)}")
    out.write(f"revoked {user}: closed {said['connections']} connections in {said['sessions']} sessions\n")
    if not said["complete"]:
        out.write("not all sessions are done; the sweep continues within a minute\n")
