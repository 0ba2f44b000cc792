"""Each house rule refuses the template that breaks it, and only that."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.lint import main, problems, problems_of_translation
from tests.cases import cases
from tests.infra.templates import Template, allow, good, policy, properties, rules_broken, spoiled, write

_ROOT = Path(__file__).resolve().parents[2]


def test_a_valid_template_breaks_no_rule() -> None:
    assert rules_broken(good()) == set()


@pytest.mark.deep  # `make lint` does the same with the real template
def test_a_valid_template_passes(tmp_path: Path) -> None:
    assert main([str(write(good(), tmp_path))]) == 0


def test_lint_reports_broken_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = spoiled(_grant("s3:GetObject", "*"))
    template["Parameters"] = {"Limit": {"Type": "Number", "Default": 5}}
    assert main([str(write(template, tmp_path))]) == 1
    printed = capsys.readouterr().err
    assert "E9004 s3:GetObject on *: name the resource" in printed
    assert "E9006" in printed


def _grant(action: str | list[str], resource: Any) -> Callable[[Template], None]:
    def spoil(template: Template) -> None:
        properties(template, "Front")["Policies"][0]["Statement"].append(allow(action, resource))

    return spoil


_API = "arn:aws:execute-api:us-east-1:111122223333"


@cases(
    "resource",
    [
        "*",
        ["*"],
        f"{_API}:*/v1/POST/@connections/*",
        f"{_API}:abc/*/POST/@connections/*",
        f"{_API}:abc/v1/*/@connections/*",
        f"{_API}:abc/*",
        {"Fn::Sub": "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/*"},
        {"Fn::If": ["Yes", f"{_API}:abc/v1/POST/@connections/*", f"{_API}:*/*/*/@connections/*"]},
    ],
    ids=str,
)
@cases("action", ["execute-api:ManageConnections", ["execute-api:*"]], ids=str)
def test_manage_connections_must_name_one_api(resource: Any, action: str) -> None:
    template = spoiled(_grant(action, resource))
    if isinstance(resource, dict) and "Fn::If" in resource:
        template["Conditions"] = {"Yes": {"Fn::Equals": [{"Ref": "AWS::Region"}, "us-east-1"]}}
    assert "E9001" in rules_broken(template)


@cases(
    ("action", "resource"),
    [
        ("s3:GetObject", "*"),
        (["s3:GetObject"], ["arn:aws:s3:::one/*", "*"]),
        ("dynamodb:*", {"Fn::GetAtt": ["Table", "Arn"]}),
        ("*", "*"),
        ("dynamodb:GetItem", "arn:aws:dynamodb:*:*:table/*"),
        ("lambda:InvokeFunction", "arn:aws:lambda:us-east-1:111122223333:function:*"),
        ("s3:GetObject", {"Fn::Sub": "arn:${AWS::Partition}:s3:::*"}),
    ],
    ids=str,
)
def test_policies_must_name_actions_and_resources(action: str, resource: Any) -> None:
    assert "E9004" in rules_broken(spoiled(_grant(action, resource)))


def test_actions_without_resource_types_may_use_a_star() -> None:
    tracing = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
    assert rules_broken(spoiled(_grant(tracing, "*"))) == set()


def test_broad_managed_policies_are_refused() -> None:
    template = spoiled(lambda template: properties(template, "Front")["Policies"].append("AmazonDynamoDBFullAccess"))
    assert "E9004" in rules_broken(template)


@pytest.mark.parametrize("missing", ["MaximumRetryAttempts", "DestinationConfig"])
def test_asynchronous_functions_need_a_failure_destination(missing: str) -> None:
    template = spoiled(lambda template: properties(template, "Worker")["EventInvokeConfig"].pop(missing))
    assert "E9002" in rules_broken(template)


def test_an_alias_of_an_asynchronous_function_needs_a_failure_destination_of_its_own() -> None:
    def publish(template: Template) -> None:
        version = {"FunctionName": {"Ref": "Worker"}}
        alias = {"FunctionName": {"Ref": "Worker"}, "FunctionVersion": {"Fn::GetAtt": ["WorkerVersion", "Version"]}}
        template["Resources"]["WorkerVersion"] = {"Type": "AWS::Lambda::Version", "Properties": version}
        template["Resources"]["WorkerAlias"] = {"Type": "AWS::Lambda::Alias", "Properties": {**alias, "Name": "live"}}

    template = spoiled(publish)
    assert rules_broken(template) == {"E9002"}
    config = {"FunctionName": {"Ref": "Worker"}, "Qualifier": "live"}
    config |= copy.deepcopy(properties(template, "Worker")["EventInvokeConfig"])
    template["Resources"]["Configured"] = {"Type": "AWS::Lambda::EventInvokeConfig", "Properties": config}
    assert rules_broken(template) == set()


def test_functions_that_others_invoke_are_asynchronous() -> None:
    template = spoiled(lambda template: properties(template, "Worker").pop("EventInvokeConfig"))
    assert "E9002" in rules_broken(template)


@pytest.mark.parametrize(
    "event",
    [
        {"Type": "Schedule", "Properties": {"Schedule": "rate(1 minute)"}},
        {"Type": "ScheduleV2", "Properties": {"ScheduleExpression": "rate(1 minute)"}},
        {"Type": "EventBridgeRule", "Properties": {"Pattern": {"source": ["aws.s3"]}}},
    ],
    ids=lambda event: event["Type"],
)
def test_scheduled_functions_are_asynchronous(event: dict[str, Any]) -> None:
    template = spoiled(lambda template: properties(template, "Front").update(Events={"Tick": event}))
    assert "E9002" in rules_broken(template)


def _fail_to_front(template: Template) -> None:
    destination = {"Type": "Lambda", "Destination": {"Fn::GetAtt": ["Front", "Arn"]}}
    properties(template, "Worker")["EventInvokeConfig"]["DestinationConfig"]["OnFailure"] = destination


def test_destinations_are_asynchronous() -> None:
    assert "E9002" in rules_broken(spoiled(_fail_to_front))


def _no_timeout(template: Template) -> None:
    properties(template, "Front").pop("Timeout")


def _no_log(template: Template) -> None:
    properties(template, "Front").pop("LoggingConfig")
    template["Resources"].pop("FrontLog")


def _no_retention(template: Template) -> None:
    properties(template, "FrontLog").pop("RetentionInDays")


def _shared_log(template: Template) -> None:
    properties(template, "Front")["LoggingConfig"] = {"LogGroup": {"Ref": "WorkerLog"}}


@cases("spoil", [_no_timeout, _no_log, _no_retention, _shared_log])
def test_functions_need_a_timeout_and_their_own_log_group(spoil: Callable[[Template], None]) -> None:
    assert "E9003" in rules_broken(spoiled(spoil))


def test_log_groups_are_found_by_name() -> None:
    template = spoiled(lambda template: properties(template, "Front").pop("LoggingConfig"))
    assert rules_broken(template) == set()


def test_functions_need_their_own_role() -> None:
    def share(template: Template) -> None:
        trust = policy(
            {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
        )
        template["Resources"]["Role"] = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}}
        for name in ("Front", "Worker"):
            properties(template, name).pop("Policies")
            properties(template, name)["Role"] = {"Fn::GetAtt": ["Role", "Arn"]}

    assert "E9005" in rules_broken(spoiled(share))


def test_a_policy_has_only_one_role() -> None:
    def attach(template: Template) -> None:
        template["Resources"]["Both"] = {
            "Type": "AWS::IAM::Policy",
            "Properties": {
                "PolicyName": "both",
                "PolicyDocument": policy(allow("dynamodb:GetItem", {"Fn::GetAtt": ["Table", "Arn"]})),
                "Roles": [{"Ref": "FrontRole"}, {"Ref": "WorkerRole"}],
            },
        }

    assert "E9005" in rules_broken(spoiled(attach))


@pytest.mark.parametrize("described", [{}, {"Description": ""}, {"Description": "The limit."}], ids=str)
def test_parameters_need_a_description(described: dict[str, str]) -> None:
    def describe(template: Template, **description: str) -> None:
        template["Parameters"] = {"Limit": {"Type": "Number", "Default": 5, **description}}
        template["Outputs"] = {"Limit": {"Value": {"Ref": "Limit"}}}

    good_words = "How many messages a user may send, in a minute."
    assert rules_broken(spoiled(lambda template: describe(template, Description=good_words))) == set()
    assert rules_broken(spoiled(lambda template: describe(template, **described))) == {"E9006"}


def test_cycles_through_generated_roles_are_found_in_the_translation(tmp_path: Path) -> None:
    """Worker's role may invoke its OnFailure destination Front, whose role may invoke Worker."""

    def close(template: Template) -> None:
        front = properties(template, "Front")
        front["Policies"][0]["Statement"][0] = allow("lambda:InvokeFunction", {"Fn::GetAtt": ["Worker", "Arn"]})
        front["EventInvokeConfig"] = copy.deepcopy(properties(template, "Worker")["EventInvokeConfig"])
        _fail_to_front(template)

    path = write(spoiled(close), tmp_path)
    assert "E3004" not in {match.rule.id for match in problems(path)}
    assert "E3004" in {match.rule.id for match in problems_of_translation(path)}


def test_errors_of_sam_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = spoiled(lambda template: properties(template, "Front").update(Events={"Odd": {"Type": "Nonsense"}}))
    assert main([str(write(template, tmp_path))]) == 1
    assert "Front" in capsys.readouterr().err


@pytest.mark.deep  # `make lint` does the same
def test_the_real_template_passes() -> None:
    assert [str(match) for match in problems(_ROOT / "template.yaml")] == []
    assert [str(match) for match in problems_of_translation(_ROOT / "template.yaml")] == []


def _api(**others: Any) -> Callable[[Template], None]:
    """Adds two routes and a stage, each behind the other; `others` replace parts of it."""

    def spoil(template: Template) -> None:
        api = {"ApiId": {"Ref": "Api"}}
        integration = {**api, "IntegrationType": "AWS_PROXY", "IntegrationUri": "arn:aws:lambda"}
        first = {**api, "RouteKey": "a", "Target": {"Fn::Sub": "integrations/${Calls}"}}
        stage = {**api, "StageName": "v1", "RouteSettings": {"b": {"ThrottlingRateLimit": 1}}}
        made = {
            "Calls": {"Type": "AWS::ApiGatewayV2::Integration", "Properties": integration},
            "First": {"Type": "AWS::ApiGatewayV2::Route", "Properties": first},
            "Second": {
                "Type": "AWS::ApiGatewayV2::Route",
                "DependsOn": "First",
                "Properties": {**first, "RouteKey": "b"},
            },
            "Stage": {"Type": "AWS::ApiGatewayV2::Stage", "DependsOn": ["Second"], "Properties": stage},
        }
        for name, part in others.items():
            made[name] = {key: value for key, value in {**made[name], **part}.items() if value is not None}
        template["Resources"] |= made

    return spoil


@cases(
    ("others", "broken"),
    [
        ({}, set()),
        ({"Second": {"DependsOn": None}}, {"E9007"}),
        ({"Second": {"DependsOn": "Table"}}, {"E9007"}),
        ({"Stage": {"DependsOn": "First"}}, {"E9007"}),
        ({"Second": {"Condition": "Sometimes"}}, {"E9008"}),
    ],
)
def test_the_parts_of_an_api_are_made_in_turn_and_what_is_throttled_is_always_there(
    others: dict[str, Any], broken: set[str]
) -> None:
    template = spoiled(_api(**others))
    template["Conditions"] = {"Sometimes": {"Fn::Equals": [{"Ref": "AWS::Region"}, "us-east-1"]}}
    assert {rule for rule in rules_broken(template) if rule in ("E9007", "E9008")} == broken


def test_parts_of_two_apis_may_be_made_at_once() -> None:
    template = spoiled(_api())
    template["Resources"]["Other"] = copy.deepcopy(template["Resources"]["Api"])
    alone = copy.deepcopy(template["Resources"]["Second"])
    del alone["DependsOn"]
    alone["Properties"] |= {"ApiId": {"Ref": "Other"}, "Target": "integrations/x"}
    template["Resources"]["Alone"] = alone
    assert "E9007" not in rules_broken(template)


@cases(
    ("part", "name", "value"),
    [
        ("Properties", "DeletionProtectionEnabled", None),
        ("Properties", "DeletionProtectionEnabled", False),
        ("Properties", "PointInTimeRecoverySpecification", None),
        ("", "DeletionPolicy", "Delete"),
        ("", "UpdateReplacePolicy", None),
    ],
)
def test_a_table_must_survive_mistakes(part: str, name: str, value: Any) -> None:
    def spoil(template: Template) -> None:
        table = template["Resources"]["Table"]
        changed = table[part] if part else table
        changed[name] = value
        if value is None:
            del changed[name]

    assert rules_broken(spoiled(spoil)) == {"E9009"}


_LOGGED = '{"id":"$context.requestId","status":"$context.status"}'


@cases(
    ("written", "retention", "is_right"),
    [
        (_LOGGED, 30, True),
        (_LOGGED, None, False),
        ('{"id":"$context.requestId","user":"$context.authorizer.token"}', 30, False),
        ('{"id":"$context.requestId","query":"$request.querystring.token"}', 30, False),
        ('{"id":"$context.requestId","all":"${context.authorizer}"}', 30, False),
        ("$context.requestId $input.params", 30, False),
        ("$context.requestId $context.statusAndMore", 30, False),
        ({"Fn::Sub": _LOGGED}, 30, False),
    ],
    ids=str,
)
def test_an_access_log_has_no_tokens_and_an_end(written: Any, retention: int | None, is_right: bool) -> None:
    settings = {"DestinationArn": {"Fn::GetAtt": ["AccessLog", "Arn"]}, "Format": written}
    template = spoiled(_api(Stage={"Properties": {"ApiId": {"Ref": "Api"}, "AccessLogSettings": settings}}))
    group = {"RetentionInDays": retention} if retention else {"LogGroupName": "requests"}
    template["Resources"]["AccessLog"] = {"Type": "AWS::Logs::LogGroup", "Properties": group}
    assert rules_broken(template) == (set() if is_right else {"E9010"})


SENDS = {
    "HeaderName": "x-by",
    "HeaderValue": {"Fn::Sub": "{{resolve:secretsmanager:${Secret}:SecretString:::}}"},
}
KEPT: dict[str, Any] = {
    "ParametersInCacheKeyAndForwardedToOrigin": {
        "CookiesConfig": {"CookieBehavior": "none"},
        "HeadersConfig": {"HeaderBehavior": "none"},
        "QueryStringsConfig": {"QueryStringBehavior": "none"},
        "EnableAcceptEncodingGzip": True,
    },
    "MinTTL": 0,
    "DefaultTTL": 0,
    "MaxTTL": 60,
    "Name": "assets",
}


def _edge(template: Template) -> dict[str, Any]:
    """Puts a distribution before an origin that follows the rules. Returns its configuration."""
    behaviour = {
        "TargetOriginId": "api",
        "ViewerProtocolPolicy": "https-only",
        "CachePolicyId": "4135ea2d-6df8-44a3-9df3-4b5a84be39ad",
        "OriginRequestPolicyId": "b689b0a8-53d0-40ab-baf2-68738e2966ac",
    }
    assets = {**behaviour, "PathPattern": "/assets/*", "CachePolicyId": {"Ref": "Assets"}}
    del assets["OriginRequestPolicyId"]
    origin = {
        "Id": "api",
        "DomainName": "api.example.com",
        "CustomOriginConfig": {"OriginProtocolPolicy": "https-only"},
        "OriginCustomHeaders": [copy.deepcopy(SENDS)],
    }
    config = {
        "Enabled": True,
        "Origins": [origin],
        "DefaultCacheBehavior": behaviour,
        "CacheBehaviors": [assets],
    }
    template["Resources"]["Secret"] = {
        "Type": "AWS::SecretsManager::Secret",
        "Properties": {"GenerateSecretString": {"PasswordLength": 64}},
    }
    template["Resources"]["Assets"] = {
        "Type": "AWS::CloudFront::CachePolicy",
        "Properties": {"CachePolicyConfig": copy.deepcopy(KEPT)},
    }
    properties_of = {"DistributionConfig": config}
    template["Resources"]["Edge"] = {"Type": "AWS::CloudFront::Distribution", "Properties": properties_of}
    return config


def _spoil_policy(name: str, value: Any) -> Callable[[Template, Any], None]:
    def spoil(template: Template, _config: Any) -> None:
        policy_of = properties(template, "Assets")["CachePolicyConfig"]
        policy_of.update({name: value})

    return spoil


_OPTIMIZED, _ALL_VIEWER = "658327ea-f89d-4fab-a63d-7e88639e58f6", "216adef6-5c7f-47e4-b989-5492eafa07d3"
_HEADERS = {"HeaderBehavior": "whitelist", "Headers": ["Authorization"]}


@cases(
    ("spoil", "rule"),
    [
        (lambda _, config: None, ""),
        (lambda _, config: config["DefaultCacheBehavior"].update(CachePolicyId=_OPTIMIZED), "E9011"),
        (lambda _, config: config["DefaultCacheBehavior"].update(CachePolicyId={"Ref": "Assets"}), "E9011"),
        (lambda _, config: config["DefaultCacheBehavior"].update(OriginRequestPolicyId=_ALL_VIEWER), "E9011"),
        (lambda _, config: config["CacheBehaviors"][0].update(OriginRequestPolicyId=_ALL_VIEWER), "E9011"),
        (_spoil_policy("DefaultTTL", 86_400), "E9011"),
        (
            _spoil_policy(
                "ParametersInCacheKeyAndForwardedToOrigin",
                {**KEPT["ParametersInCacheKeyAndForwardedToOrigin"], "HeadersConfig": _HEADERS},
            ),
            "E9011",
        ),
        (lambda _, config: config["Origins"][0].pop("OriginCustomHeaders"), "E9012"),
        (lambda _, config: config["Origins"][0]["OriginCustomHeaders"][0].update(HeaderValue="written here"), "E9012"),
        (
            lambda _, config: config["Origins"][0]["CustomOriginConfig"].update(OriginProtocolPolicy="match-viewer"),
            "E9012",
        ),
        (lambda _, config: config["CacheBehaviors"][0].update(ViewerProtocolPolicy="allow-all"), "E9012"),
    ],
)
def test_an_edge_keeps_nothing_of_users_and_is_known_by_a_secret(spoil: Callable[..., Any], rule: str) -> None:
    template = copy.deepcopy(good())
    spoil(template, _edge(template))
    assert rules_broken(template) == ({rule} if rule else set())
