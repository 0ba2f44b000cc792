"""A plugin of pytest that tells of each test's outcome over a pipe."""

import os
from typing import Any

_TO, _WORD = int(os.environ.pop("TOLD_TO")), os.environ.pop("TOLD_WORD")
os.set_inheritable(_TO, False)


def pytest_runtest_logreport(report: Any) -> None:
    """A test's setup, call or teardown has ended."""
    if report.when == "call" or report.outcome != "passed":
        os.write(_TO, f"{_WORD} {report.outcome} {report.nodeid}\n".encode("utf-8", "replace"))
