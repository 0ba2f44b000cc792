"""The functions on moto, as in `tests/functions`."""

from tests.functions.conftest import system, template

__all__ = ["system", "template"]
