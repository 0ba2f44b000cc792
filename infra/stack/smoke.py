"""The conformance suite against a deployed stack."""

import os
import subprocess
import sys

from infra.stack.stack import Stack, outputs

SUITE = "tests/protocol/conformance"
#: The cases are shared out to several, because what one user may do in a minute is limited.
USERS = [f"smoke-{n}" for n in range(1, 21)]


def run(stack: Stack, tokens: str) -> int:
    """Run it as the users that `tokens` (between commas) speak for; returns pytest's exit status."""
    found = outputs(stack.deployed())
    environment = {
        **os.environ,
        "CONFORMANCE_URL": found["WebSocketUrl"] + "?session_id={session_id}",
        "CONFORMANCE_HTTP": found["RestUrl"],
        "CONFORMANCE_TOKEN": tokens,
    }
    command = [sys.executable, "-m", "pytest", SUITE, "-q", "-rfE"]
    return subprocess.run(command, env=environment, check=False).returncode
