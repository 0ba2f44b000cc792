"""`codelab setup --gguf` with llama.cpp's real server: a running local cloud serves the file, and stops it again."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE
from tests.real.llama import model_file
from tests.waiting import until

pytestmark = [pytest.mark.deep, pytest.mark.real]

_PATIENCE_S = 900


def test_a_running_local_cloud_serves_the_file(tmp_path: Path) -> None:
    file = model_file()
    if file is None:
        pytest.skip("the group `real` is not installed")
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}

    def codelab(*arguments: str) -> str:
        command = [sys.executable, "-m", "codelab_client.command_line", *arguments]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=_PATIENCE_S
        )
        return f"{done.returncode} {done.stdout}{done.stderr}"

    settings = tmp_path / "codelab" / "model.env"
    with LocalCloud(TEMPLATE, env_file=settings) as cloud:

        def models() -> str:
            return httpx.get(f"{cloud.http}/api/v1/models").text

        def servers() -> list[psutil.Process]:
            children = psutil.Process(cloud.process.pid).children()
            return [child for child in children if any("llama_server.py" in word for word in child.cmdline())]

        assert "demonstration" in models()
        said = codelab("setup", "--gguf", str(file), "--model", "tiny")
        assert said.startswith("0 "), said
        assert "It answers" in said
        until(lambda: "tiny" in models())
        (server,) = servers()
        # It may answer with nonsense, but it answers.
        answer = codelab("exec", "--url", f"ws://127.0.0.1:{cloud.info['port']}", "Say hello.")
        assert "demonstration" not in answer.lower()
        assert "tiny" in httpx.get(settings_address(settings)).text
        assert codelab("setup", "--provider", "demo").startswith("0 ")
        until(lambda: "demonstration" in models())
        assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
        assert "demonstration model" in codelab(
            "exec", "--url", f"ws://127.0.0.1:{cloud.info['port']}", "What can you do?"
        )


def settings_address(settings: Path) -> str:
    """The list of models of the address in the file."""
    (line,) = (line for line in settings.read_text().splitlines() if line.startswith("LLM_BASE_URL="))
    return f"{line.partition('=')[2]}/models"
