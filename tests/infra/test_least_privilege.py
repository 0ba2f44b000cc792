"""What each deployed function may do is what it needs, and no more."""

import pytest

from infra.intrinsics import branches, statements, target, text
from tests.permissions import TEMPLATE, functions, grants, template


def _may(action: str) -> set[str]:
    return {folder for folder, granted in grants().items() if any(one == action for one, _ in granted)}


def test_every_folder_is_a_function_and_every_function_a_folder() -> None:
    folders = {path.parent.name for path in (TEMPLATE.parent / "functions").glob("*/handler.py")}
    assert folders == set(grants())


def test_only_the_functions_named_here_reach_the_secrets() -> None:
    readers = {
        folder: {resource for action, resource in granted if action.startswith("secretsmanager:")}
        for folder, granted in grants().items()
    }
    assert {folder: resources for folder, resources in readers.items() if resources} == {
        "authorize": {"${JwtSecret}"},
        "control": {"${JwtSecret}"},  # refresh_token
        "llm_request": {"${LlmApiKeySecret}"},
        "rest_stream": {"${JwtSecret}"},  # its URL has no authorizer
    }


def test_the_authorizer_reads_of_the_table_what_belongs_to_users_and_nothing_else() -> None:
    mine = {action for action, _ in grants()["authorize"] if action.startswith("dynamodb:")}
    assert mine == {"dynamodb:GetItem"}
    (condition,) = [
        statement.get("Condition")
        for path, statement in statements(template())
        if path[1] == "AuthorizeFunctionRole" and "dynamodb:GetItem" in list(branches(statement["Action"]))
    ]
    assert condition == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["USER#*"]}}


def test_who_deletes_may_do_so_beside_writes_of_sessions() -> None:
    """A transaction holds keys of both: a condition on them may be held against all of it."""
    deleting = [
        statement for _, statement in statements(template()) if "dynamodb:DeleteItem" in branches(statement["Action"])
    ]
    assert len(deleting) > 1
    assert not any("Condition" in statement for statement in deleting)


def test_only_who_takes_the_place_of_a_window_or_ends_one_closes_connections() -> None:
    closing = {
        folder for folder, granted in grants().items() for _, where in granted if "/DELETE/@connections/" in where
    }
    assert closing == {"connect", "rest_api", "sweep"}


@pytest.mark.parametrize(
    "action",
    [
        "dynamodb:Scan",
        "dynamodb:DeleteTable",
        "dynamodb:CreateTable",
        "dynamodb:UpdateTable",
        "s3:DeleteBucket",
        "s3:PutBucketPolicy",
    ],
)
def test_nobody_may(action: str) -> None:
    assert _may(action) == set()


def test_only_lists_the_sweep_and_deletions_search_the_table() -> None:
    """Reads on a turn's path are by key; the index is never asked who owns what."""
    searched = {
        (folder, where)
        for folder, granted in grants().items()
        for action, where in granted
        if action == "dynamodb:Query"
    }
    assert searched == {
        ("sweep", "${Table.Arn}/index/due"),
        ("sweep", "${Table.Arn}"),
        ("sweep", "${Table.Arn}/index/sessions"),  # of a user who is revoked
        ("rest_api", "${Table.Arn}/index/sessions"),
        ("rest_api", "${Table.Arn}"),
    }


def test_only_who_deletes_sessions_deletes_in_batches() -> None:
    assert _may("dynamodb:BatchWriteItem") == {"rest_api", "sweep"}


def test_only_who_makes_calls_relies_on_the_users_rules() -> None:
    assert _may("dynamodb:ConditionCheckItem") == {"llm_request", "rest_api"}


def test_the_table_is_the_only_one() -> None:
    tables = {where for granted in grants().values() for action, where in granted if action.startswith("dynamodb:")}
    assert tables <= {"${Table.Arn}", "${Table.Arn}/index/due", "${Table.Arn}/index/sessions"}


def test_objects_are_reached_where_they_are_needed_and_under_their_prefixes() -> None:
    """Who posts frames signs URLs of contents, which is reading them; who takes frames reads what was uploaded."""
    granted = {
        (action.removeprefix("s3:"), where.removeprefix("${PayloadBucket.Arn}/"), folder)
        for folder, allowed in grants().items()
        for action, where in allowed
        if action.startswith("s3:")
    }
    deletes_sessions = {"rest_api", "sweep"}
    takes_frames = {"user_message", "tool_result", "hitl_decision", "context_update", "switch_agent", "control"}
    assert granted == {
        *(
            ("GetObject", "items/*", folder)
            for folder in takes_frames | {"llm_request", "sweep", "disconnect", "rest_api", "rest_stream"}
        ),
        *(("GetObject", "tickets/*", folder) for folder in takes_frames),
        *(("PutObject", "items/*", folder) for folder in ("tool_result", "hitl_decision", "llm_request", "rest_api")),
        ("PutObject", "tickets/*", "control"),
        *(("DeleteObject", where, folder) for where in ("items/*", "tickets/*") for folder in deletes_sessions),
        *(("ListBucket", "${PayloadBucket.Arn}", folder) for folder in deletes_sessions),
    }


def test_functions_invoke_none_but_those_that_run_beside_them() -> None:
    invoked = {
        (folder, where.rsplit(":function:", 1)[-1])
        for folder, granted in grants().items()
        for action, where in granted
        if action == "lambda:InvokeFunction"
    }
    assert invoked <= {
        *((folder, "${AWS::StackName}-llm-request") for folder in grants()),
        ("connect", "${AWS::StackName}-control"),  # a replay for who comes back
        ("llm_request", "${SweepFunction.Arn}"),  # its failures' destination
    }
    assert not {folder for folder, _ in invoked} & {"authorize", "unknown_message"}


def test_api_gateway_invokes_by_route() -> None:
    """A permission without a source would let any API run the function. `control` alone serves many routes."""
    for name, permission in template().get_resources("AWS::Lambda::Permission").items():
        if permission["Properties"]["Principal"] == "*":
            continue  # a function URL's, which the next test is about
        source = text(permission["Properties"].get("SourceArn", ""))
        assert source, name
        if permission["Properties"]["Principal"] == "apigateway.amazonaws.com":
            assert "${WebSocketApi}/" in source or "HttpApi" in source, name
            assert name == "ControlPermission" or not source.endswith("${WebSocketApi}/*"), name
            assert not source.endswith("/*/*"), name


def test_only_the_stream_has_a_url_of_its_own_and_only_if_it_is_wanted() -> None:
    (url,) = template().get_resources("AWS::Lambda::Url").values()
    assert url["Condition"] == "StreamsOverRest"
    for name, permission in template().get_resources("AWS::Lambda::Permission").items():
        if permission["Properties"]["Principal"] == "*":
            assert permission["Condition"] == "StreamsOverRest", name
            properties = permission["Properties"]
            through_the_url = properties.get("FunctionUrlAuthType") == "NONE" or properties.get("InvokedViaFunctionUrl")
            assert through_the_url, f"{name}: anybody may invoke"


def test_buckets_are_closed() -> None:
    for name, bucket in template().get_resources("AWS::S3::Bucket").items():
        closed = bucket["Properties"]["PublicAccessBlockConfiguration"]
        assert all(closed[key] for key in closed), name
        assert len(closed) == 4, name
        assert "BucketEncryption" in bucket["Properties"], name


def test_no_function_carries_a_secret_in_its_environment() -> None:
    for name, function in functions().items():
        variables = function["Properties"].get("Environment", {}).get("Variables", {})
        for key, value in variables.items():
            if key in {"LLM_API_KEY", "JWT_SECRET"}:
                assert value == "", f"{name}: {key}"
            assert target(value) != "LlmApiKey", f"{name}: {key}"
