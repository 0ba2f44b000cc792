"""llama.cpp's server for a GGUF file, in a process of its own. Its package, xllamacpp, is of the group `real`."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from codelab_local.model_file import llama_server

_PATIENCE_S = 60.0


class Llama:
    """`with Llama(file, name) as llama: …` serves the file; `llama.base_url` is for `LLM_BASE_URL`.

    window: tokens of a conversation. threads: those of one computation wait for each other in loops, so beside other
    load, two are ten times slower than one.
    """

    def __init__(self, file: Path, name: str, window: int = 8192, threads: int = 1) -> None:
        self._arguments = [str(file), name, str(window), str(threads), "0"]
        self.base_url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, llama_server.__file__, *self._arguments]
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
