"""`codelab acp` with a server that needs a token."""

import subprocess
import time
from pathlib import Path

import jwt
import pytest
from codelab_client.acp.jsonrpc import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS
from codelab_local import LocalCloud

from tests.client.conftest import environment_at
from tests.client.editors import CODELAB, Editor, Refusal
from tests.conftest import CLAIMS, SECRET
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel

TERMINAL = {"auth": {"terminal": True}}


@pytest.fixture
def environment(guarded_cloud: LocalCloud, tmp_path: Path) -> dict[str, str]:
    no_keyring = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    return {**environment_at(guarded_cloud, tmp_path), **no_keyring, "CODELAB_TOKEN_FILE": ""}


def token() -> str:
    now = int(time.time())
    claims = {"sub": "ann", "iss": CLAIMS["JWT_ISSUER"], "aud": CLAIMS["JWT_AUDIENCE"], "iat": now, "exp": now + 600}
    return jwt.encode(claims, SECRET, algorithm="HS256")


def log_in(environment: dict[str, str], arguments: list[str], typed: str) -> "subprocess.CompletedProcess[str]":
    """As an editor does it: this very command, with a method's arguments behind its own, in a terminal."""
    command = [*CODELAB, *arguments]
    return subprocess.run(command, env=environment, input=typed, capture_output=True, text=True, check=False)


def test_the_user_logs_in_in_a_terminal_and_out_again(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    with Editor(environment, offers=TERMINAL) as editor:
        told = editor.initialize()
        methods = {method["id"]: method for method in told["authMethods"]}
        assert [methods[name].get("type") for name in methods] == ["terminal", "terminal", None]
        assert told["agentCapabilities"]["auth"] == {"logout": {}}
        for method, params in (
            ("session/new", {"cwd": str(folder), "mcpServers": []}),
            ("session/list", {}),
            ("session/load", {"sessionId": "unknown", "cwd": str(folder), "mcpServers": []}),
            ("authenticate", {"methodId": "token"}),
        ):
            with pytest.raises(Refusal) as refused:
                editor.request(method, **params)
            assert refused.value.code == AUTH_REQUIRED, method
        with pytest.raises(Refusal) as refused:
            editor.request("authenticate", methodId="login")
        assert refused.value.code == INVALID_PARAMS
    assert log_in(environment, methods["login"]["args"], "nonsense\n").returncode != 0
    done = log_in(environment, methods["login"]["args"], f"{token()}\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    with Editor(environment, offers=TERMINAL) as editor:
        session = editor.new(folder)
        assert editor.request("authenticate", methodId="token") == {}
        assert editor.prompt(session, model.script("acp-token", Says("Hello ann"))) == "end_turn"
        assert editor.text == "Hello ann"
        assert editor.request("logout") == {}
        with pytest.raises(Refusal) as refused:
            editor.new(folder)
        assert refused.value.code == AUTH_REQUIRED
        with pytest.raises(Refusal):
            editor.prompt(session, "hi")


def test_a_token_of_the_environment_is_not_logged_out(environment: dict[str, str], folder: Path) -> None:
    with Editor({**environment, "CODELAB_TOKEN": token()}) as editor:
        assert [method["id"] for method in editor.initialize()["authMethods"]] == ["token"]
        with pytest.raises(Refusal) as refused:
            editor.request("logout")
        assert refused.value.code == INTERNAL_ERROR
        editor.new(folder)
