"""Skip an import that a cold start does not need."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = "pydantic.v1"


@contextmanager
def without_pydantic_1() -> Iterator[None]:
    """Make `import pydantic.v1` fail inside the block.

    FastAPI checks for every type in a route whether it is a model of Pydantic 1. For that it imports Pydantic 1, which
    takes a tenth of the application's import time. If the import fails, FastAPI assumes that it is not.
    """
    if _NAME in sys.modules:
        yield
        return
    sys.modules[_NAME] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_NAME]
