"""Two windows of one user, on the system as `make run` starts it: what one approves, the other asks about."""

import asyncio
from pathlib import Path

import pytest
from codelab_client.session import events as on
from codelab_client.session.events import CallDecidedElsewhere
from codelab_local import LocalCloud

from tests.client.conftest import Open
from tests.client.executing import CountingExecutor
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel

WRITE = call("write_file", path="./src//a.py", content="x")
DONE = Says("Done")


@pytest.mark.parametrize("runs", [True, False])
async def test_what_another_window_approves_is_asked_about_here(
    new_session: Open, model: ScriptedModel, cloud: LocalCloud, runs: bool
) -> None:
    name = f"elsewhere-{runs}"
    script = model.script(name, Says("", [WRITE]), DONE)
    executor, asked = CountingExecutor(), []
    async with new_session(executor) as session:
        with Ide(cloud.url(session.session_id, extensions=1, viewer=1)) as window:
            async for event in session.prompt(script):
                if isinstance(event, CallDecidedElsewhere):
                    asked.append(event.call_id)
                    await asyncio.sleep(1)  # the server hears meanwhile that the call is not forgotten
                    await (session.approve if runs else session.reject)(event.call_id)
                elif isinstance(event, on.ToolCall) and event.requires_approval:
                    await asyncio.to_thread(lambda: window.decide(window.expect("tool_call"), "approve"))
    assert len(asked) == 1
    assert len(executor.calls) == runs
    told = model.requests[name][1]["messages"][-1]["content"]
    assert ("content of" in told) if runs else ("PERMISSION_DENIED" in told)


async def test_what_is_approved_here_runs_without_another_question(
    new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    """Approved, edited, covered by a rule, and covered by a mode of this client: as before."""
    edited = {"path": "/docs//b.md", "content": "y"}
    calls = [WRITE, call("write_file", path="b.md", content="x"), WRITE, WRITE]
    script = model.script("elsewhere-own", *(Says("", [one]) for one in calls), DONE)
    other = model.script("elsewhere-own-2", Says("", [call("delete_file", path="old.txt")]), DONE)
    executor, asked = CountingExecutor(), []
    async with new_session(executor) as session:
        async for event in session.prompt(script):
            assert not isinstance(event, CallDecidedElsewhere)
            if isinstance(event, on.ToolCall) and event.requires_approval:
                asked.append(event.call_id)
                if len(asked) == 2:
                    await session.edit(event.call_id, edited)
                else:
                    await session.approve(event.call_id, remember="session" if len(asked) == 3 else None)
        await session.configure(mode="autonomous")
        async for event in session.prompt(other):
            assert not (isinstance(event, on.ToolCall) and event.requires_approval)
    assert len(asked) == 3  # the rule covers the fourth call
    names = [one.tool_name for one in executor.calls]
    assert names == ["write_file"] * 4 + ["delete_file"]
