"""`codelab attach` executes what another window, which cannot execute, asks for and approves."""

import asyncio
import signal
import subprocess
from pathlib import Path

from codelab_client.session import events as on

from tests.client.conftest import Open
from tests.client.test_exec import CODELAB
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel

WRITE = call("write_file", path="a.py", content="x")


def test_tools_run_for_a_window_that_only_looks(
    environment: dict[str, str], folder: Path, new_session: Open, model: ScriptedModel
) -> None:
    script = model.script("attach", Says("", [call("read_file", path="b.py")]), Says("", [WRITE]), Says("Done"))
    (folder / "b.py").write_text("print(2)")
    attached = subprocess.Popen(
        [*CODELAB, "attach", "attached"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    assert attached.stderr is not None
    try:
        assert "Executing the tools of session attached" in attached.stderr.readline()

        async def look() -> None:
            async with new_session(viewer=True, session_id="attached") as page:
                async for event in page.prompt(script):
                    if isinstance(event, on.ToolCall) and event.requires_approval:
                        await page.approve(event.call_id)

        asyncio.run(look())
        assert (folder / "a.py").read_text() == "x"
        assert "print(2)" in model.requests["attach"][1]["messages"][-1]["content"]
        attached.send_signal(signal.SIGINT)
        assert attached.wait(20) == 130
        said = attached.stderr.read()
        assert "write_file a.py waits for a decision in another window\nwrite_file a.py\n" in said
        assert "Traceback" not in said
    finally:
        attached.kill()
        attached.communicate()
