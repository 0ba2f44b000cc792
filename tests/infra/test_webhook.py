"""WebhookUrl and WebPush: a function of its own tells the webhook and browsers, and others may no more than before."""

import json
import re
from typing import Any

import pytest
from codelab.sessions import keys
from codelab.vapid import application_server_key

from infra.intrinsics import branches, decided, references, statements, target, text
from infra.sam_template import parse
from tests.fakes.aws.emulated import EmulatedAws
from tests.infra.test_edge import variables
from tests.permissions import TEMPLATE, grants, of_type, resources

#: What a handler imports that changes sessions.
MAKES_ENGINE = re.compile(r"posting_engine|WebSocketApp\(\w|codelab\.rest\.app")
URL = "https://hooks.example.com/services/T1/B2/x?a=b"


def without() -> dict[str, Any]:
    """The resources of a stack that tells nobody."""
    left: Any = resources()
    for condition in ("TellsWebhook", "TellsBrowsers", "TellsAnybody"):
        left = decided(left, condition, holds=False)
    return dict(left)


def granted(*, browsers: bool, webhook: bool) -> set[tuple[str, str]]:
    """What the function may do in a stack that tells these."""
    role: Any = {"WebhookFunctionRole": resources()["WebhookFunctionRole"]}
    for condition, holds in {"TellsBrowsers": browsers, "TellsWebhook": webhook}.items():
        role = decided(role, condition, holds=holds)
    return {
        (action, text(where))
        for _, statement in statements(role)
        for action in branches(statement["Action"])
        for where in branches(statement["Resource"])
    }


def test_without_it_nothing_of_it_is_in_the_stack() -> None:
    gone = set(resources()) - set(without())
    assert gone >= {"WebhookFunction", "WebhookFunctionRole", "WebhookLog", "WebhookPermission", "WebhookSecret"}
    assert "WebPushKey" in gone
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
    assert granted(browsers=False, webhook=True) == {("secretsmanager:GetSecretValue", "${WebhookSecret}")}
    kept = of_type("AWS::SecretsManager::Secret")["WebhookSecret"]["Properties"]["GenerateSecretString"]
    secret = json.loads(text(kept["SecretStringTemplate"]).replace("${WebhookUrl}", URL))
    assert (secret, kept["GenerateStringKey"]) == ({"url": URL}, "key")
    for function in of_type("AWS::Lambda::Function").values():
        assert "WebhookUrl" not in set(references(function)), "the address may be a secret"


def test_for_browsers_it_may_sign_and_reach_their_subscriptions_only() -> None:
    assert granted(browsers=True, webhook=False) == {
        ("kms:GetPublicKey", "${WebPushKey.Arn}"),
        ("kms:Sign", "${WebPushKey.Arn}"),
        ("dynamodb:Query", "${Table.Arn}"),
        ("dynamodb:DeleteItem", "${Table.Arn}"),
    }
    conditions = [
        statement["Condition"]
        for path, statement in statements(resources())
        if path[1] == "WebhookFunctionRole" and "dynamodb:Query" in list(branches(statement["Action"]))
    ]
    assert conditions == [{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [keys.of_subscriptions("*")]}}]
    assert {folder for folder, given in grants().items() for action, _ in given if action == "kms:Sign"} == {"webhook"}


def test_the_key_can_only_sign() -> None:
    [key] = of_type("AWS::KMS::Key").values()
    assert (key["Properties"]["KeySpec"], key["Properties"]["KeyUsage"]) == ("ECC_NIST_P256", "SIGN_VERIFY")


@pytest.mark.parametrize(
    ("browsers", "webhook", "written"),
    [
        (True, False, "approval_requested"),
        (True, True, "approval_requested,${WebhookEvents}"),
        (False, True, "${WebhookEvents}"),
        (False, False, ""),
    ],
)
def test_the_log_has_what_either_is_told(browsers: bool, webhook: bool, written: str) -> None:
    every: Any = resources()
    for condition, holds in {"TellsBrowsers": browsers, "TellsWebhook": webhook}.items():
        every = decided(every, condition, holds=holds)
    variables_of = {
        name: function["Properties"]["Environment"]["Variables"]["WEBHOOK_EVENTS"]
        for name, function in every.items()
        if function["Type"] == "AWS::Lambda::Function"
    }
    told = variables_of.pop("WebhookFunction")
    assert text(told) == ("${WebhookEvents}" if webhook else "")
    assert {text(events) for events in variables_of.values()} == {written}


@pytest.mark.parametrize(
    ("hosts", "is_taken"),
    [
        *(("fcm.googleapis.com", True), ("*.notify.windows.com,push.example.com:8443", True)),
        *(("", False), ("*", False), ("*.", False), ("com", False), ("a.example.com/x", False)),
        *(("https://a.example.com", False), ("a.example.com, b.example.com", False), ("a*.example.com", False)),
    ],
)
def test_push_services_are_hosts(hosts: str, is_taken: bool) -> None:
    parameter = parse(TEMPLATE)["Parameters"]["WebPushHosts"]
    assert bool(re.fullmatch(parameter["AllowedPattern"], hosts)) == is_taken
    assert re.fullmatch(parameter["AllowedPattern"], parameter["Default"])


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        *((URL, True), ("https://a.example.com:8443", True), ("", True)),
        *(("http://a.example.com/x", False), ("https://user:word@a.example.com/", False)),
        *((f"https://a.example.com/{character}", False) for character in '" \\}\n'),
    ],
)
def test_an_address_is_https_and_changes_nothing_in_its_secret(url: str, is_taken: bool) -> None:
    parameter = parse(TEMPLATE)["Parameters"]["WebhookUrl"]
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
        aws.update("one", WebPush="true", WebPage="true")
        told = variables(aws, "one-webhook")
        assert (told["WEBHOOK_EVENTS"], told["WEBHOOK_SECRET_ARN"], told["PAGE_URL"][:8]) == ("", "", "https://")
        assert variables(aws, "one-llm-request")["WEBHOOK_EVENTS"] == "approval_requested"
        assert told["WEB_PUSH_KEY"] == variables(aws, "one-rest-api")["WEB_PUSH_KEY"]
        key = aws.client("kms").get_public_key(KeyId=told["WEB_PUSH_KEY"])
        assert len(application_server_key(key["PublicKey"])) == 87
