"""The parameter LargeSettings: what does not fit the functions' environment is in a secret that each of them reads."""

import json
import re

import pytest
from codelab import config
from codelab.aws.secrets import Secrets
from codelab.stored_settings import read_stored_settings

from infra.intrinsics import references, text
from tests.fakes.aws.emulated import EmulatedAws
from tests.functions.large_settings import CAPABILITIES, MODELS, PLANS, PRICES
from tests.permissions import grants, of_type, resources

LARGE = {name: json.dumps(value) for name, value in (("LlmPrices", PRICES), ("LlmCapabilities", CAPABILITIES))}
READS = ("secretsmanager:GetSecretValue", "${SettingsSecret}")


def test_without_it_nothing_of_it_is_in_the_stack() -> None:
    assert "SettingsSecret" not in resources()
    assert "SettingsSecret" not in set(references(resources()))


def test_every_function_with_settings_may_read_them_and_nothing_else_is_granted() -> None:
    """The page's function uses nothing of the library."""
    gained = {folder: granted - grants()[folder] for folder, granted in grants(large_settings=True).items()}
    assert gained.pop("page") == set()
    assert set(map(frozenset, gained.values())) == {frozenset({READS})}


def test_functions_start_anew_with_each_deployment() -> None:
    for name in of_type("AWS::Lambda::Function"):
        variables = resources(large_settings=True)[name]["Properties"]["Environment"]["Variables"]
        deployment = {"Fn::If": ["KnowsDeployment", {"Ref": "Deployment"}, {"Ref": "AWS::NoValue"}]}
        assert variables["DEPLOYMENT"] == deployment, name


def test_what_the_stack_keeps_is_what_the_functions_read(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = text(resources(large_settings=True)["SettingsSecret"]["Properties"]["SecretString"])
    values = {**LARGE, "PlanLimits": json.dumps(PLANS)}
    secret = re.sub(r"\$\{(\w+)\}", lambda parameter: values[parameter[1]], kept)
    monkeypatch.setattr(Secrets, "get", lambda _self, _arn: secret)
    read = {variable: json.loads(value) for variable, value in read_stored_settings("the ARN").items()}
    assert read == {"LLM_PRICES": PRICES, "LLM_CAPABILITIES": CAPABILITIES, "PLAN_LIMITS": PLANS}


@pytest.mark.deep
def test_a_stack_has_fourteen_models_and_three_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**LARGE, "PlanLimits": json.dumps(PLANS), "LlmModels": ",".join(MODELS), "LlmModel": MODELS[0]}
    with EmulatedAws() as aws:
        aws.use(monkeypatch)
        aws.create("one", **given, LargeSettings="true", Deployment="1")
        names = [one["FunctionName"] for one in aws.client("lambda").list_functions()["Functions"]]
        environments = {name: aws.function(name)["Environment"]["Variables"] for name in names}
        sizes = {
            name: sum(len(key) + len(value.encode()) for key, value in environments[name].items()) for name in names
        }
        assert max(sizes.values()) <= 4_096, sizes
        found = _settings(aws, environments["one-llm-request"], monkeypatch)
        assert found.offered_models == frozenset(MODELS)
        assert set(found.llm_prices) == set(found.llm_capabilities) == set(MODELS)
        assert [found.limits[plan].open_turns for plan in PLANS] == [limits["open_turns"] for limits in PLANS.values()]
        aws.update("one", **{**given, "PlanLimits": "{}"}, LargeSettings="true", Deployment="2")
        assert aws.function("one-llm-request")["Environment"]["Variables"]["DEPLOYMENT"] == "2"
        assert _settings(aws, environments["one-llm-request"], monkeypatch).plan_limits == {}
        few = {**given, "LlmPrices": "{}", "LlmCapabilities": "{}"}
        aws.update("one", **few, LargeSettings="false", Deployment="3")
        variables = aws.function("one-llm-request")["Environment"]["Variables"]
        assert (variables["SETTINGS_SECRET_ARN"], json.loads(variables["PLAN_LIMITS"])) == ("", PLANS)


def _settings(aws: EmulatedAws, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> config.Settings:
    """The settings that a function with this environment has."""
    secrets = aws.client("secretsmanager")

    def get(_self: Secrets, arn: str) -> str:
        return str(secrets.get_secret_value(SecretId=arn)["SecretString"])

    monkeypatch.setattr(Secrets, "get", get)
    return config.read_settings({**variables, **read_stored_settings(variables["SETTINGS_SECRET_ARN"])})
