"""What `turn_end` says of a turn: how it ended, what it cost, and what its last message was."""

import hashlib

import pytest
from codelab.config import ConfigurationError, read_settings
from codelab.json_settings import Price
from codelab.llm.encoding import TextMessage
from codelab.llm.outcome import Usage
from codelab.turns.usage import breakdown, turn_usage, usage_amounts

from tests.turns.world import READ, calling, dispatched, running

PRICE = Price(prompt=2, completion=10, cached=0.5)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_last_message_can_be_checked() -> None:
    world = dispatched()
    (call_id,) = world.answer("Reading", READ)
    world.result(call_id, result="x")
    world.answer("Готово ✓")
    (end,) = world.of_type("turn_end")
    assert end["final_text_sha256"] == sha256("Готово ✓")


def test_of_a_cancelled_message_it_is_what_stays() -> None:
    world, lease = running()
    world.stream(lease, "So far")
    world.cancel()
    world.fail(lease, "So far")
    assert world.of_type("turn_end")[0]["final_text_sha256"] == sha256("So far")


def test_a_turn_without_a_last_message_has_none() -> None:
    world, lease = running()
    world.fail(lease)
    assert "final_text_sha256" not in world.of_type("turn_end")[0]


def test_the_limit_of_steps_is_said_in_a_message_too() -> None:
    world, _ = calling(("update_plan", {"items": []}), max_steps=1)
    (end,) = world.of_type("turn_end")
    assert end["final_text_sha256"] == sha256(world.of_type("assistant_message")[-1]["token"])


def test_a_text_that_knows_its_tokens_counts_like_any_other() -> None:
    said = [("user", "What does main.py do, and why is it so long?"), ("assistant", "It starts the server")]
    prompt = {"role": "system", "content": "Be brief"}
    plain = breakdown([], [prompt, *({"role": role, "content": text} for role, text in said)])
    assert breakdown([], [prompt, *(TextMessage(role, text) for role, text in said)]) == plain
    assert plain["history"] > 10


def test_all_requests_of_a_turn_are_summed_up() -> None:
    world, _ = calling(("update_plan", {"items": []}))
    world.answer("Done")
    (end,) = world.of_type("turn_end")
    assert (end["usage"]["prompt_tokens"], end["usage"]["llm_calls"]) == (20, 2)
    assert end["usage"]["completion_tokens"] == end["usage"]["cached_tokens"] == 0


def test_a_turn_costs_what_its_tokens_cost() -> None:
    usage = usage_amounts(Usage(prompt=1_000_000, completion=100_000, cached=400_000), PRICE)
    assert turn_usage(usage).cost_usd == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10)
    assert "cache_write_tokens" not in usage, "no turn stores a count of nothing"
    writing = Usage(prompt=1_000_000, completion=0, cached=400_000, cache_writes=200_000)
    price = Price(prompt=2, completion=10, cached=0.5, cache_write=2.5)
    counted = usage_amounts(writing, price)
    assert counted["cache_write_tokens"] == 200_000
    assert counted["cost_nano_usd"] == (400_000 * 2 + 400_000 * 0.5 + 200_000 * 2.5) * 1000
    assert turn_usage(counted).cache_write_tokens == 200_000
    assert usage_amounts(writing, PRICE)["cost_nano_usd"] == (600_000 * 2 + 400_000 * 0.5) * 1000, "as it was"
    without_cache = usage_amounts(Usage(prompt=1_000_000, completion=0, cached=400_000), Price(prompt=2, completion=10))
    assert turn_usage(without_cache).cost_usd == pytest.approx(2)


def test_a_cost_that_is_not_known_whole_is_not_told() -> None:
    usage = usage_amounts(Usage(prompt=10, completion=10, cached=0), PRICE)
    for name, value in usage_amounts(Usage(prompt=10, completion=10, cached=0), None).items():
        usage[name] = usage.get(name, 0) + value
    assert turn_usage(usage).cost_usd is None
    assert turn_usage({}).cost_usd is None


def test_the_prompt_is_told_by_its_parts() -> None:
    tools = [{"role": "system", "content": {"type": "tool", "name": "read_file", "parameters": {}}}]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a.py says x = 1\n\nRead the file, please"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"arguments": "{}"}}]},
    ]
    parts = breakdown(tools, messages, files="a.py says x = 1")
    assert parts.keys() == {"system", "tools", "files", "history"}
    assert all(tokens > 0 for tokens in parts.values())
    without = breakdown(tools, messages)
    assert (without["files"], without["history"]) == (0, parts["files"] + parts["history"])
    assert turn_usage(parts).prompt_details.system_tokens == parts["system"]


def test_prices_come_from_the_environment() -> None:
    found = read_settings({"LLM_PRICES": '{"m": {"prompt": 1, "completion": 2}}'})
    assert found.llm_prices == {"m": Price(prompt=1, completion=2)}
    for wrong in ("cheap", '{"m": {"prompt": -1, "completion": 2}}', '{"m": {"prompt": 1}}'):
        with pytest.raises(ConfigurationError, match="LLM_PRICES"):
            read_settings({"LLM_PRICES": wrong})
