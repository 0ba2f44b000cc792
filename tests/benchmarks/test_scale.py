"""The simulation of many sessions."""

import json
import tomllib

from benchmarks import scale
from infra.cost import COUNTS, PRICES

EVENTS = scale.events(json.loads(COUNTS.read_text()), tomllib.loads(PRICES.read_text())["assumed"])


def test_the_page_is_up_to_date() -> None:
    text = scale.PAGE.read_text(encoding="utf-8")
    assert scale.page(text) == text, "run `make cost`"


def test_what_is_used_grows_with_the_sessions() -> None:
    few, many = (scale.simulate(sessions, EVENTS) for sessions in (200_000, 2_000_000))
    assert few.keys() == many.keys() == {*scale.LIMITS}
    assert few[scale.SESSION] == many[scale.SESSION] < scale.SESSION.default / 10, "a session is a partition of its own"
    for limit in {*scale.LIMITS} - {scale.GROWTH, scale.SESSION}:
        assert 7 * few[limit] < many[limit] < 10 * few[limit], limit.name
    assert many[scale.GROWTH] < 6 * few[scale.GROWTH], "chance grows with the root"


def test_it_agrees_with_the_mean() -> None:
    """Executions are the arrivals times their length (Little's law), but for chance."""
    one = scale.Event(rate=1 / 600, seconds=6.15, executions=1, frames=1, posts=24)
    used = scale.simulate(600_000, [one])
    assert 6_150 < used[scale.EXECUTIONS] < 6_150 * 1.1
    assert 1_000 < used[scale.FRAMES] < 1_200
    assert 25_000 < used[scale.REQUESTS] < 26_500


def test_one_event_is_rarely_more_than_one_at_a_time() -> None:
    used = scale.simulate(10, [scale.Event(rate=1 / 600, seconds=1, frames=1)])
    assert 1 <= used[scale.FRAMES] <= 3
