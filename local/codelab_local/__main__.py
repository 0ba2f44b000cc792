"""`python -m codelab_local`: see `command_line.py`."""

import signal
import sys


def run() -> int:
    # During the import there is nothing to clean up, so let Ctrl-C end the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from codelab_local.command_line import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
