"""Time stamps at the borders of what a turn consists of, in the functions' processes.

`stamped` gives the environment in which a local cloud's functions write them. A function's process imports this module
when it starts, by a `sitecustomize` in PYTHONPATH, and the functions below are wrapped as soon as their modules are
imported. All processes read the machine's monotonic clock.
"""

import importlib.abc
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

_ROOT = Path(__file__).parents[1]


class Stamp(NamedTuple):
    """What began (`>`) or ended (`<`), at which time in seconds."""

    at: float
    name: str


@contextmanager
def stamped() -> Iterator[tuple[Path, dict[str, str]]]:
    """The file of the stamps, and the environment of a local cloud whose functions write them."""
    with TemporaryDirectory(prefix="codelab-hops-") as folder:
        file = Path(folder, "stamps")
        file.touch()
        Path(folder, "sitecustomize.py").write_text(f"from benchmarks.hops import install\ninstall({str(file)!r})\n")
        yield file, {"PYTHONPATH": os.pathsep.join([folder, str(_ROOT)])}


def read(file: Path) -> list[Stamp]:
    """All stamps, in the order of time."""
    lines = (line.split(" ", 1) for line in file.read_text().splitlines())
    return sorted(Stamp(int(at) / 1e9, name) for at, name in lines)


# In the functions' processes.


def install(file: str) -> None:
    """Wrap the functions of `_WRAPPED` when their modules are imported."""
    stamps: list[str] = []

    def stamp(name: str) -> None:
        stamps.append(f"{time.monotonic_ns()} {name}\n")

    def flush() -> None:
        """Together and after the event: a call of the system lets another thread have the interpreter."""
        text = "".join(stamps).encode()
        stamps.clear()
        target = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.write(target, text)
        os.close(target)

    def wrapped(inner: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def outer(*arguments: Any, **keywords: Any) -> Any:
            called = name(*arguments)
            stamp(called + ">")
            try:
                return inner(*arguments, **keywords)
            finally:
                stamp(called + "<")
                if called == "event":
                    flush()

        return outer

    def wrap(module: ModuleType) -> None:
        path, name = _WRAPPED[module.__name__]
        *classes, attribute = path.split(".")
        owner: Any = module
        for found in classes:
            owner = getattr(owner, found)
        setattr(owner, attribute, wrapped(getattr(owner, attribute), name))

    sys.meta_path.insert(0, _Finder(wrap))


def _call(_connections: Any, request: Any, _on_wait: Any = None) -> str:
    target = request.headers.get("X-Amz-Target", "")
    return target.rpartition(".")[2] or ("Invoke" if request.url.endswith("/invocations") else "Post")


_WRAPPED: dict[str, tuple[str, Callable[..., str]]] = {
    "awslambdaric.bootstrap": ("handle_event_request", lambda *_: "event"),
    "codelab.aws.connections": ("Connections.send", _call),
    "codelab.llm.client.direct": ("DirectTransport._open", lambda *_: "model"),
    "codelab.delivery.stream": ("StreamSender.write", lambda *_: "text"),
}


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, wrap: Callable[[ModuleType], None]) -> None:
        self._wrap = wrap
        self._finding = False

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _WRAPPED or self._finding:
            return None
        self._finding = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._finding = False
        if spec is None or spec.loader is None:
            return None
        run, wrap = spec.loader.exec_module, self._wrap

        def run_and_wrap(module: ModuleType) -> None:
            run(module)
            wrap(module)

        spec.loader.exec_module = run_and_wrap  # type: ignore[method-assign]
        return spec
