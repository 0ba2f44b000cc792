"""A table of cases fails with each case that does, and only then."""

import pytest

from tests.cases import cases


def test_each_case_that_fails_is_named_with_its_own_error() -> None:
    seen = []

    @cases(("left", "right"), [(1, 2), (2, 2), (3, 1)])
    def test_less(left: int, right: int) -> None:
        seen.append(left)
        assert left < right

    with pytest.raises(ExceptionGroup, match="2 of 3 cases failed") as failed:
        test_less()
    assert seen == [1, 2, 3], "a failed case stops no other"
    assert [error.__notes__ for error in failed.value.exceptions] == [
        ["Case: left=2, right=2"],
        ["Case: left=3, right=1"],
    ]


def test_tables_multiply_and_other_arguments_are_fixtures(seen: list[tuple[str, int]]) -> None:
    @cases("letter", "ab", ids=["first", "second"])
    @cases("number", [1, 2])
    def test_pairs(seen: list[tuple[str, int]], letter: str, number: int) -> None:
        seen.append((letter, number))

    test_pairs(seen=seen)
    assert seen == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


@pytest.fixture
def seen() -> list[tuple[str, int]]:
    return []


def test_a_table_that_would_test_nothing_or_less_is_refused() -> None:
    for values in ([], [pytest.param(1, marks=pytest.mark.deep)]):
        with pytest.raises(AssertionError):
            cases("number", values)
    with pytest.raises(AssertionError):
        cases("other", [1])(test_a_table_that_would_test_nothing_or_less_is_refused)
