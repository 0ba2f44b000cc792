"""SnapStart: Lambda copies a process after its init, maybe days later, and each copy handles events.

What a copy must not share with others is given up before the snapshot or made anew after it: kept connections, and the
state of `random`. Ids and tokens come from the operating system's generator, which Lambda makes unique. Whatever has an
age is aged by the wall clock: secrets, keys, tokens and credentials are read again when they are too old, as after a
pause ("Handling uniqueness with Lambda SnapStart", Lambda Developer Guide).
"""

import random
from collections.abc import Callable
from functools import cache
from os import environ


def before_snapshot(give_up: Callable[[], object]) -> None:
    """Have `give_up` called before Lambda copies this process. Without SnapStart, nothing happens."""
    if environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
        from snapshot_restore_py import register_before_snapshot  # comes with the runtime

        register_before_snapshot(give_up)
        _seed_each_copy()


@cache
def _seed_each_copy() -> None:
    from snapshot_restore_py import register_after_restore

    register_after_restore(random.seed)
