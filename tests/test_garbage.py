"""In Lambda the garbage collector waits until the first event."""

import os
import sys

from tests.processes import run

_TOLD = """
import gc
usual = gc.get_threshold()
from codelab.observability import begin
during = gc.get_threshold()
begin(request_id="r1")
print(during == usual, gc.get_threshold() == usual, gc.get_freeze_count() > 1_000)
"""


def test_it_waits_for_the_first_event_in_lambda_only() -> None:
    def told(**environment: str) -> str:
        return run(sys.executable, "-c", _TOLD, env={"PATH": os.environ["PATH"], **environment}).stdout.strip()

    assert told(AWS_LAMBDA_RUNTIME_API="127.0.0.1:1") == "False True True"
    assert told() == "True True False"
