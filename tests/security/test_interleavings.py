"""No order of two sessions, the user, undo and redo changes or loses what a session did not write, unasked."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab_client.checkpoints import checkpoints
from codelab_client.tools import workspace

from tests.security.interleaving import Figures, play


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is one: on a disk, the many small changes take longer than everything else."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as made:
        yield Path(made)


def show(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{figures}\n")


@pytest.mark.parametrize("seeds", [50, pytest.param(500, marks=pytest.mark.deep)])
def test_two_sessions_and_the_user_in_one_folder_lose_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, seeds: int
) -> None:
    async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    for module in (checkpoints, workspace):  # A thread for each step takes longer than the step.
        monkeypatch.setattr(module, "finished", at_once)
    figures = asyncio.run(play(folder, range(seeds), 6))
    show(figures, capsys)
    assert figures.wrong == []
    assert (figures.interleavings, figures.bytes_wrong) == (seeds, 0)
    assert min(figures.undo, figures.redo, figures.questions) > seeds // 5


@pytest.mark.deep
@pytest.mark.parametrize(("seeds", "length", "with_git"), [(300, 60, False), (40, 30, True)])
def test_long_interleavings_lose_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], seeds: int, length: int, with_git: bool
) -> None:
    figures = asyncio.run(play(folder, range(10_000, 10_000 + seeds), length, with_git=with_git))
    show(figures, capsys)
    assert figures.wrong == []
