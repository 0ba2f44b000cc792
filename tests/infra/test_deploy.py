"""The commands of README.md and docs/deploy.md, typed into a terminal: the real SAM CLI deploys to an emulated account.

It takes minutes, most of them for `sam build`.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud

from infra.stack.stack import Stack, outputs, parameters
from tests.fakes.aws.emulated import AVAILABLE, EmulatedAws
from tests.infra.terminal import Terminal
from tests.infra.test_stack import authorize, template
from tests.processes import run

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SETTINGS = ROOT / "samconfig.toml"
KEY = "sk-a 'secret\" \\of $2 words"
PRICES = '{"gpt-4.1-mini":{"prompt":0.4,"completion":1.6}}'

pytestmark = pytest.mark.deep


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedAws]:
    with EmulatedAws() as running:
        running.models[template["Parameters"]["LlmModel"]["Default"]] = AVAILABLE
        running.use(monkeypatch)
        yield running


@pytest.fixture
def environment(aws: EmulatedAws, tmp_path: Path) -> dict[str, str]:
    """A user's environment, without the variables of the make and the virtual environment that run this test."""
    never = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VIRTUAL_ENV", "STACK", "PARAMETERS", "HOURS", "YES")
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in never}
    # SAM stores an installation id in HOME. pyenv, uv and pip keep their own folders.
    folders = {"PYENV_ROOT": ".pyenv", "UV_CACHE_DIR": ".cache/uv", "PIP_CACHE_DIR": ".cache/pip"}
    caches = {name: str(Path.home() / folder) for name, folder in folders.items()}
    return {**caches, **kept, "HOME": str(home), "USER": "somebody"}


def typed(environment: Mapping[str, str], *words: str, answers: Mapping[str, str] | None = None) -> tuple[int, str]:
    """The output of a command typed into a terminal, and its exit status."""
    terminal = Terminal(list(words), ROOT, environment)
    status = terminal.run(answers)
    return status, terminal.text


def test_a_stack_is_deployed_updated_used_and_destroyed(
    aws: EmulatedAws, environment: dict[str, str], tmp_path: Path
) -> None:
    assert "\nmake deploy\n" in README.read_text(encoding="utf-8")
    before = _fingerprint()
    _is_created(aws, environment)
    _is_updated(aws, environment, tmp_path)
    _keeps_what_is_not_given(aws, environment)
    _refuses_a_typo(aws, environment)
    _gives_a_token(aws, environment)
    _is_destroyed(aws, environment)
    assert _fingerprint() == before, "a deployment has changed the checkout"


def _is_created(aws: EmulatedAws, environment: dict[str, str]) -> None:
    status, said = typed(environment, "make", "deploy")
    if "pyenv install 3.13" in said:
        pytest.skip("sam build needs a python3.13")
    assert status == 0, said[-3000:]
    assert "[y/N]" not in said
    found = outputs(Stack("codelab").deployed())
    after = said[said.rindex("codelab is deployed in us-east-1.") :]
    for told in (found["WebSocketUrl"], found["RestUrl"], "make smoke", "make token USER=alice"):
        assert told in after
    assert _environment(aws, "llm-request")["LLM_PROVIDER"] == "bedrock"


def _is_updated(aws: EmulatedAws, environment: dict[str, str], folder: Path) -> None:
    (folder / "key").write_text(KEY)
    changed = f"MaxSteps=7 LlmProvider=openai LlmModel=gpt-4.1-mini LlmApiKey=file://{folder}/key LlmPrices={PRICES}"
    status, said = typed(environment, "make", "deploy", f"PARAMETERS={changed}")
    assert status == 0, said[-3000:]
    assert KEY not in said
    assert "sk-a" not in said
    variables = _environment(aws, "llm-request")
    assert variables["MAX_STEPS"] == "7"
    assert json.loads(variables["LLM_PRICES"]) == json.loads(PRICES)
    assert _secret(aws, variables["LLM_API_KEY_SECRET_ARN"]) == KEY
    written = [ROOT / ".aws-sam", Path(environment["HOME"])]
    files = [path for folder in written for path in folder.rglob("*") if path.is_file() and path.stat().st_size < 1e6]
    assert [path for path in files if b"sk-a " in path.read_bytes()] == []


def _keeps_what_is_not_given(aws: EmulatedAws, environment: dict[str, str]) -> None:
    changed = "LogLevel=DEBUG RestStreaming=true SnapStart=true WebPage=true"
    status, said = typed(environment, "make", "deploy", f"PARAMETERS={changed}")
    assert status == 0, said[-3000:]
    assert "[y/N]" not in said, "SAM asks about the function URL only when it is guided"
    variables = _environment(aws, "llm-request")
    assert variables.items() >= {"LOG_LEVEL": "DEBUG", "MAX_STEPS": "7", "LLM_PROVIDER": "openai"}.items()
    assert _secret(aws, variables["LLM_API_KEY_SECRET_ARN"]) == KEY
    described = Stack("codelab").deployed()
    for output in ("RestStreamUrl", "PageUrl"):
        assert outputs(described)[output] in said
    (alias,) = aws.client("lambda").list_aliases(FunctionName="codelab-llm-request")["Aliases"]
    assert (alias["Name"], alias["FunctionVersion"]) == ("live", "1")
    assert parameters(described)["Deployment"] == variables["DEPLOYMENT"]


def _refuses_a_typo(aws: EmulatedAws, environment: dict[str, str]) -> None:
    status, said = typed(environment, "make", "deploy", "PARAMETERS=LlmProvider=opneai")
    assert status != 0
    assert "did you mean openai?" in said
    assert "build:" not in said
    words = ("--stack-name", "codelab", "--s3-prefix", "codelab", "--parameter-overrides", "LlmProvider=opneai")
    status, said = typed(environment, ".venv-sam/bin/sam", "deploy", *words)
    assert status != 0
    assert "LlmProvider" in said
    assert "AllowedValues" in said
    assert _environment(aws, "llm-request")["LLM_PROVIDER"] == "openai"


def _gives_a_token(aws: EmulatedAws, environment: dict[str, str]) -> None:
    status, said = typed(environment, "make", "token")
    assert status != 0
    assert "make token USER=alice" in said
    made = run("make", "token", "USER=alice", "HOURS=2", cwd=ROOT, env=environment, check=True)
    (token,) = made.stdout.splitlines()
    (answer,) = authorize(aws, "codelab", token)
    assert answer["context"]["user"] == "alice"
    assert answer["policyDocument"]["Statement"][0]["Effect"] == "Allow"


def _is_destroyed(aws: EmulatedAws, environment: dict[str, str]) -> None:
    status, said = typed(environment, "make", "destroy", answers={"Type codelab": "no"})
    assert status != 0
    assert "nothing was deleted" in said
    assert Stack("codelab").describe() is not None
    status, said = typed(environment, "make", "destroy", answers={"Type codelab": "codelab"})
    assert status == 0, said[-3000:]
    assert "codelab is deleted." in said
    assert Stack("codelab").describe() is None
    assert aws.client("dynamodb").list_tables()["TableNames"] == []
    assert aws.client("secretsmanager").list_secrets()["SecretList"] == []
    assert aws.client("lambda").list_functions()["Functions"] == []
    assert aws.client("logs").describe_log_groups()["logGroups"] == []
    assert aws.client("sqs").list_queues().get("QueueUrls", []) == []
    s3 = aws.client("s3")
    (bucket,) = s3.list_buckets()["Buckets"]
    assert bucket["Name"] in said, "the one that is kept is named"
    left = s3.list_object_versions(Bucket=bucket["Name"])
    assert left.get("Versions", []) == left.get("DeleteMarkers", []) == []


def test_make_smoke_tests_a_stack(aws: EmulatedAws, environment: dict[str, str]) -> None:
    """`make smoke` with outputs that point to the local cloud: the emulator's API Gateway is too limited."""
    secret = "0123456789abcdef" * 4
    with LocalCloud(ROOT / "template.yaml", environment={"AUTH_MODE": "jwt", "JWT_SECRET": secret}) as cloud:
        values = {"WebSocketUrl": cloud.url(), "RestUrl": cloud.http, "JwtSecretArn": {"Ref": "Secret"}}
        body = {
            "Resources": {"Secret": {"Type": "AWS::SecretsManager::Secret", "Properties": {"SecretString": secret}}},
            "Outputs": {name: {"Value": value} for name, value in values.items()},
        }
        client = aws.client("cloudformation")
        client.create_stack(StackName="tried", TemplateBody=json.dumps(body))
        client.get_waiter("stack_create_complete").wait(StackName="tried", WaiterConfig={"Delay": 1})
        status, said = typed(environment, "make", "smoke", "STACK=tried")
    assert status == 0, said[-3000:]
    assert " passed" in said
    assert " failed" not in said


def _environment(aws: EmulatedAws, function: str) -> dict[str, str]:
    variables: dict[str, str] = aws.function(f"codelab-{function}")["Environment"]["Variables"]
    return variables


def _secret(aws: EmulatedAws, arn: str) -> Any:
    return aws.client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]


def _fingerprint() -> dict[str, bytes]:
    """The files at the top of the checkout, and the file that a guided deployment writes. The build and the SAM CLI,
    which the first deployment sets up, have folders of their own."""
    names = {path.name: b"" for path in ROOT.iterdir() if path.name not in (".aws-sam", ".venv-sam")}
    return names | {SETTINGS.name: SETTINGS.read_bytes()}
