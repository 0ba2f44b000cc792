"""A function's process under SnapStart, as a program: init, hooks, snapshot, and two copies that each handle an event.

A fork stands for a restored copy. Unlike a fork, such a copy has the process id and the random numbers of the original,
so both are put back before the hooks run. `python -m tests.functions.copied FUNCTION EVENT [--no-hooks]` prints what
each copy returns and draws.
"""

import importlib.util
import json
import os
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from snapshot_restore_py import get_after_restore, get_before_snapshot

_FUNCTIONS = Path(__file__).parents[2] / "functions"


def main(folder: str, event: str, *, hooks: bool) -> None:
    spec = importlib.util.spec_from_file_location("handler", _FUNCTIONS / folder / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _run(get_before_snapshot() if hooks else [])
    process, numbers = os.getpid(), random.getstate()
    for _ in range(2):
        if not (child := os.fork()):
            os.getpid = lambda: process
            random.setstate(numbers)
            _run(get_after_restore() if hooks else [])
            returned = module.handler(json.loads(event), SimpleNamespace(aws_request_id="r1"))
            sys.stdout.write(json.dumps({"returned": returned, "drawn": random.random()}) + "\n")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


def _run(registered: list[Any]) -> None:
    while registered:  # the last one first, as in Lambda
        function, arguments, keywords = registered.pop()
        function(*arguments, **keywords)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], hooks="--no-hooks" not in sys.argv)
