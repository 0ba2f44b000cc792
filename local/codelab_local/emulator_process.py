"""The process that ministack runs in: `python -m codelab_local.emulator_process` (started by `emulator.py`).

It differs from `python -m ministack` in three ways: the SAM translator, whose import is the longest part of a
deployment, is imported while the server starts; it goes away when the local cloud does, saving its state; and then it
takes the temporary folder with it.
"""

import contextlib
import importlib
import os
import shutil
import signal
import sys
import threading

from codelab_local.processes import die_with_parent


def main() -> int:
    """Wait for the server, in a process that no signal can hurry.

    The kernel announces the death of a parent with several threads once for each of them, and the second announcement
    would interrupt the cleaning up that the first one began.
    """
    awaited = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    me = os.getpid()
    server = os.fork()
    if server == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
        die_with_parent(me)
        _serve()
        return 0
    if signal.sigwait(awaited) == signal.SIGTERM:
        os.kill(server, signal.SIGTERM)
    _, status = os.waitpid(server, 0)
    # Its parent does this too, unless that one was killed.
    shutil.rmtree(os.environ["CODELAB_LOCAL_FOLDER"], ignore_errors=True)
    return os.waitstatus_to_exitcode(status)


def _serve() -> None:
    threading.Thread(target=_import_translator, daemon=True).start()
    from ministack.app import main as serve  # type: ignore[import-untyped]

    serve()


def _import_translator() -> None:
    # A missing translator is reported by the deployment, which needs it.
    with contextlib.suppress(ImportError):
        importlib.import_module("samtranslator.translator.transform")


if __name__ == "__main__":
    sys.exit(main())
