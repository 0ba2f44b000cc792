"""The code of `make deploy` and the other commands against an emulated account. test_deploy.py runs the commands."""

import contextlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import jwt
import pytest
from botocore.exceptions import ClientError
from codelab.agents import agents
from codelab.llm.profiles import PROFILES
from codelab_local import LocalCloud

from infra.intrinsics import decided
from infra.sam_template import parse
from infra.stack.__main__ import main
from infra.stack.deploy import clear_failed_creation, report, summary
from infra.stack.destroy import Kept, destroy
from infra.stack.parameters import as_arguments, of_model, read
from infra.stack.preflight import Finding, check
from infra.stack.revoke import revoke
from infra.stack.rotate import rotate
from infra.stack.stack import Refused, Stack, outputs
from infra.stack.token import hours_of, mint
from infra.translate import translate
from tests.cases import cases
from tests.fakes.aws.emulated import AVAILABLE, TEMPLATE, EmulatedAws
from tests.functions.large_settings import CAPABILITIES, MODELS, PLANS, PRICES
from tests.processes import run
from tests.sampling import sampled
from tests.waiting import until

ROOT = TEMPLATE.parent
MODEL = "openai.gpt-oss-120b-1:0"

template: dict[str, Any] = parse(TEMPLATE)


CERTIFICATE = "arn:aws:acm:eu-central-1:123456789012:certificate/12345678-1234-1234-1234-123456789012"
AT_THE_EDGE = CERTIFICATE.replace("eu-central-1", "us-east-1")


@pytest.fixture(scope="module")
def emulated() -> Iterator[EmulatedAws]:
    with EmulatedAws() as running:
        running.create("codelab")
        yield running


@pytest.fixture
def aws(emulated: EmulatedAws, monkeypatch: pytest.MonkeyPatch) -> EmulatedAws:
    emulated.use(monkeypatch)
    emulated.models = {template["Parameters"]["LlmModel"]["Default"]: AVAILABLE}
    return emulated


@pytest.fixture
def stack(aws: EmulatedAws) -> Stack:
    return Stack("codelab")


# -- PARAMETERS ------------------------------------------------------------------------------------------------------

KNOWN = {
    "LlmProvider": {"AllowedValues": ["openai", "bedrock", "bedrock-converse"]},
    "LlmApiKey": {"NoEcho": True},
    "LlmPrices": {},
    "LlmBaseUrl": {},
    "MaxSteps": {"Type": "Number"},
}


@cases(
    ("written", "given"),
    [
        ("", {}),
        ("LlmProvider=openai  MaxSteps=3", {"LlmProvider": "openai", "MaxSteps": "3"}),
        ("LlmApiKey=", {"LlmApiKey": ""}),
        ('LlmPrices={"m":{"prompt":1}} MaxSteps=3', {"LlmPrices": '{"m":{"prompt":1}}', "MaxSteps": "3"}),
        ('LlmPrices=\'{"m": {"prompt": 1}}\'', {"LlmPrices": '{"m": {"prompt": 1}}'}),
        ('LlmPrices="{\\"m\\": 1}"', {"LlmPrices": '{"m": 1}'}),
        ("LlmApiKey='sk", {"LlmApiKey": "'sk"}),
        ("LlmBaseUrl=https://host/v1?a=b", {"LlmBaseUrl": "https://host/v1?a=b"}),
    ],
)
def test_parameters_are_parsed_with_their_quotes(written: str, given: dict[str, str]) -> None:
    assert read(written, KNOWN) == given


def test_a_parameter_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-$'\" secret\n")
    assert read(f"LlmApiKey=file://{tmp_path}/key", KNOWN) == {"LlmApiKey": "sk-$'\" secret"}


@cases(
    ("written", "said"),
    [
        ("LlmProvder=openai", "unknown parameter LlmProvder: did you mean LlmProvider?"),
        ("LlmProvider=opneai", "invalid LlmProvider 'opneai': did you mean openai?"),
        ("LlmProvider=x", "valid are openai, bedrock, bedrock-converse"),
        ("openai", "must be NAME=VALUE"),
        ('LlmApiKey="\\"sk-secret\\""', "cannot be passed to SAM"),
        ("LlmApiKey=sk-secret\\'", "cannot be passed to SAM"),
        ("LlmApiKey=file:///nowhere/at/all", "cannot read"),
    ],
)
def test_invalid_parameters_are_refused_without_showing_values(written: str, said: str) -> None:
    with pytest.raises(Refused, match=said.replace("?", r"\?")) as refused:
        read(written, KNOWN)
    assert "sk-secret" not in str(refused.value)


def test_the_model_of_a_file_replaces_an_earlier_one_as_a_whole(tmp_path: Path) -> None:
    known = {**KNOWN, "LlmModel": {}, "LlmFoundationModel": {}}
    file = tmp_path / "model.env"
    file.write_text("LLM_PROVIDER=openai\nLLM_BASE_URL=https://host/v1\nLLM_MODEL=m\nMAX_STEPS=3\n")
    file.chmod(0o600)
    model = {"LlmProvider": "openai", "LlmBaseUrl": "https://host/v1", "LlmModel": "m", "LlmApiKey": ""}
    assert of_model(str(file), known) == {**model, "LlmFoundationModel": ""}
    assert of_model("", known) == {}
    capabilities = '{"m": {"strategy": "calls"}}'
    file.write_text(f"LLM_BASE_URL=https://host/v1\nLLM_MODEL=m\nLLM_CAPABILITIES='{capabilities}'\n")
    assert of_model(str(file), {**known, "LlmCapabilities": {}})["LlmCapabilities"] == capabilities
    file.write_text("LLM_BASE_URL=http://localhost:11434/v1\nLLM_MODEL=m\n")
    with pytest.raises(Refused, match="a stack cannot reach"):
        of_model(str(file), known)
    for wrong in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(Refused, match=r"no model|not a file"):
            of_model(str(wrong), known)


def test_parameters_reach_sam_in_a_private_file() -> None:
    with as_arguments({"LlmApiKey": "sk-secret"}) as arguments:
        assert "sk-secret" not in " ".join(arguments)
        path = Path(arguments[1].removeprefix("file://"))
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert "sk-secret" in path.read_text()
    assert not path.exists()
    with as_arguments({}) as arguments:
        assert arguments == []


# -- CloudFormation's own checks -------------------------------------------------------------------------------------


def test_the_template_allows_all_providers_and_agents() -> None:
    assert sorted(template["Parameters"]["LlmProvider"]["AllowedValues"]) == sorted(PROFILES), "see template.yaml"
    assert sorted(template["Parameters"]["DefaultAgent"]["AllowedValues"]) == sorted(["auto", *agents()])


@pytest.mark.parametrize(
    "wrong",
    sampled(
        [
            {"LlmProvider": "opneai"},
            {"DefaultAgent": "archtect"},
            {"JwksUrl": "https://login.example.com/keys"},
            {"WebSocketDomain": "ws.example.com"},
            {"RestDomain": "https://api.example.com"},
            {"WebSocketDomain": "one.example.com", "RestDomain": "one.example.com", "CertificateArn": CERTIFICATE},
            {"CertificateArn": "arn:aws:iam::123456789012:server-certificate/x"},
            {"WarmWriteUnits": "5000"},
            {"WarmReadUnits": "20000"},
            {"EdgeDomain": "one.example.com", "EdgeCertificateArn": AT_THE_EDGE},
            {"EdgeDomain": "one.example.com", "Edge": "true"},
            {"EdgeCertificateArn": CERTIFICATE},
            {"EdgeWebAclArn": "arn:aws:wafv2:eu-central-1:123456789012:regional/webacl/ours/1"},
            {"EdgeWebAclArn": "arn:aws:wafv2:us-east-1:123456789012:global/webacl/ours/1"},
            {"RestDomain": "api.example.com", "CertificateArn": CERTIFICATE, "Edge": "true"},
        ]
    ),
    ids=[
        "a provider that there is not",
        "an agent that there is not",
        "keys of a provider without its issuer",
        "a domain without a certificate",
        "an address for a domain",
        "one domain for both APIs",
        "no certificate of ACM",
        "a table that is warm for writes only",
        "a table that is warm for reads only",
        "a name of an edge that is not there",
        "an edge's name without a certificate",
        "an edge's certificate of another region",
        "a firewall of another kind",
        "a firewall without an edge",
        "another name beside the edge's",
    ],
)
def test_a_deployment_with_invalid_parameters_is_refused(aws: EmulatedAws, wrong: dict[str, str]) -> None:
    with pytest.raises(ClientError) as refused:
        _change_set(aws, wrong)
    assert next(iter(wrong)) in str(refused.value)


def test_a_providers_keys_with_its_issuer_are_deployed(aws: EmulatedAws) -> None:
    assert _change_set(aws, {"JwksUrl": "https://login.example.com/keys", "JwtIssuer": "https://login.example.com/"})


def test_a_domain_of_ones_own_leads_to_its_api(aws: EmulatedAws) -> None:
    """Two stages beside each other: one with names for both APIs, one with a name for one of them."""
    aws.create("own", WebSocketDomain="ws.example.com", RestDomain="api.example.com", CertificateArn=CERTIFICATE)
    aws.create("half", RestDomain="api.half.example.com", CertificateArn=CERTIFICATE)
    own, half = (Stack(name, aws.environment).deployed() for name in ("own", "half"))
    found, apis = outputs(own), aws.client("apigatewayv2")
    assert (found["WebSocketUrl"], found["RestUrl"]) == ("wss://ws.example.com", "https://api.example.com")
    assert outputs(half)["WebSocketUrl"].endswith("/v1")
    assert "WebSocketDomainTarget" not in outputs(half)
    kinds = {}
    for name in ("ws.example.com", "api.example.com", "api.half.example.com"):
        (configured,) = apis.get_domain_name(DomainName=name)["DomainNameConfigurations"]
        assert (configured["CertificateArn"], configured["SecurityPolicy"]) == (CERTIFICATE, "TLS_1_2")
        (mapping,) = apis.get_api_mappings(DomainName=name)["Items"]
        assert not mapping.get("ApiMappingKey"), "the stage is not a part of the address"
        kinds[name] = apis.get_api(ApiId=mapping["ApiId"])["Name"], mapping["Stage"]
    assert kinds == {
        "ws.example.com": ("own-websocket", "v1"),
        "api.example.com": ("own-http", "$default"),
        "api.half.example.com": ("half-http", "$default"),
    }
    # Posts go to the API itself, so they do not depend on the domain.
    posts = aws.function("own-llm-request")["Environment"]["Variables"]["CONNECTIONS_URL"]
    assert ".execute-api." in posts
    said = summary(Stack("own", aws.environment), own)
    for name, target in (("ws.example.com", "WebSocketDomainTarget"), ("api.example.com", "RestDomainTarget")):
        assert f"{name} must be a CNAME (or alias) of {found[target]}" in said


def _change_set(aws: EmulatedAws, parameters: dict[str, str]) -> Any:
    stack = aws.stack_of(f"mistake-{time.time_ns()}", parameters)
    return aws.client("cloudformation").create_change_set(ChangeSetName="first", ChangeSetType="CREATE", **stack)


@pytest.mark.parametrize("foundation", ["", "vendor.model-1:0"])
def test_the_role_may_call_the_models_of_an_inference_profile(aws: EmulatedAws, foundation: str) -> None:
    name = f"profile-{'with' if foundation else 'without'}"
    aws.create(name, LlmModel="eu.vendor.model-1:0", LlmFoundationModel=foundation)
    role = aws.function(f"{name}-llm-request")["Role"].rpartition("/")[2]
    iam = aws.client("iam")
    names = iam.list_role_policies(RoleName=role)["PolicyNames"]
    resources = json.dumps([iam.get_role_policy(RoleName=role, PolicyName=one)["PolicyDocument"] for one in names])
    assert f"foundation-model/{foundation or 'eu.vendor.model-1:0'}" in resources
    assert "inference-profile/eu.vendor.model-1:0" in resources


def test_the_role_may_call_the_one_profile_that_an_arn_names(aws: EmulatedAws) -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1"
    for models, resource in (("", ":*inference-profile/a1"), ("other", ":*inference-profile/*")):
        name = f"arn-{'with' if models else 'without'}-others"
        aws.create(name, LlmModel=arn, LlmFoundationModel="anthropic.claude-x", LlmModels=models)
        role = aws.function(f"{name}-llm-request")["Role"].rpartition("/")[2]
        iam = aws.client("iam")
        names = iam.list_role_policies(RoleName=role)["PolicyNames"]
        policies = json.dumps([iam.get_role_policy(RoleName=role, PolicyName=it)["PolicyDocument"] for it in names])
        assert resource in policies
        assert ("inference-profile/*" in policies) == bool(models)


# -- the preflight ---------------------------------------------------------------------------------------------------


def findings(stack: Stack, python: str = "/usr/bin", **given: str) -> list[Finding]:
    return list(check(stack, template, given, python))


def the_finding(stack: Stack, said: str, *, stops: bool = True, **given: str) -> Finding:
    """The only finding, which must say so and stop the deployment or not."""
    (one,) = findings(stack, **given)
    assert (said in one.message, one.stops) == (True, stops), one
    return one


def test_a_complete_account_has_no_findings(stack: Stack) -> None:
    assert findings(stack) == []


def test_all_missing_prerequisites_are_named_at_once(aws: EmulatedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere/at/all")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    found = findings(Stack("9"), python="")
    assert [next(word for word in WORDS if word in one.message) for one in found] == list(WORDS)
    err = io.StringIO()
    with pytest.raises(Refused, match="nothing was built: fix these 4 problems first"):
        report(found, err)
    assert [line.partition(": ")[0] for line in err.getvalue().splitlines()] == ["deploy"] * 4


WORDS = ("STACK=9", "pyenv install 3.13", "export AWS_REGION=", "aws sso login")


def test_rejected_credentials_are_named(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        error = {"Error": {"Code": "ExpiredToken", "Message": "the token is expired"}}
        raise ClientError(error, "GetCallerIdentity")  # type: ignore[arg-type]

    _answer_with(monkeypatch, stack, sts=SimpleNamespace(get_caller_identity=refused))
    assert "the token is expired" in findings(stack)[0].message


def limit_concurrency(stack: Stack, monkeypatch: pytest.MonkeyPatch, limit: int, unreserved: int | None = None) -> None:
    account = {"ConcurrentExecutions": limit, "UnreservedConcurrentExecutions": unreserved or limit}
    answer = {"AccountLimit": account}
    layer = Mock(return_value={})
    lambdas = SimpleNamespace(get_account_settings=lambda: answer, get_layer_version_by_arn=layer)
    _answer_with(monkeypatch, stack, **{"lambda": lambdas})


def test_low_concurrency_is_only_a_warning(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_concurrency(stack, monkeypatch, 10)
    one = the_finding(stack, "at most 10 concurrent Lambda executions", stops=False)
    assert "L-B99A9384" in one.message
    report([one], io.StringIO())


def test_impossible_reservations_are_named(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_concurrency(stack, monkeypatch, 1000)
    assert findings(stack, OneReservedConcurrency="500", OtherReservedConcurrency="400") == []
    said = "901 concurrent executions cannot be reserved: this account has 1000"
    the_finding(stack, said, OneReservedConcurrency="500", OtherReservedConcurrency="401")


def test_what_others_reserve_cannot_be_reserved_again(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_concurrency(stack, monkeypatch, 1000, unreserved=400)
    assert findings(stack, OneReservedConcurrency="300") == []
    the_finding(stack, "Reserve at most 300", OneReservedConcurrency="301")


def test_streams_without_a_reservation_are_a_warning(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_concurrency(stack, monkeypatch, 1000, unreserved=400)
    one = the_finding(stack, "RestStreaming=true without a reservation", stops=False, RestStreaming="true")
    assert "It can reserve 300 more" in one.message
    one = the_finding(stack, "can reserve 250 more", stops=False, RestStreaming="true", RestReservedConcurrency="50")
    assert "StreamReservedConcurrency=…" in one.message
    assert findings(stack, RestStreaming="true", StreamReservedConcurrency="50") == []
    limit_concurrency(stack, monkeypatch, 100)
    the_finding(stack, "can reserve 0 more", stops=False, RestStreaming="true")


def test_a_region_without_the_layer_of_streams_is_a_warning(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_concurrency(stack, monkeypatch, 1000)
    layer = stack.client("lambda").get_layer_version_by_arn
    layer.side_effect = ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "GetLayerVersionByArn")
    given = {"RestStreaming": "true", "StreamReservedConcurrency": "50"}
    one = the_finding(stack, "fails if us-east-1 does not have it", stops=False, **given)
    (call,) = layer.call_args_list
    assert re.fullmatch(r"arn:aws:lambda:us-east-1:\d+:layer:LambdaAdapterLayerArm64:\d+", call.kwargs["Arn"])
    assert call.kwargs["Arn"] in one.message
    assert findings(stack, RestStreaming="false") == []


def test_the_check_covers_every_reservation_parameter() -> None:
    given = [one for one in template["Conditions"] if one.startswith("ReservesFor")]
    reserving = [
        one["Properties"]["ReservedConcurrentExecutions"]["Fn::If"]
        for one in template["Resources"].values()
        if "ReservedConcurrentExecutions" in one.get("Properties", {})
    ]
    assert sorted(condition for condition, *_ in reserving) == sorted(given)
    reserved = {chosen["Ref"] for _, chosen, _ in reserving}
    assert reserved == {"LlmReservedConcurrency", "StreamReservedConcurrency", "RestReservedConcurrency"}


@pytest.mark.parametrize(
    ("answer", "said", "stops"),
    [
        (None, "Bedrock has no model openai.gpt-oss-120b-1:0 in us-east-1", True),
        ({**AVAILABLE, "regionAvailability": "NOT_AVAILABLE"}, "does not offer", True),
        ({**AVAILABLE, "authorizationStatus": "NOT_AUTHORIZED"}, "model-catalog", True),
        ({**AVAILABLE, "entitlementAvailability": "NOT_AVAILABLE"}, "no access", True),
        ({**AVAILABLE, "agreementAvailability": {"status": "NOT_AVAILABLE"}}, "terms", False),
    ],
)
def test_unusable_models_are_named(stack: Stack, aws: EmulatedAws, answer: Any, said: str, stops: bool) -> None:
    aws.models = {MODEL: answer}
    the_finding(stack, said, stops=stops, LlmModel=MODEL)


def test_inference_profiles_are_checked_as_such(stack: Stack, aws: EmulatedAws) -> None:
    aws.models["eu.vendor.model-1:0"] = {"status": "ACTIVE"}
    assert findings(stack, LlmModel="eu.vendor.model-1:0", LlmModels="other") == []
    the_finding(stack, "us.vendor.model", LlmModel="us.vendor.model-1:0", LlmModels="other")


@pytest.mark.parametrize("provider", ["bedrock", "bedrock-converse"])
def test_names_of_which_no_permission_follows_are_refused(stack: Stack, aws: EmulatedAws, provider: str) -> None:
    aws.models |= {"us.anthropic.claude-x": {"status": "ACTIVE"}, "anthropic.claude-x": AVAILABLE}
    given = {"LlmProvider": provider, "LlmModel": "us.anthropic.claude-x"}
    the_finding(stack, "add LlmFoundationModel=anthropic.claude-x", **given)
    assert findings(stack, **given, LlmFoundationModel="anthropic.claude-x") == []
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1"
    system_arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x"
    aws.models |= {arn: {"status": "ACTIVE"}, system_arn: {"status": "ACTIVE"}}
    the_finding(stack, "add LlmFoundationModel=…", **{**given, "LlmModel": arn})
    assert findings(stack, **{**given, "LlmModel": arn}, LlmFoundationModel="anthropic.claude-x") == []
    the_finding(stack, "add LlmFoundationModel=anthropic.claude-x", **{**given, "LlmModel": system_arn})
    model_arn = "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-x"
    assert findings(stack, **{**given, "LlmModel": model_arn}) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"LlmBaseUrl": "https://llm.example.com/v1"}, "would send the role's token"),
        ({"LlmBaseUrl": "https://bedrock-mantle.us-east-1.api.aws/v1"}, "the role has no permission"),
        ({"LlmProvider": "ollama-chat", "LlmModel": "m"}, "LlmProvider=ollama-chat has no address: set LlmBaseUrl"),
        (
            {"LlmProvider": "anthropic-messages", "LlmModel": "m", "LlmClient": "openai"},
            "does not speak the API of LlmProvider=anthropic-messages with LlmModel=m: set LlmClient=direct",
        ),
        (
            {"LlmModel": "anthropic.claude-x", "LlmClient": "openai", "LlmBaseUrl": "https://x.amazonaws.com"},
            "does not speak the API of LlmProvider=bedrock with LlmModel=anthropic.claude-x: set LlmClient=direct",
        ),
        ({"PlanLimits": '{"team":{"openturns":5}}'}, "PlanLimits"),
        ({"LlmPrices": '{"m":{"prompt":"much"}}'}, "LlmPrices"),
        ({"ToolTimeoutS": "0.5"}, "ToolTimeoutS: TOOL_TIMEOUT_S=0.5: must be a whole number"),
    ],
)
def test_values_that_break_functions_or_leak_tokens_are_named(stack: Stack, given: dict[str, str], said: str) -> None:
    the_finding(stack, said, **given)


@pytest.mark.parametrize("days", ["0.5", "7.5", "1e1", "3651", "-1"])
def test_days_that_keep_the_sweep_from_starting_are_refused(stack: Stack, days: str) -> None:
    stopping = [found.message for found in findings(stack, SessionRetentionDays=days) if found.stops]
    assert [message.partition("=")[0] for message in stopping] == ["SessionRetentionDays: SESSION_RETENTION_DAYS"]
    assert not re.fullmatch(template["Parameters"]["SessionRetentionDays"]["AllowedPattern"], days)


def test_the_template_takes_all_days_that_the_sweep_takes() -> None:
    pattern = re.compile(template["Parameters"]["SessionRetentionDays"]["AllowedPattern"])
    assert [days for days in range(5_000) if pattern.fullmatch(str(days))] == list(range(3_651))


def test_an_environment_that_lambda_would_refuse_is_named(stack: Stack) -> None:
    written = {"LlmPrices": PRICES, "LlmCapabilities": CAPABILITIES, "PlanLimits": PLANS}
    given = {name: json.dumps(value) for name, value in written.items()}
    one = the_finding(stack, "LlmRequestFunction would have about", **given)
    assert one.message.endswith(
        "set LargeSettings=true, which keeps LlmPrices, LlmCapabilities and PlanLimits in Secrets Manager"
    )
    assert findings(stack, **given, LargeSettings="true") == []
    assert findings(stack, **{**given, "LlmPrices": ""}) == []
    models = {"LlmModels": ",".join(f"{model}-{n}" for model in MODELS for n in range(5))}
    still = the_finding(stack, "RestApiFunction would have about", **given, **models, LargeSettings="true")
    assert f"shorten the longest parameters, LlmModels ({len(models['LlmModels']):,}), " in still.message
    assert "LlmPrices" not in still.message


def test_other_providers_models_are_not_looked_up_in_bedrock(stack: Stack) -> None:
    assert findings(stack, LlmProvider="openai", LlmModel="gpt-4.1-mini", LlmApiKey="sk") == []
    assert findings(stack, LlmProvider="anthropic-messages", LlmModel="claude-sonnet-5", LlmApiKey="sk") == []
    fips = "https://bedrock-runtime-fips.us-east-1.amazonaws.com/openai/v1"
    assert findings(stack, LlmBaseUrl=fips, LlmModel="vendor.model-of-that-endpoint") == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("UPDATE_IN_PROGRESS", "wait until that ends"),
        ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback"),
        ("DELETE_FAILED", "make destroy"),
    ],
)
def test_stacks_that_cannot_be_updated_are_named(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, status: str, said: str
) -> None:
    monkeypatch.setattr(stack, "describe", lambda: {"StackStatus": status})
    the_finding(stack, said)


def test_a_deployment_that_erases_sessions_says_so(stack: Stack) -> None:
    the_finding(stack, "sessions without a message for 9 days will be erased", stops=False, SessionRetentionDays="9")
    assert findings(stack, SessionRetentionDays="0") == []


@pytest.mark.parametrize("role", ["", "arn:aws:iam::123456789012:role/apigateway-logs"])
def test_access_logs_need_a_role_of_the_account(stack: Stack, monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    account = SimpleNamespace(get_account=lambda: {"cloudwatchRoleArn": role} if role else {})
    _answer_with(monkeypatch, stack, apigateway=account)
    if role:
        assert findings(stack, AccessLogs="true") == []
    else:
        the_finding(stack, "API Gateway has no role to write logs in us-east-1", AccessLogs="true")


@pytest.mark.deep
def test_log_groups_of_an_earlier_stack_are_named(aws: EmulatedAws) -> None:
    aws.client("logs").create_log_group(logGroupName="/aws/lambda/left-connect")
    aws.client("logs").create_log_group(logGroupName="/aws/lambda/left-behind-connect")
    one = the_finding(Stack("left"), "1 log groups (/aws/lambda/left-connect")
    assert "make destroy STACK=left" in one.message
    destroyed("left")
    assert findings(Stack("left")) == []


def test_a_deployment_that_changes_the_addresses_says_so(stack: Stack) -> None:
    the_finding(stack, "clients that use the present ones are refused", stops=False, Edge="true")
    assert findings(stack, Edge="false") == []
    assert findings(Stack("unborn"), Edge="true") == []


def test_a_version_of_an_earlier_edges_secret_is_refused(stack: Stack) -> None:
    for new in (Stack("unborn"), stack):
        named = [one for one in findings(new, Edge="true", EdgeSecretVersion="abc") if "earlier edge" in one.message]
        assert [(one.stops, "add EdgeSecretVersion=" in one.message) for one in named] == [(True, True)]
    assert findings(stack, Edge="false", EdgeSecretVersion="abc") == []


def test_a_secret_gets_no_new_value_without_an_edge_or_during_an_update(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match="has no edge"):
        rotate(stack, io.StringIO())
    edge = {"OutputKey": "EdgeSecretArn", "OutputValue": "arn"}
    monkeypatch.setattr(stack, "deployed", lambda: {"StackStatus": "UPDATE_IN_PROGRESS", "Outputs": [edge]})
    with pytest.raises(Refused, match="wait until that ends"):
        rotate(stack, io.StringIO())


def test_streams_at_a_function_url_go_around_the_edge(aws: EmulatedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"Edge": "true", "RestStreaming": "true", "StreamReservedConcurrency": "50"}
    unborn = Stack("unborn")
    limit_concurrency(unborn, monkeypatch, 1000)
    (one,) = findings(unborn, **given)
    assert ("does not cover the function URL" in one.message, one.stops) == (True, False)


def _answer_with(monkeypatch: pytest.MonkeyPatch, stack: Stack, **clients: Any) -> None:
    real = stack.client
    monkeypatch.setattr(stack, "client", lambda service: clients.get(service) or real(service))


# -- after the deployment --------------------------------------------------------------------------------------------


def test_a_deployment_ends_with_addresses_and_next_steps(stack: Stack) -> None:
    described = stack.deployed()
    said = summary(stack, described)
    websocket, rest = outputs(described)["WebSocketUrl"], outputs(described)["RestUrl"]
    for told in (f"{websocket}?session_id=my_session", f"{rest}/api/v1", "make smoke", "$(make token USER=alice)"):
        assert told in said


def test_the_table_and_its_indexes_are_warm_only_if_it_is_said() -> None:
    table = template["Resources"]["Table"]["Properties"]
    units = {"WriteUnitsPerSecond": {"Ref": "WarmWriteUnits"}, "ReadUnitsPerSecond": {"Ref": "WarmReadUnits"}}
    for part in (table, *table["GlobalSecondaryIndexes"]):
        assert decided(part, "IsWarm", holds=True)["WarmThroughput"] == units
        assert "WarmThroughput" not in decided(part, "IsWarm", holds=False)


def test_the_next_deployment_removes_a_failed_creation(aws: EmulatedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    client = aws.client("cloudformation")
    never = {"Handle": {"Ref": "Handle"}, "Timeout": "1"}
    bad = {
        "Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        "Signal": {"Type": "AWS::CloudFormation::WaitCondition", "Properties": never},
    }
    client.create_stack(StackName="failed", TemplateBody=json.dumps({"Resources": bad}))
    stack = Stack("failed")
    until(lambda: stack.describe()["StackStatus"] == "ROLLBACK_COMPLETE")
    clear_failed_creation(stack, io.StringIO())
    assert stack.describe() is None
    _only_the_table(client, "half")
    monkeypatch.setattr(half := Stack("half"), "describe", _failed_to_roll_back(half))
    clear_failed_creation(half, io.StringIO())
    assert _tables(aws, "half") == []
    untouched = Stack("codelab")
    clear_failed_creation(untouched, io.StringIO())
    assert untouched.describe() is not None


def test_a_table_with_data_is_not_taken_for_what_a_failed_creation_has_left(
    aws: EmulatedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only_the_table(aws.client("cloudformation"), "used")
    (table,) = _tables(aws, "used")
    aws.client("dynamodb").put_item(TableName=table, Item={"pk": {"S": "SESSION#ann#s1"}, "sk": {"S": "REGISTER"}})
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="used-payloads")
    s3.put_object(Bucket="used-payloads", Key="items/1", Body=b"something")
    kept = [Kept("AWS::S3::Bucket", "used-payloads"), Kept("AWS::DynamoDB::Table", table)]
    monkeypatch.setattr("infra.stack.destroy._data_of", lambda *_: iter(kept))
    monkeypatch.setattr(used := Stack("used"), "describe", _failed_to_roll_back(used))
    with pytest.raises(Refused, match="make destroy STACK=used"):
        clear_failed_creation(used, io.StringIO())
    assert _tables(aws, "used") == [table]
    assert s3.list_objects_v2(Bucket="used-payloads")["KeyCount"] == 1, "nothing of it is deleted"


def _only_the_table(client: Any, name: str) -> None:
    """A stack of the table alone: CloudFormation has deleted all else."""
    table = {"Resources": {"Table": template["Resources"]["Table"]}}
    with contextlib.suppress(
        client.exceptions.AlreadyExistsException
    ):  # the SDK repeats a request whose answer is lost
        client.create_stack(StackName=name, TemplateBody=json.dumps(table))
    client.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})


def _failed_to_roll_back(stack: Stack) -> Callable[[], dict[str, Any] | None]:
    real = stack.describe

    def describe() -> dict[str, Any] | None:
        described = real()
        return described and {**described, "StackStatus": "ROLLBACK_FAILED"}

    return describe


def _tables(aws: EmulatedAws, name: str) -> list[str]:
    return [table for table in aws.client("dynamodb").list_tables()["TableNames"] if table.startswith(f"{name}-")]


def test_an_update_keeps_the_table_and_protects_one_that_was_not(aws: EmulatedAws) -> None:
    aws.create("older")
    name, dynamodb = outputs(Stack("older").deployed())["TableName"], aws.client("dynamodb")
    dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)  # as before it was in the template
    item = {"pk": {"S": "SESSION#ann#s1"}, "sk": {"S": "REGISTER"}}
    dynamodb.put_item(TableName=name, Item=item)
    aws.update("older", MaxSteps="7")
    assert outputs(Stack("older").deployed())["TableName"] == name
    assert dynamodb.get_item(TableName=name, Key=item)["Item"] == item


def test_a_protected_table_cannot_be_deleted_by_mistake(stack: Stack, aws: EmulatedAws) -> None:
    name, dynamodb = outputs(stack.deployed())["TableName"], aws.client("dynamodb")
    assert dynamodb.describe_table(TableName=name)["Table"]["DeletionProtectionEnabled"]
    with pytest.raises(ClientError, match="protected against deletion"):
        dynamodb.delete_table(TableName=name)


# -- make token ------------------------------------------------------------------------------------------------------


def test_a_token_is_accepted_by_the_deployed_authorizer(stack: Stack, aws: EmulatedAws) -> None:
    now = time.time()
    token = mint(stack, "alice", 8, now)
    answer, forged, expired = authorize(aws, "codelab", token, token[:-4] + "AAAA", mint(stack, "alice", 1, now - 7200))
    assert answer["context"]["user"] == "alice"
    assert answer["policyDocument"]["Statement"][0]["Effect"] == "Allow"
    assert forged == expired == "Unauthorized"


def test_make_connect_starts_the_client_with_the_stacks_addresses_and_a_token(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *given: started.append(given))
    main(
        "connect", {**os.environ, "STACK": stack.name, "USER": "alice", "WORKSPACE": "/work"}
    )  # os.execve would not come back
    ((program, arguments, environment),) = started
    assert Path(program).is_file()
    assert arguments == [str(program), "--workspace", "/work"]
    found = outputs(stack.deployed())
    assert (environment["CODELAB_URL"], environment["CODELAB_REST_URL"]) == (found["WebSocketUrl"], found["RestUrl"])
    assert jwt.decode(environment["CODELAB_TOKEN"], options={"verify_signature": False})["sub"] == "alice"


def test_a_token_may_name_a_plan(stack: Stack) -> None:
    made = mint(stack, "alice", 1, time.time(), "team")
    assert jwt.decode(made, options={"verify_signature": False})["codelab_plan"] == "team"


def test_a_token_has_the_stacks_issuer_and_audience(aws: EmulatedAws) -> None:
    aws.create("claims", JwtIssuer="https://us.example.com", JwtAudience="ide")
    token = mint(Stack("claims"), "alice", 2, 1_000_000)
    names, times = {"iss": "https://us.example.com", "aud": "ide"}, {"iat": 1_000_000, "exp": 1_007_200}
    assert jwt.decode(token, options={"verify_signature": False}) == {"sub": "alice", **names, **times}
    (answer,) = authorize(aws, "claims", mint(Stack("claims"), "alice", 2, time.time()))
    assert answer["context"]["user"] == "alice"


def authorize(aws: EmulatedAws, name: str, *tokens: str) -> list[Any]:
    """The answers of the stack's `authorize` (its code, environment and secret) to a `$connect` with each token."""
    deployed = aws.function(f"{name}-authorize")["Environment"]["Variables"]
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "layers/codelab")}
    environment = {**own, **deployed, **aws.environment}
    ran = run(sys.executable, "-c", _AUTHORIZE, *tokens, cwd=ROOT / "functions/authorize", env=environment)
    assert ran.returncode == 0, ran.stderr
    answers: list[Any] = json.loads(ran.stdout.splitlines()[-1])
    return answers


_AUTHORIZE = """
import json, sys, types, handler
context = types.SimpleNamespace(aws_request_id="1")
def answer(token):
    event = {
        "headers": {"Authorization": "Bearer " + token},
        "queryStringParameters": {"session_id": "my_session"},
        "methodArn": "arn:aws:execute-api:us-east-1:000000000000:api/v1/$connect",
    }
    try:
        return handler.handler(event, context)
    except Exception as refused:
        return str(refused)
print(json.dumps([answer(token) for token in sys.argv[1:]]))
"""


def test_tokens_that_would_be_refused_are_not_made(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match=r"HOURS=24\.5 is over the maximum of 24 hours"):
        mint(stack, "alice", 24.5, time.time())
    with pytest.raises(Refused, match="USER=a#b"):
        mint(stack, "a#b", 1, time.time())
    with pytest.raises(Refused, match="HOURS=soon"):
        hours_of("soon")
    described = stack.deployed()
    monkeypatch.setattr(stack, "deployed", lambda: described)
    for name, value, said in (
        ("JwksUrl", "https://login.example.com/keys", r"login\.example\.com"),
        ("JwtMaxAgeS", "3600", "maximum of 1 hours"),
    ):
        described["Parameters"] = [{"ParameterKey": name, "ParameterValue": value}]
        with pytest.raises(Refused, match=said):
            mint(stack, "alice", 2, time.time())


def test_a_missing_stack_is_reported_with_the_deploy_command(aws: EmulatedAws) -> None:
    with pytest.raises(Refused, match="no stack other in us-east-1: deploy it with make deploy STACK=other"):
        mint(Stack("other"), "alice", 1, time.time())


# -- make revoke -----------------------------------------------------------------------------------------------------


def revoked(stack: Stack, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], **failed: str) -> tuple[str, Any]:
    """Revoke alice with a sweep function that answers so. Returns the output and the function's invocation."""
    invoke = Mock(return_value={"Payload": io.BytesIO(json.dumps(answer).encode()), **failed})
    monkeypatch.setattr(stack, "deployed", dict)
    monkeypatch.setattr(stack.session, "client", lambda *_, **__: SimpleNamespace(invoke=invoke))
    out = io.StringIO()
    revoke(stack, "alice", out)
    return out.getvalue(), invoke.call_args.kwargs


def test_the_sweep_function_revokes_a_user(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"revoked_at": 1_700_000_000, "sessions": 3, "connections": 2, "complete": True}
    said, invocation = revoked(stack, monkeypatch, answer)
    assert said == "revoked alice: closed 2 connections in 3 sessions\n"
    assert invocation["FunctionName"] == "codelab-sweep"
    assert json.loads(invocation["Payload"]) == {"kind": "revoke", "user": "alice"}


def test_an_incomplete_revocation_is_reported(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"revoked_at": 1, "sessions": 9_000, "connections": 2, "complete": False}
    assert "the sweep continues" in revoked(stack, monkeypatch, answer)[0]


def test_a_failed_revocation_is_reported_with_its_reason(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="Task timed out"):
        revoked(stack, monkeypatch, {"errorMessage": "Task timed out"}, FunctionError="Unhandled")


@pytest.mark.parametrize("user", ["", "a#b", "a" * 129])
def test_invalid_user_names_are_refused(stack: Stack, user: str) -> None:
    with pytest.raises(Refused, match="USER="):
        revoke(stack, user, io.StringIO())


# -- make export and make restore ------------------------------------------------------------------------------------


def test_sessions_move_from_a_stack_that_is_gone_to_another(
    aws: EmulatedAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests/functions/test_export.py has what is in the file."""
    aws.create("gone")
    found = outputs(Stack("gone").deployed())
    key = {"pk": {"S": "SESSION#ann#s1"}, "sk": {"S": "REGISTER"}}
    register = {**key, "owner": {"S": "ann"}, "session_id": {"S": "s1"}, "version": {"N": "3"}}
    register |= {"agent": {"S": "coder"}, "created_at": {"N": "1"}, "last_activity": {"N": "2"}}
    aws.client("dynamodb").put_item(TableName=found["TableName"], Item=register)
    destroyed("gone", keep_data=True)
    of_gone = {"TABLE": found["TableName"], "BUCKET": found["PayloadBucketName"]}
    named = {"FILE": "all.ndjson", "PWD": str(tmp_path), "AWS_REGION": "us-east-1"}
    assert main("export", {**named, **of_gone, "STACK": "gone"}) == 0
    assert main("export", {**named, **of_gone, "STACK": "gone"}) == 1
    assert "exists: remove it" in capsys.readouterr().err
    assert main("restore", {**named, "STACK": "codelab", "EXISTING": "overwrite"}) == 1
    assert "must be skip or replace" in capsys.readouterr().err
    assert main("restore", {**named, "STACK": "codelab"}) == 0
    table = outputs(Stack("codelab").deployed())["TableName"]
    assert aws.client("dynamodb").get_item(TableName=table, Key=key)["Item"]["agent"] == {"S": "coder"}
    assert main("restore", {**named, "STACK": "codelab"}) == 1
    assert "nothing was restored: 1 exist" in capsys.readouterr().err
    destroyed("gone")


def test_make_export_without_a_user_means_all_whoever_types_it(tmp_path: Path) -> None:
    """The shell's USER is not one of the stack's."""
    made = _make("export", f"FILE={tmp_path}/all.ndjson", "--dry-run", USER="somebody")
    assert "env -u USER" in made.stdout
    assert "env -u USER" not in _make("export", "FILE=x", "USER=alice", "--dry-run").stdout
    assert "name the file" in _make("export").stderr


# -- make destroy ----------------------------------------------------------------------------------------------------


def _fill(aws: EmulatedAws, name: str) -> dict[str, str]:
    found = outputs(Stack(name).deployed())
    s3 = aws.client("s3")
    for key in ("items/1", "tickets/2"):
        s3.put_object(Bucket=found["PayloadBucketName"], Key=key, Body=b"something")
    return found


def _data(aws: EmulatedAws, found: dict[str, str]) -> tuple[bool, bool]:
    tables = aws.client("dynamodb").list_tables()["TableNames"]
    buckets = [one["Name"] for one in aws.client("s3").list_buckets()["Buckets"]]
    return found["TableName"] in tables, found["PayloadBucketName"] in buckets


def destroyed(name: str, *, keep_data: bool = False) -> str:
    """Destroy a stack without asking. Returns the output."""
    out = io.StringIO()
    destroy(Stack(name), template, None, keep_data=keep_data, out=out)
    return out.getvalue()


def test_nothing_is_deleted_without_the_stacks_name(aws: EmulatedAws) -> None:
    aws.create("mine")
    found = _fill(aws, "mine")
    out, ask = io.StringIO(), Mock(return_value="yes")
    with pytest.raises(Refused, match="nothing was deleted"):
        destroy(Stack("mine"), template, ask, keep_data=False, out=out)
    assert "Type mine" in ask.call_args.args[0]
    assert found["TableName"] in out.getvalue()
    assert found["PayloadBucketName"] in out.getvalue()
    assert Stack("mine").describe() is not None
    destroy(Stack("mine"), template, lambda _: "mine", keep_data=False, out=out)
    assert Stack("mine").describe() is None
    assert _data(aws, found) == (False, False)


@pytest.mark.deep
def test_data_can_be_kept_and_is_found_again(aws: EmulatedAws) -> None:
    aws.create("kept")
    found = _fill(aws, "kept")
    said = destroyed("kept", keep_data=True)
    assert Stack("kept").describe() is None
    assert _data(aws, found) == (True, True)
    assert f"aws dynamodb update-table --table-name {found['TableName']} --no-deletion-protection-enabled" in said
    assert f"aws dynamodb delete-table --table-name {found['TableName']}" in said
    assert "kept is deleted, except for its data." in said
    destroyed("kept")
    assert _data(aws, found) == (False, False)
    assert "No stack kept" in destroyed("kept")


# -- the cost of an idle stack ---------------------------------------------------------------------------------------


def test_an_idle_stack_costs_little_more_than_one_secret(stack: Stack) -> None:
    pages = stack.cloudformation.get_paginator("list_stack_resources").paginate(StackName="codelab")
    kinds = [one["ResourceType"] for page in pages for one in page["StackResourceSummaries"]]
    assert kinds.count("AWS::SecretsManager::Secret") == 1
    # Other resource types may cost money per hour or month.
    assert set(kinds) <= FREE_WHILE_IDLE | {"AWS::SecretsManager::Secret"}
    assert "SSESpecification" not in template["Resources"]["Table"]["Properties"], "AWS charges for its managed key"
    translated = translate(parse(TEMPLATE))["Resources"]
    (rule,) = (one["Properties"] for one in translated.values() if one["Type"] == "AWS::Events::Rule")
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert translated["SweepFunctionEventInvokeConfig"]["Properties"]["MaximumEventAgeInSeconds"] == 60


FREE_WHILE_IDLE = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Authorizer",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::DynamoDB::Table",
    "AWS::Events::Rule",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::Function",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Permission",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
}


# -- the developer's interface ---------------------------------------------------------------------------------------


def _make(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return run("make", "--no-print-directory", *arguments, cwd=ROOT, env={**os.environ, **environment})


def test_the_shells_user_is_not_revoked_by_mistake() -> None:
    """Every shell has a variable USER."""
    made = _make("--dry-run", "revoke", USER="root")
    assert made.returncode == 2
    assert "name the user" in made.stderr
    assert "infra.stack revoke" not in made.stdout


def test_the_help_fits_a_terminal_and_lists_the_targets() -> None:
    lines = _make("help").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert {"deploy", "token", "smoke", "destroy"} <= {line.split()[0] for line in lines}


def test_make_tells_uv_to_use_the_systems_certificates(tmp_path: Path) -> None:
    probe = tmp_path / "probe.mk"
    probe.write_text("probe:\n\t@echo $$UV_SYSTEM_CERTS\n")
    assert _make("-f", "Makefile", "-f", str(probe), "probe").stdout == "true\n"
    assert _make("-f", "Makefile", "-f", str(probe), "probe", UV_SYSTEM_CERTS="false").stdout == "false\n"


def test_the_command_that_make_run_prints_works(demo_cloud: LocalCloud, tmp_path: Path) -> None:
    ready, *greeting = demo_cloud._output.read_text().splitlines()
    (talk,) = (line for line in greeting if "codelab " in line)
    assert ready.startswith("ready ws://")
    program, *options = talk.partition("with: ")[2].partition("   (")[0].split()
    assert program == ".venv/bin/codelab"
    command = [Path(sys.executable).with_name("codelab"), *options, "exec", "Hello"]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "How can I help you?" in done.stdout) == (0, True), done.stderr
