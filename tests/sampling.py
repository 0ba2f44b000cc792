"""Families of hundreds of slow cases: `make test` runs some members of each, `make test-deep` all."""

from collections.abc import Sequence
from typing import Any

import pytest


def sampled(cases: Sequence[Any]) -> list[Any]:
    """For `parametrize`: every third case as it is, the others for `make test-deep` only."""
    return [case if n % 3 == 0 else _deep(case) for n, case in enumerate(cases)]


#: For a test that goes through a long list itself: every `step`-th case in each run, all in `make test-deep`.
some_and_all = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.deep)], ids=["some", "all"])


def _deep(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.deep)
