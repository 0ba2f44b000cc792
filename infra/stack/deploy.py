"""`sam deploy` without a question, and what to do next."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from botocore.exceptions import WaiterError

from infra.stack.parameters import as_arguments
from infra.stack.preflight import Finding
from infra.stack.stack import Refused, Stack, outputs, parameters

SAM = Path(".venv-sam/bin/sam")


def report(findings: list[Finding], err: TextIO) -> None:
    """Tell what the preflight found. Raises Refused when it must be mended first."""
    for finding in findings:
        err.write(f"deploy: {'' if finding.stops else 'warning: '}{finding.message}\n")
    stops = sum(finding.stops for finding in findings)
    if stops:
        raise Refused(f"nothing was built: {'this is' if stops == 1 else f'these {stops} are'} missing")


def deploy(stack: Stack, given: Mapping[str, str], out: TextIO) -> None:
    """Create the stack or update it; say where it is. Raises Refused when SAM or CloudFormation does."""
    clear_failed_creation(stack, out)
    # SAM sends every parameter that is not given with UsePreviousValue: an update forgets nothing.
    with as_arguments(given) as overrides:
        command = [str(SAM), "deploy", "--stack-name", stack.name, "--region", str(stack.region)]
        command += ["--s3-prefix", stack.name, "--no-progressbar", *overrides]
        status = subprocess.run(command, check=False).returncode
    if status:
        raise Refused(
            f"the deployment of {stack.name} failed and CloudFormation puts back what was before: the reason is above, "
            "mend it and run the same command again"
        )
    out.write(summary(stack, stack.deployed()))


def clear_failed_creation(stack: Stack, out: TextIO) -> None:
    """Remove a stack whose creation failed: it holds nothing, and CloudFormation takes no update of it."""
    described = stack.describe()
    if described is None or described["StackStatus"] != "ROLLBACK_COMPLETE":
        return
    out.write(f"The first deployment of {stack.name} failed and was undone; what is left of it is removed.\n")
    out.flush()
    stack.cloudformation.delete_stack(StackName=stack.name)
    try:
        waiter = stack.cloudformation.get_waiter("stack_delete_complete")
        waiter.wait(StackName=described["StackId"], WaiterConfig={"Delay": 2, "MaxAttempts": 300})
    except WaiterError as error:
        raise Refused(f"it cannot be removed: {error}") from None


def summary(stack: Stack, described: Mapping[str, Any]) -> str:
    """Where the stack is and what to do next."""
    found, values = outputs(described), parameters(described)
    lines = [
        "",
        f"{stack.name} is deployed in {stack.region}.",
        f"  WebSocket  {found['WebSocketUrl']}?session_id=my_session",
        f"  REST       {found['RestUrl']}/api/v1 (documentation: {found['RestUrl']}/docs)",
    ]
    if "RestStreamUrl" in found:
        lines.append(f"  streams    {found['RestStreamUrl']}api/v1/chat/stream")
    if values.get("JwksUrl"):
        lines.append(f"Next: connect with a token of {values['JwtIssuer'] or values['JwksUrl']}.")
    else:
        lines += [
            f"Next: try it out with make smoke{stack.argument}, or talk to it, one frame per line, with",
            f'  npx wscat -c "{found["WebSocketUrl"]}?session_id=my_session" \\',
            f'    -H "Authorization: Bearer $(make token USER=alice{stack.argument})"',
        ]
    return "\n".join(lines) + "\n"
