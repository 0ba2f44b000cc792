"""llama.cpp's server for a GGUF file, in a process of its own. Its package, xllamacpp, is of the group `real`.

As a program, `python -m evals.llama FILE NAME WINDOW THREADS` serves the file on a free port, prints the address, and
ends when its standard input does, so that a killed run leaves nothing behind.
"""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_PATIENCE_S = 60.0


class Llama:
    """`with Llama(file, name) as llama: …` serves the file; `llama.base_url` is for `LLM_BASE_URL`.

    window: tokens of a conversation. threads: those of one computation wait for each other in loops, so beside other
    load, two are ten times slower than one.
    """

    def __init__(self, file: Path, name: str, window: int = 8192, threads: int = 1) -> None:
        self._arguments = [str(file), name, str(window), str(threads)]
        self.base_url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "evals.llama", *self._arguments]
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


def _serve(file: str, name: str, window: str, threads: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = int(window)
    params.n_parallel = 1
    params.use_jinja = True
    params.warmup = False
    params.cpuparams.n_threads = int(threads)
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
