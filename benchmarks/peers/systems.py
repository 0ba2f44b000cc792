"""The servers, and how each is installed and started."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import rig
from benchmarks.peers.client import Open, langgraph_thread, web_socket

_PEERS = rig.ROOT / ".peers"
#: The servers by hand have the versions of uv.lock; these are for the environments of the others.
_SERVER = ("fastapi==0.165.0", "httptools==0.9.0", "uvicorn==0.54.0", "uvloop==0.23.0", "websockets==17.4")
_START = 60
#: Without a download at the start, and with a model that says the same again and again.
_LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "REPEATED_STREAMING_CHUNK_LIMIT": "1000000"}


class NotInstalled(Exception):
    """A peer's packages cannot be installed."""


class Running(NamedTuple):
    """A started server: the root of its processes, and how to open a session."""

    pid: int
    open: Open


class System(NamedTuple):
    """A server. `start` takes the model's URL. `only` are the measures that it takes part in; empty: all of them."""

    name: str
    start: Callable[[str], AbstractContextManager[Running]]
    packages: Sequence[str] = ()
    only: Sequence[str] = ()

    def install(self) -> None:
        """Install its packages in an environment of its own, once. Raises :class:`NotInstalled`."""
        if not self.packages:
            return
        folder = _environment(self.name)
        installed = folder / "installed.txt"
        pins = "\n".join(self.packages)
        if installed.exists() and installed.read_text() == pins:
            return
        python = folder / "bin/python"
        uv = str(rig.ROOT / ".uv/bin/uv")
        for command in (
            [uv, "venv", "--quiet", "--clear", f"--python={sys.executable}", str(folder)],
            [uv, "pip", "install", "--quiet", f"--python={python}", *self.packages],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise NotInstalled(" ".join(done.stderr.split()))
        installed.write_text(pins)


def _environment(name: str) -> Path:
    return _PEERS / name.lower().replace(" ", "-")


@contextmanager
def _ours(model_url: str) -> Iterator[Running]:
    with rig.system(model_url) as cloud:
        yield Running(cloud.process.pid, lambda session: web_socket(cloud.url(session)))


def _server(module: str, name: str = "", *arguments: str) -> Callable[[str], AbstractContextManager[Running]]:
    """A server by hand: the module, the peer in whose environment it runs (absent: ours), and more arguments."""

    @contextmanager
    def start(model_url: str) -> Iterator[Running]:
        python = str(_environment(name) / "bin/python") if name else sys.executable
        port = rig.free_port()
        with tempfile.TemporaryDirectory(prefix="peer-") as folder:
            command = [python, "-m", f"benchmarks.peers.{module}", str(port), model_url, f"{folder}/sessions.db"]
            environment = {**os.environ, **_LITELLM}
            with rig.listening([*command, *arguments], port, _START, env=environment) as pid:
                yield Running(pid, lambda session: web_socket(f"ws://127.0.0.1:{port}/ws/{session}"))

    return start


@contextmanager
def _langgraph(model_url: str) -> Iterator[Running]:
    port = rig.free_port()
    settings = {
        "MODEL_URL": model_url,
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "LOG_LEVEL": "ERROR",
    }
    command = [str(_environment("LangGraph dev") / "bin/langgraph"), "dev", "--no-browser", "--no-reload"]
    # It also writes into the folder that it runs in.
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        shutil.copytree(Path(__file__).parent / "langgraph_dev", folder, dirs_exist_ok=True)
        with rig.listening(
            [*command, "--n-jobs-per-worker=250", f"--port={port}", "--server-log-level=error"],
            port,
            _START,
            cwd=folder,
            env={**os.environ, **settings},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as pid:
            yield Running(pid, lambda _: langgraph_thread(f"http://127.0.0.1:{port}"))


#: What the ratios are relative to.
BY_HAND = "by hand"
OURS = "CodeLab"
SYSTEMS = (
    System(BY_HAND, _server("by_hand")),
    System(OURS, _ours),
    System("pydantic-ai", _server("on_pydantic_ai", "pydantic-ai"), ("pydantic-ai-slim[openai]==2.68.0", *_SERVER)),
    System("LiteLLM", _server("on_litellm", "LiteLLM"), ("litellm==1.106.2", *_SERVER)),
    System(
        "LangGraph dev",
        _langgraph,
        ("langgraph-cli[inmem]==0.4.40", "langgraph-api==0.16.7", "langgraph==1.2.22", "langchain-openai==1.7.3"),
    ),
    System("by hand, last 50", _server("by_hand", "", "50"), only=("history",)),
)
