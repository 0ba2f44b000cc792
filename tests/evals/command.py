"""The command `python -m evals run` on two tasks, with no model's server."""

from pathlib import Path

from evals.__main__ import main


def run(folder: Path, *more: str) -> int:
    """The exit code."""
    line = ["run", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--out", str(folder), *more]
    return main([*line, "--only", "plain-sum,tax-rate"])
