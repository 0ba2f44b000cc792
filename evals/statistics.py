"""How sure a measurement is: the interval of a share, and of the difference of paired shares."""

from collections.abc import Sequence
from math import sqrt
from random import Random

Z = 1.959964  # the normal distribution's 97.5 % point


def wilson(solved: int, count: int) -> tuple[float, float]:
    """The Wilson 95 % interval of `solved` of `count`, as shares."""
    if not count:
        return 0.0, 1.0
    share = solved / count
    middle = share + Z * Z / (2 * count)
    half = Z * sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    scale = 1 + Z * Z / count
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def paired_difference(pairs: Sequence[tuple[float, float]], *, draws: int = 10_000) -> tuple[float, float, float]:
    """The mean of after - before over (before, after), and its 95 % bootstrap interval: the pairs are drawn.

    A pair is a task, with the share of its attempts that solved it: attempts at one task are not independent.
    """
    if not pairs:
        raise ValueError("no task was run under both labels")
    changes = [after - before for before, after in pairs]
    random, count = Random(35), len(changes)
    means = sorted(sum(random.choices(changes, k=count)) / count for _ in range(draws))
    return sum(changes) / count, means[int(0.025 * draws)], means[int(0.975 * draws) - 1]
