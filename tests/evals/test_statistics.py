"""The statistics of the real tasks, against values computed elsewhere."""

import pytest

from evals.statistics import paired_difference, wilson


def test_wilson_is_the_textbook_interval() -> None:
    assert wilson(2, 10) == pytest.approx((0.0567, 0.5098), abs=1e-3)
    assert wilson(0, 36)[0] == 0
    assert wilson(36, 36)[1] == pytest.approx(1)


def test_a_paired_difference_has_its_mean_within_its_interval() -> None:
    mean, low, high = paired_difference([(False, True)] * 12 + [(True, True)] * 20 + [(True, False)] * 2)
    assert mean == pytest.approx(10 / 34)
    assert 0 < low < mean < high < 0.6


def test_equal_results_have_no_difference() -> None:
    assert paired_difference([(True, True), (False, False)]) == (0, 0, 0)


def test_no_pairs_is_an_error() -> None:
    with pytest.raises(ValueError, match="both labels"):
        paired_difference([])
