"""The process that ministack runs in: `python -m codelab_local.emulator_process` (started by `emulator.py`).

It differs from `python -m ministack` in three ways: the SAM translator, whose import is the longest part of a
deployment, is imported while the server starts; it goes away when the local cloud does; and it takes its
temporary folder with it.
"""

import contextlib
import importlib
import os
import shutil
import threading


def main() -> None:
    threading.Thread(target=_import_translator, daemon=True).start()
    from ministack.app import main as serve  # type: ignore[import-untyped]

    try:
        serve()
    finally:
        # Its parent does this too, unless that one was killed.
        shutil.rmtree(os.environ["CODELAB_LOCAL_FOLDER"], ignore_errors=True)


def _import_translator() -> None:
    # A missing translator is reported by the deployment, which needs it.
    with contextlib.suppress(ImportError):
        importlib.import_module("samtranslator.translator.transform")


if __name__ == "__main__":
    main()
