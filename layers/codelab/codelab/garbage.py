"""The garbage collector waits while Lambda starts a function, until its first event.

Nearly everything that an init makes is kept. Looking through all of it again and again takes a twelfth of the init.
"""

import gc
import os

#: More objects than any init makes.
_ALL_OF_AN_INIT = 200_000

_usual = gc.get_threshold()
_waits = False


def wait() -> None:
    """Collect nothing until `collect`. Only in Lambda, where an init comes before the first event."""
    global _waits
    if "AWS_LAMBDA_RUNTIME_API" in os.environ:  # no setting: functions that share an import have none yet
        gc.set_threshold(_ALL_OF_AN_INIT)
        _waits = True


def collect() -> None:
    """Collect as usual from now on, without looking through what the init made. Every event may call it."""
    global _waits
    if _waits:
        gc.freeze()
        gc.set_threshold(*_usual)
        _waits = False
