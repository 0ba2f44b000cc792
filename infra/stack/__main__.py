"""`python -m infra.stack COMMAND`, called by the Makefile; COMMANDS has their names.

Reads STACK, PARAMETERS, MODEL_FILE, USER, HOURS, PLAN, FILE, SESSION, TABLE, BUCKET, EXISTING, YES and KEEP_DATA from
the environment; boto3 reads its own variables.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.sam_template import parse
from infra.stack.deploy import deploy, report
from infra.stack.destroy import destroy
from infra.stack.export import Data, export_to
from infra.stack.page import is_served, put_into_package
from infra.stack.parameters import of_model, read
from infra.stack.preflight import check
from infra.stack.restore import EXISTING, restore
from infra.stack.revoke import revoke
from infra.stack.rotate import rotate
from infra.stack.smoke import USERS, run
from infra.stack.stack import DEFAULT_NAME, Refused, Stack, outputs
from infra.stack.token import hours_of, mint, mint_all

_TEMPLATE = Path(__file__).resolve().parents[2] / "template.yaml"
_YES = ("1", "true", "yes")

Environment = Mapping[str, str]


def _preflight(stack: Stack, environment: Environment) -> int:
    template = parse(_TEMPLATE)
    given = _given(environment, template)
    report(list(check(stack, template, given, environment.get("PYTHON3_13", ""))), sys.stderr)
    account = stack.client("sts").get_caller_identity()["Account"]
    sys.stderr.write(f"deploy: {stack.name} to account {account} in {stack.region}\n")
    return 0


def _deploy(stack: Stack, environment: Environment) -> int:
    template = parse(_TEMPLATE)
    given = _given(environment, template)
    if is_served(stack, given):
        put_into_package()
    deploy(stack, given, sys.stdout)
    return 0


def _given(environment: Environment, template: Mapping[str, Any]) -> dict[str, str]:
    """The parameters that the user gives; those of PARAMETERS come before those of MODEL_FILE."""
    known = template["Parameters"]
    return {**of_model(environment.get("MODEL_FILE", ""), known), **read(environment.get("PARAMETERS", ""), known)}


def _token(stack: Stack, environment: Environment) -> int:
    user, hours = environment.get("USER", ""), hours_of(environment.get("HOURS", ""))
    sys.stdout.write(f"{mint(stack, user, hours, time.time(), environment.get('PLAN', ''))}\n")
    sys.stderr.write(f"token for {user} of {stack.name} in {stack.region}, valid for {hours:g} hours\n")
    return 0


def _revoke(stack: Stack, environment: Environment) -> int:
    revoke(stack, environment.get("USER", ""), sys.stdout)
    return 0


def _rotate_edge(stack: Stack, environment: Environment) -> int:
    rotate(stack, sys.stdout)
    return 0


def _smoke(stack: Stack, environment: Environment) -> int:
    tokens = environment.get("CONFORMANCE_TOKEN") or ",".join(mint_all(stack, USERS, 1.0, time.time()))
    return run(stack, tokens)


def _connect(stack: Stack, environment: Environment) -> int:
    """Become the client, in the folder where the user typed make."""
    user, hours = environment.get("USER", ""), hours_of(environment.get("HOURS", ""))
    token = mint(stack, user, hours, time.time(), environment.get("PLAN", ""))
    addresses = outputs(stack.deployed())
    names = {"CODELAB_URL": addresses["WebSocketUrl"], "CODELAB_REST_URL": addresses["RestUrl"], "CODELAB_TOKEN": token}
    client = Path(sys.executable).with_name("codelab")
    folder = environment.get("WORKSPACE") or environment.get("PWD") or "."
    os.execve(client, [str(client), "--workspace", folder], {**environment, **names})


def _export(stack: Stack, environment: Environment) -> int:
    path = _file(environment)
    if path.exists():
        raise Refused(f"{path} exists: remove it, or name another file")
    export_to(path, _data(stack, environment), environment.get("USER", ""), environment.get("SESSION", ""), sys.stdout)
    return 0


def _restore(stack: Stack, environment: Environment) -> int:
    path, existing = _file(environment), environment.get("EXISTING", "")
    if not path.is_file():
        raise Refused(f"no file {path}")
    if existing not in EXISTING:
        raise Refused(f"EXISTING={existing} must be skip or replace")
    restore(_data(stack, environment), path, existing, sys.stdout)
    return 0


def _file(environment: Environment) -> Path:
    """FILE, in the folder where the user typed make."""
    return Path(environment.get("PWD", "."), environment.get("FILE", ""))


def _data(stack: Stack, environment: Environment) -> Data:
    """The stack's table and bucket, or those that TABLE and BUCKET name: of a stack that is gone, or of a recovery."""
    names = {"TABLE": "TableName", "BUCKET": "PayloadBucketName"}
    if all(environment.get(name) for name in names):
        table, bucket = (environment[name] for name in names)
    else:
        found = outputs(stack.deployed())
        table, bucket = (environment.get(name) or found[output] for name, output in names.items())
    return Data(stack.client("dynamodb"), table, stack.client("s3"), bucket)


def _destroy(stack: Stack, environment: Environment) -> int:
    template = parse(_TEMPLATE)
    yes = environment.get("YES", "").lower() in _YES
    keep = environment.get("KEEP_DATA", "").lower() in _YES
    destroy(stack, template, None if yes else _ask, keep_data=keep, out=sys.stdout)
    return 0


def _ask(question: str) -> str:
    try:
        return input(question)
    except EOFError:
        raise Refused("cannot ask for confirmation without a terminal: set YES=1") from None


COMMANDS: dict[str, Callable[[Stack, Environment], int]] = {
    "preflight": _preflight,
    "deploy": _deploy,
    "token": _token,
    "revoke": _revoke,
    "rotate-edge": _rotate_edge,
    "smoke": _smoke,
    "connect": _connect,
    "export": _export,
    "restore": _restore,
    "destroy": _destroy,
}


def main(command: str, environment: Environment = os.environ) -> int:
    """Run one command. A problem is reported in one line on stderr, with exit status 1."""
    try:
        stack = Stack(environment.get("STACK") or DEFAULT_NAME, environment)
        if command != "preflight" and not stack.region:
            raise Refused("no AWS region: export AWS_REGION=…, or run 'aws configure'")
        return COMMANDS[command](stack, environment)
    except (Refused, ClientError, BotoCoreError) as error:
        sys.stderr.write(f"{command}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; CloudFormation finishes what it has started\n")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
