"""A session with a server that needs tokens: expiry, refresh, refusal."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab_client.session import Unauthorized, connect
from codelab_client.session import events as on
from codelab_local import LocalCloud

from tests.client.conftest import FAST
from tests.client.executing import CountingExecutor
from tests.client.sign_in import SECRET, SignIn
from tests.conftest import TEMPLATE
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.processes import run as execute


@pytest.fixture(scope="module")
def provider() -> Iterator[SignIn]:
    with SignIn() as running:
        yield running


@pytest.fixture(scope="module")
def strict(model: ScriptedModel, provider: SignIn) -> Iterator[LocalCloud]:
    named = {"JWT_SECRET": SECRET, "JWT_CLIENT_ID": "codelab-cli", "JWT_ISSUER": provider.url}
    environment = {**model.environment, "AUTH_MODE": "jwt", **named}
    with LocalCloud(TEMPLATE, environment=environment) as running:
        yield running


@pytest.fixture
def token(provider: SignIn) -> Callable[[int], str]:
    """Makes tokens that live so many seconds."""
    return lambda seconds: provider.signed(exp=int(time.time()) + seconds)


async def test_a_token_is_replaced_before_and_after_it_expires(
    strict: LocalCloud, model: ScriptedModel, tmp_path: Path, token: Callable[[int], str]
) -> None:
    script = model.script("client-token", Says("Hello"))
    given: list[str] = []

    def newest() -> str:
        given.append(token(6))
        return given[-1]

    options = {"session_id": "tokens", "state": tmp_path, "executor": CountingExecutor(), "timing": FAST}
    async with connect(strict.http, tmp_path, token=newest, **options) as session:
        while len(given) < 3:
            await asyncio.sleep(0.05)
        text = [event.token async for event in session.prompt(script) if isinstance(event, on.AssistantMessage)]
        assert "".join(text) == "Hello"


async def test_an_expired_token_that_cannot_be_replaced_ends_the_session(
    strict: LocalCloud, tmp_path: Path, token: Callable[[int], str]
) -> None:
    options = {"session_id": "expired", "state": tmp_path, "executor": CountingExecutor(), "timing": FAST}
    expires = time.time() + 6  # enough to connect
    async with connect(strict.http, tmp_path, token=token(6), **options) as session:
        await asyncio.sleep(expires + 0.1 - time.time())
        with pytest.raises(Unauthorized, match="expired"):
            await session.send("hello")


@pytest.mark.parametrize("wrong", ["", "nonsense", "a.b.c", "x" * 1_000])
async def test_a_wrong_token_is_refused(strict: LocalCloud, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(Unauthorized):
        async with connect(strict.http, tmp_path, token=wrong, state=tmp_path, executor=CountingExecutor()):
            pass


def test_what_a_user_signed_in_with_is_enough_to_talk(
    strict: LocalCloud, provider: SignIn, model: ScriptedModel, tmp_path: Path
) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "CODELAB_URL": strict.http, "CODELAB_TOKEN": ""}

    def codelab(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        command = (sys.executable, "-m", "codelab_client.command_line", *arguments)
        return execute(*command, env=environment, cwd=tmp_path, **options)

    script = model.script("signed-in", Says("Hello ann"))
    refused = codelab("exec", script)
    assert (refused.returncode, "`codelab login` signs in" in refused.stderr) == (4, True)
    signed_in = codelab("login", "--device", "--issuer", provider.url)
    assert (signed_in.returncode, signed_in.stdout) == (0, ""), signed_in.stderr
    assert "type the code AB-CD" in signed_in.stderr
    assert codelab("exec", script).stdout == "Hello ann\n"
    assert codelab("logout").returncode == 0
    assert codelab("exec", script).returncode == 4
