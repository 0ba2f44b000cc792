"""The counter of changes of module."""

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.way_of_the_data import Counting

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="it profiles all threads at once")


def module(name: str, source: str, **known: Any) -> Any:
    made = types.ModuleType(name)
    made.__dict__.update(known)
    exec(source, made.__dict__)
    return made


@pytest.fixture
def b() -> Any:
    return module("codelab.b", "def double(n):\n    return 2 * n\ndef numbers():\n    yield 1\n    yield 2\n")


def changes(source: str, b: Any) -> dict[tuple[str, str], int]:
    a = module("codelab.a", f"def run():\n    {source}\n", b=b, sorted=sorted)
    counting = Counting()
    counting("event", a.run)
    return dict(counting.ways["event"][0].changes)


@pytest.fixture(autouse=True)
def no_profile() -> Iterator[None]:
    """A profile function that a debugger or a coverage tool has set."""
    before = sys.getprofile()
    yield
    sys.setprofile(before)


def test_a_call_and_its_return_are_two_changes(b: Any) -> None:
    assert changes("b.double(1)", b) == {("a", "b"): 1, ("b", "a"): 1}


def test_what_lies_between_two_modules_does_not_count(b: Any) -> None:
    assert changes("sorted([3, 1, 2], key=b.double)", b) == {("a", "b"): 3, ("b", "a"): 3}


def test_each_resumption_of_a_generator_counts(b: Any) -> None:
    assert changes("sum(b.numbers())", b) == {("a", "b"): 3, ("b", "a"): 3}


def test_calls_within_a_module_do_not_count(b: Any) -> None:
    assert changes("run.__globals__['sorted']([])", b) == {}
