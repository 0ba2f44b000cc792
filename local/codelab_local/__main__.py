"""`python -m codelab_local`: see `command_line.py`."""

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, and loads nothing
import sys

# During the imports there is nothing to clean up, so let Ctrl-C end the process without a traceback.
_signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def run() -> int:
    from codelab_local.command_line import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
