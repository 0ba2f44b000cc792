"""The parameter SnapStart: without it nothing of it exists; with it aliases are invoked, permitted and repaired."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.intrinsics import target, text
from infra.sam_template import parse
from infra.stack.deploy import name_of
from tests.fakes.aws.emulated import EmulatedAws
from tests.permissions import TEMPLATE, grants, of_type, resources

AUTHOR = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
FOUR = {"authorize", "connect", "user_message", "llm_request"}
BY_NAME = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-llm-request"


def folder_of(logical_id: str) -> str:
    """AuthorizeAlias, AuthorizeFunction → authorize."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", re.sub(r"(Alias|Function|Version)$", "", logical_id)).lower()


def invoked_by_gateway(*, snapshots: bool) -> dict[str, set[str]]:
    """Folder → the function or alias that an authorizer or an integration names."""
    found: dict[str, set[str]] = {}
    kinds = {"AWS::ApiGatewayV2::Authorizer": "AuthorizerUri", "AWS::ApiGatewayV2::Integration": "IntegrationUri"}
    for kind, key in kinds.items():
        for resource in of_type(kind, snapshots=snapshots).values():
            name = re.search(r"functions/\$\{(\w+)(?:\.Arn)?\}/invocations", text(resource["Properties"][key]))
            assert name is not None
            found.setdefault(folder_of(name[1]), set()).add(name[1])
    return found


def test_without_it_there_are_no_versions_and_no_aliases() -> None:
    assert not of_type("AWS::Lambda::Version")
    assert not of_type("AWS::Lambda::Alias")
    assert not any("SnapStart" in one["Properties"] for one in of_type("AWS::Lambda::Function").values())
    assert all(name.endswith("Function") for names in invoked_by_gateway(snapshots=False).values() for name in names)


def test_with_it_four_functions_have_a_snapshot_that_ends_with_the_version() -> None:
    functions = of_type("AWS::Lambda::Function", snapshots=True)
    assert {folder_of(name) for name, one in functions.items() if "SnapStart" in one["Properties"]} == FOUR
    versions = of_type("AWS::Lambda::Version", snapshots=True)
    assert {folder_of(target(one["Properties"]["FunctionName"])) for one in versions.values()} == FOUR
    for name, version in versions.items():
        replaced_by = text(version["Properties"]["Description"])
        assert re.fullmatch(r"\$\{Deployment\} \$\{CodelabLayer[0-9a-f]{10}\}", replaced_by)
        assert not {"DeletionPolicy", "UpdateReplacePolicy"} & version.keys(), f"{name} would be kept, and paid for"
    for function in functions.values():  # Lambda refuses to publish a function that has not changed
        deployment = {"Fn::If": ["KnowsDeployment", {"Ref": "Deployment"}, {"Ref": "AWS::NoValue"}]}
        assert function["Properties"]["Environment"]["Variables"]["DEPLOYMENT"] == deployment


def test_api_gateway_invokes_the_aliases_and_may() -> None:
    named = invoked_by_gateway(snapshots=True)
    for folder in FOUR - {"llm_request"}:
        (alias,) = named.pop(folder)
        assert alias.endswith("Alias")
        permitted = [
            target(one["Properties"]["FunctionName"])
            for one in of_type("AWS::Lambda::Permission", snapshots=True).values()
            if folder_of(target(one["Properties"]["FunctionName"])) == folder
        ]
        assert permitted
        assert set(permitted) == {alias}
    assert all(name.endswith("Function") for names in named.values() for name in names)


def test_functions_may_invoke_exactly_what_they_invoke() -> None:
    """As without it, but for llm_request's alias. Tests of the functions compare those grants with their calls."""
    variables = {
        folder_of(name): text(one["Properties"]["Environment"]["Variables"]["LLM_FUNCTION"])
        for name, one in of_type("AWS::Lambda::Function", snapshots=True).items()
    }
    by_name = {folder for folder, value in variables.items() if value == "${AWS::StackName}-llm-request"}
    assert by_name == {"llm_request", "sweep"}, "in a cycle with the alias"
    assert {value for folder, value in variables.items() if folder not in by_name} == {"${LlmRequestAlias}"}
    for folder, granted in grants().items():
        renamed = {
            (action, "${LlmRequestAlias}" if where == BY_NAME and folder not in by_name else where)
            for action, where in granted
        }
        assert grants(snapshots=True)[folder] == renamed, folder


def test_a_failed_step_of_the_alias_goes_to_the_sweep_too() -> None:
    configs = [one["Properties"] for one in of_type("AWS::Lambda::EventInvokeConfig", snapshots=True).values()]
    latest, alias = (one for one in configs if target(one["FunctionName"]) == "LlmRequestFunction")
    assert {latest["Qualifier"], alias["Qualifier"]} == {"$LATEST", "live"}
    assert {**latest, "Qualifier": ""} == {**alias, "Qualifier": ""}


# -- deployed ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aws() -> Iterator[EmulatedAws]:
    with EmulatedAws() as running:
        yield running


def published(aws: EmulatedAws, name: str) -> dict[str, Any]:
    """The numbers of a function's versions, and that of its alias."""
    client = aws.client("lambda")
    versions = [one["Version"] for one in client.list_versions_by_function(FunctionName=name)["Versions"]]
    aliases = client.list_aliases(FunctionName=name)["Aliases"]
    return {"versions": versions, **{one["Name"]: one["FunctionVersion"] for one in aliases}}


def update(aws: EmulatedAws, **parameters: str) -> str:
    client = aws.client("cloudformation")
    client.update_stack(**aws.stack_of("fast", parameters))
    client.get_waiter("stack_update_complete").wait(StackName="fast", WaiterConfig={"Delay": 1})
    return str(client.describe_stacks(StackName="fast")["Stacks"][0]["StackStatus"])


@pytest.mark.deep
def test_each_deployment_publishes_and_the_version_before_is_deleted(
    aws: EmulatedAws,
) -> None:
    aws.create("fast")
    assert published(aws, "fast-connect") == {"versions": ["$LATEST"]}
    assert update(aws, SnapStart="true", Deployment=name_of(1_000)) == "UPDATE_COMPLETE"
    for folder in FOUR:
        assert published(aws, f"fast-{folder.replace('_', '-')}") == {"versions": ["$LATEST", "1"], "live": "1"}
    assert published(aws, "fast-control") == {"versions": ["$LATEST"]}
    function = aws.client("lambda").get_function_configuration(FunctionName="fast-connect", Qualifier="live")
    assert function["SnapStart"]["ApplyOn"] == "PublishedVersions"
    # A changed parameter alone
    assert update(aws, SnapStart="true", MaxSteps="7", Deployment=name_of(2_000)) == "UPDATE_COMPLETE"
    for folder in FOUR:
        name = f"fast-{folder.replace('_', '-')}"
        assert published(aws, name) == {"versions": ["$LATEST", "2"], "live": "2"}
        live = aws.client("lambda").get_function_configuration(FunctionName=name, Qualifier="live")
        assert live["Environment"]["Variables"]["MAX_STEPS"] == "7"
    uris = {one["IntegrationUri"] for one in integrations(aws)}
    assert sum(":live/" in uri for uri in uris) == 2
    config = aws.client("lambda").get_function_event_invoke_config(FunctionName="fast-llm-request", Qualifier="live")
    assert config["DestinationConfig"]["OnFailure"]["Destination"].endswith("fast-sweep")
    assert update(aws, SnapStart="false", MaxSteps="7") == "UPDATE_COMPLETE"
    assert published(aws, "fast-connect") == {"versions": ["$LATEST"]}
    assert not any(":live/" in one["IntegrationUri"] for one in integrations(aws))


def integrations(aws: EmulatedAws) -> list[dict[str, Any]]:
    client = aws.client("apigatewayv2")
    (api,) = [one for one in client.get_apis()["Items"] if one["ProtocolType"] == "WEBSOCKET"]
    found: list[dict[str, Any]] = client.get_integrations(ApiId=api["ApiId"])["Items"]
    return found


def test_a_deployment_is_named_after_its_time_and_version(tmp_path: Path) -> None:
    pattern = parse(TEMPLATE)["Parameters"]["Deployment"]["AllowedPattern"]
    assert name_of(1_000, tmp_path) == "19700101T001640Z"
    for command in (["init", "-q"], [*AUTHOR, "commit", "-q", "--allow-empty", "-m", "x"], ["tag", "v1.2.3"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert name_of(1_000, tmp_path) == "19700101T001640Z v1.2.3"
    subprocess.run(["git", "tag", "-d", "v1.2.3"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert re.fullmatch(r"19700101T001640Z [0-9a-f]{7,}", name_of(1_000, tmp_path))
    assert re.fullmatch(pattern, name_of(1_000, tmp_path))


@pytest.mark.deep
def test_sam_alone_cannot_turn_it_on(aws: EmulatedAws) -> None:
    with pytest.raises(ClientError, match="which make deploy sets"):
        aws.client("cloudformation").create_stack(**aws.stack_of("slow", {"SnapStart": "true"}))


def test_the_translation_has_both() -> None:
    assert resources().keys() < resources(snapshots=True).keys()
