"""Each deployed function has only the permissions it needs."""

import re

import yaml

from infra.intrinsics import branches, decided, statements, target, text
from tests.cases import cases
from tests.permissions import TEMPLATE, grants, of_type, resources, translated


def _granted(prefix: str) -> set[tuple[str, str, str]]:
    """Folder, action and resource of what is granted by actions with this prefix."""
    return {(folder, *one) for folder, granted in grants().items() for one in granted if one[0].startswith(prefix)}


def _may(action: str) -> set[str]:
    return {folder for folder, one, _ in _granted(action) if one == action}


def test_every_folder_is_a_function_and_vice_versa() -> None:
    folders = {path.parent.name for path in (TEMPLATE.parent / "functions").glob("*/handler.py")}
    assert folders == set(grants())


def test_only_listed_functions_can_read_secrets() -> None:
    assert {(folder, secret) for folder, _, secret in _granted("secretsmanager:")} == {
        ("authorize", "${JwtSecret}"),
        ("authorize", "${EdgeSecret}"),
        ("control", "${JwtSecret}"),  # refresh_token
        ("llm_request", "${LlmApiKeySecret}"),
        ("rest_api", "${EdgeSecret}"),
        ("rest_api", "${JwtSecret}"),  # They verify the tokens of their requests themselves.
        ("rest_stream", "${JwtSecret}"),
        ("webhook", "${WebhookSecret}"),
    }


def test_the_authorizer_only_reads_items_of_users() -> None:
    assert {action for folder, action, _ in _granted("dynamodb:") if folder == "authorize"} == {"dynamodb:GetItem"}
    (condition,) = [
        statement.get("Condition")
        for path, statement in statements(resources())
        if path[1] == "AuthorizeFunctionRole" and "dynamodb:GetItem" in list(branches(statement["Action"]))
    ]
    assert condition == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["USER#*"]}}


def test_deletions_may_share_a_transaction_with_writes_of_sessions() -> None:
    """A transaction has keys of both, and IAM may check a condition against all of them."""
    deleting = [
        statement
        for path, statement in statements(resources())
        if "dynamodb:DeleteItem" in branches(statement["Action"])
        and path[1] != "WebhookFunctionRole"  # which has no sessions
    ]
    assert len(deleting) > 1
    assert not any("Condition" in statement for statement in deleting)


def test_only_listed_functions_can_close_connections() -> None:
    closing = {folder for folder, _, where in _granted("execute-api:") if "/DELETE/@connections/" in where}
    assert closing == {"connect", "rest_api", "sweep"}


@cases(
    "action",
    [
        "dynamodb:DeleteTable",
        "dynamodb:CreateTable",
        "dynamodb:UpdateTable",
        "s3:DeleteBucket",
        "s3:PutBucketPolicy",
    ],
)
def test_no_function_may(action: str) -> None:
    assert _may(action) == set()


def test_only_the_sweep_scans_and_only_the_list_of_sessions_if_old_ones_are_erased() -> None:
    assert set(_granted("dynamodb:Scan")) == {("sweep", "dynamodb:Scan", "${Table.Arn}/index/sessions")}
    for holds in (True, False):
        role = decided(resources()["SweepFunctionRole"], "ErasesOldSessions", holds=holds)
        assert ("dynamodb:Scan" in str(role)) == holds


def test_only_lists_sweep_and_deletions_query_the_table() -> None:
    """Reads during a turn are by key, never by the index."""
    assert {(folder, where) for folder, _, where in _granted("dynamodb:Query")} == {
        ("sweep", "${Table.Arn}/index/due"),
        ("sweep", "${Table.Arn}"),
        ("sweep", "${Table.Arn}/index/sessions"),  # Sessions of a revoked user.
        ("rest_api", "${Table.Arn}/index/sessions"),
        ("rest_api", "${Table.Arn}"),
        ("webhook", "${Table.Arn}"),  # Push subscriptions.
    }


def test_only_functions_that_delete_sessions_delete_in_batches() -> None:
    assert _may("dynamodb:BatchWriteItem") == {"rest_api", "sweep"}


def test_only_functions_that_make_calls_check_the_users_rules() -> None:
    assert _may("dynamodb:ConditionCheckItem") == {"llm_request", "rest_api"}


def test_there_is_only_one_table() -> None:
    tables = {where for _, _, where in _granted("dynamodb:")}
    assert tables <= {"${Table.Arn}", "${Table.Arn}/index/due", "${Table.Arn}/index/sessions"}


def test_functions_reach_only_the_object_prefixes_they_need() -> None:
    """Functions that post frames sign URLs, which needs read permission; functions that take frames read uploads."""
    granted = {
        (action.removeprefix("s3:"), where.removeprefix("${PayloadBucket.Arn}/"), folder)
        for folder, action, where in _granted("s3:")
    }
    deletes_sessions = {"rest_api", "sweep"}
    takes_frames = {"user_message", "tool_result", "hitl_decision", "context_update", "switch_agent", "control"}
    assert granted == {
        *(
            ("GetObject", "items/*", folder)
            for folder in takes_frames | {"connect", "llm_request", "sweep", "disconnect", "rest_api", "rest_stream"}
        ),
        *(("GetObject", "tickets/*", folder) for folder in takes_frames),
        *(
            ("PutObject", "items/*", folder)
            for folder in ("user_message", "tool_result", "hitl_decision", "control", "llm_request", "rest_api")
        ),
        ("PutObject", "tickets/*", "control"),
        *(("DeleteObject", where, folder) for where in ("items/*", "tickets/*") for folder in deletes_sessions),
        *(("ListBucket", "${PayloadBucket.Arn}", folder) for folder in deletes_sessions),
    }


def test_functions_invoke_only_the_expected_functions() -> None:
    invoked = {(folder, where.rsplit(":function:", 1)[-1]) for folder, _, where in _granted("lambda:InvokeFunction")}
    assert invoked <= {
        *((folder, "${AWS::StackName}-llm-request") for folder in grants()),
        ("connect", "${AWS::StackName}-control"),  # Replays for clients that reconnect.
        ("llm_request", "${SweepFunction.Arn}"),  # The destination of its failures.
    }
    assert not {folder for folder, _ in invoked} & {"authorize", "unknown_message"}


def test_api_gateway_may_invoke_functions_only_for_their_routes() -> None:
    """Without a source, the permission would let any API invoke the function. Only `control` serves many routes."""
    for name, permission in of_type("AWS::Lambda::Permission").items():
        if permission["Properties"]["Principal"] == "*":
            continue  # A function URL's: see the next test.
        source = text(permission["Properties"].get("SourceArn", ""))
        assert source, name
        if permission["Properties"]["Principal"] == "apigateway.amazonaws.com":
            assert "${WebSocketApi}/" in source or "HttpApi" in source, name
            assert name == "ControlPermission" or not source.endswith("${WebSocketApi}/*"), name
            assert not source.endswith("/*/*"), name


def test_only_the_stream_can_have_a_function_url() -> None:
    (url,) = of_type("AWS::Lambda::Url").values()
    assert url["Condition"] == "StreamsOverRest"
    for name, permission in of_type("AWS::Lambda::Permission").items():
        if permission["Properties"]["Principal"] == "*":
            assert permission["Condition"] == "StreamsOverRest", name
            properties = permission["Properties"]
            through_the_url = properties.get("FunctionUrlAuthType") == "NONE" or properties.get("InvokedViaFunctionUrl")
            assert through_the_url, f"{name}: anybody may invoke"


def test_only_traced_functions_may_send_traces() -> None:
    writes_traces = "arn:aws:iam::aws:policy/AWSXrayWriteOnlyAccess"
    traced = translated(Tracing="Active")
    for name, role in of_type("AWS::IAM::Role").items():
        policies = role["Properties"]["ManagedPolicyArns"]
        assert writes_traces not in policies
        assert traced[name]["Properties"]["ManagedPolicyArns"] == [*policies, writes_traces]
    for name, function in of_type("AWS::Lambda::Function").items():
        assert "TracingConfig" not in function["Properties"]
        assert target(traced[name]["Properties"]["TracingConfig"]["Mode"]) == "Tracing"


def test_buckets_block_public_access() -> None:
    for name, bucket in of_type("AWS::S3::Bucket").items():
        closed = bucket["Properties"]["PublicAccessBlockConfiguration"]
        assert all(closed[key] for key in closed), name
        assert len(closed) == 4, name
        assert "BucketEncryption" in bucket["Properties"], name


def test_no_functions_environment_has_a_secret() -> None:
    for name, function in of_type("AWS::Lambda::Function").items():
        variables = function["Properties"].get("Environment", {}).get("Variables", {})
        for key, value in variables.items():
            if key in {"LLM_API_KEY", "JWT_SECRET"}:
                assert value == "", f"{name}: {key}"
            assert target(value) != "LlmApiKey", f"{name}: {key}"


def test_whatever_has_a_name_of_its_own_has_the_stacks_name_in_it() -> None:
    """Two stacks in one account and region must not meet."""
    nested = yaml.safe_load((TEMPLATE.parent / "infra/observability.yaml").read_text(encoding="utf-8"))["Resources"]
    named = ("FunctionName", "LogGroupName", "TopicName", "AlarmName", "DashboardName", "TableName", "QueueName")
    found = [
        (name, text(resource["Properties"][key]))
        for name, resource in {**resources(), **nested}.items()
        for key in named
        if resource["Type"] != "AWS::Lambda::Permission" and key in resource.get("Properties", {})
    ]
    assert len(found) > 2 * len(grants())
    for name, value in found:
        assert re.match(r"(/aws/(lambda|apigateway)/)?\$\{(AWS::StackName|Stack)\}", value) or target(
            {"Fn::Sub": value}
        ), name
