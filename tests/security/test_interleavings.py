"""No order of two sessions, the user, undo and redo changes or loses what a session did not write, unasked."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from codelab_client.checkpoints import checkpoints
from codelab_client.tools import workspace

from tests.security.interleaving import Figures, play


def show(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{figures}\n")


def test_two_sessions_and_the_user_in_one_folder_lose_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    for module in (checkpoints, workspace):  # A thread for each step takes longer than the step.
        monkeypatch.setattr(module, "finished", at_once)
    figures = asyncio.run(play(tmp_path, range(500), 6))
    show(figures, capsys)
    assert figures.wrong == []
    assert (figures.interleavings, figures.bytes_wrong) == (500, 0)
    assert min(figures.undo, figures.redo, figures.questions) > 100


@pytest.mark.deep
@pytest.mark.parametrize(("seeds", "length", "with_git"), [(2_000, 60, False), (60, 30, True)])
def test_long_interleavings_lose_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seeds: int, length: int, with_git: bool
) -> None:
    figures = asyncio.run(play(tmp_path, range(10_000, 10_000 + seeds), length, with_git=with_git))
    show(figures, capsys)
    assert figures.wrong == []
