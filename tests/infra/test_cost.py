"""The estimate of costs: its arithmetic, and that its page is up to date."""

import json
import tomllib

import pytest

from infra.cost import COUNTS, PRICES, TURN
from infra.cost.estimate import LAMBDA, LAMBDA_MODEL, LOGS, MESSAGES, READS, WRITES, Estimate, total
from infra.cost.page import PAGE, page, read

NOTHING = dict.fromkeys(
    ("reads", "writes", "messages", "sent", "logged", "kept", "passing", "objects_read", "objects_written"), 0
)


@pytest.fixture
def estimate() -> Estimate:
    return Estimate(tomllib.loads(PRICES.read_text()), {"llm_request": 1024, "user_message": 512})


def test_the_model_s_time_is_memory_times_seconds(estimate: Estimate) -> None:
    bill = estimate.scenario({"llm_request": NOTHING}, model_s=6)
    assert bill[LAMBDA_MODEL] == pytest.approx(6 * 0.0000133334)
    assert bill[LAMBDA] == pytest.approx(0.150 * 0.0000133334 + 0.2e-6)


def test_units_and_messages_have_their_list_prices(estimate: Estimate) -> None:
    used = {**NOTHING, "reads": 4, "writes": 8, "messages": 2, "logged": 700}
    bill = estimate.scenario({"user_message": used}, frames=1)
    assert bill[READS] == pytest.approx(4 * 0.125e-6)
    assert bill[WRITES] == pytest.approx(8 * 0.625e-6)
    assert bill[MESSAGES] == pytest.approx(3e-6)
    assert bill[LOGS] == pytest.approx(1000 / 1024**3 * 0.5)


def test_a_turn_costs_more_with_more_memory_and_with_more_batches() -> None:
    costs = read()
    assert total(costs.turn(memory=512)) < total(costs.turn(memory=1024)) < total(costs.turn(memory=1769))
    assert total(costs.turn(500)) < total(costs.turn(350)) < total(costs.turn(100))


def test_the_first_batch_is_sent_at_once() -> None:
    assert TURN.batches(100) == 61
    assert TURN.batches(350) <= 25


def test_every_counted_function_is_in_the_template() -> None:
    counted = {folder for functions in json.loads(COUNTS.read_text()).values() for folder in functions}
    assert counted <= set(read().memory)


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, read()) == text, "run `make cost`"


def test_a_stale_table_is_replaced_and_a_missing_place_refused() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text.replace("**together**", "**sum**"), read()) == text
    with pytest.raises(ValueError, match="no place for turn"):
        page(text.replace("<!-- turn -->", ""), read())
