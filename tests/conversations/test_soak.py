"""Sessions that go on for long, with a model that fails now and then."""

import os

import pytest

from benchmarks.soak import MINUTES, show, soak


@pytest.mark.deep
def test_no_client_sees_a_failure_no_turn_becomes_slower_and_no_function_grows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = soak(float(os.environ.get("SOAK_MINUTES", MINUTES)))
    with capsys.disabled():
        show(seen)
    assert seen.complaints() == []
