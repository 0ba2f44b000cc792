"""The trace's id, which Lambda's runtime client puts into the environment at the beginning of each event."""

import os

_NAME = "_X_AMZN_TRACE_ID"


def current() -> str:
    """The trace of this event, as the header X-Amzn-Trace-Id has it; empty if there is none."""
    return os.environ.get(_NAME, "")


def keep_out_of_c() -> None:
    """Let only `os.environ` have it. A process that this one starts has it if it is given `os.environ`.

    The C library never frees a value that its environment has had. These strings, each in the way of what is allocated
    and freed around it, took 100 to 300 bytes at each event, or more, for as long as the process lived.
    """
    putenv, name = os.putenv, _NAME.encode()

    def put(variable: bytes, value: bytes) -> None:
        if variable != name:
            putenv(variable, value)

    os.putenv = put  # type: ignore[assignment]
    os.unsetenv(name)
