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
    gc.collect()
    gc.disable()
    try:
        before = _frames()
        yield found
        found += [it.f_code.co_qualname for it in _frames() if not any(it is other for other in before)]
    finally:
        gc.enable()


def _frames() -> list[FrameType]:
    frames = [it for it in gc.get_objects() if isinstance(it, FrameType)]
    return [it for it in frames if it.f_globals.get("__name__", "").startswith("codelab.")]
