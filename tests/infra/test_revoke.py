"""`make revoke`: its call to the stack, and its output."""

import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.stack.revoke import revoke
from infra.stack.stack import Refused, Stack

ROOT = Path(__file__).resolve().parents[2]


class Deployed(Stack):
    """A stack whose sweep function answers `said`."""

    def __init__(self, said: dict[str, Any], **answer: Any) -> None:
        super().__init__("mine", {"AWS_REGION": "us-east-1"})
        self._answer = {"Payload": io.BytesIO(json.dumps(said).encode()), **answer}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    @property
    def session(self) -> Any:
        return self

    def client(self, service: str, **_: Any) -> Any:
        assert service == "lambda"
        return self

    def deployed(self) -> dict[str, Any]:
        return {}

    def invoke(self, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803
        self.asked.append((FunctionName, json.loads(Payload)))
        return self._answer


def said_of(stack: Deployed, user: str = "alice") -> str:
    out = io.StringIO()
    revoke(stack, user, out)
    return out.getvalue()


def test_the_sweep_function_revokes_a_user() -> None:
    stack = Deployed({"revoked_at": 1_700_000_000, "sessions": 3, "connections": 2, "complete": True})
    assert said_of(stack) == "revoked alice: closed 2 connections in 3 sessions\n"
    assert stack.asked == [("mine-sweep", {"kind": "revoke", "user": "alice"})]


def test_an_incomplete_revocation_is_reported() -> None:
    said = said_of(Deployed({"revoked_at": 1, "sessions": 9_000, "connections": 2, "complete": False}))
    assert "the sweep continues" in said


def test_a_failed_revocation_is_reported_with_its_reason() -> None:
    with pytest.raises(Refused, match="Task timed out"):
        said_of(Deployed({"errorMessage": "Task timed out"}, FunctionError="Unhandled"))


@pytest.mark.parametrize("user", ["", "a#b", "a" * 129])
def test_invalid_user_names_are_refused(user: str) -> None:
    stack = Deployed({})
    with pytest.raises(Refused, match="USER="):
        said_of(stack, user)
    assert stack.asked == []


def test_the_shells_user_is_not_revoked_by_mistake() -> None:
    """Every shell has a variable USER."""
    ran = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "revoke"],
        cwd=ROOT,
        env={**os.environ, "USER": "root"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 2
    assert "name the user" in ran.stderr
    assert "infra.stack revoke" not in ran.stdout
