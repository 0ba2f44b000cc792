"""Makes a process ready to be forked: its children then copy few of its pages.

A forked process shares every page with its parent until it writes to it. It also writes to objects that it only reads:
a garbage collection marks them, and every use of an object changes its reference count. `gc.freeze` ends the first, and
CPython does not count the references of immortal objects (PEP 683, which was made for servers that fork). It has no
function that makes an object immortal, so :func:`make_immortal` writes its count.
"""

import ctypes
import gc
import sys

#: CPython's `Include/object.h` of these versions: an object is immortal if the lower half of its count is negative, and
#: nothing changes a count of all ones. 3.11 has no immortal objects; 3.14 marks them in another way.
_VERSIONS = ((3, 12), (3, 13))
_ALL_ONES = -1


def freeze() -> None:
    """Hide all objects from the garbage collection. Call it before a fork."""
    gc.collect()
    gc.freeze()


def make_immortal() -> bool:
    """Make all objects immortal: they are never freed. False where that is not known to work.

    Only for a process that has imported modules, which stay, and has run nothing of a function's own: an object of a
    function may have a finalizer that the function relies on.
    """
    supported = sys.implementation.name == "cpython" and sys.version_info[:2] in _VERSIONS
    if not supported or sys.maxsize < 1 << 32 or sys.byteorder != "little" or not _has_one_count():
        return False
    counts = (ctypes.c_int32 * (1 << 46)).from_address(0)  # All memory. The count is an object's first field.
    objects = gc.get_objects()
    while objects:
        mortal = []
        for item in objects:
            place = id(item) >> 2
            if counts[place] >= 0:
                counts[place] = _ALL_ONES
                mortal.append(item)
        objects = gc.get_referents(*mortal)  # Strings and the like, which the collector does not know.
    return True


def _has_one_count() -> bool:
    """False for an interpreter without the global lock or with debugging fields, where an object begins otherwise."""
    probe = object()
    return sys.getsizeof(probe) == 16 and ctypes.c_ssize_t.from_address(id(probe)).value == sys.getrefcount(probe) - 1
