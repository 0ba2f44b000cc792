"""Whatever order the events come in, every message is answered once, every call settled once, and nothing hangs."""

import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.turns.walk import Walk, walk


def walks(first: int, count: int) -> int:
    for seed in range(first, first + count):
        walk(seed)
    return count


def test_random_interleavings() -> None:
    assert walks(0, 40) == 40


@pytest.mark.deep
def test_a_hundred_thousand_random_interleavings() -> None:
    share = 2_500
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        done = sum(pool.map(walks, range(0, 100_000, share), [share] * 40))
    sys.stdout.write(f"{done} interleavings, no broken invariant\n")
    assert done == 100_000


class AnyOrder(RuleBasedStateMachine):
    """The same events, chosen and shrunk by hypothesis."""

    def __init__(self) -> None:
        super().__init__()
        self.walk = Walk(random.Random(0))

    @rule(event=st.sampled_from(sorted(set(Walk.EVENTS))), seed=st.integers(0, 2**16))
    def happens(self, event: str, seed: int) -> None:
        self.walk.choose = random.Random(seed)
        self.walk.EVENTS = (event,)  # type: ignore[misc]
        self.walk.step()

    @invariant()
    def holds(self) -> None:
        self.walk.check()

    def teardown(self) -> None:
        self.walk.finish()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(stateful_step_count=40, suppress_health_check=list(HealthCheck))
