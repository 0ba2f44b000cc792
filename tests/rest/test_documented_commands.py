"""Every curl command of docs/rest.md, unchanged, against the running system."""

import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab.protocol.errors import ErrorCode
from codelab.rest.error_responses import name_of, status_of
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE
from tests.fakes.ide.ide import Ide
from tests.processes import run

PAGE = (Path(__file__).parents[2] / "docs/rest.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```bash\n(.*?)```\n```(json|text)\n(.*?)```", PAGE, re.DOTALL)
#: Values that differ each time. All others must match the page.
MADE_UP = re.compile(r"^(session_456|msg_.*|call_\d+|\d{4}-\d\d-\d\dT.*|Read a file\.|127\.0\.0\.1:\d+)$")

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def looks_like(shown: Any, answered: Any, where: str = "") -> None:
    """The answer has everything on the page, with its type, and its value unless that is made up or a number."""
    assert type(shown) is type(answered), where
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert name in answered, f"{where}.{name}"
            looks_like(value, answered[name], f"{where}.{name}")
    elif isinstance(shown, list):
        assert len(answered) >= len(shown), where
        for index, value in enumerate(shown):
            looks_like(value, answered[index], f"{where}[{index}]")
    elif isinstance(shown, str) and not MADE_UP.match(shown):
        assert shown == answered, where


def execute(window: Ide) -> None:
    """An IDE that approves and executes every call until its connection closes."""
    while True:
        try:
            frame = window.receive()
        except Exception:
            return
        if frame["type"] == "tool_call" and frame["requires_approval"]:
            window.decide(frame, "approve")
        elif frame["type"] == "tool_call":
            read = {"content": "void main() {}"}
            window.result(frame, read if frame["tool_name"] == "read_file" else {"success": True})


@pytest.fixture
def new_cloud() -> Iterator[LocalCloud]:
    """A fresh system without the page's sessions."""
    with LocalCloud(TEMPLATE, environment={"DEMO_TOKEN_DELAY_MS": "0"}) as running:
        yield running


def test_every_command_works_as_shown(new_cloud: LocalCloud) -> None:
    assert len(EXAMPLES) == PAGE.count("```bash"), "every command is followed by its answer"
    window = None
    try:
        for command, kind, shown in EXAMPLES:
            environment = {"API": f"{new_cloud.http}/api/v1", "PATH": "/usr/local/bin:/usr/bin:/bin"}
            done = run("bash", "-euo", "pipefail", "-c", command, env=environment, timeout=60)
            assert done.returncode == 0, (command, done.stderr)
            answered = done.stdout
            if kind == "json":
                looks_like(json.loads(shown), json.loads(answered), command)
            else:
                for line in shown.splitlines():
                    assert line in answered, (command, answered)
            if window is None and "session_123" in answered:
                window = Ide(new_cloud.url("session_123"))
                window.send("ping")
                threading.Thread(target=execute, args=(window,), daemon=True).start()
    finally:
        if window is not None:
            window.socket.close()


def test_the_table_of_codes_is_correct() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", PAGE, re.MULTILINE)
    told = {name: int(status) for status, names in rows for name in re.findall(r"`([A-Z_]+)`", names)}
    known = {name_of(code): status_of(code) for code in ErrorCode}
    assert {name: told[name] for name in told if name in known} == {name: known[name] for name in known if name in told}
    seed = {"SESSION_NOT_FOUND", "INVALID_TOOL", "TOOL_EXECUTION_FAILED", "CONTEXT_TOO_LARGE", "LLM_ERROR"}
    assert seed | {"DATABASE_ERROR", "UNAUTHORIZED", "RATE_LIMITED"} <= told.keys()
