"""Runs `sam deploy` without questions, and prints the next steps."""

import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from botocore.exceptions import WaiterError

from infra.stack.destroy import delete_unused
from infra.stack.parameters import as_arguments
from infra.stack.preflight import FAILED_CREATIONS, Finding
from infra.stack.stack import Refused, Stack, outputs, parameters, websocket_address

SAM = Path(".venv-sam/bin/sam")
_ROOT = Path(__file__).resolve().parents[2]
#: What the template accepts of git's names.
_VERSION = re.compile(r"[A-Za-z0-9._/+-]{1,80}")


def report(findings: list[Finding], err: TextIO) -> None:
    """Print the preflight's findings. Raises Refused if one of them stops the deployment."""
    for finding in findings:
        err.write(f"deploy: {'' if finding.stops else 'warning: '}{finding.message}\n")
    stops = sum(finding.stops for finding in findings)
    if stops:
        raise Refused(f"nothing was built: fix {'this problem' if stops == 1 else f'these {stops} problems'} first")


def deploy(stack: Stack, given: Mapping[str, str], out: TextIO) -> None:
    """Create or update the stack and print its addresses. Raises Refused if SAM or CloudFormation fails."""
    clear_failed_creation(stack, out)
    given = {"Deployment": name_of(time.time()), **given}
    # SAM sends UsePreviousValue for every parameter that is not given, so an update keeps earlier values.
    with as_arguments(given) as overrides:
        command = [str(SAM), "deploy", "--stack-name", stack.name, "--region", str(stack.region)]
        command += ["--s3-prefix", stack.name, "--no-progressbar", *overrides]
        status = subprocess.run(command, check=False).returncode
    if status:
        raise Refused(
            f"the deployment of {stack.name} failed and CloudFormation rolls it back: the reason is above. "
            "Fix it and run the same command again"
        )
    out.write(summary(stack, stack.deployed()))


def name_of(now: float, checkout: Path = _ROOT) -> str:
    """The name of a deployment: its time, given in seconds, and what is checked out, as far as git can tell."""
    name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    command = ["git", "describe", "--always", "--dirty", "--tags"]
    try:
        found = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return name
    return f"{name} {found}" if _VERSION.fullmatch(found) else name


def clear_failed_creation(stack: Stack, out: TextIO) -> None:
    """Remove a stack whose creation failed: CloudFormation cannot update it, and it has no data.

    If the table was created, CloudFormation could not delete it (ROLLBACK_FAILED), because it is protected.
    """
    described = stack.describe()
    if described is None or described["StackStatus"] not in FAILED_CREATIONS:
        return
    out.write(f"The first deployment of {stack.name} failed; removing what is left of it.\n")
    out.flush()
    if described["StackStatus"] == "ROLLBACK_FAILED":
        delete_unused(stack, described, lambda line: None)
    stack.cloudformation.delete_stack(StackName=stack.name)
    try:
        waiter = stack.cloudformation.get_waiter("stack_delete_complete")
        waiter.wait(StackName=described["StackId"], WaiterConfig={"Delay": 2, "MaxAttempts": 300})
    except WaiterError as error:
        raise Refused(f"cannot remove it: {error}") from None


def summary(stack: Stack, described: Mapping[str, Any]) -> str:
    """The stack's addresses and the next steps."""
    found, values = outputs(described), parameters(described)
    websocket = websocket_address(found).format(session_id="my_session")
    lines = [
        "",
        f"{stack.name} is deployed in {stack.region}.",
        f"  WebSocket  {websocket}",
        f"  REST       {found['RestUrl']}/api/v1 (documentation: {found['RestUrl']}/docs)",
    ]
    if "RestStreamUrl" in found:
        lines.append(f"  streams    {found['RestStreamUrl']}api/v1/chat/stream")
    if "PageUrl" in found:
        lines.append(f"  page       {found['PageUrl']}")
    for name, told in (
        ("WebSocketDomain", "WebSocketDomainTarget"),
        ("RestDomain", "RestDomainTarget"),
        ("EdgeDomain", "EdgeDomainTarget"),
    ):
        if told in found:
            lines.append(f"  DNS        {values[name]} must be a CNAME (or alias) of {found[told]}")
    if values.get("JwksUrl"):
        lines.append(f"Next: connect with a token of {values['JwtIssuer'] or values['JwksUrl']}.")
        if "PageUrl" in found and values.get("JwtClientId"):
            lines.append(f"There, {found['PageUrl']} must be a redirect address of the client {values['JwtClientId']}.")
    else:
        lines += [
            f"Next: test it with make smoke{stack.argument}, or type one frame per line into",
            f'  npx wscat -c "{websocket}" \\',
            f'    -H "Authorization: Bearer $(make token USER=alice{stack.argument})"',
        ]
    return "\n".join(lines) + "\n"
