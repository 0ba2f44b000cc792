"""The environment is read once, and a bad value is named."""

from dataclasses import replace
from typing import Any

import pytest
from codelab.config import USUAL_LIMITS, ConfigurationError, Limits, read_settings

from tests.cases import cases


def test_defaults_hold_and_empty_variables_count_as_unset() -> None:
    found = read_settings({"MAX_STEPS": "", "TABLE_NAME": "t"})
    assert (found.max_steps, found.table_name) == (50, "t")


def test_a_number_may_be_written_as_cloudformation_does() -> None:
    assert [read_settings({"MAX_STEPS": text}).max_steps for text in ("5", "5.0", " 5 ", "+5")] == [5] * 4


@cases(
    ("name", "value"),
    [
        ("MAX_STEPS", "many"),
        ("MAX_STEPS", "0"),
        ("MAX_STEPS", "5.5"),
        ("MAX_STEPS", "٣"),
        ("HITL_ENABLED", "perhaps"),
        ("AUTH_MODE", "trust"),
        ("LOG_LEVEL", "LOUD"),
    ],
)
def test_a_bad_value_is_named_with_the_cure(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}={value}: .*correct {name}"):
        read_settings({name: value})


def test_small_models_are_not_asked_who_answers_unless_somebody_says_so() -> None:
    providers = ("openai", "vllm", "ollama", "llama.cpp")
    agents = [read_settings({"LLM_PROVIDER": provider}).first_agent for provider in providers]
    assert agents == ["orchestrator", "orchestrator", "universal", "universal"]
    chosen = read_settings({"LLM_PROVIDER": "llama.cpp", "DEFAULT_AGENT": "orchestrator"})
    assert chosen.first_agent == "orchestrator"


def test_no_authentication_exists_in_the_local_cloud_only() -> None:
    with pytest.raises(ConfigurationError, match="local cloud only"):
        read_settings({"AUTH_MODE": "none"})
    assert read_settings({"AUTH_MODE": "none", "CODELAB_LOCAL": "1"}).auth_mode == "none"


def test_users_have_quotas_unless_everybody_is_the_same_user() -> None:
    usual = read_settings({})
    assert usual.limits[""] == USUAL_LIMITS
    local = {"AUTH_MODE": "none", "CODELAB_LOCAL": "1"}
    assert read_settings(local).limits[""] == Limits()
    assert read_settings({**local, "OPEN_TURNS": "3"}).limits[""] == Limits(open_turns=3)
    assert read_settings({"OPEN_TURNS": "0"}).limits[""].open_turns == 0


def test_a_plan_changes_what_it_names() -> None:
    found = read_settings({"OPEN_TURNS": "3", "PLAN_LIMITS": '{"team": {"tokens_per_day": 0, "open_turns": 50}}'})
    assert found.limits["team"] == replace(USUAL_LIMITS, tokens_per_day=0, open_turns=50)
    assert found.limits["other"] == found.limits[""] == replace(USUAL_LIMITS, open_turns=3)


@cases(
    ("value", "place"),
    [
        ('{"team": {"mesages_per_minute": 5}}', "team.mesages_per_minute: extra inputs"),
        ('{"team": {"open_turns": -1}}', "team.open_turns: "),
        ('{"team": {"open_turns": 91}}', "team.open_turns: "),
        ('{"team": 5}', "team: "),
        ("{team: 5}", "invalid json"),
    ],
)
def test_a_typo_in_a_plan_is_named_with_its_place(value: Any, place: int) -> None:
    with pytest.raises(ConfigurationError, match=f"PLAN_LIMITS=.*{place}.*correct PLAN_LIMITS"):
        read_settings({"PLAN_LIMITS": value})
