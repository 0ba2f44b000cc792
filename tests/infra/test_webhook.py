"""The parameter WebhookUrl: a function of its own tells the webhook, and no other one may do more than before."""

import json
import re
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from infra.intrinsics import decided, references, target, text
from tests.fakes.aws.emulated import EmulatedAws
from tests.infra.test_edge import variables
from tests.permissions import TEMPLATE, grants, of_type, resources

#: What a handler imports that changes sessions.
MAKES_ENGINE = re.compile(r"posting_engine|WebSocketApp\(\w|codelab\.rest\.app")
URL = "https://hooks.example.com/services/T1/B2/x?a=b"


def without() -> dict[str, Any]:
    """The resources of a stack without a webhook."""
    left: dict[str, Any] = decided(resources(), "TellsWebhook", holds=False)
    return left


def test_without_it_nothing_of_it_is_in_the_stack() -> None:
    gone = set(resources()) - set(without())
    assert gone >= {"WebhookFunction", "WebhookFunctionRole", "WebhookLog", "WebhookPermission", "WebhookSecret"}
    assert not gone & set(references(without()))
    for name, function in without().items():
        if function["Type"] == "AWS::Lambda::Function":
            assert function["Properties"]["Environment"]["Variables"]["WEBHOOK_EVENTS"] == "", name


def test_each_function_that_changes_sessions_is_listened_to_and_no_other_one() -> None:
    """One that listened to itself would never end."""
    changing = set()
    for function in of_type("AWS::Lambda::Function").values():
        name = text(function["Properties"]["FunctionName"]).removeprefix("${AWS::StackName}-")
        handler = TEMPLATE.parent / "functions" / name.replace("-", "_") / "handler.py"
        if MAKES_ENGINE.search(handler.read_text(encoding="utf-8")):
            changing.add(text(function["Properties"]["LoggingConfig"]["LogGroup"]))
    filters = of_type("AWS::Logs::SubscriptionFilter")
    assert {text(one["Properties"]["LogGroupName"]) for one in filters.values()} == changing
    assert len(changing) == len(filters) == 11
    for one in filters.values():
        assert target(one["Properties"]["DestinationArn"]) == "WebhookFunction"
        assert one["DependsOn"] == "WebhookPermission", "CloudWatch checks that it may call when the filter is made"


def test_the_function_may_read_its_secret_and_nothing_else() -> None:
    assert grants()["webhook"] == {("secretsmanager:GetSecretValue", "${WebhookSecret}")}
    kept = of_type("AWS::SecretsManager::Secret")["WebhookSecret"]["Properties"]["GenerateSecretString"]
    secret = json.loads(text(kept["SecretStringTemplate"]).replace("${WebhookUrl}", URL))
    assert (secret, kept["GenerateStringKey"]) == ({"url": URL}, "key")
    for function in of_type("AWS::Lambda::Function").values():
        assert "WebhookUrl" not in set(references(function)), "the address may be a secret"


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        *((URL, True), ("https://a.example.com:8443", True), ("", True)),
        *(("http://a.example.com/x", False), ("https://user:word@a.example.com/", False)),
        *((f"https://a.example.com/{character}", False) for character in '" \\}\n'),
    ],
)
def test_an_address_is_https_and_changes_nothing_in_its_secret(url: str, is_taken: bool) -> None:
    parameter = yaml_parse(TEMPLATE.read_text(encoding="utf-8"))["Parameters"]["WebhookUrl"]
    assert bool(re.fullmatch(parameter["AllowedPattern"], url)) == is_taken
    assert parameter["NoEcho"] is True


@pytest.mark.deep
def test_a_stack_has_a_webhook_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmulatedAws() as aws:
        aws.use(monkeypatch)
        aws.create("one", WebhookUrl=URL, WebPage="true", WebhookFormat="slack")
        told = variables(aws, "one-webhook")
        assert (told["WEBHOOK_FORMAT"], told["PAGE_URL"][:8]) == ("slack", "https://")
        secret = aws.client("secretsmanager").get_secret_value(SecretId=told["WEBHOOK_SECRET_ARN"])["SecretString"]
        assert json.loads(secret)["url"] == URL
        assert len(json.loads(secret)["key"]) == 64
        assert variables(aws, "one-llm-request")["WEBHOOK_EVENTS"] == "approval_requested,turn_failed"
        aws.update("one", WebhookUrl="", WebPage="true")
        assert variables(aws, "one-llm-request")["WEBHOOK_EVENTS"] == ""
