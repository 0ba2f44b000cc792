"""Gives the edge's secret a new value, without a refused request in between.

The functions accept two values, the current one and the one before, and CloudFront must always send one of them. So a
rotation begins only when CloudFront sends the current value, and one that was interrupted is finished first.
"""

import secrets
import time
from collections.abc import Callable
from typing import Any, TextIO

from botocore.exceptions import WaiterError

from infra.stack.stack import Refused, Stack, outputs, parameters

_VERSION = "EdgeSecretVersion"
#: The value of a new secret has as many characters.
_CHARACTERS = 64
#: Seconds after which each process has read the new value, or does so when it is sent. Earlier, wrong values that
#: somebody has sent to the APIs' own addresses may have used up its reading, which it repeats once a minute.
LEARNT_S = 65


def rotate(stack: Stack, out: TextIO, sleep: Callable[[float], None] = time.sleep) -> None:
    """Have CloudFront send a new value, and withdraw the one before. Run again, it finishes what was interrupted.

    The stack's template and its other parameters stay as they are. Raises Refused if the stack has no edge or is
    being updated, or CloudFormation fails.
    """
    described = stack.deployed()
    arn = outputs(described).get("EdgeSecretArn")
    if arn is None:
        raise Refused(f"{stack.name} has no edge, and so no secret of it: deploy it with Edge=true first")
    if not described["StackStatus"].endswith("_COMPLETE"):
        raise Refused(
            f"{stack.name} is in the state {described['StackStatus']}: wait until that ends, then run it again"
        )
    client = stack.client("secretsmanager")
    current = client.get_secret_value(SecretId=arn)
    if _sent(stack) == {current["SecretString"]}:
        version = client.put_secret_value(SecretId=arn, SecretString=secrets.token_hex(_CHARACTERS // 2))["VersionId"]
    else:
        version = current["VersionId"]
        out.write("CloudFront does not send the current value yet: finishing the rotation that was begun\n")
    out.write("CloudFront gets the value, which takes some minutes; the one before is accepted meanwhile\n")
    out.flush()
    sleep(LEARNT_S)
    _update(stack, described, version)
    _withdraw(client, arn)
    out.write("the edge's secret is rotated; the functions forget the value before within ten minutes\n")


def _sent(stack: Stack) -> set[str]:
    """The values that the distribution sends to its origins."""
    resource = stack.cloudformation.describe_stack_resource(StackName=stack.name, LogicalResourceId="Distribution")
    identifier = resource["StackResourceDetail"]["PhysicalResourceId"]
    config = stack.client("cloudfront").get_distribution_config(Id=identifier)["DistributionConfig"]
    origins: list[dict[str, Any]] = config["Origins"]["Items"]
    return {header["HeaderValue"] for origin in origins for header in origin["CustomHeaders"].get("Items", ())}


def _update(stack: Stack, described: dict[str, Any], version: str) -> None:
    kept = [{"ParameterKey": name, "UsePreviousValue": True} for name in parameters(described) if name != _VERSION]
    stack.cloudformation.update_stack(
        StackName=stack.name,
        UsePreviousTemplate=True,
        Parameters=[*kept, {"ParameterKey": _VERSION, "ParameterValue": version}],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    waiter = stack.cloudformation.get_waiter("stack_update_complete")
    try:
        waiter.wait(StackName=stack.name, WaiterConfig={"Delay": 5, "MaxAttempts": 720})
    except WaiterError as error:
        raise Refused(
            f"CloudFormation has not updated {stack.name} ({error}). Both values are accepted still: look at the "
            f"stack's events, then run make rotate-edge{stack.argument} again"
        ) from None


def _withdraw(client: Any, arn: str) -> None:
    """Have the functions forget the value before."""
    stages = client.describe_secret(SecretId=arn)["VersionIdsToStages"]
    for version, names in stages.items():
        if "AWSPREVIOUS" in names:
            client.update_secret_version_stage(SecretId=arn, VersionStage="AWSPREVIOUS", RemoveFromVersionId=version)
