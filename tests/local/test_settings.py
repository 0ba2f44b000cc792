"""Parts that need no running cloud: path forms, policies, project settings, sources."""

import socket
from pathlib import Path
from typing import Any

import pytest
from codelab_local.emulator.server import Emulator
from codelab_local.functions.environment import aws_clients, shared_imports
from codelab_local.gateway.authorizer import allows
from codelab_local.gateway.paths import PathForms
from codelab_local.host.errors import StartError
from codelab_local.settings.hints import hints
from codelab_local.settings.settings import Model, Settings
from codelab_local.template.deployment import function_name
from codelab_local.template.sam_template import read_template

from tests.cases import cases
from tests.conftest import TEMPLATE
from tests.local.conftest import APP

ARN = "arn:aws:execute-api:us-east-1:000000000000:abc/dev/$connect"
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


@cases(
    ("target", "query"),
    [
        ("/ws/s1", {"session_id": ["s1"]}),
        ("/ws/s1/", {"session_id": ["s1"]}),
        ("/ws/a%20b%2Fc", {"session_id": ["a b/c"]}),
        ("/api/v1/ws/s1?viewer=1", {"session_id": ["s1"], "viewer": ["1"]}),
        ("/ws/s1?session_id=other", {"session_id": ["s1"]}),
        ("/dev", {}),
        ("/dev?a=1&a=2&b=", {"a": ["1", "2"], "b": [""]}),
        ("/ws", None),
        ("/ws/a/b", None),
        ("/other", None),
        ("/", None),
        ("/devx", None),
    ],
)
def test_variables_of_paths_become_query_parameters(target: str, query: Any) -> None:
    assert PathForms("dev", ["/ws/{session_id}", "/api/v1/ws/{session_id}"]).match(target) == query


@cases(
    ("statements", "allowed"),
    [
        ([{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": ARN}], True),
        ([{"Effect": "Allow", "Action": ["execute-api:*"], "Resource": ["arn:aws:execute-api:*:*:abc/*"]}], True),
        ([EVERYTHING], True),
        ([EVERYTHING, {"Effect": "Deny", "Action": "*", "Resource": ARN}], False),
        ([{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": ARN.replace("dev", "prod")}], False),
        ([{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}], False),
        ([], False),
    ],
)
def test_policies_are_evaluated_like_iam(statements: list[dict[str, Any]], allowed: bool) -> None:
    assert allows({"Statement": statements}, ARN) is allowed
    if len(statements) == 1:
        assert allows({"Statement": statements[0]}, ARN) is allowed


@cases(
    "reference",
    [
        "my-function",
        "my-function:$LATEST",
        "function:my-function",
        "000000000000:function:my-function",
        "arn:aws:lambda:us-east-1:000000000000:function:my-function:live",
        "arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/arn:aws:lambda:us:0:function:my-function/invocations",
    ],
)
def test_every_form_of_a_functions_name_is_understood(reference: str) -> None:
    assert function_name(reference) == "my-function"


def test_every_project_setting_is_optional(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text("Resources: {}")
    assert Settings.from_environment(template, {}).paths == ()
    table = 'model = { url = "U", key = "K", name = "N" }'
    (tmp_path / "pyproject.toml").write_text(f"[tool.codelab-local]\n{table}\n")
    settings = Settings.from_environment(template, {})
    assert settings.model == Model("U", "K", "N", other_variables=(), setup="", demo=False)
    assert (settings.host, settings.port, settings.concurrency) == ("127.0.0.1", 8000, 100)


def test_another_application_may_use_the_products_variables_for_something_else(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text("Resources: {}")
    environment = {"LLM_BASE_URL": "nonsense", "AUTH_MODE": "none", "ALLOWED_ORIGINS": "*", "JWKS_URL": "x"}
    settings = Settings.from_environment(tmp_path / "template.yaml", environment)
    assert (settings.model, settings.authentication, settings.sign_in_origins) == (None, None, ())
    assert list(hints({"LLM_API_KEY": "x"}, frozenset(), settings.model, demo_model=False)) == []


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("path = []", "'path'"),
        ("paths = 1", "paths must be"),
        ("paths = [", "not valid TOML"),
        ("model = { url = 'U' }", "model: .*'key' and 'name'"),
        ("model = { url = 'U', key = 'K', name = 'N', uri = 'X' }", "model: .*'uri'"),
    ],
)
def test_mistakes_in_project_settings_are_named(tmp_path: Path, table: str, named: str) -> None:
    (tmp_path / "template.yaml").write_text("Resources: {}")
    (tmp_path / "pyproject.toml").write_text(f"[tool.codelab-local]\n{table}\n")
    with pytest.raises(StartError, match=named):
        Settings.from_environment(tmp_path / "template.yaml", {})


def test_tokens_that_nobody_could_sign_are_refused_at_start() -> None:
    with pytest.raises(StartError, match="set JWT_SECRET or JWKS_URL"):
        Settings.from_environment(TEMPLATE, {"AUTH_MODE": "jwt"})
    with pytest.raises(StartError, match="set JWT_SECRET or JWKS_URL"):
        Settings.from_environment(TEMPLATE, {}, overrides={"AUTH_MODE": "jwt", "JWT_SECRET": ""})
    for key in ({"JWT_SECRET": "0123456789abcdef"}, {"JWKS_URL": "https://id.example/keys"}):
        Settings.from_environment(TEMPLATE, {"AUTH_MODE": "jwt", **key})


def test_source_folders_come_from_the_template() -> None:
    sources = read_template(APP / "template.yaml").sources
    command = sources["Command"]
    assert command.folder == APP / "functions" / "command"
    assert command.layers == (APP / "layers" / "shared" / "python", APP / "layers" / "shared")
    assert '"CodeUri":"functions' not in read_template(APP / "template.yaml").body


SOURCE = '''"""from here on: that is prose
import nothing of this
"""
import os, boto3, fastapi.routing as routing  # why
from pydantic import (
    BaseModel,
)
from own import thing
from . import near
def late():
    import openai
    return boto3.client("dynamodb"), boto3.resource(
        's3'
    ), boto3.client(os.environ["SERVICE"])
'''


def test_the_root_process_preloads_the_packages_and_services_of_the_sources(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(SOURCE)
    (tmp_path / "own.py").write_text("this is no Python")
    assert shared_imports([tmp_path]) == ["boto3", "fastapi.routing", "pydantic"]
    assert shared_imports([tmp_path], preload=["own"]) == ["boto3", "fastapi.routing", "own", "pydantic"]
    assert aws_clients([tmp_path]) == ["dynamodb", "s3"]


def test_the_root_process_preloads_what_functions_import_when_they_start_and_no_more(tmp_path: Path) -> None:
    sources = {
        "function/handler.py": "from shared import near\ndef late():\n    import shared.heavy\n",
        "layer/shared/__init__.py": "import yaml\n",
        "layer/shared/near.py": "from .deep import (  # why\n    thing,  # (and)\n)\nfrom . import beside",
        "layer/shared/beside.py": "from ..shared.deep.thing import this\nimport httpx, jwt as j",
        "layer/shared/deep/__init__.py": "from .. import sibling",
        "layer/shared/deep/thing.py": "from pydantic import BaseModel",
        "layer/shared/sibling.py": "import boto3",
        "layer/shared/heavy.py": "import openai",
    }
    for name, text in sources.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    folders, layers = [tmp_path / "function"], [tmp_path / "layer"]
    assert shared_imports(folders, layers) == ["boto3", "httpx", "jwt", "pydantic", "yaml"]
    own = [name for name in shared_imports(folders, layers, ["shared"]) if name.startswith("shared")]
    assert own == ["shared", "shared.deep", "shared.deep.thing"]
    assert "openai" in shared_imports(folders, layers, ["shared", "shared.heavy"])


def test_nobody_else_gets_the_emulators_port_before_it_listens(tmp_path: Path) -> None:
    """It begins to listen seconds later, on a busy machine."""
    emulator = Emulator(tmp_path, "us-east-1", None)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", emulator.port))
    emulator.stop()


READ = {
    "LLM_MODEL",
    "LLM_MODELS",
    "LLM_API_KEY",
    "LLM_BASE_URL",
    "LLM_PROVIDER",
    "MAX_STEPS",
    "JWT_SECRET",
    "LOG_LEVEL",
}


@cases(
    ("environment", "said"),
    [
        ({"LLM_MODLE": "x"}, ["LLM_MODLE is no setting; did you mean LLM_MODEL?"]),
        ({"MAX_STEP": "3"}, ["MAX_STEP is no setting; did you mean MAX_STEPS?"]),
        ({"llm_base_url": "http://h/v1"}, ["llm_base_url is no setting; did you mean LLM_BASE_URL?"]),
        ({"LOCAL_CONCURENCY": "3"}, ["LOCAL_CONCURENCY is no setting; did you mean LOCAL_CONCURRENCY?"]),
        ({"LLM_MODLE": "x", "LLM_MODEL": "x", "LLM_BASE_URL": "http://h/v1"}, []),  # what it may mean is there
        ({"LLM_MODLE": ""}, []),
        ({"HOSTNAME": "box", "PATH": "/bin", "JAVA_HOME": "/j", "LS_COLORS": "x", "OPENAI_API_KEY": "k"}, []),
        ({"LLM_API_KEY": "sk-secret"}, ["LLM_API_KEY has no effect without LLM_BASE_URL, so the demonstration model"]),
        ({"LLM_MODEL": "m"}, ["LLM_MODEL has no effect without LLM_BASE_URL, so the demonstration model"]),
        ({"LLM_BASE_URL": "http://h/v1"}, ["LLM_MODEL is not set"]),
        ({"LLM_BASE_URL": "http://h/v1", "LLM_MODEL": "m", "LLM_API_KEY": "k"}, []),
    ],
)
def test_what_looks_wrong_in_the_environment_is_told(environment: dict[str, str], said: list[str]) -> None:
    model = Model("LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL")
    found = [*hints(environment, READ, model, demo_model="LLM_BASE_URL" not in environment)]
    assert len(found) == len(said)
    assert all(hint.startswith(begin) for hint, begin in zip(found, said, strict=True)), found
    assert "secret" not in str(found)
