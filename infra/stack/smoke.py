"""Runs the conformance suite against a deployed stack."""

import os
import subprocess
import sys

from infra.stack.stack import Stack, outputs, websocket_address

SUITE = "tests/protocol/conformance"
#: Several users share the cases, because each has quotas per minute.
USERS = [f"smoke-{n}" for n in range(1, 21)]


def run(stack: Stack, tokens: str) -> int:
    """Run the suite as the users of `tokens` (separated by commas). Returns pytest's exit status."""
    found = outputs(stack.deployed())
    environment = {
        **os.environ,
        "CONFORMANCE_URL": websocket_address(found),
        "CONFORMANCE_HTTP": found["RestUrl"],
        "CONFORMANCE_TOKEN": tokens,
    }
    command = [sys.executable, "-m", "pytest", SUITE, "-q", "-rfE"]
    return subprocess.run(command, env=environment, check=False).returncode
