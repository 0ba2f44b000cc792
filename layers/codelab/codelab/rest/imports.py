"""What need not be imported for a cold start."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = "pydantic.v1"


@contextmanager
def without_pydantic_1() -> Iterator[None]:
    """FastAPI asks of every type in a route whether it is a model of Pydantic 1, and imports that to find out: a tenth
    of the time that the application takes to import. It takes a failing import for a no.
    """
    if _NAME in sys.modules:
        yield
        return
    sys.modules[_NAME] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_NAME]
