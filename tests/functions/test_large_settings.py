"""Settings that are in a secret instead of the environment: each process reads them once, when it starts."""

import json
from typing import Any

import boto3
import pytest
from codelab.config import ConfigurationError, settings

from tests.functions.large_settings import CAPABILITIES, PLANS, PRICES
from tests.functions.system import System
from tests.functions.template import REGION

ARN = "SettingsSecret"
NONE: dict[str, list[Any]] = {"LLM_PRICES": [], "LLM_CAPABILITIES": [], "PLAN_LIMITS": []}
OURS = "openai.gpt-oss-120b-1:0"


def keep(system: System, text: str) -> None:
    """Have the functions find this in the secret, as the template names it to them."""
    with system.aws.paused():
        boto3.client("secretsmanager", region_name=REGION).create_secret(Name=ARN, SecretString=text)
    system.environment |= {"SETTINGS_SECRET_ARN": ARN, "LLM_PRICES": "", "LLM_CAPABILITIES": "", "PLAN_LIMITS": ""}


def test_every_process_reads_them_once_and_the_plans_hold(system: System) -> None:
    prices = {**PRICES, OURS: {"prompt": 1_000_000, "completion": 0}}
    stored = {"LLM_PRICES": [prices], "LLM_CAPABILITIES": [CAPABILITIES], "PLAN_LIMITS": [{"one": {"open_turns": 1}}]}
    keep(system, json.dumps(stored))
    for folder in ("connect", "user_message", "llm_request"):
        system.aws.reset()
        system.function(folder)
        assert system.aws.calls.count("GetSecretValue") == 1, folder
    assert settings().llm_prices[OURS].prompt == 1_000_000
    for connection, session in (("c1", "s1"), ("c2", "s2")):
        system.connect(connection, session, extensions=True, plan="one")
        system.send(connection, "user_message", content="Hello")
        assert "GetSecretValue" not in system.aws.calls, "a process reads it once"
    assert [frame["error_code"] for frame in system.aws.frames("c2")] == ["RATE_LIMITED"]


def test_empty_parameters_are_as_if_they_were_not_set(system: System) -> None:
    keep(system, '{"LLM_PRICES": [],\n"LLM_CAPABILITIES": [],\n"PLAN_LIMITS": [{}]}\n')
    system.load("connect")
    assert (settings().llm_prices, settings().llm_capabilities, settings().plan_limits) == ({}, {}, {})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"LLM_PRICES": 5}', '{"PLAN_LIMITS": {"a": 1}}'])
def test_a_secret_that_is_not_the_stacks_is_named(system: System, text: str) -> None:
    keep(system, text or " ")
    with pytest.raises(ConfigurationError, match=f"SETTINGS_SECRET_ARN={ARN}: not the stack's JSON; deploy again"):
        system.load("connect")


def test_nothing_else_is_taken_from_it(system: System) -> None:
    keep(system, json.dumps({**NONE, "AUTH_MODE": ["none"], "CODELAB_LOCAL": [True], "TABLE_NAME": ["other"]}))
    system.load("connect")
    assert (settings().auth_mode, settings().codelab_local, settings().table_name) == ("jwt", False, "Table")


def test_a_typo_in_it_is_named_with_its_variable(system: System) -> None:
    keep(system, json.dumps({**NONE, "PLAN_LIMITS": [{**PLANS, "team": {"openturns": 5}}]}))
    with pytest.raises(ConfigurationError, match=r"PLAN_LIMITS=.*team\.openturns: .*correct PLAN_LIMITS"):
        system.load("connect")


def test_what_the_environment_has_takes_precedence(system: System) -> None:
    """As where a developer sets a variable for the local cloud."""
    keep(system, json.dumps({**NONE, "PLAN_LIMITS": [PLANS]}))
    system.environment["PLAN_LIMITS"] = '{"own": {}}'
    system.load("connect")
    assert set(settings().plan_limits) == {"own"}
