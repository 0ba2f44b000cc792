"""The commands that docs/first-deployment.md has an operator type after `make deploy`, typed against a stack that runs.

The local cloud deploys the template into its emulated account and runs the functions, so the commands find a stack with
its outputs, its table and its secret. Only its addresses, which AWS would serve, are replaced by the local cloud's.
test_deploy.py types `make deploy` itself.
"""

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from codelab_local import LocalCloud
from codelab_local.template.deployment import STACK
from codelab_local.template.sam_template import CODE_BUCKET, TEMPLATE_KEY

from infra.stack.stack import outputs
from tests.client.terminals import Terminal
from tests.client.test_terminal import decide
from tests.fakes.aws.emulated import TEMPLATE
from tests.fakes.http import Exchange, HttpServer
from tests.infra.test_deploy import typed
from tests.waiting import until

ROOT = TEMPLATE.parent
SECRET = "the secret of the stack, which is long enough for HS256"
#: A second stage, as the run book has it.
TEST_STACK = f"{STACK}-test"

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(TEMPLATE, environment={"AUTH_MODE": "jwt", "JWT_SECRET": SECRET}) as running:
        described = running.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]
        arn = outputs(described)["JwtSecretArn"]
        running.client("secretsmanager").put_secret_value(SecretId=arn, SecretString=SECRET)
        yield running


@pytest.fixture
def environment(cloud: LocalCloud, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An operator's shell."""
    never = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VIRTUAL_ENV", "USER", "YES")
    with HttpServer(lambda exchange: _with_own_addresses(cloud, exchange)) as cloudformation:
        yield {
            **{name: value for name, value in os.environ.items() if name not in never},
            "AWS_ACCESS_KEY_ID": cloud.info["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": cloud.info["secret_access_key"],
            "AWS_REGION": cloud.info["region"],
            "AWS_ENDPOINT_URL": cloud.info["emulator"],
            "AWS_ENDPOINT_URL_LAMBDA": cloud.info["internal"],
            "AWS_ENDPOINT_URL_CLOUDFORMATION": cloudformation.url,
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "STACK": STACK,
        }


def _with_own_addresses(cloud: LocalCloud, exchange: Exchange) -> None:
    """CloudFormation's answer, with the local cloud's addresses."""
    left_out = ("connection", "content-length", "accept-encoding")
    headers = {name: value for name, value in exchange.headers.items() if name not in left_out}
    url = f"{cloud.info['emulator']}{exchange.path}"
    request = urllib.request.Request(url, exchange.content or None, headers, method=exchange.method)
    try:
        with urllib.request.urlopen(request) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    own = f"://127.0.0.1:{cloud.info['port']}"
    for scheme, local in (("wss", "ws"), ("https", "http")):
        text = re.sub(rf"{scheme}://\w+\.execute-api\.[\w.-]+", f"{local}{own}", text)
    exchange.answer(status, text.encode(), {"content-type": "text/xml"})


def test_the_hours_after_a_deployment(cloud: LocalCloud, environment: dict[str, str], tmp_path: Path) -> None:
    project, file = tmp_path / "project", tmp_path / "before.ndjson"
    project.mkdir()
    _is_smoke_tested(environment)
    with Terminal(["make", "connect", "USER=you", f"WORKSPACE={project}"], environment, ROOT, columns=100) as client:
        until(lambda: "/help lists the commands" in client.shown(), patience=120)
        _is_used(client, project / "main.py")
        _is_saved(environment, file)
        _is_restored_into_a_second_stage(cloud, environment, file)
        _is_thrown_out(environment, client)
    _second_stage_is_destroyed(cloud, environment)


def said(environment: Mapping[str, str], *words: str, answers: Mapping[str, str] | None = None) -> str:
    """What make has printed, which must have succeeded."""
    status, printed = typed(environment, "make", *words, answers=answers)
    assert status == 0, printed
    return printed


def _is_smoke_tested(environment: dict[str, str]) -> None:
    # Some of its cases: the suite's own test plays all of them.
    printed = said({**environment, "PYTEST_ADDOPTS": "-k 'own_model or session_is or healthy'"}, "smoke")
    assert re.search(r"\d+ passed", printed)
    assert "failed" not in printed


def _is_used(client: Terminal, file: Path) -> None:
    """A change is asked for, approved and undone."""
    file.write_text('print("Hello")\n')
    client.type('Replace "Hello" with "Good morning" in main.py\r')
    client.expect("Run write_file main.py?")
    decide(client, "y")
    client.expect("was changed")
    assert file.read_text() == 'print("Good morning")\n'
    client.type("/undo\r")
    client.expect("Taken back")
    assert file.read_text() == 'print("Hello")\n'


def _is_saved(environment: dict[str, str], file: Path) -> None:
    assert "exported" in said(environment, "export", f"FILE={file}")
    assert "you" in {json.loads(line).get("user") for line in file.read_text().splitlines()}


def _is_restored_into_a_second_stage(cloud: LocalCloud, environment: dict[str, str], file: Path) -> None:
    cloudformation = cloud.client("cloudformation")
    cloudformation.create_stack(
        StackName=TEST_STACK,
        TemplateURL=f"https://s3.amazonaws.com/{CODE_BUCKET}/{TEMPLATE_KEY}",
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    cloudformation.get_waiter("stack_create_complete").wait(StackName=TEST_STACK, WaiterConfig={"Delay": 1})
    count = sum("session_id" in json.loads(line) for line in file.read_text().splitlines())
    assert f"restored {count} sessions" in said(environment, "restore", f"FILE={file}", f"STACK={TEST_STACK}")


def _is_thrown_out(environment: dict[str, str], client: Terminal) -> None:
    assert "closed 1 connections" in said(environment, "revoke", "USER=you")
    assert client.ended() != 0
    until(lambda: "the tokens were revoked" in client.all_lines())


def _second_stage_is_destroyed(cloud: LocalCloud, environment: dict[str, str]) -> None:
    answers = {f"Type {TEST_STACK}": TEST_STACK}
    assert f"{TEST_STACK} is deleted." in said(environment, "destroy", f"STACK={TEST_STACK}", answers=answers)
    (left,) = cloud.client("dynamodb").list_tables()["TableNames"]
    assert not left.startswith(TEST_STACK)
