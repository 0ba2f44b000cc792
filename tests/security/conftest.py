"""The functions on moto, as `tests/functions` has them."""

from tests.functions.conftest import system, template

__all__ = ["system", "template"]
