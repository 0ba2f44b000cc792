"""The server of a model file that LLM_GGUF names, with a stand-in for llama.cpp's package."""

import os
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from codelab_local.host.errors import StartError
from codelab_local.model_file.model_server import ModelServer, ServedFile
from codelab_local.settings.settings import Model

from tests.waiting import until

MODEL = Model("LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL", file="LLM_GGUF")
#: What `llama_server.py` uses of xllamacpp. It answers with the name of the model, and ends with a broken file.
PACKAGE = """
import http.server, threading
from types import SimpleNamespace

def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace())

class Server:
    def __init__(self, params):
        if open(params.model.path).read() != "whole":
            raise RuntimeError("failed to load the model")
        name = "".join(params.model_alias).encode()
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(name)
        server = http.server.ThreadingHTTPServer((params.hostnames[0], params.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a `.venv-llama`, whose folder has a space."""
    folder = tmp_path / "a project"
    python = folder / ".venv-llama" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (folder / "xllamacpp.py").write_text(PACKAGE)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture
def server(project: Path) -> Iterator[ModelServer]:
    running = ModelServer(project)
    yield running
    running.stop()


def file(project: Path, name: str, port: int, content: str = "whole") -> ServedFile:
    path = project / f"{name} file.gguf"
    path.write_text(content)
    return ServedFile(path, name, port)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def answer(port: int) -> str | None:
    """The name of the model that is served; None if none is."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).text
    except httpx.TransportError:
        return None


def test_one_file_at_a_time_is_served(server: ModelServer, project: Path) -> None:
    port, other = free_port(), free_port()
    server.serve(file(project, "first", port))
    until(lambda: answer(port) == "first")
    process = server._process
    server.serve(file(project, "first", port))
    assert server._process is process
    server.serve(file(project, "second", port))
    until(lambda: answer(port) == "second")
    server.serve(file(project, "second", other))
    until(lambda: answer(other) == "second")
    assert answer(port) is None
    server.serve(None)
    assert (answer(other), server.is_running) == (None, False)


def test_it_is_told_once_that_a_server_has_ended(
    server: ModelServer, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    server.serve(file(project, "broken", port, "half"))
    until(lambda: not server.is_running)
    server.look()
    server.look()
    assert capsys.readouterr().err.count("has ended (1): is it a model") == 1
    server.serve(file(project, "whole", port))
    until(lambda: answer(port) == "whole")
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGKILL)
    until(lambda: not server.is_running)
    server.serve(file(project, "whole", port))
    until(lambda: answer(port) == "whole")


def test_nothing_is_started_where_something_listens(
    server: ModelServer, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server.serve(file(project, "model", taken.getsockname()[1]))
        assert not server.is_running
    assert "is taken: what listens there answers in place of model file.gguf" in capsys.readouterr().err


def test_what_cannot_be_served_changes_nothing(server: ModelServer, project: Path) -> None:
    port = free_port()
    server.serve(file(project, "model", port))
    until(lambda: answer(port) == "model")
    path, address = str(project / "model file.gguf"), f"http://127.0.0.1:{port}/v1"
    for variables, complaint in (
        ({"LLM_GGUF": f"{path}x", "LLM_BASE_URL": address}, "is not a file"),
        ({"LLM_GGUF": str(project), "LLM_BASE_URL": address}, "is not a file"),
        ({"LLM_GGUF": path}, "needs an address of this machine in LLM_BASE_URL"),
        (
            {"LLM_GGUF": path, "LLM_BASE_URL": "https://api.example.com:8443/v1"},
            "needs an address of this machine in LLM_BASE_URL",
        ),
        ({"LLM_GGUF": path, "LLM_BASE_URL": "http://localhost/v1"}, "needs an address of this machine in LLM_BASE_URL"),
    ):
        with pytest.raises(StartError, match=complaint):
            ServedFile.of(variables, MODEL)
    (project / ".venv-llama" / "bin" / "python").unlink()
    with pytest.raises(StartError, match=r"llama\.cpp is not installed"):
        server.serve(file(project, "other", port))
    assert answer(port) == "model"
    assert ServedFile.of({"LLM_BASE_URL": address}, MODEL) is None
    assert ServedFile.of({"LLM_GGUF": path, "LLM_BASE_URL": address}, MODEL) == ServedFile(
        Path(path), "model file", port
    )
