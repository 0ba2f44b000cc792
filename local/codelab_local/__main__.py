"""`python -m codelab_local`: see `command_line.py`."""

import signal
import sys


def run() -> int:
    # While it is being imported there is nothing to clean up: Ctrl-C just ends it, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from codelab_local.command_line import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
