"""Tests in several processes: each is run once and told, whatever happens to the process that runs it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="elsewhere nothing is forked")

ROOT = Path(__file__).parents[1]

_CONFTEST = """
import os, pytest
from tests.parallel import Parallel

def pytest_configure(config):
    config.pluginmanager.register(Parallel(2, lambda item: str(item.path)))

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    yield tmp_path_factory.mktemp("shared")
    with open("ended", "a") as ended:
        ended.write(f"{os.getpid()}\\n")
"""
_WHAT_HAPPENS = """
import os, warnings, pytest

def test_passes(shared, tmp_path): warnings.warn("be warned")
def test_fails(): print("its own words"); assert 1 == 2
def test_is_skipped(): pytest.skip("not here")
def test_ends_its_process(): os.kill(os.getpid(), 9)
def test_ends_it_as_if_all_were_well(): os._exit(0)
def test_after_it(shared): pass
"""
_ALSO = """
def test_beside(shared, tmp_path): print("other words")
"""
_WAITS = """
import time
def test_waits(shared):
    open("waits", "w").close()
    time.sleep(100)
"""


def begin(folder: Path, **files: str) -> "subprocess.Popen[str]":
    for name, text in {"conftest": _CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    names = [f"{name}.py" for name in files]
    options = ["-rA", "-p", "no:schemathesis", "-p", "no:cacheprovider", f"--basetemp={folder / 'temporary'}"]
    command = [sys.executable, "-m", "pytest", *options, *names]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_a_process_that_dies_is_told_and_the_rest_runs_in_another(tmp_path: Path) -> None:
    with begin(tmp_path, test_a=_WHAT_HAPPENS, test_b=_ALSO) as run:
        output, _ = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "3 failed, 3 passed, 1 skipped, 1 warning" in output
    assert "the process that ran it ended with SIGKILL" in output
    assert "the process that ran it ended with 0" in output
    assert "be warned" in output
    assert output.count("\nits own words\n") == 1
    assert len((tmp_path / "ended").read_text().split()) == 2  # of the one that died, nobody can


def test_an_interrupt_ends_what_tests_share(tmp_path: Path) -> None:
    with begin(tmp_path, test_a=_WAITS) as run:
        until(lambda: (tmp_path / "waits").exists())
        processes = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=60)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in output
    assert (tmp_path / "ended").exists()
    assert not any(process.is_running() for process in processes)
