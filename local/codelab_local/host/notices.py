"""What the local cloud tells its user on stderr."""

import sys


def notice(text: str) -> None:
    """Write one line of the local cloud itself to stderr."""
    write(" ".join(text.split()) + "\n")


def write(text: str) -> None:
    """Write to stderr, if anybody still reads it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (BrokenPipeError, ValueError):
        pass
