"""The TypeScript client is killed like the Python one: no call is executed twice, no result is lost."""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from codelab_local import LocalCloud

from tests.client import test_kills as kills
from tests.fakes.model.server import ScriptedModel
from tests.node import node_with
from tests.processes import run
from tests.typescript import NODE, PACKAGE

FAST = kills.Load(turns=2, clients=4, sockets=6, servers=0)


class Rig(kills.Rig):
    """The rig with a client in Node. Without kills of the server, it uses the cloud of the other tests."""

    def __init__(self, folder: Path, model: ScriptedModel, opened: ExitStack, cloud: LocalCloud | None) -> None:
        self._shared_cloud = cloud
        self._program = folder / "working_client.cjs"
        self._node = node_with(PACKAGE, NODE)
        bundle = ("--bundle", "--platform=node", "--format=cjs", f"--outfile={self._program}", "--log-level=error")
        built = run(self._node, "node_modules/esbuild/bin/esbuild", "tests/working_client.ts", *bundle, cwd=PACKAGE)
        assert built.returncode == 0, built.stderr
        super().__init__(folder, model, opened)

    def _start_server(self) -> None:
        if self._shared_cloud is not None:
            self.cloud = self._shared_cloud
        else:
            super()._start_server()

    def _start_client(self) -> None:
        url = f"ws://127.0.0.1:{self.proxy.port}"
        arguments = (url, kills.SESSION, str(self._folder / "state"), str(self.log))
        with (self._folder / "client.err").open("ab") as errors:
            self.client = subprocess.Popen([self._node, str(self._program), *arguments], stderr=errors)


@pytest.mark.deep
def test_no_call_is_executed_twice_and_no_result_is_lost(
    tmp_path: Path, model: ScriptedModel, cloud: LocalCloud
) -> None:
    with ExitStack() as opened:
        kills.kill_while_working(Rig(tmp_path, model, opened, cloud), model, FAST)


@pytest.mark.deep
def test_nor_when_servers_are_killed_too(tmp_path: Path, model: ScriptedModel) -> None:
    with ExitStack() as opened:
        kills.kill_while_working(Rig(tmp_path, model, opened, None), model, kills.DEEP)
