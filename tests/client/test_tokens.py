"""A session with a server that needs tokens: expiry, refresh, refusal."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from codelab_client.session import Unauthorized, connect
from codelab_client.session import events as on
from codelab_local import LocalCloud

from tests.client.conftest import FAST, run
from tests.client.executing import CountingExecutor
from tests.conftest import TEMPLATE
from tests.scripted_model import Says, ScriptedModel

SECRET = "s" * 32


@pytest.fixture(scope="module")
def strict(model: ScriptedModel) -> Iterator[LocalCloud]:
    environment = {**model.environment, "AUTH_MODE": "jwt", "JWT_SECRET": SECRET}
    with LocalCloud(TEMPLATE, environment=environment) as running:
        yield running


def token(seconds: int) -> str:
    now = int(time.time())
    return jwt.encode({"sub": "ann", "iat": now, "exp": now + seconds}, SECRET, algorithm="HS256")


def test_a_token_is_replaced_before_and_after_it_expires(
    strict: LocalCloud, model: ScriptedModel, tmp_path: Path
) -> None:
    script = model.script("client-token", Says("Hello"))
    given: list[str] = []

    def newest() -> str:
        given.append(token(4))
        return given[-1]

    async def talk() -> None:
        options = {"session_id": "tokens", "state": tmp_path, "executor": CountingExecutor(), "timing": FAST}
        async with connect(strict.http, tmp_path, token=newest, **options) as session:
            await asyncio.sleep(9)
            text = [event.token async for event in session.prompt(script) if isinstance(event, on.AssistantMessage)]
            assert "".join(text) == "Hello"

    run(talk())
    assert len(given) > 2


def test_an_expired_token_that_cannot_be_replaced_ends_the_session(strict: LocalCloud, tmp_path: Path) -> None:
    async def talk() -> None:
        options = {"session_id": "expired", "state": tmp_path, "executor": CountingExecutor(), "timing": FAST}
        async with connect(strict.http, tmp_path, token=token(3), **options) as session:
            await asyncio.sleep(4)
            with pytest.raises(Unauthorized, match="expired"):
                await session.send("hello")

    run(talk())


@pytest.mark.parametrize("wrong", ["", "nonsense", "a.b.c", "x" * 1_000])
def test_a_wrong_token_is_refused(strict: LocalCloud, tmp_path: Path, wrong: str) -> None:
    async def talk() -> None:
        with pytest.raises(Unauthorized):
            async with connect(strict.http, tmp_path, token=wrong, state=tmp_path, executor=CountingExecutor()):
                pass

    run(talk())
