"""The server by hand, which the benchmarks compare with: it does the job."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn

from benchmarks.peers.by_hand import Ask, application, openai_sdk
from benchmarks.peers.client import Refused, turn, web_socket
from benchmarks.rig import instant_model


def talk(ask: Ask, database: Path, *contents: str) -> list[str]:
    """The answers of a server that serves one connection."""

    async def run() -> list[str]:
        server = uvicorn.Server(uvicorn.Config(application(ask, str(database)), port=0, log_level="error"))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            async with web_socket(f"ws://127.0.0.1:{port}/ws/a") as say:
                return [(await turn(say, content)).text for content in contents]
        finally:
            server.should_exit = True
            await serving

    return asyncio.run(run())


def kept(database: Path) -> list[tuple[str, str, str]]:
    return sqlite3.connect(database).execute("SELECT session, role, content FROM messages ORDER BY id").fetchall()


def test_it_answers_and_keeps_the_history(tmp_path: Path) -> None:
    with instant_model() as model:
        assert talk(openai_sdk(model), tmp_path / "db", "pieces=2", "pieces=1") == ["abc abc ", "abc "]
    said = [("user", "pieces=2"), ("assistant", "abc abc "), ("user", "pieces=1"), ("assistant", "abc ")]
    assert kept(tmp_path / "db") == [("a", *message) for message in said]


def test_the_model_is_asked_with_the_history_that_an_earlier_server_has_kept(tmp_path: Path) -> None:
    asked = []

    async def ask(messages: list[dict[str, str]]) -> AsyncIterator[str]:
        asked.append([message["content"] for message in messages])
        yield "yes"

    for content in ("one", "two"):
        talk(ask, tmp_path / "db", content)
    assert asked == [["one"], ["one", "yes", "two"]]


def test_the_message_is_committed_before_the_model_is_asked(tmp_path: Path) -> None:
    async def ask(_: list[dict[str, str]]) -> AsyncIterator[str]:
        assert kept(tmp_path / "db") == [("a", "user", "hello")]
        raise RuntimeError("no model")
        yield

    with pytest.raises(Refused, match="no model"):
        talk(ask, tmp_path / "db", "hello")
    assert kept(tmp_path / "db") == [("a", "user", "hello")]
