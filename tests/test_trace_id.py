"""Lambda's runtime client sets the trace's id at each event; the C library would keep every value for ever."""

import os
import sys

from tests.processes import run

_TOLD = """
import ctypes, os
from codelab import trace_id
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(trace_id.current(), libc.getenv(b"_X_AMZN_TRACE_ID"))
os.environ["OTHER"] = "told"
for n in range(3):
    os.environ["_X_AMZN_TRACE_ID"] = f"Root={n}"
print(trace_id.current(), os.environ["_X_AMZN_TRACE_ID"], libc.getenv(b"_X_AMZN_TRACE_ID"), libc.getenv(b"OTHER"))
del os.environ["_X_AMZN_TRACE_ID"]
print(repr(trace_id.current()))
"""


def test_only_python_is_told_of_the_trace() -> None:
    told = run(sys.executable, "-c", _TOLD, env={"PATH": os.environ["PATH"], "_X_AMZN_TRACE_ID": "old"}).stdout
    assert told.splitlines() == ["old None", "Root=2 Root=2 None b'told'", "''"]
