"""What a call leaves in memory until the next garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def left_frames() -> Iterator[list[str]]:
    """Fills the list with the functions of `codelab` whose frames the block leaves, because something refers to them.

    They keep their local variables alive. Those that were there before, for example of an error that a test keeps as a
    parameter, are not the block's.
    """
    found: list[str] = []
    gc.disable()
    gc.freeze()  # `get_objects` leaves out what is frozen, which are all objects of now
    try:
        yield found
        frames = [it for it in gc.get_objects() if isinstance(it, FrameType)]
        found += [it.f_code.co_qualname for it in frames if it.f_globals.get("__name__", "").startswith("codelab.")]
    finally:
        gc.unfreeze()
        gc.enable()
