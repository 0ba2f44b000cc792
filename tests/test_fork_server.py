"""A forked process differs from one that a user starts only in what it need not import."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from codelab_local import LocalCloud
from codelab_local.host import processes

from tests.fork_server import TEMPLATE
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")

_SLEEP = "import time; time.sleep(100)"
#: A process that forks one, says which, and is killed.
_KILLED = f"""
import os
from tests.fork_server import TEMPLATE, ForkServer, import_cloud
options = {{"environment": os.environ, "death_signal": 2, "stdout": 1, "stderr": 2}}
cloud = ForkServer(import_cloud).spawn("timeit", {_SLEEP!r}, str(TEMPLATE), **options)
print(cloud.pid, flush=True)
cloud.wait()
"""


def started(spawn: Any, folder: Path, **environment: str) -> tuple[Any, dict[str, Any]]:
    """A process that `spawn` starts, and the facts that it writes, without what every process has of its own."""
    output = folder / "facts"
    variables = {**os.environ, "CODELAB_FACT": "given", **environment}
    with output.open("wb") as stdout, (folder / "errors").open("wb") as stderr:
        descriptors = {"stdout": stdout.fileno(), "stderr": stderr.fileno()}
        process = spawn(
            "tests.process_facts", str(TEMPLATE), environment=variables, death_signal=signal.SIGINT, **descriptors
        )
    assert process.wait(60) == 3
    assert (folder / "errors").read_text() == ""
    return process, json.loads(output.read_text())


def test_a_forked_process_has_what_a_started_one_has(tmp_path: Path) -> None:
    leaked = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    forked, facts = started(LocalCloud.spawn, tmp_path)
    os.close(leaked)
    assert not isinstance(forked, subprocess.Popen)
    executed, expected = started(processes.spawn, tmp_path)
    assert isinstance(executed, subprocess.Popen)
    assert facts == expected
    assert facts["environment"]["CODELAB_FACT"] == "given"
    assert facts["has own session"]


def test_what_python_reads_as_it_begins_is_not_forked(tmp_path: Path) -> None:
    process, facts = started(LocalCloud.spawn, tmp_path, PYTHONPATH=str(tmp_path), PYTHONSAFEPATH="")
    assert isinstance(process, subprocess.Popen)
    assert facts["environment"]["PYTHONPATH"] == str(tmp_path)


@pytest.mark.deep
def test_a_killed_test_process_leaves_nothing_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        cloud = psutil.Process(int(killed.stdout.readline()))
        ended = cloud.parents()[:2]
        assert ended[1].pid == killed.pid
        ended[1] = cloud
        killed.kill()
    until(lambda: not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in ended))
