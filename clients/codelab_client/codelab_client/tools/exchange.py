"""Swap two names of a directory at once, so that what a file's new content replaces can still be looked at."""

import errno
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

#: RENAME_EXCHANGE of renameat2(2), and RENAME_SWAP of renameatx_np(2).
_SWAP = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def exchange(directory: int, first: str, second: str) -> bool:
    """Swap two names in an open directory. False if the system or the file system cannot. Raises OSError."""
    swap = _function()
    if swap is None:
        return False
    if swap(directory, os.fsencode(first), directory, os.fsencode(second), _SWAP) == 0:
        return True
    import ctypes

    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), first)


@functools.cache
def _function() -> Callable[..., Any] | None:
    import ctypes

    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    swap = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if swap is not None:
        swap.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return swap
