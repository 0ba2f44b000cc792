"""The trace's id, which Lambda's runtime client puts into the environment at the beginning of each event."""

import os


def current() -> str:
    """The trace of this event, as the header X-Amzn-Trace-Id has it; empty if there is none."""
    return os.environ.get("_X_AMZN_TRACE_ID", "")
